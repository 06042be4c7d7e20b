"""The in-memory engine: every port without a network, for tests and the simulator.

    MemoryStore    window tables: items as DynamoDB JSON, commits all or nothing
    MemoryCatalog  specs, states, the live pointer, straggler notes
    MemoryTotals   sealed sums
    MemoryQueue    a queue with visibility timeout, receive counts, dead letters and the age metric
    MemoryBucket   objects

They are exact where the emulators are not; they have no threads and are not safe for several.
"""

from __future__ import annotations

from tallyroll.memory_catalog import MemoryCatalog, MemoryTotals
from tallyroll.memory_queue import DeadLetter, MemoryBucket, MemoryQueue
from tallyroll.memory_store import MemoryStore

__all__ = [
    "DeadLetter",
    "MemoryBucket",
    "MemoryCatalog",
    "MemoryQueue",
    "MemoryStore",
    "MemoryTotals",
]
