"""Hours of a quiet pipeline with the settings of a real deployment, and one outage in them.

The alarms' periods are minutes to hours, too long for the short simulations: here few events come,
nothing else fails, and the alarms are judged on what the functions published.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import ClassVar

from tallyroll.cdk.alarm_rules import rules_for
from tallyroll.reasons import Reason
from tallyroll.settings import NATIVE, SCAN, Settings
from tests.simulation.alarms import Raised, raised
from tests.simulation.gauges import gauge_queues
from tests.simulation.handlers import functions_of
from tests.simulation.identity_rules import DAY_SECONDS
from tests.simulation.lasting_faults import LastingFault
from tests.simulation.paced import Leases
from tests.simulation.pipeline import System
from tests.simulation.plans import START_MS, Plan
from tests.simulation.producers import KEYS, Letter
from tests.simulation.readers import Reader
from tests.simulation.sent import Sent
from tests.simulation.sqs_rules import AS_ON_AWS, Rules
from tests.simulation.weather import CALM
from tests.simulation.world import Group, Violation

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
RETENTION_SECONDS = 864_000  # the event queue's
HEALTHY_MS = 110 * MINUTE_MS  # first windows are dropped after so long
OUTAGE_MS = 70 * MINUTE_MS
RECOVERY_MS = 90 * MINUTE_MS
SEND_MS_MAX = 60_000
BAD = ("", Sent(bad=Reason.EMPTY_BODY))
QUIET = Plan(
    with_fuse=False,
    poison=False,
    busyness=1,
    lateness=0.2,
    delayed=0,
    outages=False,
    blackout="",
    readers=1,
    history=(),
    exporter=SCAN,
    deploys=False,
    gentle=False,
)


@dataclass(frozen=True, slots=True)
class Outage:
    """What fails for over an hour, and the alarms that must tell of it."""

    name: str
    lasting_faults: tuple[LastingFault, ...]
    alarms: frozenset[str]
    lasts_ms: int = OUTAGE_MS
    exporter: str = SCAN
    bad: float = 0.0
    """The share of messages, from its beginning on, that can never count."""
    write_rate: int = 0
    flood: float = 1.0
    """How many times as many messages are sent while it lasts."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the alarms told: while all was well, of an outage, and a while after it."""

    before: list[Raised]
    during: list[Raised]
    after: list[Raised]
    violation: str | None


