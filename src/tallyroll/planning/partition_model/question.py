"""A simulation as it is asked for: a load, a pipeline in numbers, and what is to be found out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tallyroll.errors import UsageError
from tallyroll.limits import SHARDS_DEFAULT
from tallyroll.planning.load import PeakLoad
from tallyroll.planning.partition_model.flow import flowed
from tallyroll.planning.partition_model.loads import (
    LoadShape,
    fixed,
    flat,
    hotspot,
    one_key,
    recorded,
    spike,
    step,
    zipf,
)
from tallyroll.planning.partition_model.other_loads import Burst, burst_of_totals
from tallyroll.planning.partition_model.report import page
from tallyroll.planning.partition_model.result import TimeSeries
from tallyroll.planning.partition_model.study import fewest_shards, strategies, world_of
from tallyroll.planning.partition_model.table import TableRules
from tallyroll.planning.partition_model.transactions import Writing, played
from tallyroll.planning.partition_model.world import World
from tallyroll.planning.shards import KeyWrites

HOUR_SECONDS, GB = 3_600.0, 10**9
PLAYED_PER_SECOND_MAX = 10_000  # events, one by one
STEPS_MAX = 31 * 86_400
Rows = list[tuple[str, ...]]
"""A table, its headings first."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What `tallyroll simulate` is asked. Rates are in events a second, times in seconds."""

    events: Iterable[tuple[str, int]] | None = None
    rate: float | None = None
    shape: str = "flat"
    peak: float | None = None
    at: float = 600.0
    mix: str = "one"
    distinct: int = 1_000
    hotspot: str = "0.2/0.8"
    event_bytes: int = 128
    packed: int = 1
    shards: int = SHARDS_DEFAULT
    warm_units: int = 0
    provisioned: int = 0
    writers: int = 4
    window: float = HOUR_SECONDS
    lasts: float | None = None
    random_sort_keys: bool = False
    partitions: int = 0
    stored: float = 0.0
    reads: float = 0.0
    seed: int = 1


@dataclass(frozen=True)
class Simulation:
    """A question made ready: its load and its world."""

    shape: LoadShape
    load: PeakLoad
    world: World
    seconds: float
    seed: int

    def course(self, writing: Callable[[World], Writing[Any]] | None = None) -> TimeSeries:
        """The course, as a flow, or with the transactions of a writer."""
        if writing is None:
            return flowed(self.shape, self.world, seconds=self.seconds, seed=self.seed)
        most = max(self.shape.rate(second) for second in range(round(self.seconds)))
        if most > PLAYED_PER_SECOND_MAX:
            raise UsageError(
                f"{most:,.0f} events a second: transactions are played up to"
                f" {PLAYED_PER_SECOND_MAX:,}; leave --transactions out"
            )
        if self.world.events_each > 1 or self.seconds > self.world.window_seconds:
            raise UsageError("--transactions: only single events, and within one window")
        return played(
            self.shape, self.world, writing(self.world), seconds=self.seconds, seed=self.seed
        )

    def fewest(self, delay_seconds: float) -> int | None:
        """The fewest shards that keep a delay."""
        return fewest_shards(
            self.shape,
            self.world,
            seconds=self.seconds,
            delay_seconds=delay_seconds,
            seed=self.seed,
        )

    def compared(self) -> Rows:
        """The strategies side by side."""
        rows: Rows = [
            ("strategy", "longest delay, s", "throttled", "not counted", "a message twice")
        ]
        for each in strategies(
            self.shape, self.load, self.world, seconds=self.seconds, seed=self.seed
        ):
            course, left = each.course, each.course.backlog * each.events_each
            rows.append(
                (
                    each.name,
                    f"{course.delay_max:,.0f}",
                    f"{course.refused_share:.1%}",
                    f"{left:,.0f}",
                    each.redelivered,
                )
            )
        return rows

    def numbers(self, course: TimeSeries) -> dict[str, Any]:
        """What came of it, for machines: events, seconds, units."""
        each, world = self.world.events_each, self.world
        return {
            "load": self.shape.name,
            "seconds": self.seconds,
            "shards": world.shards_used,
            "start_units": world.rules.start_units,
            "partitions_at_start": world.rules.start_partitions,
            "partitions": course.partitions[-1],
            "sent": round(sum(course.came) * each),
            "counted": round(sum(course.counted) * each),
            "write_units": round(sum(course.units)),
            "delay_max_seconds": round(course.delay_max, 1),
            "throttled_share": round(course.refused_share, 4),
            "quiet_from_second": course.first_second_in_order(),
            "waiting": round(course.backlog * each),
            "reads_throttled_share": round(float(np.mean(course.reads_refused or [0])), 4),
            "totals": asdict(self.sealing()),
        }

    def sealing(self) -> Burst:
        """The totals of a window's keys, all of them, in the table of totals."""
        return burst_of_totals(len(self.shape.keys), seed=self.seed)

    def summary(self, course: TimeSeries) -> Rows:
        """What came of it."""
        each, world = self.world.events_each, self.world
        quiet = course.first_second_in_order()
        reads, totals = course.reads_refused, self.sealing()
        rows: Rows = [
            ("", "value"),
            ("load", self.shape.name),
            ("simulated", f"{self.seconds:,.0f} s"),
            ("shards of a key", f"{world.shards_used:,}"),
            ("write units a second of a new table", f"{world.rules.start_units:,.0f}"),
            ("partitions, at first", f"{world.rules.start_partitions:,}"),
            ("partitions, at last", f"{course.partitions[-1]:,}"),
            ("events sent", f"{sum(course.came) * each:,.0f}"),
            ("events counted", f"{sum(course.counted) * each:,.0f}"),
            ("write units", f"{sum(course.units):,.0f}"),
            ("longest delay", f"{course.delay_max:,.1f} s"),
            ("seconds with throttles", f"{course.refused_share:.1%}"),
            ("nothing throttled from", "never" if quiet is None else f"{quiet:,.0f} s on"),
            ("events waiting at the end", f"{round(course.backlog * each):,}"),
            (f"sealing {totals.keys:,} keys, write units", f"{totals.write_units:,}"),
            (
                "sealing, of that throttled",
                f"{totals.throttled_seconds:,.0f} of {totals.seconds:,.0f} s",
            ),
        ]
        if world.reads_per_second and reads:
            rows.append(("read units throttled", f"{float(np.mean(reads)):.1%}"))
        return rows

    def page(self, course: TimeSeries, compared: Rows | None) -> str:
        """The report."""
        tables = [("Strategies side by side", compared)] if compared else []
        return page(f"Partitions under {self.shape.name}", self.summary(course), course, tables)


