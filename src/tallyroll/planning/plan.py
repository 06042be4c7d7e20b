"""A plan: what a load needs, in shards, partitions, throughput and writers."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

from tallyroll.errors import UsageError
from tallyroll.limits import (
    GATES_MAX,
    GATES_PER_COMMIT,
    PARTITION_WRITE_UNITS,
    SHARDS_MAX,
    STRIPES_PER_COMMIT,
    WARM_UNITS_MAX,
    WARM_WRITE_UNITS_MIN,
)
from tallyroll.planning.identities import IdentityLoad, identities_of
from tallyroll.planning.load import PeakLoad
from tallyroll.planning.on_demand import warm_partitions
from tallyroll.planning.reads import (
    API_READS_DEFAULT,
    API_READS_QUOTA,
    CACHE_SECONDS_DEFAULT,
    ReadLoad,
    reading_of,
)
from tallyroll.planning.shards import (
    SHARD_SHARE_MAX,
    partitions_at_start,
    shards_at_start,
    sustained_shards,
)
from tallyroll.planning.writers import batch_seconds
from tallyroll.planning.writes import BatchWrites, batch_writes
from tallyroll.settings import Settings

WARM_HEADROOMS = (1.25, 1.5, 2.0, 3.0)  # of warm throughput over the peak, the least that does
SHARDS_LISTED_MAX = 1_200  # a list of a busy key asks every shard: more only if nothing else does
WRITERS_HEADROOM = 1.25  # of writers over what the peak keeps busy
BATCH_SIZE, BATCH_WINDOW_SECONDS = 1_000, 1
WRITERS_MIN, WRITERS_DEFAULT, WRITERS_MAX = 2, 4, 1_000
ARCHIVED_SHARE = 0.35  # assumed: of an item's bytes in a compressed archive
HOUR_SECONDS = 3_600


@dataclass(frozen=True, slots=True)
class Writers:
    """How many writers take a load, and what one of them takes, in messages a second."""

    needed: int
    each_per_second: float
    batch_seconds: float


@dataclass(frozen=True)
class Plan:
    """What a load needs, for windows of these settings."""

    load: PeakLoad
    settings: Settings
    batch: BatchWrites
    writers: Writers
    shards: int
    start_shards: int | None
    warm_units: int

    @property
    def table_units(self) -> float:
        """Write units a second of one table at the peak."""
        return self.load.events_per_second * self.batch.per_event.each

    @property
    def partitions(self) -> int:
        """The partitions of a new table."""
        return warm_partitions(write_units=self.warm_units)

    @property
    def in_flight(self) -> float:
        """Messages that SQS has in flight at the peak."""
        held = BATCH_WINDOW_SECONDS + self.writers.batch_seconds
        return self.load.messages_per_second * held

    @property
    def identities(self) -> IdentityLoad | None:
        """What ids take that stay taken beyond their windows; None if none do."""
        return identities_of(self.load, self.settings)

    @property
    def reading(self) -> ReadLoad:
        """What the reads of counts take."""
        return reading_of(self.load)

    @property
    def stripes(self) -> int:
        """The least stripes of a key's tally."""
        return min(SHARDS_MAX, max(64, STRIPES_PER_COMMIT * self.commits_at_once))

    @property
    def items_of_count(self) -> int:
        """The most items that a count reads of an open window: the larger of the least stripes and
        the N of keys that have their own.
        """
        return max([self.stripes, *self.hot_shards().values()])

    @property
    def read_units(self) -> float:
        """Read units a second that counts take of one table, a unit an item."""
        return self.reading.from_tables * self.items_of_count

    @property
    def gates(self) -> int:
        """The gates of a window."""
        return min(GATES_MAX, max(256, GATES_PER_COMMIT * self.commits_at_once))

    @property
    def commits_at_once(self) -> int:
        """Transactions that all writers have in flight at the most."""
        return self.writers.needed * self.settings.transactions_at_once

    @property
    def chosen_shards(self) -> int:
        """N to deploy: of the first second if there is one, else the most."""
        return self.start_shards or SHARDS_MAX

    @property
    def _length(self) -> dict[str, Any]:
        if self.settings.window:
            return {"tallyroll:window": self.settings.window}
        return {"tallyroll:window_seconds": self.settings.window_seconds}

    def warm_units_of(self, shards: int) -> int | None:
        """The least warm throughput, in whole partitions, with which N shards take the hottest
        key's peak from the first second on; 0 if a new table does. None: no table does.
        """
        writes, rate = self.batch.per_event, self.load.hottest_per_second
        found = partitions_at_start(
            writes,
            events_per_second=rate,
            shards=shards,
            other_units=self.table_units - rate * writes.each,
        )
        units = (found or 0) * PARTITION_WRITE_UNITS
        return None if found is None else units if units > WARM_WRITE_UNITS_MIN else 0

    def context(self) -> dict[str, Any]:
        """The CDK context that deploys the plan."""
        context: dict[str, Any] = {
            **self._length,
            "tallyroll:retention_seconds": self.settings.retention_ms // 1000,
            "tallyroll:accept_for_seconds": self.settings.accept_for_ms // 1000,
            "tallyroll:max_concurrency": self.writers.needed,
            "tallyroll:warm_units": self.warm_units,
        }
        if self.settings.remembers_ids:
            context["tallyroll:identity"] = str(self.settings.identity)
        if hot := self.hot_shards():
            context["tallyroll:hot_shards"] = hot
        else:
            context["tallyroll:shards"] = max(Settings().shards, self.chosen_shards)
        if (reads := ceil(self.load.reads_per_second)) > API_READS_DEFAULT:
            context["tallyroll:reads_per_second"] = min(API_READS_QUOTA, reads)
        kept = int(self.load.staleness_seconds)
        if reads and kept != CACHE_SECONDS_DEFAULT:
            context["tallyroll:cache_live_seconds"] = kept
        context["tallyroll:shards_max"] = max(Settings().shards_max, self.chosen_shards)
        return context

    def hot_shards(self, least: int = Settings().shards) -> dict[str, int]:
        """N of the keys that the load names, where it is more than `least`, by default N of keys
        that nobody names. None needs more than the hottest, besides which the others take their
        units of the table.
        """
        writes, found = self.batch.per_event, {}
        for key, rate in self.load.hot.items():
            shards = shards_at_start(
                writes,
                events_per_second=rate,
                partitions=self.partitions,
                other_units=self.table_units - rate * writes.each,
            )
            found[key] = min(shards or SHARDS_MAX, self.chosen_shards)
        return {key: shards for key, shards in found.items() if shards > least}


