"""Cheaper plans for the same load, and what each loses; and what makes a plan expensive."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from tallyroll.limits import (
    LOG_KEYS_MAX,
    LOG_RATE_MAX,
    PACKET_BYTES_MAX,
    WARM_WRITE_UNITS_MIN,
)
from tallyroll.planning import prices
from tallyroll.planning.costs import (
    AGGREGATOR,
    COUNTS_READ,
    HTTP_API,
    SECONDS_A_MONTH,
    WARM_THROUGHPUT,
    WRITES,
    dollars_of,
    windows_a_month,
)
from tallyroll.planning.facts import IdsSeen
from tallyroll.planning.load import PACKET_EVENTS_MAX, LoggedKey, PeakLoad, at_once
from tallyroll.planning.on_demand import GROWTH, GROWTH_SECONDS
from tallyroll.planning.plan import Plan, planned
from tallyroll.planning.writes import (
    BATCH_SIZE,
    BATCH_WINDOW_SECONDS,
    batch_writes,
    distinct_keys,
    log_units,
)

MIN_PACKED = 2
MINUTE_SECONDS, DAY_SECONDS = 60, 86_400
LOG_SHARE_MAX = 0.5  # of what records cost, from which on a log is worth what it loses
NAMED_BELOW_MAX = 8  # a slot has room for a peak of some eight times the rate that is named
EXPLAINED_SHARE = 0.25  # of a month, from which on a part is explained
_READS = {
    COUNTS_READ: "the read units of counts",
    HTTP_API: "the requests of the HTTP API",
    AGGREGATOR: "the aggregator's function",
}


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another plan for the same load: what a month of it costs, and what it loses."""

    name: str
    dollars: float
    loses: str


def cheaper(plan: Plan) -> list[Alternative]:
    """The alternatives that cost less than the plan, the cheapest first."""
    most = dollars_of(plan)["in all"]
    found = []
    for made in (_in_packets(plan), _in_logs(plan), _in_days(plan), _without_warm(plan)):
        if made is not None:
            name, other, loses = made
            found.append(Alternative(name, dollars_of(other)["in all"], loses))
    return sorted((each for each in found if each.dollars < most), key=lambda each: each.dollars)


