"""Protocols of stores, queues, buckets and time, and code that needs nothing but one of them.

Production, the emulators and the in-memory doubles all satisfy these protocols. Every method of a
store, catalog, queue or bucket may raise StoreError (Throttled, Unknown, Missing, Refused). Times
are ms since the epoch, amounts are millionths.
"""