def planned(load: PeakLoad, settings: Settings | None = None) -> Plan:
    """The plan of a load. Raises UsageError for a load that no pipeline takes."""
    settings = settings or Settings()
    settings.check_tables_fit()
    batch = batch_writes(load, messages=_batch_messages(load), with_ids=settings.remembers_ids)
    writes = batch.per_event
    shards = sustained_shards(record_units=load.hottest_per_second * writes.record)
    if shards > SHARDS_MAX:
        most = SHARDS_MAX * SHARD_SHARE_MAX * PARTITION_WRITE_UNITS / writes.record
        raise UsageError(
            f"hottest_per_second {load.hottest_per_second:,.0f}: one key takes at most {most:,.0f}"
            f" a second, with {SHARDS_MAX:,} shards; pack its events, or more of them in a packet"
        )
    writers = _writers(load, batch, settings)
    units = load.events_per_second * writes.each
    warm, start = _warm(load, batch, units)
    return Plan(load, settings, batch, writers, shards, start, warm)


def _batch_messages(load: PeakLoad) -> int:
    """Messages that Lambda gathers for one writer: what comes in the batch window, up to the batch
    size.
    """
    return max(1, min(BATCH_SIZE, round(load.messages_per_second * BATCH_WINDOW_SECONDS)))


def _writers(load: PeakLoad, batch: BatchWrites, settings: Settings) -> Writers:
    seconds = batch_seconds(batch, at_once=settings.transactions_at_once)
    each = batch.records / seconds
    needed = max(WRITERS_MIN, ceil(load.messages_per_second / each * WRITERS_HEADROOM))
    if needed > WRITERS_MAX:
        raise UsageError(
            f"events_per_second {load.events_per_second:,.0f}: takes {needed:,} writers, and an SQS"
            f" trigger runs at most {WRITERS_MAX:,}; pack events, or divide them among pipelines"
        )
    return Writers(max(needed, WRITERS_DEFAULT), each, seconds)


def _warm(load: PeakLoad, batch: BatchWrites, units: float) -> tuple[int, int | None]:
    """The warm throughput, 0 for a new table's own, and the N with which the hottest key takes its
    peak from the first second on. More partitions are taken until such an N is at most 1,200.
    """
    writes, rate = batch.per_event, load.hottest_per_second

    def start(warm: float) -> int | None:
        partitions = warm_partitions(write_units=warm)
        return shards_at_start(
            writes,
            events_per_second=rate,
            partitions=partitions,
            other_units=units - rate * writes.each,
        )

    if units <= WARM_WRITE_UNITS_MIN and (shards := start(WARM_WRITE_UNITS_MIN)):
        return 0, shards
    choices: list[tuple[int, int]] = []
    for headroom in WARM_HEADROOMS:
        if choices and headroom == WARM_HEADROOMS[-1]:
            break  # thrice the peak costs more than lists of many shards
        warm = max(WARM_WRITE_UNITS_MIN, units * headroom)
        warm = ceil(warm / PARTITION_WRITE_UNITS) * PARTITION_WRITE_UNITS
        if warm <= WARM_UNITS_MAX and (shards := start(warm)):
            choices.append((warm if warm > WARM_WRITE_UNITS_MIN else 0, shards))
            if shards <= SHARDS_LISTED_MAX:
                return choices[-1]
    if choices:
        return choices[0]
    warm = ceil(units * WARM_HEADROOMS[0] / PARTITION_WRITE_UNITS) * PARTITION_WRITE_UNITS
    return min(WARM_UNITS_MAX, warm), None


def archived_share(load: PeakLoad) -> float:
    """The share of the items' bytes that archives have. Packets are compressed already."""
    return ARCHIVED_SHARE if load.packed == 1 else 1.0
