"""What a running pipeline's settings should be for the load that was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

from tallyroll.errors import UsageError
from tallyroll.limits import (
    GATES_MAX,
    GATES_PER_COMMIT,
    SHARDS_MAX,
    STRIPES_PER_COMMIT,
    TABLE_UNITS_QUOTA,
    WARM_WRITE_UNITS_MIN,
)
from tallyroll.planning import prices
from tallyroll.planning.alternatives import LogAdvice, ways_of
from tallyroll.planning.costs import dollars_of
from tallyroll.planning.facts import IdsSeen, Measurements, load_of, measured_of, said
from tallyroll.planning.lines import as_json
from tallyroll.planning.plan import (
    WRITERS_HEADROOM,
    WRITERS_MAX,
    WRITERS_MIN,
    Plan,
    planned,
)
from tallyroll.planning.writes import BATCH_SIZE, BATCH_WINDOW_SECONDS
from tallyroll.settings import Settings

BEHIND_S = 60  # the oldest message is this old although all writers work: they are too few
FULL_SHARE = 0.1  # of the planned batch; the duration of smaller ones says little of full ones
UNBUFFERED = 10  # messages of the largest batch without a window [Lambda: SQS]
TABLES_NEAR = 0.8  # of the quota


@dataclass(frozen=True, slots=True)
class Advice:
    """What a setting is, what it should be, and why. `option` is its name in the CDK's context;
    without one, `planned` is done in another way, which `why` says.
    """

    setting: str
    now: Any
    planned: Any
    why: str
    option: str | None = None

    @property
    def change(self) -> bool:
        """Whether there is something to do."""
        return self.now is not None and self.now != self.planned


@dataclass(frozen=True, slots=True)
class Feedback:
    """The facts, the plan for the load that was measured, and what to change. Without a plan,
    `why_not` says why there is none.
    """

    facts: Measurements
    plan: Plan | None
    advice: tuple[Advice, ...]
    why_not: str = ""

    @property
    def context(self) -> dict[str, Any]:
        """The CDK context that makes the changes; empty if there are none."""
        return {
            f"tallyroll:{each.option}": each.planned
            for each in self.advice
            if each.option is not None and each.change
        }

    @property
    def measured(self) -> list[tuple[str, str, str]]:
        """The facts in words: what, how much, and its source."""
        return [(each.name, said(each.value), each.source) for each in measured_of(self.facts)]

    @property
    def settings(self) -> list[tuple[str, str, str, str, str]]:
        """The advice in words: the setting, what it is, what it should be, what to do, and why."""
        return [
            (
                each.setting,
                _in_words(each.now),
                _in_words(each.planned),
                "change" if each.change else "",
                each.why,
            )
            for each in self.advice
        ]

    @property
    def logs(self) -> list[LogAdvice]:
        """The keys that would gain from a log, at their share of the mean rate."""
        plan, facts = self.plan, self.facts
        if plan is None or plan.load.packed > 1 or facts.settings.window_keyspace:
            return []
        part = plan.load.mean / plan.load.events_per_second
        found = []
        for key, peak in plan.load.hot.items():
            if part and key not in facts.settings.logs:
                size, writers = plan.load.event_bytes, plan.writers.needed
                ways = ways_of(peak * part, writers=writers, event_bytes=size, peak=peak)
                found.append(LogAdvice(key, ways, facts.ids.get(key, IdsSeen())))
        return [each for each in found if each.gains]

    @property
    def notes(self) -> list[str]:
        """What else to know."""
        if self.plan is None:
            return [self.why_not]
        dollars = dollars_of(self.plan)["in all"]
        month = f"a month at the mean rate costs ${dollars:,.2f} as planned"
        peaks = "peaks are averages over a minute or a sixtieth of a window, of these windows only"
        return [
            f"{month}: {prices.REGION}, prices of {prices.AS_OF}",
            f"{peaks}: plan for a higher one with --rate",
            *(each.text for each in self.logs),
        ]

    def as_json(self) -> dict[str, Any]:
        """All of it for machines; null is not known."""
        return {
            "measured": {each.name: each.value for each in measured_of(self.facts)},
            "settings": [asdict(each) | {"change": each.change} for each in self.advice],
            "context": self.context,
            "logs": {each.key: each.as_json() for each in self.logs},
            "plan": as_json(self.plan, dollars_of(self.plan)) if self.plan else None,
        }


def feedback(facts: Measurements, reads_per_second: float, staleness_seconds: float) -> Feedback:
    """What to change in a pipeline of these facts. Counts are asked for at the measured rate if
    that is higher than the given one.
    """
    load = load_of(facts, reads_per_second=reads_per_second, staleness_seconds=staleness_seconds)
    if load is None:
        why_not = "no events were counted in the last windows: there is no load to plan for"
        return Feedback(facts, None, tuple(advised(facts, None)), why_not)
    try:
        plan = planned(load, facts.settings)
    except UsageError as error:
        return Feedback(facts, None, tuple(advised(facts, None)), f"no plan: {error}")
    return Feedback(facts, plan, tuple(advised(facts, plan)))


def _in_words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {number:,}" for key, number in value.items()) or "none"
    return said(value)


def advised(facts: Measurements, plan: Plan | None) -> list[Advice]:
    """What the settings should be for the measured load, and for the account's quotas. Without a
    plan only the latter. Nothing that costs nothing is lowered: the measured time may be a quiet
    one.
    """
    if plan is None:
        return _quotas(facts, None)
    writers = _writers(facts, plan)
    return [
        *_shards(facts, plan),
        *_throughput(facts, plan),
        *_of_identities(plan),
        writers,
        *_batches(facts, plan),
        *_spread(facts.settings, writers.planned),
        *_quotas(facts, plan),
    ]


def _shards(facts: Measurements, plan: Plan) -> list[Advice]:
    settings = facts.settings
    needed = plan.hot_shards(settings.shards)
    now = {key: facts.shards_of.get(key, settings.shards) for key in facts.hot}
    hottest = facts.hottest
    why = (
        f"every key takes its peak from the first second on, the hottest with {plan.shards} or more"
    )
    if facts.much_throttled and hottest is not None:
        needed[hottest] = min(SHARDS_MAX, max(needed.get(hottest, 0), 2 * now[hottest]))
        why = f"{facts.throttled_key_range:,.0f} writes were throttled for one partition"
    few = {key: shards for key, shards in needed.items() if shards > now[key]}
    configured = dict(settings.hot_shards)
    if few and not facts.much_throttled:
        why = ", ".join(
            f"{key!r} had {facts.hot[key]:,.1f} events/s on {now[key]:,} shards"
            for key in list(few)[:3]
        )
        why += f"; the hottest needs {plan.shards:,}, and more from the first second on"
    found = [Advice("shards of hot keys", configured, {**configured, **few}, why, "hot_shards")]
    if settings.adapts:
        most = max(settings.shards_max, *few.values()) if few else settings.shards_max
        follows = "a key's shards follow the traffic of the last window, up to this"
        found.append(
            Advice("most shards of a key", settings.shards_max, most, follows, "shards_max")
        )
    return found


def _throughput(facts: Measurements, plan: Plan) -> list[Advice]:
    settings, units = facts.settings, ceil(plan.table_units)
    seen = f", {facts.table_units:,} measured" if facts.table_units else ""
    peak = f"{units:,} write units a second at the peak{seen}"
    if given := settings.provisioned:
        wanted = max(given["write"], units, facts.table_units or 0)
        why = f"{peak}, and {given['write']:,} provisioned"
        return [Advice("capacity", dict(given), {**given, "write": wanted}, why, "provisioned")]
    cold = f"a new table takes {WARM_WRITE_UNITS_MIN:,}"
    if settings.follows_peaks:
        most = max(settings.warm_units_max, plan.warm_units)
        why = f"{peak}; {cold}, and more by the last windows' peak up to this"
        return [
            Advice("most warm throughput", settings.warm_units_max, most, why, "warm_units_max")
        ]
    why = f"{peak}; {cold}"
    if plan.warm_units < settings.warm_units:
        why += "; more is charged for each table"
    return [Advice("warm throughput", settings.warm_units, plan.warm_units, why, "warm_units")]


def _of_identities(plan: Plan) -> list[Advice]:
    found = plan.identities
    if found is None or not found.warm_units:
        return []
    why = (
        f"{ceil(found.units):,} write units a second at the peak, of all windows together; a new"
        f" table takes {WARM_WRITE_UNITS_MIN:,}; set by UpdateTable on NAME-identities"
    )
    return [Advice("warm throughput of identities", None, found.warm_units, why)]


def _writers(facts: Measurements, plan: Plan) -> Advice:
    now, needed = facts.max_concurrency, plan.writers.needed
    rate = plan.load.messages_per_second
    why = (
        f"{rate:,.1f} messages/s at the peak, {plan.writers.each_per_second:,.0f} a writer assumed"
    )
    full = FULL_SHARE * plan.batch.records
    if facts.batch_ms and facts.batch_messages and facts.batch_messages >= full:
        each = facts.batch_messages / facts.batch_ms * 1_000
        needed = max(WRITERS_MIN, ceil(rate / each * WRITERS_HEADROOM))
        why = f"{rate:,.1f} messages/s at the peak, {each:,.0f} a writer measured"
    busy = now is not None and facts.writers is not None and facts.writers >= now
    if now and busy and (facts.oldest_s or 0) > BEHIND_S:
        needed = max(needed, 2 * now)
        why = f"all {now:,} writers worked, and a message waited for {facts.oldest_s:,.0f} s"
    planned = min(WRITERS_MAX, max(needed, now or 0))
    return Advice("most writers at once", now, planned, why, "max_concurrency")


def _batches(facts: Measurements, plan: Plan) -> list[Advice]:
    size = max(facts.batch_size or BATCH_SIZE, plan.batch.records)
    window = BATCH_WINDOW_SECONDS
    if facts.batch_window_seconds is not None:
        window = max(facts.batch_window_seconds, BATCH_WINDOW_SECONDS if size > UNBUFFERED else 0)
    return [
        Advice(
            "batch size",
            facts.batch_size,
            size,
            f"{plan.batch.records:,} messages come in a second; full batches write fewer tallies",
            "batch_size",
        ),
        Advice(
            "batch window, s",
            facts.batch_window_seconds,
            window,
            f"Lambda needs one for batches of more than {UNBUFFERED}",
            "batch_window_seconds",
        ),
    ]


def _spread(settings: Settings, writers: int) -> list[Advice]:
    """Stripes and gates, over which the commits of all writers are spread."""
    commits = writers * settings.transactions_at_once
    why = f"{commits:,} commits at once; with fewer they conflict"
    stripes = min(SHARDS_MAX, STRIPES_PER_COMMIT * commits)
    gates = min(GATES_MAX, GATES_PER_COMMIT * commits)
    return [
        Advice(
            "stripes of a tally",
            settings.stripes_min,
            max(settings.stripes_min, stripes),
            why,
            "stripes",
        ),
        Advice("gates of a window", settings.gates, max(settings.gates, gates), why, "gates"),
    ]


def _quotas(facts: Measurements, plan: Plan | None) -> list[Advice]:
    """What the account's quotas ask for."""
    settings = facts.settings
    quota = int(facts.tables_quota or settings.table_quota)
    others = max(0, (facts.tables or 0) - facts.window_tables)
    tables = settings.tables_kept + others
    found = [
        Advice(
            "quota of tables",
            settings.table_quota,
            quota,
            f"{settings.tables_kept:,} tables of windows at once, and {others:,} others",
            "table_quota",
        )
    ]
    if tables > TABLES_NEAR * quota:
        why = f"{tables:,} tables at once: ask Service Quotas for more, or lower the retention"
        found.append(Advice("Service Quotas: tables", quota, ceil(tables / TABLES_NEAR), why))
    if plan:
        limit = int(facts.table_units_quota or TABLE_UNITS_QUOTA)
        ids = plan.identities.units if plan.identities else 0
        units = ceil(max(plan.table_units, plan.warm_units, ids))
        if units > limit:
            known = "" if facts.table_units_quota else " (the default)"
            why = f"a table needs {units:,}, over the quota{known}: ask Service Quotas for more"
            found.append(Advice("Service Quotas: write units of a table", limit, units, why))
    if facts.writers_throttled and facts.functions_quota:
        limit = int(facts.functions_quota)
        why = (
            f"{facts.writers_throttled:,.0f} times Lambda started no writer: ask Service Quotas for"
            " more, or set tallyroll:reserved_concurrency"
        )
        found.append(Advice("Service Quotas: functions at once", limit, 2 * limit, why))
    return found