class Quiet(System):
    """A pipeline with windows of half an hour, one source of events, few of these, and a reader."""

    start: ClassVar[int] = START_MS - 123 * MINUTE_MS  # so that a day ends within an outage
    base: ClassVar[Settings] = Settings(
        name="quiet",
        window_seconds=1_800,
        accept_for_ms=600_000,
        retention_ms=600_000,
        shards=3,
        shards_max=3,
        stripes_min=8,
        buckets=2,
        gates=2,
        export_segments=2,
        transactions_at_once=3,
    )

    def __init__(self, seed: int, outage: Outage | None) -> None:
        super().__init__(seed)
        self.plan = replace(QUIET, exporter=outage.exporter if outage else SCAN)
        self.weather = CALM
        rate = outage.write_rate if outage else 0
        self.leases = Leases(self.world, rate)
        self.deployed(replace(self.base, exporter=self.plan.exporter, write_rate=rate))
        self.oversleep_ms = 0
        self._bad = outage.bad if outage else 0.0
        self._flood = outage.flood if outage else 1.0
        self.oracle = type(self.oracle)(
            self.world, self.base.window_seconds * 1000, DAY_SECONDS, with_fuse=False
        )
        self.oracle.deployed.append(self.settings)
        self.began = self.world.now + HEALTHY_MS
        self.ended = self.began + (outage.lasts_ms if outage else 0)
        self.lasting_faults.all.clear()
        for fault in outage.lasting_faults if outage else ():
            self.lasting_faults.all.append(replace(fault, since=self.began, until=self.ended))

    def queue_rules(self) -> Rules:
        """As many messages may be in flight as on AWS."""
        return AS_ON_AWS

    def run(self) -> None:
        """Run through health, outage and recovery, then check that each event counts once."""
        world, life = self.world, Group("life", mortal=False)
        reader = Reader(self)
        for name, body in (
            ("producer", self._send_few),
            ("source", self._poll),
            ("reader", lambda: self._read_often(reader)),
            ("gauges", self._gauge),
            ("roll", lambda: self._schedule("roller", self.base.roller_period_ms)),
            ("clean", lambda: self._schedule("cleanup", 5 * MINUTE_MS)),
        ):
            world.spawn(name, body, life)
        world.run(self.ended + RECOVERY_MS)
        self.producing = self.open = False
        world.run(world.now + 10 * MINUTE_MS)
        self.oracle.final(self.store, self.catalog, self.totals, self.bucket)

    def _send_few(self) -> None:
        chance, number = self.world.random.random, 0
        while self._goes_on(chance() * SEND_MS_MAX / self._times_as_many()):
            if self.is_away("producer"):
                continue
            number += 1
            key, ts = KEYS[int(chance() * len(KEYS))], self.world.now - int(chance() * 60_000)
            event = {"id": f"event-{number}", "key": key, "ts": ts}
            letter = Letter(json.dumps(event), Sent(key, f"event-{number}", ts))
            if self.world.now >= self.began and chance() < self._bad:
                letter = Letter(*BAD)
            self._send(letter)

    def _times_as_many(self) -> float:
        return self._flood if self.began <= self.world.now < self.ended else 1.0

    def _read_often(self, reader: Reader) -> None:
        while self.producing:
            self.world.pause(2 * MINUTE_MS)
            if not self.is_away("reader"):
                reader.read("hot", None, None, consistent=True)

    def _gauge(self) -> None:
        while self.open:
            gauge_queues(self)
            self.world.pause(MINUTE_MS)


def watch(seed: int, outage: Outage | None) -> Told:
    """Run one seed with an outage, or without one, and tell what the alarms told."""
    system = Quiet(seed, outage)
    violation = None
    with functions_of(system):
        try:
            system.run()
        except Violation as found:
            violation = str(found)
        finally:
            system.world.end()
    rules = rules_for(system.base, RETENTION_SECONDS)
    start, last = system.world.start, system.ended + RECOVERY_MS
    spells = raised(rules, system.gauges, start, last)
    return Told(
        before=[one for one in spells if one.since < system.began],
        during=[one for one in spells if system.began <= one.since <= system.ended],
        after=[one for one in spells if one.until is None],
        violation=violation,
    )


def _denied(port: str, *verbs: str, to: str = "") -> LastingFault:
    """Calls of a port that are denied, to all functions or to one."""
    return LastingFault(f"{port} denied", "denied", (to,) if to else (), port, verbs)


def _struck(how: str, *functions: str) -> LastingFault:
    """Functions, or the event source, that are struck as a whole."""
    return LastingFault(f"{functions[0]} {how}", how, functions)


def _outage(
    name: str,
    fault: LastingFault,
    *alarms: str,
    hours: float = OUTAGE_MS / HOUR_MS,
    exporter: str = SCAN,
    bad: float = 0.0,
) -> Outage:
    return Outage(name, (fault,), frozenset(alarms), int(hours * HOUR_MS), exporter, bad)


