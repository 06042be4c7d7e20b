"""What reading counts takes: sandboxes of the aggregator, and reads of tables past their caches.

Sources: [little] Little's law, as AWS Lambda Developer Guide, "Understanding Lambda function
scaling", has it: concurrency is requests a second x seconds of a request; [lambda] the same,
"Lambda quotas"; [api] Amazon API Gateway Developer Guide, "Amazon API Gateway quotas".
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tallyroll.planning.load import PeakLoad

READ_MS = 20  # assumed: a read of the aggregator, from its cache or not
SANDBOXES_QUOTA = 1_000  # functions at once, of an account in a Region, by default [lambda]
API_READS_QUOTA = 10_000  # requests a second, of an account in a Region, by default [api]
CACHE_SECONDS_DEFAULT = 1  # of `tallyroll:cache_live_seconds`; a test compares
API_READS_DEFAULT = 100  # of `tallyroll:reads_per_second`; a test compares


@dataclass(frozen=True, slots=True)
class ReadLoad:
    """Counts that are asked for, a second: how many sandboxes answer them, and how many of the
    answers are read from tables. The others come from the caches.
    """

    asked: float
    sandboxes: int
    from_tables: float


def reading_of(load: PeakLoad) -> ReadLoad:
    """What the reads of a load take.

    Each sandbox has a cache of its own and answers one request at a time, so as many sandboxes work
    as requests are answered at once [little]. Each of them reads each of the keys that are asked
    for once per staleness, but all together not more than is asked for.
    """
    asked = load.reads_per_second
    sandboxes = ceil(asked * READ_MS / 1_000)
    from_tables = asked
    if load.staleness_seconds:
        from_tables = min(asked, sandboxes * load.asked / load.staleness_seconds)
    return ReadLoad(asked, sandboxes, from_tables)