def ready(question: Question) -> Simulation:
    """Check a question. Raises UsageError for what cannot be."""
    covered = HOUR_SECONDS
    if question.events is not None:
        shape, covered = recorded(question.events)
    elif question.rate is None:
        raise UsageError("give --rate, events a second, or a FILE of events")
    else:
        shape = _shape(question, question.rate)
    seconds = covered if question.lasts is None else question.lasts
    if not 1 <= seconds <= STEPS_MAX:
        raise UsageError(f"--lasts {seconds:g}s: from 1 s to 31 days")
    for name, bound in (("partitions", 100_000), ("stored", 1_000_000), ("reads", 10**9)):
        if not 0 <= (number := getattr(question, name)) <= bound:
            raise UsageError(f"--{name} {number:g}: must be from 0 to {bound:,}")
    most = max(shape.rate(second) for second in range(round(seconds)))
    shares = shape.mix(0.0)
    hottest = most * float(shares.max())
    load = PeakLoad(
        events_per_second=most,
        hottest_per_second=max(hottest, most / len(shares)),
        event_bytes=question.event_bytes,
        keys=len(shares),
        packed=question.packed,
    )
    rules = TableRules(
        warm_units=question.warm_units,
        provisioned_units=question.provisioned,
        ascending_sort_keys=not question.random_sort_keys,
        partitions=question.partitions,
        stored_bytes=round(question.stored * GB),
    )
    if question.partitions and question.partitions < rules.start_partitions:
        raise UsageError(
            f"--partitions {question.partitions}: throughput and size need at least"
            f" {rules.start_partitions:,}"
        )
    bare = World(
        shards=question.shards,
        writes=KeyWrites(0, 0),
        rules=rules,
        writers=question.writers,
        window_seconds=question.window,
        reads_per_second=question.reads,
    )
    return Simulation(shape, load, world_of(load, bare), seconds, question.seed)


def _shape(question: Question, rate: float) -> LoadShape:
    if not 0 < rate <= 1e9:
        raise UsageError(f"--rate {rate:g}: must be more than 0, and at most 10^9")
    if not 1 <= question.distinct <= 100_000:
        raise UsageError(f"--distinct {question.distinct}: must be from 1 to 100,000")
    peak = question.peak
    if (question.shape == "flat") != (peak is None):
        raise UsageError("--peak belongs to --shape step and spike, which need it")
    keys = one_key()
    if question.mix == "zipf":
        keys = zipf(question.distinct)
    elif question.mix == "hotspot":
        keys = hotspot(question.distinct, *_shares(question.hotspot))
    name = f"{question.shape} {rate:,.0f} events/s, {question.mix}"
    if peak is None:
        return fixed(name, flat(rate), keys)
    if not 0 < peak <= 1e9:
        raise UsageError(f"--peak {peak:g}: must be more than 0, and at most 10^9")
    made = step if question.shape == "step" else spike
    return fixed(f"{name}, then {peak:,.0f}", made(rate, peak, question.at), keys)


def _shares(text: str) -> tuple[float, float]:
    try:
        of_keys, of_load = map(float, text.split("/"))
    except ValueError:
        raise UsageError(f"--hotspot {text!r}: give two shares, such as 0.2/0.8") from None
    return of_keys, of_load
