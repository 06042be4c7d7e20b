"""How often what failed is tried, and how long it waits: one table for producers, the writer and
stores.

What is only polled, at a steady interval, has its numbers where it is polled.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from tallyroll.model.sharding import Chance
from tallyroll.ports.effects import Effects

UNTIL_DEADLINE = sys.maxsize  # the caller stops by its clock


@dataclass(frozen=True, slots=True)
class Backoff:
    """At most `tries`, the first included, with waits between them: each is random, below a bound
    that doubles from `base_ms` up to `bound_ms_max`.

    Source: Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """

    tries: int
    base_ms: int = 50
    bound_ms_max: int = 2_000

    def bound_ms(self, tried: int) -> int:
        """The bound of the wait after try 0, 1, ..."""
        return int(min(self.bound_ms_max, self.base_ms * 2 ** min(tried, 16)))

    def wait_ms(self, tried: int, chance: Chance) -> float:
        """The ms to wait after try 0, 1, ..."""
        return chance.random() * self.bound_ms(tried)

    def attempts(self, effects: Effects) -> Iterator[int]:
        """Count the tries from 0, waiting before each but the first."""
        for tried in range(self.tries):
            if tried:
                effects.sleep(self.wait_ms(tried - 1, effects.chance))
            yield tried


# The writer, for each commit (`tallyroll.ingest.transactions`)
COMMIT_THROTTLED = Backoff(UNTIL_DEADLINE, 50, 5_000)
COMMIT_CONFLICT = Backoff(UNTIL_DEADLINE, 5, 5_000)  # another stripe is drawn, so it soon succeeds
POSITION_LOST = Backoff(UNTIL_DEADLINE, 1_000, 4_000)  # of a log: a lost try costs more than a wait

# Producers
PRODUCER_REQUEST = Backoff(UNTIL_DEADLINE, 100)  # `tallyroll.Producer`, until delivery_timeout_ms
BULK_REQUEST = Backoff(4, 400)  # `tallyroll send`, `load` and `probe`, on top of QUEUE_REQUEST

# One request to AWS, while it is throttled or its outcome is unknown
REQUEST = Backoff(4)  # any that may be repeated
QUEUE_REQUEST = Backoff(6)  # SendMessageBatch
BATCH_GET = Backoff(8)  # BatchGetItem, for its unprocessed keys
TRANSACTION = Backoff(10)  # TransactWriteItems on the catalog and the totals, also in conflict
SUMS_MET = Backoff(50, 1, 16)  # puts over sums of corrections, as they were met by the last try
RATE_LINE = Backoff(8)  # UpdateItem of the shared write rate
GATE = Backoff(100, 5)  # UpdateItem that shuts a gate: transactions of writers are in conflict
RESTORED_BATCH = Backoff(40)  # BatchWriteItem: a new table needs a while to take more
STATEMENT = Backoff(4)  # one in Keyspaces, within 5 s

# Checks of an endpoint by `tallyroll conform`: over some 2 s
CHECK = Backoff(6)
