"""The pipeline in a simulated world, with Parquet made of the archives of dropped windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest

from tallyroll.adapters.dynamodb.items import CODEC
from tallyroll.archive.corrections import copy_corrections
from tallyroll.archive.inventory import Archive, best, find
from tallyroll.archive.parquet import files
from tallyroll.archive.parquet.compaction import Compaction
from tallyroll.archive.parquet.files import ParquetWriter
from tallyroll.archive.parquet.source import ParquetItems
from tallyroll.archive.verification import ArchiveReading
from tallyroll.errors import ProofMismatch, Refused, StoreError
from tallyroll.lifecycle import compactor, later_corrections
from tallyroll.model.periods import DAY_MS
from tallyroll.model.states import Status, Window
from tallyroll.ports.bucket import ticket_of
from tallyroll.settings.common import BOTH, PARQUET
from tests.simulation import oracle, pipeline, retract_command, sandboxes
from tests.simulation.columns.book import archive_of
from tests.simulation.columns.connected import cursor_of
from tests.simulation.columns.marking import ALL_MARKS
from tests.simulation.columns.watched import ColumnBucket
from tests.simulation.columns.wires import ColumnWire
from tests.simulation.heat_rules import HeatPlan
from tests.simulation.identity_rules import IdentityPlan
from tests.simulation.lasting_faults import LastingFault
from tests.simulation.logs.system import LogOperator, LogSystem, log_keys
from tests.simulation.marks import Marks
from tests.simulation.pipeline import Result, simulate
from tests.simulation.plans import START_MS, Plan, plan_of
from tests.simulation.retract_command import OPERATORS
from tests.simulation.retraction_rules import ON, RetractionPlan
from tests.simulation.sandboxes import Invocation
from tests.simulation.weather import CALM, Risk
from tests.simulation.wires import TotalsWire
from tests.simulation.world import UNBOUND, Bounds, Group, SimEffects

BUSYNESS = 0.3  # times that of other seeds
RETRACTING = 0.7  # of the seeds
PERIOD_MS, OVERLAPPING = 20_000, 0.3
FAULTS_MS, STORM_MS = 240_000, 150_000  # the storm comes once windows are dropped
SLOW, SLOW_MS_MAX = 0.5, 12_000  # of the seeds
SLOW_VERBS = ("stream", "put", "get", "list", "sizes", "let_pass")
RESERVE_MS, CLOCK_EVERY_ITEMS = 8_000, 3  # so that deadlines strike amid an archive
KILLED_MAX = 2
DISK_FULL = 1.5  # times the chance that an export comes out wrong
RULE_MS, RULES = 10_000, (0.0, 0.2, 1.0, 1.0)  # how likely what has the tag is deleted then
READ_MS = 20_000
RUNS_MAX = 3  # in calm weather, for a window that was dropped
POLLS_MAX = 20  # for windows that are not dropped yet
LATE_MS_MAX = 20_000
PARKED = "parked/"
REASONS = {
    "runs were killed at it": "column-killed",
    "it takes longer than a run may": "column-too-long",
    "DuckDB: no space left": "column-disk-full",
}


class ColumnOperator(LogOperator):
    """Deploys one layout or both."""

    def _changes(self) -> dict[str, Any]:
        changes = super()._changes()
        accept_for_ms = changes["accept_for_ms"] // 10  # so that windows are dropped amid faults
        archive = BOTH if self._chance() < 0.2 else PARQUET
        return {**changes, "accept_for_ms": accept_for_ms, "archive": archive}


class ColumnSystem(LogSystem):
    """A system with a compactor, and a rule of its bucket."""

    base = replace(LogSystem.base, archive=PARQUET, accept_for_ms=6_000)
    bucket: ColumnBucket

    def __init__(self, seed: int, bounds: Bounds = UNBOUND) -> None:
        super().__init__(seed, bounds)
        self.marks = Marks(ALL_MARKS)
        self.rule = Random(f"{seed} rule").choice(RULES)
        if (slow := Random(f"{seed} slow bucket")).random() < SLOW:
            self.weather = replace(
                self.weather,
                slow_verb=slow.choice(SLOW_VERBS),
                slow_ms=int(SLOW_MS_MAX * slow.random()),
                zombie=1.0,
            )
        self.storm_until = 0
        self.runs = self.troubled = self.full = 0
        self._polls = 0
        self._begun: dict[str, int] = {}
        self._by_hand: dict[str, None] = {}
        self._ended: list[Window] = []

    def ill(self, seed: int) -> Sequence[LastingFault]:
        """One table is never exported or deleted, in some seeds."""
        return [each for each in super().ill(seed) if each.name in ("deletion", "export")]

    def run(self) -> None:
        """The same, and then check what is read of all windows that were dropped."""
        super().run()
        book = self.bucket.book
        book.check_copies()
        book.check_queries(self._ended)

    def watch_store(self, patch: pytest.MonkeyPatch) -> None:
        super().watch_store(patch)
        # Other passes would copy what the compactor lost.
        patch.setattr(later_corrections, "EVERY_MS", DAY_MS)
        book, check = self.bucket.book, self.oracle.retractions.check_copy
        patch.setattr(oracle, "last_items", book.last_items)
        patch.setattr(
            self.oracle.retractions,
            "check_copy",
            lambda window, _: check(window, self.bucket.whole()),
        )
        finish = ParquetWriter.finish

        def on_disk(writer: ParquetWriter) -> Any:
            if self.world.roll(Risk(DISK_FULL * self.world.weather.mangled, "mangled")):
                self.full += 1
                raise Refused("DuckDB: no space left on device", "DuckDB")
            return finish(writer)

        patch.setattr(ParquetWriter, "finish", on_disk)

    def _spawn_others(self, life: Group) -> None:
        super()._spawn_others(life)
        self.world.spawn("compact", self._compact, life)
        self.world.spawn("rule", self._expire, life)
        self.world.spawn("columns", self._read, life)

    def _compact(self) -> None:
        """Run the compactor every period, and now and then twice at once; in calm weather not
        before the storm, so that it has much to do then.
        """
        world, life = self.world, self.world.current.group
        while self.open:
            held = world.weather is CALM and not self.storm_until
            for _ in range(0 if held else 1 + (world.random.random() < OVERLAPPING)):
                world.spawn("compactor-timer", partial(self._invoke, "compactor", {}), life)
            world.pause(PERIOD_MS)

    def _invoke(self, name: str, event: Mapping[str, Any]) -> Invocation:
        calm = self.world.weather is CALM
        invocation = super()._invoke(name, event)
        if name == "compactor":
            died = invocation.answer is None
            self.troubled += died or bool(invocation.answer["problems"])
            self.runs += calm and not died
            if died:
                self.marks.hit("column-run-dies")
        return invocation

    def _expire(self) -> None:
        """The bucket's rule: what has the tag is deleted some time after, in any order."""
        while self.open:
            self.world.pause(RULE_MS)
            for key in sorted(self.bucket.passing):
                if self.world.random.random() < self.rule:
                    self.bucket.expire(key)

    # --- how it ends

    def _drained(self, last: int) -> bool:
        if not super()._drained(last):
            return False
        return not self.open or self._is_settled()

    @property
    def is_asking(self) -> bool:
        """Also amid the storm, of windows that are dropped."""
        return super().is_asking or self._is_storming

    @property
    def _is_storming(self) -> bool:
        return self.world.now < self.storm_until

    def _is_settled(self) -> bool:
        """Whether every dropped window has what is asked for; fails if that takes too long."""
        windows = self.catalog.windows(0, 10**15)
        self._ended = [each for each in windows if each.status is Status.DROPPED]
        if not self.storm_until:
            first = [each for each in windows if each.start < START_MS + FAULTS_MS]
            left = [each for each in first if each not in self._ended]
            self._polls += 1
            if not left or self._polls > POLLS_MAX:
                self._break_loose()
            return False
        if self._is_storming:
            return False
        left = [window for window in self._ended if not self._is_served(window)]
        return not left

    def _break_loose(self) -> None:
        """Let the weather be as it was, now that there are windows to be made into Parquet."""
        world, life = self.world, Group("storm", mortal=False)
        world.note("a storm")
        world.weather, self.storm_until = self.weather, world.now + STORM_MS
        for _ in range(OPERATORS if self.plan.retractions.retracts else 0):
            world.spawn("retract", self.retract_commands.live, life)
        world.spawn("late", self._copy_late, life)
        world.spawn("storm", self._calm_down, life)

    def _calm_down(self) -> None:
        world = self.world
        world.pause(STORM_MS)
        world.note("calm again")
        world.weather = CALM
        world.rouse()

    def _copy_late(self) -> None:
        """A cleanup that slept copies corrections of windows that were dropped meanwhile, and may
        die before it puts the ticket.
        """
        world = self.world
        while self._is_storming:
            world.pause(world.random.random() * LATE_MS_MAX)
            corrected = {window for window, *_ in self.oracle.retractions.corrections}
            if some := [each for each in self._ended if each.id in corrected]:
                window = some[int(world.random.random() * len(some))]
                group = Group("cleanup that slept")
                world.spawn(group.name, partial(self._copy_corrections, window), group)

    def _copy_corrections(self, window: Window) -> None:
        ports: Any = TotalsWire(self.world, self.totals), ColumnWire(self.world, self.bucket)
        with suppress(StoreError):
            copy_corrections(window, *ports)
            ports[1].put(ticket_of(self.base.name, window.id), b"")

    def _is_served(self, window: Window) -> bool:
        """Whether a window has all that is asked for, and no ticket."""
        prefix = ticket_of(self.base.name, "")
        mine = [each for each in self.bucket.list(prefix) if each.endswith(f"/{window.id}")]
        if not mine:
            self._begun.pop(window.id, None)
            self._check_served(window)
        elif self.runs > self._begun.setdefault(window.id, self.runs) + RUNS_MAX:
            self._unserved(window, mine)
        return not mine

    def _check_served(self, window: Window) -> None:
        archive = self.bucket.book.chosen(window)
        if archive is None or not archive.parquet:
            self.world.fail(f"parquet: {window.id} is dropped without Parquet, and has no ticket")
        elif BOTH not in {each.archive for each in self.oracle.deployed}:
            source = window.attempt.archive
            stays = [
                key for key in self.bucket.book.parts_of(source) if key not in self.bucket.passing
            ]
            if stays or not archive.alone:
                self.world.fail(f"parquet: {window.id} has Parquet, and {stays} stay")

    def _unserved(self, window: Window, tickets: list[str]) -> None:
        """A window that has still a ticket: an operator takes on one that is parked for a reason;
        all else is wrong.
        """
        parked = [each for each in tickets if PARKED in each]
        why = self.bucket.get(parked[0]).decode() if parked else "it has a ticket"
        mark = next((mark for reason, mark in REASONS.items() if reason in why), "")
        true = self.full if mark == "column-disk-full" else self.troubled
        if window.id in self._by_hand or not (mark and true):
            self.world.fail(f"parquet: {window.id} gets no Parquet: {why}")
            return
        self.marks.hit(mark)
        self._by_hand[window.id] = None
        self._begun[window.id] = self.runs
        hand = Group("by hand", mortal=False)
        self.world.spawn("compact", partial(self._compact_by_hand, window), hand)

    def _compact_by_hand(self, window: Window) -> None:
        """What `tallyroll archive compact` does."""
        bucket: Any = ColumnWire(self.world, self.bucket)
        effects = SimEffects(self.world)
        found = find(bucket, effects, window.attempt.archive)
        source = next(each for each in found if not each.parquet)
        Compaction(bucket, CODEC, effects, lambda reading, *_: iter(reading)).compact(source)
        self.marks.hit("column-by-hand")

    # --- who reads meanwhile

    def _read(self) -> None:
        """Read a dropped window now and then, as commands do."""
        world = self.world
        while self.open:
            world.pause(READ_MS)
            dropped = [
                each for each in self.catalog.windows(0, world.now) if each.status is Status.DROPPED
            ]
            if dropped:
                self._read_one(dropped[int(world.random.random() * len(dropped))])

    def _read_one(self, window: Window) -> None:
        bucket: Any = ColumnWire(self.world, self.bucket)
        prefix = window.attempt.archive
        archive: Archive | None = None
        try:
            effects = SimEffects(self.world)
            found = [each for each in best(find(bucket, effects, prefix)) if each.proven]
            archive = max(found, key=lambda each: each.parquet)
            source = ParquetItems(bucket, archive.prefix, CODEC) if archive.parquet else None
            reading = ArchiveReading(bucket, archive, CODEC, None, source).verified()
        except (StoreError, ProofMismatch):
            self.marks.hit("column-read-in-vain")
            return
        there = {key: sums for key in reading.counted.records if (sums := reading.counted.net(key))}
        if not reading.findings.count and there == self.bucket.book.sealed(window):
            self.marks.hit("column-read")
        elif archive.parquet or not reading.findings.count or not self._expires(prefix):
            self.world.fail(
                f"parquet: {archive.prefix} is read as {there}: {reading.findings.first}"
            )
        else:
            self.marks.hit("column-read-in-vain")

    def _expires(self, source: str) -> bool:
        return any(archive_of(key) == source for key in self.bucket.expired)


