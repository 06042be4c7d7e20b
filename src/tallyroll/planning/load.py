"""The load that a plan is made for, from a few numbers or from a file of events."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import NamedTuple

from tallyroll.errors import UsageError
from tallyroll.limits import ITEM_BYTES_MAX, PACKET_BYTES_MAX
from tallyroll.model.events import Event
from tallyroll.model.ids import uuid7_time

PACKET_EVENTS_MAX = 1_000
# Estimates of what a record stores, checked by a test against the writer's own records.
ITEM_BYTES = 16  # of a record's item, beside the event as it is sent
PACKET_ITEM_BYTES = 110  # of a packet's item, beside its events
PACKED_EVENT_BYTES = 2.4  # of an event without payload in a packet: its time, compressed
LOG_ENTRY_BYTES = 16 + PACKED_EVENT_BYTES  # of one in a log: the id of its message, too
PLAIN_EVENT_BYTES = 60  # of an event without payload, sent by itself
COMPRESSED_SHARE = 0.4  # of a payload's bytes that are left once packets are compressed
SAMPLE_BYTES_MAX = 1_000_000  # of entries of a packet that are compressed to measure their size
HOT_LISTED_MAX = 20
STALENESS_MAX_SECONDS = 60  # the most of `cache_live_ms`; a test compares
NEARLY_NONE = 1e-3  # events a second, of a load that is logged as a whole


class LoggedKey(NamedTuple):
    """A key whose plain events are logged: how many come a second, and how many `tallyroll:logs`
    names it with.
    """

    events_per_second: float
    named: float


@dataclass(frozen=True, kw_only=True)
class PeakLoad:
    """Events at their peak: their rate in all and that of the hottest key, a second; the bytes of
    one event as it is sent; and how many keys a window has.

    `mean_per_second` is the rate over a month; left out, it is the peak. `packed` is how many
    events a packet has; 1: events have ids of their own. `hot` names keys with their rates, if a
    file was read, and `plain` those of their events without an id; None: that is not known. `logs`
    has the keys that are logged. Raises UsageError for what cannot be.
    """

    events_per_second: float
    hottest_per_second: float
    event_bytes: int = 128
    keys: int = 1_000
    mean_per_second: float | None = None
    packed: int = 1
    packed_event_bytes: float | None = None
    reads_per_second: float = 0.0
    staleness_seconds: float = 1.0
    keys_asked: int | None = None
    hot: Mapping[str, float] = field(default_factory=dict)
    plain: Mapping[str, float] | None = None
    logs: Mapping[str, LoggedKey] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("events_per_second", "hottest_per_second"):
            if not (isfinite(rate := getattr(self, name)) and rate > 0):
                raise UsageError(f"{name} {rate}: must be a number above 0")
        if self.events_per_second > 1e9:
            raise UsageError(f"events_per_second {self.events_per_second:g}: at most 10^9")
        if self.hottest_per_second > self.events_per_second:
            raise UsageError(
                f"hottest_per_second {self.hottest_per_second:g}: one key cannot have more than all"
                f" keys, {self.events_per_second:g}"
            )
        if not 1 <= self.keys <= 10**12:
            raise UsageError(f"keys {self.keys}: must be from 1 to 10^12")
        if self.keys == 1 and self.hottest_per_second < self.events_per_second:
            raise UsageError(
                f"keys 1: the only key has all events, {self.events_per_second:g} a second"
            )
        if self.hottest_per_second * self.keys < self.events_per_second * (1 - 1e-9):
            raise UsageError(
                f"hottest_per_second {self.hottest_per_second:g}: with {self.keys:,} keys the"
                f" hottest has at least {self.events_per_second / self.keys:g}"
            )
        if self.mean_per_second is not None and not self.mean_per_second >= 0:
            raise UsageError(f"mean_per_second {self.mean_per_second}: must be 0 or more")
        if self.mean > self.events_per_second:
            raise UsageError(
                f"mean_per_second {self.mean:g}: the mean cannot be above the peak,"
                f" {self.events_per_second:g}"
            )
        self._check_sizes()
        self._check_reads()
        self._check_logs()

    def _check_logs(self) -> None:
        if self.logs and self.packed > 1:
            raise UsageError(f"logs {', '.join(self.logs)}: events in packets are not logged")
        if len(self.logs) > self.keys:
            raise UsageError(f"logs {', '.join(self.logs)}: more than there are, {self.keys:,}")
        if self.logged > self.events_per_second * (1 + 1e-9):
            raise UsageError(
                f"logs {self.logged:,g}: these keys cannot have more than all, "
                f"{self.events_per_second:,g} events a second"
            )

    def _check_reads(self) -> None:
        for name in ("reads_per_second", "staleness_seconds"):
            if not (isfinite(number := getattr(self, name)) and number >= 0):
                raise UsageError(f"{name} {number}: must be 0 or more")
        if self.staleness_seconds > STALENESS_MAX_SECONDS:
            raise UsageError(
                f"staleness_seconds {self.staleness_seconds:g}: a count is cached for at most"
                f" {STALENESS_MAX_SECONDS} s"
            )
        if self.staleness_seconds % 1:
            raise UsageError(
                f"staleness_seconds {self.staleness_seconds:g}: counts are kept for whole seconds"
            )
        if not 1 <= self.asked <= self.keys:
            raise UsageError(
                f"keys_asked {self.asked:,}: must be from 1 to {self.keys:,}, all keys"
            )

    def _check_sizes(self) -> None:
        if not 1 <= self.event_bytes <= ITEM_BYTES_MAX - ITEM_BYTES:
            raise UsageError(
                f"event_bytes {self.event_bytes}: must be from 1 to {ITEM_BYTES_MAX - ITEM_BYTES:,}"
                f": an item of DynamoDB has {ITEM_BYTES_MAX >> 10} KB"
            )
        if not 1 <= self.packed <= PACKET_EVENTS_MAX:
            raise UsageError(f"packed {self.packed}: must be from 1 to {PACKET_EVENTS_MAX:,}")
        if self.packed > 1 and self.packed * self.entry_bytes > PACKET_BYTES_MAX:
            most = int(PACKET_BYTES_MAX // self.entry_bytes)
            raise UsageError(
                f"packed {self.packed}: a packet has {PACKET_BYTES_MAX // 1024} KB, room for"
                f" {most:,} events of {self.event_bytes:,} bytes"
            )

    @property
    def entry_bytes(self) -> float:
        """Of an event within a packet as it is sent."""
        return 8.0 + max(0, self.event_bytes - PLAIN_EVENT_BYTES)

    @property
    def mean(self) -> float:
        """Events a second over a month."""
        return self.events_per_second if self.mean_per_second is None else self.mean_per_second

    @property
    def logged(self) -> float:
        """Events a second that are logged, at the peak."""
        return sum(each.events_per_second for each in self.logs.values())

    @property
    def recorded(self) -> PeakLoad:
        """The load of the events that get records: all, but for those that are logged. If no key is
        named, the hottest one is logged, if any is that hot, and the others are alike.
        """
        if not self.logs:
            return self
        rest = max(NEARLY_NONE, self.events_per_second - self.logged)
        rates = {key: each.events_per_second for key, each in self.logs.items()}
        hot = {key: rate - rates.get(key, 0.0) for key, rate in self.hot.items()}
        hottest = max(hot.values(), default=self.hottest_per_second)
        if not hot and max(rates.values()) >= self.hottest_per_second:
            hottest = rest / max(1, self.keys - len(rates))
        return replace(
            self,
            events_per_second=rest,
            hottest_per_second=min(rest, max(hottest, rest / self.keys)),
            mean_per_second=min(rest, self.mean * rest / self.events_per_second),
            hot={key: rate for key, rate in hot.items() if rate > 0},
            logs={},
        )

    @property
    def asked(self) -> int:
        """How many keys counts are read of."""
        return self.keys if self.keys_asked is None else self.keys_asked

    @property
    def hottest_share(self) -> float:
        """The share of the hottest key in all events, from 0 to 1."""
        return self.hottest_per_second / self.events_per_second

    @property
    def events_each(self) -> float:
        """Events a message, and so a record: the packets of a key have what it has in a window, at
        most.
        """
        return float(self.packed)

    @property
    def messages_per_second(self) -> float:
        """Messages a second at the peak."""
        return self.events_per_second / self.packed

    @property
    def item_bytes(self) -> float:
        """The bytes of one record's item."""
        if self.packed == 1:
            return ITEM_BYTES + self.event_bytes
        return PACKET_ITEM_BYTES + self.packed * self._packed_bytes

    @property
    def log_entry_bytes(self) -> float:
        """The bytes of an event in a leaf of a log."""
        return LOG_ENTRY_BYTES - PACKED_EVENT_BYTES + self._packed_bytes

    @property
    def _packed_bytes(self) -> float:
        payload = max(0, self.event_bytes - PLAIN_EVENT_BYTES)
        return self.packed_event_bytes or PACKED_EVENT_BYTES + COMPRESSED_SHARE * payload

    @property
    def message_bytes(self) -> float:
        """The bytes of one message."""
        return self.event_bytes if self.packed == 1 else 100 + self.packed * self.entry_bytes


