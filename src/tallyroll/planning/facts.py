"""What was measured of a running pipeline, and the load that it makes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from tallyroll.limits import IN_FLIGHT_MAX, ITEM_BYTES_MAX, PACKET_BYTES_MAX
from tallyroll.model.ids import uuid7_time
from tallyroll.model.records import Record
from tallyroll.planning.load import (
    COMPRESSED_SHARE,
    ITEM_BYTES,
    PACKED_EVENT_BYTES,
    PACKET_EVENTS_MAX,
    PLAIN_EVENT_BYTES,
    LoggedKey,
    PeakLoad,
    at_once,
)
from tallyroll.settings import Settings

NOT_KNOWN = "not known here"
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
THROTTLED_SHARE_MAX = 0.01  # of the messages; fewer throttles are absorbed by retries


def said(value: object) -> str:
    """A value in words, at most one decimal of a number."""
    if value is None:
        return NOT_KNOWN
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


class IdsSeen(NamedTuple):
    """Of so many ids of a key's single events, how many have the form of those that SQS gives."""

    like_sqs: int = 0
    looked_at: int = 0

    @property
    def text(self) -> str:
        """What they say of whether the events have ids of their own."""
        if not self.looked_at:
            return "Whether its events have ids of their own is not known here"
        return (
            f"{self.like_sqs:,} of {self.looked_at:,} ids that were looked at have the form of"
            " SQS's: only producers know whether these events have ids of their own"
        )


def ids_seen(records: Iterable[Record]) -> IdsSeen:
    """What is known of the ids of the single events among these. What is stored does not say whose
    an id was; one of another form than SQS's was a producer's.
    """
    ids = [record.id for record in records if not record.packed]
    return IdsSeen(sum(map(_is_like_sqs, ids)), len(ids))


