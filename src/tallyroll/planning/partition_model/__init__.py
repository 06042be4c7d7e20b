"""A model of a table's partitions under a load, with the queue and the writers in front of it.

It needs numpy, the extra `planning`. Nothing else of the package imports it.
"""
