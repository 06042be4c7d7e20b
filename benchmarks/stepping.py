"""A key whose load steps up within an hour, without more shards: `python -m benchmarks.stepping`.

The model of partitions plays the writers' own transactions and waits, on one window's table, with a
new placement of the shards for each seed. It depends on no machine, and takes some minutes;
`--jobs 2` takes two processes.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from statistics import median

from benchmarks.limits import SHARDS_BEFORE
from benchmarks.planning import plan_of
from benchmarks.tables import Rows, show
from tallyroll.cli.planning.simulate import rehearsal_of
from tallyroll.limits import PARTITION_WRITE_UNITS, TABLE_UNITS_QUOTA
from tallyroll.planning.partition_model.loads import fixed, one_key, step
from tallyroll.planning.partition_model.study import world_of
from tallyroll.planning.partition_model.table import SPLIT_AFTER_SECONDS, TableRules
from tallyroll.planning.partition_model.transactions import played
from tallyroll.planning.partition_model.world import World

CALM, CALM_SECONDS = 10.0, 5  # events a second, before the step
SECONDS = 180  # from the step on
PLACEMENTS = 20


@dataclass(frozen=True)
class Case:
    """A step to so many events a second on one key with N shards, of a table with so many warm
    units; and the share of throttled attempts and the delay, s, that it must keep.
    """

    peak: float
    shards: int
    warm_units: int
    seconds: int = SECONDS
    throttled_max: float | None = None
    delay_max: float | None = None

    @cached_property
    def world(self) -> World:
        """A pipeline with the writers that are planned for the peak. No unused capacity is kept for
        bursts: the table may be new.
        """
        plan = plan_of(self.peak)
        rules = TableRules(warm_units=self.warm_units, burst_seconds=0)
        bare = World(
            shards=self.shards,
            writes=plan.batch.per_event,
            rules=rules,
            writers=plan.writers.needed,
            gates=plan.gates,
        )
        return world_of(plan.load, bare)


@dataclass(frozen=True)
class Stepped:
    """What a step did: the share of attempts (transactions) that were throttled; the longest that
    an event waited, s; events a second that were counted at the end, over 30 s; the events that
    still waited, and the partitions.
    """

    throttled: float
    delay: float
    rate: float
    left: float
    partitions: float


CASES = (
    Case(5_000, SHARDS_BEFORE, 20_000),
    Case(5_000, 256, 20_000, throttled_max=0.1, delay_max=120),
    Case(15_000, 1_024, 64_000, seconds=45, throttled_max=0.001),
)


def stepped(case: Case, seed: int) -> Stepped:
    """Play a step with one placement of the shards."""
    shape = fixed("step", step(CALM, case.peak, CALM_SECONDS), one_key())
    world = case.world
    course = played(
        shape, world, rehearsal_of(world, seed), seconds=CALM_SECONDS + case.seconds, seed=seed
    )
    last = course.counted[-30:]
    return Stepped(
        course.refused_attempts,
        max(course.ages),
        sum(last) / len(last),
        course.backlog,
        course.partitions[-1],
    )


def medians(found: Sequence[Stepped]) -> Stepped:
    """The median of each number."""
    return Stepped(
        *(median(each) for each in zip(*(vars(one).values() for one in found), strict=True))
    )


def kept(case: Case, found: Stepped) -> bool:
    """Whether a case keeps what it must."""
    throttled = case.throttled_max is None or found.throttled < case.throttled_max
    return throttled and (case.delay_max is None or found.delay < case.delay_max)


def of_cases(found: Sequence[tuple[Case, Sequence[Stepped]]]) -> Rows:
    """The medians, and the worst placement's share of throttled attempts."""
    rows: Rows = [
        (
            "to events/s",
            "N",
            "warm units",
            "throttled attempts",
            "the worst placement",
            "longest delay, s",
            "events/s at the end",
            "events left then",
            "partitions then",
        )
    ]
    for case, placements in found:
        middle = medians(placements)
        rows.append(
            (
                f"{case.peak:,.0f}",
                f"{case.shards:,}",
                f"{case.warm_units:,}",
                f"{middle.throttled:.2%}",
                f"{max(each.throttled for each in placements):.2%}",
                f"{middle.delay:,.1f}",
                f"{middle.rate:,.0f}",
                f"{middle.left:,.0f}",
                f"{middle.partitions:,.0f}",
            )
        )
    return rows


def assumed() -> list[str]:
    """What the model assumes of AWS."""
    lines = (
        f"a partition for each {PARTITION_WRITE_UNITS:,} warm units; each takes as many a second",
        "nothing is kept for bursts, and throttled attempts take no units",
        f"a partition is split after {SPLIT_AFTER_SECONDS:.0f} s of throttling: not from AWS",
        "a split is between two shards, never within one; the table grows by nothing else",
        "no conflicts of transactions; writers as `tallyroll plan` has them",
        "N and warm units are there from the beginning of the window, and not changed in it",
    )
    quotas = (
        f"{case.warm_units:,} warm units are above a table's default quota of"
        f" {TABLE_UNITS_QUOTA:,} write units a second: ask AWS for more before"
        for case in CASES
        if case.warm_units > TABLE_UNITS_QUOTA
    )
    return ["assumed:", *(f"- {line}" for line in lines), *quotas]


def main() -> int:
    """Print the table; the status is 1 if a case does not keep what it must."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--placements", type=int, default=PLACEMENTS)
    parser.add_argument("--seconds", type=int, help="from the step on")
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    cases = [replace(case, seconds=asked.seconds or case.seconds) for case in CASES]
    seeds = range(1, asked.placements + 1)
    with ProcessPoolExecutor(asked.jobs) as pool:
        found = [(case, list(pool.map(partial(stepped, case), seeds))) for case in cases]
    show(
        f"One key steps from {CALM:.0f} events a second; medians of {asked.placements} placements",
        of_cases(found),
        *assumed(),
        left=0,
    )
    return 0 if all(kept(case, medians(placements)) for case, placements in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
