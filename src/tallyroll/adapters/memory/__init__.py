"""The in-memory engine: every port without a network, for tests and the simulator.

    MemoryStore    window tables: items as DynamoDB JSON, atomic commits
    MemoryCatalog  specs, states, the live pointer, straggler notes, periods, the redrive ledger
    MemoryTotals   sealed sums, by key and listed, by window and by period
    MemoryQueue    a queue with visibility timeout, receive counts, dead letters and the age metric
    MemoryDeadLetters  a queue's dead letters, as the operator sees them
    MemoryBucket   objects, and uploads in parts
    MemoryListing  tables, as the operator sees them

They follow the rules of AWS where emulators deviate. They are not thread-safe.
"""

from __future__ import annotations

from tallyroll.adapters.memory.bucket import MemoryBucket
from tallyroll.adapters.memory.catalog import MemoryCatalog
from tallyroll.adapters.memory.dead_letters import MemoryDeadLetters
from tallyroll.adapters.memory.listing import MemoryListing
from tallyroll.adapters.memory.queue import DeadLetter, MemoryQueue
from tallyroll.adapters.memory.store import MemoryStore
from tallyroll.adapters.memory.totals import MemoryTotals

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