@dataclass(slots=True)
class Sample:
    """Events of a file as they are read, in what a plan needs of them."""

    events: int = 0
    sent_bytes: int = 0
    undated: int = 0
    with_ids: int = 0
    by_second: Counter[int] = field(default_factory=Counter)
    by_key_second: Counter[tuple[str, int]] = field(default_factory=Counter)
    by_key: Counter[str] = field(default_factory=Counter)
    plain_by_key_second: Counter[tuple[str, int]] = field(default_factory=Counter)
    _entries: bytearray = field(default_factory=bytearray)
    _sampled: int = 0

    def add(self, event: Event, sent_bytes: int) -> None:
        """Add an event that has so many bytes as it is sent."""
        self.events += 1
        self.sent_bytes += sent_bytes
        self.with_ids += event.id is not None
        self.by_key[event.key] += 1
        ts = event.ts
        if ts is None and event.id is not None:
            ts = uuid7_time(event.id)
        if ts is None:
            self.undated += 1
            return
        second = ts // 1000
        self.by_second[second] += 1
        self.by_key_second[event.key, second] += 1
        if event.id is None:
            self.plain_by_key_second[event.key, second] += 1
        if len(self._entries) < SAMPLE_BYTES_MAX:
            entry = f'[{ts % 60_000},"1",{event.payload or "null"}],'
            self._entries += entry.encode()
            self._sampled += 1

    def load(
        self,
        *,
        packed: int,
        reads_per_second: float,
        staleness_seconds: float,
        logs: Mapping[str, int] | None = None,
    ) -> PeakLoad:
        """The load of these events, at their busiest second; `logs` are the keys that are logged,
        and how each is named. Raises UsageError if there are none, or if they have no times.
        """
        if not self.events:
            raise UsageError("no events: there is nothing to plan for")
        if self.undated:
            raise UsageError(
                f"{self.undated:,} of {self.events:,} events have no time (ts, or a UUIDv7 as id);"
                " give --rate and --hottest instead"
            )
        rates, plain = _busiest(self.by_key_second), _busiest(self.plain_by_key_second)
        seconds = max(self.by_second) - min(self.by_second) + 1
        hot = dict(rates.most_common(HOT_LISTED_MAX))
        named = logs or {}
        hot |= {key: rates[key] for key in named if rates[key]}
        peak = max(self.by_second.values())
        return PeakLoad(
            events_per_second=peak,
            hottest_per_second=min(peak, max(*hot.values(), peak / len(self.by_key))),
            event_bytes=-(-self.sent_bytes // self.events),
            keys=len(self.by_key),
            mean_per_second=min(peak, self.events / seconds),
            packed=packed,
            packed_event_bytes=len(zlib.compress(bytes(self._entries))) / self._sampled,
            reads_per_second=reads_per_second,
            staleness_seconds=staleness_seconds,
            hot=hot,
            plain={key: plain[key] for key in hot},
            logs=at_once({key: LoggedKey(plain[key], named[key]) for key in named}, peak),
        )


def at_once(logs: Mapping[str, LoggedKey], most: float) -> dict[str, LoggedKey]:
    """Logged keys, each at a peak of its own: if together they had more than `most` events a
    second, which all keys have at the most, less of each.
    """
    together = sum(each.events_per_second for each in logs.values())
    part = min(1.0, most / together) if together else 1.0
    return {
        key: each._replace(events_per_second=each.events_per_second * part)
        for key, each in logs.items()
    }


def _busiest(by_key_second: Counter[tuple[str, int]]) -> Counter[str]:
    """Each key's events in its busiest second."""
    rates: Counter[str] = Counter()
    for (key, _), events in by_key_second.items():
        rates[key] = max(rates[key], events)
    return rates


def sampled(events: Iterable[tuple[Event, int]]) -> Sample:
    """The sample of events, each with its bytes as it is sent."""
    sample = Sample()
    for event, sent_bytes in events:
        sample.add(event, sent_bytes)
    return sample
