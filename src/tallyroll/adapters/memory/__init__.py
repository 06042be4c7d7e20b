"""The in-memory engine: every port without a network, for tests and the simulator.

It follows the rules of AWS where emulators deviate. It is not thread-safe.
"""

from __future__ import annotations

from tallyroll.adapters.memory.bucket import MemoryBucket
from tallyroll.adapters.memory.catalog import MemoryCatalog
from tallyroll.adapters.memory.dead_letters import MemoryDeadLetters
from tallyroll.adapters.memory.listing import MemoryListing
from tallyroll.adapters.memory.queue import DeadLetter, MemoryQueue
from tallyroll.adapters.memory.store import MemoryStore
from tallyroll.adapters.memory.totals_table import MemoryTotals

__all__ = [
    "DeadLetter",
    "MemoryBucket",
    "MemoryCatalog",
    "MemoryDeadLetters",
    "MemoryListing",
    "MemoryQueue",
    "MemoryStore",
    "MemoryTotals",
]
