"""The statements of a store on single rows, on Apache Cassandra or Amazon Keyspaces.

A window's table has its rows, and beside them all that ends with it. Partitions of rows have
positive shards, all others negative ones:

    key                          shard         id
    {key}                        1..N          {id}              a row
    ~c.{length}.{key}#{id}       -1-{block}    {digest}#{number} a chunk; a block has 16
    ~t                           -{bucket}     {place}           a stripe
    ~b                           -1            {bucket}          a bucket that has stripes
    ~l.{segment}.{attempt}       -1-{part}     l                 a part of a list
    ~f                           -1            f                 the note that all is folded

Three tables of the keyspace are permanent: `gates` and `seals`, which outlive their window, and
`tables`, with a row for each tag of a table and for each gate's number.

`cql` has all texts; `session` sends them; `tables` makes and drops; `rows` has the other verbs.
"""
