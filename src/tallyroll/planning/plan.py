"""A plan: what a load needs, in shards, partitions, throughput and writers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
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
from tallyroll.planning.load import PACKET_ITEM_BYTES, PeakLoad
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
    KeyWrites,
    partitions_at_start,
    shards_at_start,
    sustained_shards,
)
from tallyroll.planning.writers import batch_seconds
from tallyroll.planning.writes import (
    BATCH_SIZE,
    BATCH_WINDOW_SECONDS,
    BatchWrites,
    LogLoad,
    batch_writes,
    log_load,
)
from tallyroll.settings import Settings

WARM_HEADROOMS = (1.25, 1.5, 2.0, 3.0)  # of warm throughput over the peak, the least that does
SHARDS_LISTED_MAX = 1_200  # a list of a busy key asks every shard: more only if nothing else does
WRITERS_HEADROOM = 1.25  # of writers over what the peak keeps busy
WRITERS_MIN, WRITERS_DEFAULT, WRITERS_MAX = 2, 4, 1_000
ARCHIVED_SHARE = 0.35  # assumed: of an item's bytes in a compressed archive
HOUR_SECONDS = 3_600


@dataclass(frozen=True, slots=True)
class Writers:
    """How many writers take a load, and what one of them takes, in messages a second."""

    needed: int
    each_per_second: float
    batch_seconds: float


@dataclass(frozen=True, slots=True)
class ItemsKept:
    """What is stored for some events: items, their bytes, and the share of these that archives have
    once they are compressed.
    """

    items: float
    table_bytes: float
    archived_share: float


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

    @cached_property
    def record_batch(self) -> BatchWrites:
        """A batch of the events that are not logged."""
        return _record_batch(self.load, self.settings)

    @property
    def per_event(self) -> KeyWrites:
        """The write units of an event that is not logged."""
        return self.record_batch.per_event

    @cached_property
    def logged(self) -> LogLoad:
        """What logs take at the peak."""
        return log_load(self.load, self.writers.needed)

    @cached_property
    def logged_on_average(self) -> LogLoad:
        """What logs take at the mean rate."""
        share = self.load.mean / self.load.events_per_second
        return log_load(self.load, self.writers.needed, share=share)

    def items_of(self, seconds: float) -> ItemsKept:
        """What the events of so many seconds at the mean rate are stored as."""
        recorded, logged = self.load.recorded, self.logged_on_average
        records = recorded.mean * seconds / recorded.events_each
        leaves, entries = logged.leaves * seconds, logged.events * seconds
        of_records = records * recorded.item_bytes
        of_leaves = leaves * PACKET_ITEM_BYTES + entries * self.load.log_entry_bytes
        in_all = of_records + of_leaves
        archived = of_records * _archived_share(recorded) + of_leaves
        return ItemsKept(records + leaves, in_all, archived / in_all if in_all else 1.0)

    @property
    def table_units(self) -> float:
        """Write units a second of one table at the peak."""
        return self.load.recorded.events_per_second * self.per_event.each + self.logged.writes

    @property
    def mean_units(self) -> float:
        """Write units a second at the mean rate."""
        return self.load.recorded.mean * self.per_event.each + self.logged_on_average.writes

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
        return identities_of(self.load.recorded, self.settings)

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
        writes, rate = self.per_event, self.load.recorded.hottest_per_second
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
            context["tallyroll:shards"] = max(self.settings.shards, self.chosen_shards)
        if (reads := ceil(self.load.reads_per_second)) > API_READS_DEFAULT:
            context["tallyroll:reads_per_second"] = min(API_READS_QUOTA, reads)
        if reads and self.load.staleness_seconds != CACHE_SECONDS_DEFAULT:
            context["tallyroll:cache_live_seconds"] = int(self.load.staleness_seconds)
        if self.settings.suffix != Settings().suffix:
            context["tallyroll:suffix"] = self.settings.suffix
        if self.load.logs:
            context["tallyroll:logs"] = {
                key: ceil(each.named) for key, each in self.load.logs.items()
            }
        context["tallyroll:shards_max"] = max(Settings().shards_max, self.chosen_shards)
        return context

    def hot_shards(self, least: int = Settings().shards) -> dict[str, int]:
        """N of the keys that the load names, where it is more than `least`, by default N of keys
        that nobody names. None needs more than the hottest, besides which the others take their
        units of the table.
        """
        writes, found = self.per_event, {}
        for key, rate in self.load.recorded.hot.items():
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
    writes, recorded = _record_batch(load, settings).per_event, load.recorded
    shards = sustained_shards(record_units=recorded.hottest_per_second * writes.record)
    if shards > SHARDS_MAX:
        most = SHARDS_MAX * SHARD_SHARE_MAX * PARTITION_WRITE_UNITS / writes.record
        raise UsageError(
            f"hottest_per_second {recorded.hottest_per_second:,.0f}: one key takes at most"
            f" {most:,.0f} a second, with {SHARDS_MAX:,} shards; pack its events, or more of them"
            " in a packet"
        )
    writers = _writers(load, batch, settings)
    logged = log_load(load, writers.needed).writes
    units = recorded.events_per_second * writes.each + logged
    warm, start = _warm(recorded.hottest_per_second, writes, units)
    return Plan(load, settings, batch, writers, shards, start, warm)


def _record_batch(load: PeakLoad, settings: Settings) -> BatchWrites:
    recorded = load.recorded
    messages, with_ids = _batch_messages(recorded), settings.remembers_ids
    return batch_writes(recorded, messages=messages, with_ids=with_ids)


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


def _warm(rate: float, writes: KeyWrites, units: float) -> tuple[int, int | None]:
    """The warm throughput, 0 for a new table's own, and the N with which the hottest key takes its
    peak `rate` from the first second on. More partitions are taken until such an N is at most
    1,200.
    """

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


def _archived_share(load: PeakLoad) -> float:
    """The share of the items' bytes that archives have. Packets are compressed already."""
    return ARCHIVED_SHARE if load.packed == 1 else 1.0
