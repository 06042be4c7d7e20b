"""Where marks of windows, their tables, their totals and their archives are seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import tallyroll.lifecycle.cleanup
from tallyroll.archive.layout import progress_dir
from tallyroll.archive.scan_export import export
from tallyroll.errors import Missing, StateConflict
from tallyroll.model.periods import periods_at
from tallyroll.model.states import Status
from tallyroll.ports.exports import ExportStatus
from tallyroll.ports.store import Verdict
from tallyroll.settings import NATIVE
from tests.simulation.watching import watched

if TYPE_CHECKING:
    from tests.simulation.pipeline import System

Perform = Callable[..., Any]


def watch_windows(system: System, patch: pytest.MonkeyPatch) -> None:
    """Count marks of the catalog, the store, the totals, the bucket and DynamoDB's exports."""
    catalog, archives = _Catalog(system), _Archives(system)
    watched(patch, system.catalog, catalog, "extend", "create", "put_spec", "advance")
    watched(patch, system.catalog, catalog, "move_live", "stragglers", "note_hot")
    watched(patch, system.catalog, _Periods(system), "advance_period")
    system.watch_store(patch)
    watched(patch, system.totals, _Totals(system), "put", "roll")
    watched(patch, system.bucket, archives, "put_once")
    watched(patch, system.exports, archives, "start", "state")
    patch.setattr(tallyroll.lifecycle.cleanup, "export", archives.export)


def watch_store(system: System, patch: pytest.MonkeyPatch) -> None:
    """Count marks of the store."""
    tables = _Tables(system)
    watched(patch, system.world, tables, "note")
    watched(patch, system.store, tables, "commit", "record", "open_gate", "shut_gate")
    watched(patch, system.store, tables, "make_table", "stripes")