NOTES = ("note_straggler", "note_received", "clear_received", "beat")
SOURCE_AWAY = ("mapping-disabled", "falling-behind", "writer-silent")
# Twelve hours in which nobody sends or reads are no outage.
IDLE = Outage("idle", (_struck("away", "producer", "reader"),), frozenset(), 12 * HOUR_MS)
UNREAD = Outage(
    "writer held, unread",
    (_struck("held", "writer"), _struck("away", "reader")),
    frozenset({"function-throttles"}),
)
# The alarms of each are those that are sure to tell; others may, too.
OUTAGES = (
    _outage("writer dies", _struck("dies", "writer"), "writer-errors", "writer-silent"),
    _outage("writer held", _struck("held", "writer"), "function-throttles", "writer-silent"),
    UNREAD,
    _outage("source away", _struck("away", "source"), *SOURCE_AWAY),
    _outage("roller dies", _struck("dies", "roller"), "roller-errors", "next-window-missing"),
    _outage("roller held", _struck("held", "roller"), "function-throttles", "next-window-missing"),
    _outage("roller away", _struck("away", "roller"), "next-window-missing"),
    _outage("cleanup dies", _struck("dies", "cleanup"), "cleanup-errors", "cleanup-silent"),
    _outage("cleanup held", _struck("held", "cleanup"), "function-throttles", "cleanup-silent"),
    _outage("cleanup away", _struck("away", "cleanup"), "cleanup-silent"),
    _outage("aggregator dies", _struck("dies", "aggregator"), "aggregator-errors"),
    _outage("aggregator held", _struck("held", "aggregator"), "function-throttles"),
    _outage("catalog, writer", _denied("catalog", to="writer"), "handed-back", "writer-silent"),
    _outage("writers' notes", _denied("catalog", *NOTES, to="writer"), "notes-failing"),
    _outage("catalog, roller", _denied("catalog", to="roller"), "roller-errors"),
    _outage("catalog, cleanup", _denied("catalog", to="cleanup"), "cleanup-errors"),
    _outage("catalog, reads", _denied("catalog", to="aggregator"), "reads-failing"),
    _outage("catalog", _denied("catalog"), "roller-errors", "reads-failing", "cleanup-errors"),
    _outage("totals, roller", _denied("totals", to="roller"), "steps-failing", "seal-stuck"),
    _outage("totals, reads", _denied("totals", to="aggregator"), "reads-failing"),
    _outage("tables, reads", _denied("store", to="aggregator"), "reads-failing"),
    _outage("tallies, reads", _denied("store", "tallies", to="aggregator"), "reads-incomplete"),
    _outage(
        "commits throttled",
        LastingFault("commits throttled", "throttled", ("writer",), "store", ("commit",)),
        "store-throttles",
    ),
    Outage(
        "flood", (), frozenset({"rate-outrun"}), write_rate=1, flood=10.0, lasts_ms=30 * MINUTE_MS
    ),
    _outage("commits", _denied("store", "commit"), "handed-back", "writer-silent"),
    _outage("dead letters", _denied("queue", "reject"), "handed-back", bad=0.1),
    _outage("queue's metrics", _denied("queue", "backlog"), "steps-failing"),
    _outage(
        "tables not made",
        _denied("store", "make_table"),
        "steps-failing",
        "next-window-missing",
        hours=2,
    ),
    _outage("tables not described", _denied("store", "describe_table"), "steps-failing"),
    _outage("gates not opened", _denied("store", "open_gate"), "next-window-missing"),
    _outage("gates not shut", _denied("store", "shut_gate"), "steps-failing", "seal-stuck"),
    _outage("tallies not listed", _denied("store", "stripes"), "steps-failing", "seal-stuck"),
    _outage("tables not scanned", _denied("store", "scan"), "export-stuck", hours=3),
    _outage("bucket", _denied("bucket"), "steps-failing"),
    _outage("proofs not written", _denied("bucket", "put"), "steps-failing"),
    _outage("tables not tagged", _denied("store", "tag_table"), "steps-failing"),
    _outage("tables not dropped", _denied("store", "drop_table"), "steps-failing"),
    _outage("recovery not set", _denied("store", "recover_table"), "steps-failing"),
    _outage("roll-ups not put", _denied("totals", "roll"), "steps-failing"),
    _outage("native exports", _denied("exports"), "steps-failing", exporter=NATIVE),
)
