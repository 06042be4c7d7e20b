"""What an operator reads about a pipeline at work: metrics, quotas, and the writer's trigger."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Gauge(StrEnum):
    """A metric of a pipeline."""

    COUNTED = "events counted"
    COUNTED_SINGLE = "single events counted"
    COUNTED_PACKED = "packed events counted"
    COUNTED_LOGGED = "logged events counted"
    REQUESTS_SINGLE = "requests for single events"
    REQUESTS_PACKED = "requests for packed events"
    REQUESTS_LOGGED = "requests for logged events"
    UNITS_LOGGED = "write units of logged events"
    MESSAGES = "messages of batches"
    THROTTLED = "throttled writes"
    THROTTLED_KEY_RANGE = "writes throttled for one partition"
    BATCHES = "batches"
    BATCH_MS = "duration of a batch, ms"
    WRITERS = "writers at once"
    WRITERS_THROTTLED = "writers that Lambda did not start"
    OLDEST_S = "age of the oldest message, s"
    IN_FLIGHT = "messages in flight"
    READS = "counts read"


OF_LOGS = (Gauge.COUNTED_LOGGED, Gauge.REQUESTS_LOGGED, Gauge.UNITS_LOGGED)
"""Those that a pipeline has where a key is logged."""


class Quota(StrEnum):
    """A quota of an account in a Region."""

    TABLES = "tables"
    TABLE_WRITES = "write units a second of a table"
    FUNCTIONS = "functions at once"


@dataclass(frozen=True, slots=True)
class Points:
    """A metric's values, one for each period that has any, as (start ms, value) pairs."""

    period_ms: int
    values: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Trigger:
    """What invokes the writer. `max_concurrency` is None if writers have no limit of their own."""

    batch_size: int
    batch_window_seconds: int
    max_concurrency: int | None


class Gauges(Protocol):
    """A pipeline's metrics, quotas and trigger. All reads raise StoreError."""

    def points(self, gauge: Gauge, since: int) -> Points:
        """A metric since then (ms): its sum, mean or maximum in each period, as its name says.
        Without values if nothing was published.
        """

    def quota(self, quota: Quota) -> float:
        """A quota's value. Raises Missing if the store has no such quota."""

    def trigger(self) -> Trigger | None:
        """What invokes the writer; None if nothing does."""
