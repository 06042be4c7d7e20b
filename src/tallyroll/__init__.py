"""Tallyroll: counts what everyone writes at once, exactly once.

Producers post events to a queue; writers spread the records of a hot key over shards and put them
into rolling window tables; an aggregator gathers the tallies into one exact number; cold tables are
exported, proven whole and dropped.
"""

__version__ = "0.1.0"