def _planned(seed: int) -> Plan:
    chance = Random(f"{seed} columns")
    rule = RetractionPlan(chance.choice(ON)) if chance.random() < RETRACTING else RetractionPlan()
    plan = replace(plan_of(seed), heat=HeatPlan(), months=False, identities=IdentityPlan())
    return replace(
        plan,
        busyness=BUSYNESS * plan.busyness,
        readers=min(1, plan.readers),
        gentle=False,
        redrives=False,
        ranges=False,
        write_rate=0,
        retractions=rule,
    )


def simulate_columns(seed: int, bounds: Bounds = UNBOUND, /, **tweaks: Any) -> Result:
    """Run one seed in which Parquet is made, as `simulate` does without."""
    with pytest.MonkeyPatch.context() as patch:
        log_keys(patch)
        patch.setattr(pipeline, "Operator", ColumnOperator)
        patch.setattr(pipeline, "System", ColumnSystem)
        patch.setattr(pipeline, "SimBucket", ColumnBucket)
        patch.setattr(pipeline, "plan_of", _planned)
        patch.setattr(pipeline, "FAULTS_MS", FAULTS_MS)
        patch.setattr(pipeline, "deaths", lambda _: ())  # in a world that is gentle otherwise
        patch.setattr(sandboxes, "BucketWire", ColumnWire)
        patch.setattr(retract_command, "BucketWire", ColumnWire)
        patch.setattr(files, "connected", cursor_of)
        patch.setattr(compactor, "RESERVE_MS", RESERVE_MS)
        patch.setattr(compactor, "KILLED_MAX", KILLED_MAX)
        patch.setattr(compactor, "CLOCK_EVERY_ITEMS", CLOCK_EVERY_ITEMS)
        return simulate(seed, bounds, **tweaks)
