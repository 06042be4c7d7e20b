"""A window store on single rows, for databases without transactions over several rows.

    row     ((key, shard), id)                    an event or packet: put once, never changed
    gate    ((window, number))                    permanent, open or shut
    seal    ((window, segment))                   permanent: the attempt whose list counts
    list    ((window, segment, attempt, part))    digests of the rows that an attempt found
    stripe  ((window, bucket), place)             the sums of one shard's counted rows

`store` is the algorithm, `folding` its lists. `statements` is all that they need of a database.

1. A row is inserted if its place is free. The answer is new, duplicate or conflict.
2. Then a gate is read. The record is said to be counted only if the gate is open.
3. Closing shuts all gates. Folding then lists each segment and puts the list; one list wins.
4. A row counts if the winning list has it.

Why that is exact: if a record is said to be counted, a gate was open after its row was stored. So
the row was there before all gates were shut, and the listing, which came later, has it. A record
that met a shut gate is handed back, and is looked up in the list once there is one. A row that
comes after the listing is uncounted: it stays, but no read gives it, and it is in no archive.
Nothing here depends on clocks.
"""