def packed_by_minute(load: PeakLoad) -> int:
    """How many events a packet has on average, at the mean rate, if one producer packs all events
    by key and minute.
    """
    most = min(PACKET_EVENTS_MAX, max(1, int(PACKET_BYTES_MAX // load.entry_bytes)))
    events = load.mean * MINUTE_SECONDS
    if events < 1:
        return 1
    packets = distinct_keys(load, events) + events / most
    return max(1, min(most, int(events / packets)))


def _in_packets(plan: Plan) -> tuple[str, Plan, str] | None:
    if plan.load.packed > 1 or (packed := packed_by_minute(plan.load)) < MIN_PACKED:
        return None
    loses = (
        "producers must pack: events have no ids, only their packet has one. An event that is sent"
        f" again in another packet counts twice. {packed:,} events are what one producer packs that"
        " lets events wait for others of their key for a minute (linger_ms=60_000): so counts are"
        " up to a minute later. A shorter wait, or more producers, has fewer in each."
    )
    other = planned(replace(plan.load, packed=packed, logs={}), plan.settings)
    return f"packets of {packed:,}", other, loses


@dataclass(frozen=True, slots=True)
class WaysOfKey:
    """What a key's events take in a month at this rate, in US dollars: as records, in a log that is
    `named` with so many events a second, reads of its slots included, or in packets of so many.
    """

    events_per_second: float
    named: int
    records: float
    log: float
    packets: float
    packed: int

    @property
    def gains(self) -> bool:
        """Whether a log costs much less than records."""
        return self.log <= LOG_SHARE_MAX * self.records

    @property
    def saved(self) -> float:
        """What a log saves a month, in US dollars."""
        return self.records - self.log

    @property
    def text(self) -> str:
        """The dollars in words."""
        return (
            f"records ${self.records:,.2f} a month, a log ${self.log:,.2f}, packets of"
            f" {self.packed:,} ${self.packets:,.2f}"
        )


@dataclass(frozen=True, slots=True)
class LogAdvice:
    """A key, its ways, and what is known of its ids."""

    key: str
    ways: WaysOfKey
    ids: IdsSeen

    @property
    def gains(self) -> bool:
        """Whether a log is much cheaper, and some of its events may have no ids."""
        return self.ways.gains and (self.ids.like_sqs > 0 or not self.ids.looked_at)

    @property
    def text(self) -> str:
        """The advice in words."""
        option = json.dumps({self.key: self.ways.named}, ensure_ascii=False)
        return (
            f"{self.key}: {self.ways.events_per_second:,.0f} events/s: {self.ways.text}."
            f" {self.ids.text}. Packets are cheapest; if its producer cannot change and gives no"
            f" ids, tallyroll:logs='{option}', beside the others (docs/sharding.md, Events without"
            " an id)"
        )

    def as_json(self) -> dict[str, Any]:
        """The advice for machines, in US dollars a month."""
        ways = self.ways
        return {
            "events_per_second": round(ways.events_per_second, 1),
            "named": ways.named,
            "records": round(ways.records, 2),
            "log": round(ways.log, 2),
            "packets": round(ways.packets, 2),
            "ids_like_sqs": self.ids.like_sqs,
            "ids_looked_at": self.ids.looked_at,
        }


def ways_of(mean: float, *, writers: int, event_bytes: int = 128, peak: float = 0.0) -> WaysOfKey:
    """The ways of a key of so many events a second on average and, if that is more, at its peak.

    A log is priced by the mean rate, and named with it; less than an eighth of the peak would fill
    its slots.
    """
    alone = PeakLoad(
        events_per_second=mean, hottest_per_second=mean, keys=1, event_bytes=event_bytes
    )
    named = min(LOG_RATE_MAX, max(1, int(max(mean, peak / NAMED_BELOW_MAX))))
    units = log_units(LoggedKey(mean, named), writers, alone.log_entry_bytes)
    each = units.writes * prices.WRITE_UNIT + units.reads * prices.READ_UNIT
    packed = packed_by_minute(alone)
    events = mean * SECONDS_A_MONTH
    return WaysOfKey(
        mean,
        named,
        events * _units_each(alone) * prices.WRITE_UNIT,
        events * each,
        events * _units_each(replace(alone, packed=packed)) * prices.WRITE_UNIT,
        packed,
    )


def _units_each(load: PeakLoad) -> float:
    """The write units of an event, in batches of what comes in a second."""
    gathered = round(load.messages_per_second * BATCH_WINDOW_SECONDS)
    return batch_writes(load, messages=max(1, min(BATCH_SIZE, gathered))).per_event.each


def _in_logs(plan: Plan) -> tuple[str, Plan, str] | None:
    """Logs of the keys that gain from one, as far as their events may have no ids."""
    load = plan.load
    if load.packed > 1 or not load.mean:
        return None
    rates = {**(load.hot if load.plain is None else load.plain)}
    if not (load.hot or load.logs):
        rates = {"": load.hottest_per_second}
    chosen: dict[str, LoggedKey] = {}
    for key, peak in rates.items():
        if key in load.logs or not peak or len(chosen) + len(load.logs) >= LOG_KEYS_MAX:
            continue
        mean = peak * load.mean / load.events_per_second
        size, writers = load.event_bytes, plan.writers.needed
        ways = ways_of(mean, writers=writers, event_bytes=size, peak=peak)
        if ways.gains:
            chosen[key] = LoggedKey(peak, ways.named)
    if not chosen:
        return None
    of = ", ".join(f"{key!r} ({each.named:,})" for key, each in chosen.items() if key)
    known = (
        "Counted here are the events of the file that have none."
        if load.plain is not None
        else "Nothing here tells how many have none: all are counted here."
    )
    loses = (
        "only events of one key without an id of their own are logged (tallyroll:logs). "
        f"{known} One that is sent twice counts twice, as without a log, and it is not found by the"
        " id of its message, only in lists. Packets are cheaper, where producers can pack."
    )
    logs = at_once({**load.logs, **chosen}, load.events_per_second)
    other = planned(replace(load, logs=logs), plan.settings)
    return f"logs of {of}" if of else "a log of the hottest key", other, loses


def _in_days(plan: Plan) -> tuple[str, Plan, str] | None:
    seconds = plan.settings.lasting.mean / 1_000
    if seconds >= DAY_SECONDS:
        return None
    loses = (
        f"tables are {DAY_SECONDS / seconds:,.3g} times as large, and are archived and dropped up"
        " to a day later; counts by window are by the day; the numbers of shards"
        " follow the traffic once a day."
    )
    days = replace(plan.settings, window="", window_seconds=DAY_SECONDS)
    return "windows of a day", planned(plan.load, days), loses


def _without_warm(plan: Plan) -> tuple[str, Plan, str] | None:
    if not plan.warm_units:
        return None
    peak, mean = ceil(plan.table_units), ceil(plan.mean_units)
    doublings = 0
    while WARM_WRITE_UNITS_MIN * GROWTH**doublings < peak:
        doublings += 1
    scaled = doublings * GROWTH_SECONDS
    never = ""
    if scaled >= (window := plan.settings.lasting.mean / 1_000):
        never = (
            f" Here none gets so far: each table is written to for one window,"
            f" {window / MINUTE_SECONDS:,.3g} minutes."
        )
    waits = (
        f"The mean of {mean:,} fits."
        if mean <= WARM_WRITE_UNITS_MIN
        else f"The mean of {mean:,} is above that too: counting falls behind."
    )
    loses = (
        f"each new table takes {WARM_WRITE_UNITS_MIN:,} write units a second. Above that writes are"
        " throttled, and messages wait in the queue, until the table has scaled. A table takes the"
        f" peak of {peak:,} after {scaled // MINUTE_SECONDS:,} minutes of load.{never} {waits}"
    )
    return "no warm throughput", replace(plan, warm_units=0), loses


def explained(plan: Plan) -> list[str]:
    """What makes most of a month's costs, and what can be done about it today."""
    found = dollars_of(plan)
    in_all = found["in all"]
    reads = sum(found[name] for name in _READS)
    texts = []
    if found[WARM_THROUGHPUT] >= EXPLAINED_SHARE * in_all:
        texts.append(
            (found[WARM_THROUGHPUT], _warm_explained(plan, found[WARM_THROUGHPUT], in_all))
        )
    if reads >= EXPLAINED_SHARE * in_all:
        texts.append((reads, _reads_explained(plan, found, reads)))
    if found[WRITES] >= EXPLAINED_SHARE * in_all:
        texts.append((found[WRITES], _writes_explained(plan, found[WRITES], in_all)))
    return [text for _, text in sorted(texts, reverse=True)]


def _writes_explained(plan: Plan, writes: float, in_all: float) -> str:
    load = plan.load
    text = (
        f"Writes of events are ${writes:,.0f} of ${in_all:,.0f}: {plan.per_event.each:.4f}"
        " write units an event. A transaction takes two units for each KB of each item."
    )
    if load.packed > 1:
        return f"{text} More events in a packet (--packed), or smaller ones, take fewer units each."
    packed = packed_by_minute(load)
    if packed < MIN_PACKED:
        return (
            f"{text} Each event is an item of its own, which its id finds again. Packets would"
            " have one for many events, but a key has less than two a minute here."
        )
    less = dollars_of(planned(replace(load, packed=packed, logs={}), plan.settings))[WRITES]
    return (
        f"{text} Each event is an item of its own, which its id finds again. Packets help: their"
        f" events have one item and one id together. With {packed:,} events in each, writes are"
        f" ${less:,.0f} (--packed {packed})."
    )


def _warm_explained(plan: Plan, warm: float, in_all: float) -> str:
    extra = plan.warm_units - WARM_WRITE_UNITS_MIN
    return (
        f"Warm throughput is ${warm:,.0f} of ${in_all:,.0f}. AWS charges it once for each table:"
        f" {extra:,} units above the {WARM_WRITE_UNITS_MIN:,} of a new table x"
        f" ${prices.WARM_WRITE_UNIT:g} = ${extra * prices.WARM_WRITE_UNIT:,.2f};"
        f" {prices.WARM_ASSUMED}. Each window has a"
        f" table of its own, so it is charged {windows_a_month(plan.settings):,.0f} times a month."
        " With it a table takes the peak from its first second on. tallyroll:warm_units_max instead"
        " of tallyroll:warm_units is charged only for the tables of two days after a peak."
    )


def _reads_explained(plan: Plan, found: Mapping[str, float], reads: float) -> str:
    most, sandboxes = max(_READS, key=lambda name: found[name]), plan.reading.sandboxes
    caches = f"{sandboxes:,} sandboxes, each of which" if sandboxes > 1 else "1 sandbox, which"
    return (
        f"Reads are ${reads:,.0f} of ${found['in all']:,.0f}, most of it for {_READS[most]}"
        f" (${found[most]:,.0f}). The aggregator runs in {caches} caches counts for itself; nothing"
        " caches answers in front of the API. So let each of your services ask once per staleness"
        " and hand the answer on to its clients, or count in it with"
        " tallyroll.Pipeline(settings).reader, which has the same cache and takes no API and no"
        " function. Fewer keys (--asked) and older counts (--staleness, up to 60s) save read units;"
        " the cache's time is tallyroll:cache_live_seconds, and TALLYROLL_CACHE_LIVE_MS of a reader"
        " of your own."
    )
