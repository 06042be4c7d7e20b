"""Cheaper plans for the same load, and what each loses; and what makes a plan expensive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from tallyroll.limits import PACKET_BYTES_MAX, WARM_WRITE_UNITS_MIN
from tallyroll.planning import prices
from tallyroll.planning.costs import (
    AGGREGATOR,
    COUNTS_READ,
    HTTP_API,
    WARM_THROUGHPUT,
    WRITES,
    dollars_of,
    windows_a_month,
)
from tallyroll.planning.load import PACKET_EVENTS_MAX, PeakLoad
from tallyroll.planning.on_demand import GROWTH, GROWTH_SECONDS
from tallyroll.planning.plan import Plan, planned
from tallyroll.planning.writes import distinct_keys

MIN_PACKED = 2
MINUTE_SECONDS, DAY_SECONDS = 60, 86_400
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
    for made in (_in_packets(plan), _in_days(plan), _without_warm(plan)):
        if made is not None:
            name, other, loses = made
            found.append(Alternative(name, dollars_of(other)["in all"], loses))
    return sorted((each for each in found if each.dollars < most), key=lambda each: each.dollars)


def packed_by_minute(load: PeakLoad) -> int:
    """How many events a packet has on average, at the mean rate, if one producer packs all events
    by key and minute.
    """
    most = min(PACKET_EVENTS_MAX, int(PACKET_BYTES_MAX // load.entry_bytes))
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
    other = planned(replace(plan.load, packed=packed), plan.settings)
    return f"packets of {packed:,}", other, loses


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
    peak, mean = ceil(plan.table_units), ceil(plan.load.mean * plan.batch.per_event.each)
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
        f"Writes of events are ${writes:,.0f} of ${in_all:,.0f}: {plan.batch.per_event.each:.4f}"
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
    less = dollars_of(planned(replace(load, packed=packed), plan.settings))[WRITES]
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
        " the cache's time is tallyroll:cache_live_seconds."
    )