def _is_like_sqs(record_id: str) -> bool:
    return _UUID.fullmatch(record_id) is not None and uuid7_time(record_id) is None


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """What was measured of a pipeline over its last windows. What is not known is None.

    windows, events: how many were looked at
    hot: events a second of the hottest keys at their peaks; shards_of: N of these keys now
    table_units: write units a second of the busiest table in its busiest sixtieth
    item_bytes: of a single event's record; packet_events, packet_event_bytes: of a packet
    tables, window_tables: of the account, and those of this pipeline
    batch_size, batch_window_seconds, max_concurrency: of the writer's trigger
    writers: the most at once; batch_ms, batch_messages: of an average batch
    oldest_s, in_flight: the most of the event queue
    logged_units: write units of a logged event; ids: what is known of the hottest keys' ids
    """

    settings: Settings
    windows: int = 0
    events: int = 0
    peak_per_second: float | None = None
    mean_per_second: float | None = None
    keys: int = 0
    hot: Mapping[str, float] = field(default_factory=dict)
    shards_of: Mapping[str, int] = field(default_factory=dict)
    stripes: int | None = None
    table_units: int | None = None
    item_bytes: float | None = None
    packet_events: float | None = None
    packet_event_bytes: float | None = None
    packed_share: float | None = None
    logged_units: float | None = None
    ids: Mapping[str, IdsSeen] = field(default_factory=dict)
    tables: int | None = None
    window_tables: int = 0
    tables_quota: float | None = None
    table_units_quota: float | None = None
    functions_quota: float | None = None
    batch_size: int | None = None
    batch_window_seconds: int | None = None
    max_concurrency: int | None = None
    writers: float | None = None
    writers_throttled: float | None = None
    batch_ms: float | None = None
    batch_messages: float | None = None
    messages: float | None = None
    throttled: float | None = None
    throttled_key_range: float | None = None
    oldest_s: float | None = None
    in_flight: float | None = None
    reads_per_second: float | None = None

    @property
    def hottest(self) -> str | None:
        """The hottest key."""
        return max(self.hot, key=lambda key: self.hot[key], default=None)

    @property
    def events_each(self) -> int:
        """Events a message, on average, single events included; rounded down."""
        share, each = self.packed_share or 0.0, self.packet_events
        if not share or not each:
            return 1
        return min(PACKET_EVENTS_MAX, int(1 / (1 - share + share / each)))

    @property
    def much_throttled(self) -> bool:
        """Whether so many writes were throttled for one partition that shards are too few."""
        return (self.throttled_key_range or 0) > THROTTLED_SHARE_MAX * (self.messages or 0)


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured number, None if it is not known, and where it is from."""

    name: str
    value: float | str | None
    source: str


def load_of(
    facts: Measurements, *, reads_per_second: float, staleness_seconds: float
) -> PeakLoad | None:
    """The measured load; None if no events were counted. Counts are asked for at the measured rate
    if that is higher than the given one.
    """
    peak = facts.peak_per_second
    if not peak:
        return None
    keys = max(1, facts.keys)
    hottest = max(facts.hot.values(), default=peak)
    packed = facts.events_each
    return PeakLoad(
        events_per_second=peak,
        hottest_per_second=peak if keys == 1 else min(peak, max(hottest, peak / keys)),
        event_bytes=_event_bytes(facts, packed),
        keys=keys,
        mean_per_second=min(peak, facts.mean_per_second or 0.0),
        packed=packed,
        packed_event_bytes=facts.packet_event_bytes if packed > 1 else None,
        reads_per_second=max(reads_per_second, facts.reads_per_second or 0.0),
        staleness_seconds=staleness_seconds,
        hot={key: min(rate, peak) for key, rate in facts.hot.items() if rate},
        logs=_logs(facts, peak) if packed == 1 else {},
    )


def _logs(facts: Measurements, peak: float) -> dict[str, LoggedKey]:
    """The logged keys at their peaks, as if all of their events were plain; not all at once, if
    they would have more than all keys.
    """
    rates = {key: facts.hot[key] for key in facts.settings.logs if facts.hot.get(key)}
    return at_once(
        {key: LoggedKey(rate, facts.settings.logs[key]) for key, rate in rates.items()}, peak
    )


def _event_bytes(facts: Measurements, packed: int) -> int:
    """The bytes of an event as it is sent, by those of its record; 128 if there is none."""
    if packed == 1:
        found = (facts.item_bytes or ITEM_BYTES + 128) - ITEM_BYTES
        return max(1, min(ITEM_BYTES_MAX - ITEM_BYTES, ceil(found)))
    payload = max(0.0, (facts.packet_event_bytes or 0) - PACKED_EVENT_BYTES) / COMPRESSED_SHARE
    fits = PACKET_BYTES_MAX // packed - 8
    return PLAIN_EVENT_BYTES + max(0, min(fits, ceil(payload)))


def _measured_of_logs(facts: Measurements) -> list[Measured]:
    if not facts.settings.logs:
        return []
    return [Measured("write units of a logged event", facts.logged_units, "CloudWatch")]


def measured_of(facts: Measurements) -> list[Measured]:
    """The facts, line by line."""
    tallies, metrics = "tallies", "CloudWatch"
    hottest, trigger = facts.hottest, "the writer's trigger"
    return [
        Measured("length of a window, s", round(facts.settings.lasting.mean / 1000), "settings"),
        Measured("retention, s", facts.settings.retention_ms // 1000, "settings"),
        Measured("windows looked at", facts.windows, "catalog"),
        Measured("events in them", facts.events, "catalog, tallies"),
        Measured("peak events a second", facts.peak_per_second, f"{tallies}, {metrics}"),
        Measured("mean events a second", facts.mean_per_second, "catalog, tallies"),
        Measured("keys of a window, at most", facts.keys, "catalog, tallies"),
        Measured("hottest key", hottest, tallies),
        Measured("its peak events a second", facts.hot.get(hottest or ""), tallies),
        Measured("its shards", facts.shards_of.get(hottest or ""), "the newest window's spec"),
        Measured("its stripes", facts.stripes, "the newest window's spec"),
        Measured("write units a second of a table", facts.table_units, "sealed windows"),
        Measured("bytes of a single event's item", facts.item_bytes, "a sample of records"),
        Measured("share of packed events", facts.packed_share, f"{metrics}, or a sample"),
        Measured("events in a packet", facts.packet_events, "a sample of records"),
        *_measured_of_logs(facts),
        Measured("tables of the account", facts.tables, "ListTables"),
        Measured("quota of tables", facts.tables_quota, "Service Quotas"),
        Measured("quota of a table's write units", facts.table_units_quota, "Service Quotas"),
        Measured("quota of functions at once", facts.functions_quota, "Service Quotas"),
        Measured("batch size", facts.batch_size, trigger),
        Measured("batch window, s", facts.batch_window_seconds, trigger),
        Measured("messages of a batch, on average", facts.batch_messages, metrics),
        Measured("ms of a batch, on average", facts.batch_ms, metrics),
        Measured("writers at once, at most", facts.writers, metrics),
        Measured("writers that did not start", facts.writers_throttled, metrics),
        Measured("writes throttled", facts.throttled, metrics),
        Measured("of these, for one partition", facts.throttled_key_range, metrics),
        Measured("age of the oldest message, s", facts.oldest_s, metrics),
        Measured(
            "messages in flight, at most", facts.in_flight, f"{metrics}, of {IN_FLIGHT_MAX:,}"
        ),
        Measured("counts read a second", facts.reads_per_second, metrics),
    ]
