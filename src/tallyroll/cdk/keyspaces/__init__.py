"""Window tables on Amazon Keyspaces: the permanent tables beside them, what functions may do there,
and the layer with the driver. Only a pipeline with a keyspace has them.
"""
