"""What happens in a simulation besides faults: who takes part, who fails for long, and when."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from tallyroll.model.formats.payloads import PayloadLayout
from tallyroll.settings import NATIVE, SCAN, Settings
from tests.simulation.heat_rules import HeatPlan, heat_plan
from tests.simulation.identity_rules import IdentityPlan, identity_plan
from tests.simulation.retraction_rules import RetractionPlan, retraction_plan
from tests.simulation.weather import CALM, Weather

START_MS = 1_796_083_080_000  # 2026-11-30T23:58:00Z: a day and a month end soon
WINDOW_MS = 60_000
FAULTS_MS = 480_000  # then the weather is calm, and nobody sends any more
SETTINGS = Settings(
    name="simulated",
    window_seconds=WINDOW_MS // 1000,
    shards=3,
    shards_max=12,
    stripes_min=8,
    buckets=2,
    gates=2,
    accept_for_ms=60_000,
    skew_ms=5_000,
    roller_period_ms=10_000,
    retention_ms=20_000,
    read_archives=True,
    visibility_ms=20_000,
    queue_retention_ms=7_200_000,  # in place of ten days: longer than any run may last
    drain_period_ms=10_000,
    drain_margin_ms=5_000,
    settle_ms=4_000,
    export_lease_ms=90_000,
    export_segments=2,
    transactions_at_once=3,
    cache_calendar_ms=20_000,
)
MONTHS = 0.1  # of seeds
RANGES = 0.3  # of seeds
PAST_WINDOWS = 12  # so far before genesis the operator may open windows
SETTLE_MS_MIN = SETTINGS.settle_ms  # of all deployments
OVERSLEEP_MS_MAX = 500_000
SERVICES = ("source", "roller", "cleanup")


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of one seed; each part is absent from some seeds.

    `lateness` and `delayed` are chances per message. `outages` names what pauses now and then,
    `blackout` what is away for many windows. `history` numbers the windows before genesis (1 is
    the last of them) of which events are sent; the operator opens some. In a `gentle` seed nothing
    else goes wrong, so that no message may be rejected for a window that closed too early.
    `redrives`: the operator does so with dead letters. `write_rate`: that of all deployments.
    `identities` is the rule by which ids count once, `retractions` who may take events back, `heat`
    what is where keys have many shards. With `months` windows are of the calendar, now and then.
    With `ranges` somebody reads ranges by all routes.
    """

    with_fuse: bool
    poison: bool
    busyness: float
    lateness: float
    delayed: float
    outages: bool
    blackout: str
    readers: int
    history: tuple[int, ...]
    exporter: str
    deploys: bool
    gentle: bool
    redrives: bool = False
    write_rate: int = 0
    identities: IdentityPlan = field(default_factory=IdentityPlan)
    retractions: RetractionPlan = field(default_factory=RetractionPlan)
    heat: HeatPlan = field(default_factory=HeatPlan)
    months: bool = False
    ranges: bool = False


def plan_of(seed: int) -> Plan:
    """The plan of a seed. Its parts have chances of their own, so that each can be changed."""
    plan = planned(Random(f"{seed} plan"))
    rule = identity_plan(Random(f"{seed} identity"), FAULTS_MS, gentle=plan.gentle)
    return replace(
        plan,
        identities=rule,
        retractions=retraction_plan(Random(f"{seed} tombstones"), deploys=plan.deploys),
        redrives=redrives(Random(f"{seed} redrive")),
        write_rate=write_rate(Random(f"{seed} rate")),
        heat=heat_plan(Random(f"{seed} raised"), FAULTS_MS, with_fuse=plan.with_fuse),
        months=Random(f"{seed} grid").random() < MONTHS,
        ranges=Random(f"{seed} ranges").random() < RANGES,
    )


def planned(chance: Random) -> Plan:
    """The plan of a seed, but for redrives and the write rate."""
    roll = chance.random
    with_fuse = roll() < 0.25
    plan = Plan(
        with_fuse=with_fuse,
        poison=with_fuse and roll() < 0.5,
        busyness=0.5 + 2 * roll(),
        lateness=0.8 * roll(),
        delayed=0.6 * roll() ** 2,
        outages=roll() < 0.5,
        blackout=SERVICES[int(roll() * len(SERVICES))] if roll() < 0.3 else "",
        readers=max(0, int(roll() * 4) - 1),
        history=_past(chance) if roll() < 0.4 else (),
        exporter=NATIVE if roll() < 0.3 else SCAN,
        deploys=roll() < 0.8,
        gentle=False,
    )
    if roll() >= 0.15:
        return plan
    return replace(
        plan,
        with_fuse=False,
        poison=False,
        outages=False,
        blackout=plan.blackout or SERVICES[int(roll() * 2)],
        deploys=False,
        gentle=True,
    )


def shown_in_part_ms(clock_ms: int) -> int:
    """How long queries may see a transaction in part where clocks are so far off.

    A window is sealed `settle_ms` after its gates were shut, by the clocks of two functions: the
    assumption of docs/exactness.md is that each is wrong by at most half of that.
    """
    return max(0, SETTLE_MS_MIN - 2 * clock_ms)


def redrives(chance: Random) -> bool:
    """Whether the operator redrives dead letters under a seed."""
    return chance.random() < 0.5


def write_rate(chance: Random) -> int:
    """The write rate of all deployments under a seed: none, or one that often holds writers up."""
    return 8 + int(chance.random() * 40) if chance.random() < 0.2 else 0


def oversleep_ms(chance: Random) -> int:
    """How long into the calm those who were stalled sleep on: 0, or so long that windows are
    dropped meanwhile.
    """
    return int(chance.random() * OVERSLEEP_MS_MAX) if chance.random() < 0.3 else 0


def _past(chance: Random) -> tuple[int, ...]:
    first = 1 + int(chance.random() * PAST_WINDOWS)
    return tuple(range(first, first + 1 + int(chance.random() * 3)))


def gentled(weather: Weather) -> Weather:
    """The weather of a gentle seed: only slow, and clocks no further off than a window allows.

    A roller whose clock is ahead of the queue's by at most `drain_margin_ms` closes no window
    before the last message that it accepts was sent. One that is further ahead may: such messages
    are rejected, with their reason. Beside this, a clock decides only where the calendar begins
    (that of the first roller) and since when a past window is open (that of the operator).
    """
    return replace(
        CALM,
        latency_ms=min(64, weather.latency_ms),
        mangled=weather.mangled,
        clock_ms=min(weather.clock_ms, SETTINGS.drain_margin_ms),
    )


def has_large_payloads(seed: int) -> bool:
    """Whether producers send payloads that are stored in chunks under a seed."""
    return Random(f"{seed} large").random() < 0.25


def small_layout(settings: Settings) -> PayloadLayout:
    """The sizes from which payloads are stored otherwise, as small as those of the simulation. They
    change with some deployments.
    """
    return PayloadLayout(300, 400 if settings.shards % 2 else 600, 100)