class _Catalog:
    """Marks of the calendar, the states and the notes."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._catalog = system.catalog
        self._hit = system.marks.hit

    def extend(self, extend: Perform, *args: Any) -> bool:
        changed = bool(extend(*args))
        self._hit("calendar-extended" if changed else "extended-in-vain")
        lengths = [length for _, length in args[1].grid.lengths[-2:]]
        if changed and any(isinstance(length, str) for length in lengths):
            self._hit("months-extended")
        return changed

    def create(self, create: Perform, window: Any, *rest: Any) -> bool:
        names = [period.name for period in periods_at(window.start)]
        stood = any(one.complete for name in names for one in self._catalog.periods(name, name))
        try:
            new = bool(create(window, *rest))
        except StateConflict:
            self._hit("created-by-an-old-calendar")
            raise
        if not new:
            self._hit("created-twice")
        elif window.accept_from is not None:
            self._hit("past-opened")
        if new and stood:
            self._hit("rolled-period-reopened")
        return new

    def put_spec(self, put: Perform, spec: Any, wishes: int | None = None) -> Any:
        stands = put(spec, wishes)
        if stands != spec:
            self._hit("spec-stands")
        if stands.hot:
            self._hit("hot-shards")
        return stands

    def move_live(self, move: Perform, read: Any, moved: Any) -> None:
        self._hit("pointer-moved" if self._catalog.live() == read else "pointer-too-late")
        move(read, moved)

    def stragglers(self, ask: Perform, *args: Any) -> Any:
        notes = ask(*args)
        newest = max(notes.values(), default=0)
        if newest > self._system.world.now - 2 * self._system.settings.visibility_ms:
            self._hit("straggler-held")
        return notes

    def note_hot(self, note: Perform, *args: Any) -> None:
        note(*args)
        self._hit("hot-noted")

    def advance(self, advance: Perform, window: Any) -> Any:
        before = self._catalog.window(window.id)
        try:
            after = advance(window)
        except StateConflict:
            self._hit("state-conflict")
            raise
        is_new = before is not None and before.status is not after.status
        match after.status:
            case Status.CLOSING if is_new:
                self._hit("closed-by-age" if len(self._system.queue) else "closed-when-empty")
            case Status.SEALED if is_new:
                self._sealed(before, after)
            case Status.EXPORTING:
                self._attempt(before, after)
            case Status.PROVEN if is_new and after.attempt.number > 1:
                self._hit("proven-after-failure")
        return after

    def _sealed(self, before: Any, after: Any) -> None:
        if before.sealing:
            self._hit("sealed-in-slices")
        if not after.events:
            self._hit("sealed-empty")

    def _attempt(self, before: Any, after: Any) -> None:
        if after.attempt.problem and not before.attempt.problem:
            self._hit("attempt-given-up")
            if after.attempt.exporter == NATIVE:
                self._hit("native-given-up")
        if before.attempt.id and after.attempt.id != before.attempt.id:
            self._hit("attempt-anew")
            if after.attempt.segments > before.attempt.segments > 0:
                self._hit("segments-doubled")
            if after.attempt.exporter != before.attempt.exporter:
                self._hit("exporter-changed")
        elif before.attempt.busy_until and after.attempt.busy_until > before.attempt.busy_until:
            self._hit("attempt-taken-over")


class _Periods:
    """Marks of days and months."""

    def __init__(self, system: System) -> None:
        self._world = system.world
        self._hit = system.marks.hit
        self._epochs: dict[str, int] = {}
        self._runs: dict[str, str] = {}

    def advance_period(self, advance: Perform, state: Any, *, settled: bool = False) -> Any:
        run = self._world.current.group.name
        try:
            changed = advance(state, settled=settled)
        except StateConflict:
            self._hit("period-conflict")
            raise
        if self._runs.get(state.name, run) != run:
            self._hit("roll-up-resumed")
        self._runs[state.name] = run
        if changed.complete:
            self._hit("rolled-up-day")
            if self._epochs.setdefault(state.name, state.epoch) != state.epoch:
                self._hit("rolled-up-again")
        elif settled:
            self._hit("nothing-to-roll-up")
        if settled:
            del self._runs[state.name]
        return changed


class _Tables:
    """Marks of window tables, and of what is committed to them late."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._store = system.store
        self._hit = system.marks.hit
        self._late: dict[str, None] = {}

    def note(self, note: Perform, text: str) -> None:
        note(text)
        if text.endswith(" timed out"):
            self._late[text.partition(" ")[0]] = None

    def commit(self, commit: Perform, *args: Any) -> Any:
        outcome = commit(*args)
        group, verdict = self._system.world.current.group.name, outcome.verdict
        if group == "late" and verdict in (Verdict.COMMITTED, Verdict.GATE_SHUT):
            committed = verdict is Verdict.COMMITTED
            self._hit("belated-committed" if committed else "belated-shut-out")
        if group in self._late and verdict is Verdict.COMMITTED:
            self._hit("zombie-committed")
        return outcome

    def record(self, record: Perform, *args: Any) -> Any:
        try:
            return record(*args)
        except Missing:
            self._hit("looked-up-nowhere")
            raise

    def open_gate(self, open_gate: Perform, spec: Any, number: int) -> None:
        gate = self._gate(spec, number)
        try:
            open_gate(spec, number)
        except StateConflict:
            self._hit("gate-not-opened")
            raise
        if gate:
            self._hit("gate-opened-twice")

    def shut_gate(self, shut_gate: Perform, spec: Any, number: int) -> None:
        gate = self._gate(spec, number)
        shut_gate(spec, number)
        if gate and not gate["open"]["BOOL"]:
            self._hit("gate-shut-twice")

    def make_table(self, make_table: Perform, table: str, *rest: Any) -> None:
        window = self._system.catalog.window(table.rpartition("-")[2])
        if self._store.describe_table(table):
            self._hit("table-made-twice")
        elif window and window.status is Status.DROPPED:
            self._hit("table-made-again")
        make_table(table, *rest)

    def stripes(self, stripes: Perform, spec: Any, number: int, after: str, limit: int) -> Any:
        by_roller = self._system.world.current.group.name.startswith("roller")
        if after and number == 1 and by_roller:
            self._hit("seal-resumed")
        return stripes(spec, number, after, limit)

    def _gate(self, spec: Any, number: int) -> Any:
        if not self._store.describe_table(spec.table):
            return None
        items = self._store.items(spec.table)
        return next((items[pk, sk] for pk, sk in items if pk == f"~g.{number}"), None)


class _Totals:
    """Marks of totals, and of the sums of days and months, that are put a second time."""

    def __init__(self, system: System) -> None:
        self._totals = system.totals
        self._hit = system.marks.hit

    def put(self, put: Perform, rows: Any) -> None:
        standing = {(total.window, total.key): None for total in self._totals.listed()}
        put(rows)
        if any((row.window, row.key) in standing for row in rows):
            self._hit("total-put-again")

    def roll(self, roll: Perform, rows: Any) -> None:
        standing = {(row.period, row.key, row.epoch): None for row in self._totals.rolled()}
        roll(rows)
        if any((row.period, row.key, row.epoch) in standing for row in rows):
            self._hit("roll-up-repeated")


class _Archives:
    """Marks of exports and of the bucket."""

    def __init__(self, system: System) -> None:
        self._bucket = system.bucket
        self._exports = system.exports
        self._hit = system.marks.hit

    def put_once(self, put_once: Perform, key: str, body: bytes) -> bytes:
        stands: bytes = put_once(key, body)
        if stands != body:
            self._hit("note-stands")
        return stands

    def start(self, start: Perform, *args: Any) -> Any:
        known = args[-1] in self._exports.exports
        arn = start(*args)
        if known:
            self._hit("native-asked-twice")
        return arn

    def state(self, state: Perform, arn: str) -> Any:
        found = state(arn)
        if found.status is ExportStatus.RUNNING:
            self._hit("native-awaited")
        if found.status is ExportStatus.FAILED:
            self._hit("native-failed")
        return found

    def export(self, window: Any, *rest: Any) -> Any:
        if any(True for _ in self._bucket.list(progress_dir(window.attempt.archive))):
            self._hit("export-resumed")
        return export(window, *rest)
