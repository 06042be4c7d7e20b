"""The rare states of a store on single rows, and where they are seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from tallyroll.adapters.rows import statements
from tallyroll.adapters.rows.folding import NOT_FOLDED, listed_marks
from tallyroll.adapters.rows.row_store import RowStore
from tallyroll.errors import StateConflict, Throttled
from tallyroll.model.states import Status
from tallyroll.ports.store import Verdict
from tests.simulation.marks import HEAT_MARKS, MARKS, RETRACTION_MARKS
from tests.simulation.model_calls import MAPPED, mark_of
from tests.simulation.rows.oracle import RowOracle
from tests.simulation.rows.watched import SimRows, window_of
from tests.simulation.watching import watched

if TYPE_CHECKING:
    from tests.simulation.pipeline import System

ROW_MARKS: Mapping[str, str] = {
    "by-record": "a commit settles some of its records, and leaves others open",
    "gate-shut-behind": "a gate is found shut by the look that follows a write or a read",
    "row-contended": "an insert gets no quorum in time, and may be carried out",
    "node-slow": "a statement gets no answer in time, since the database gives none for a while",
    "uncounted": "a row is inserted after all gates were shut",
    "uncounted-listed": "a row that came after all gates were shut is in the list that counts",
    "uncounted-left": "a row comes after the list of its segment won",
    "uncounted-looked-up": "a read meets a row that is not in the list, and leaves it out",
    "unsettled": "a read meets a row of a window of which it is not settled what counts",
    "tallies-unsettled": "a count meets a window whose gates are shut and that is not folded",
    "list-lost": "an attempt's list does not win",
    "list-differs": "an attempt's list does not win, and has other rows than the one that did",
    "fold-resumed": "a folding goes on in the middle",
}
# What only a store with transactions comes to, or DynamoDB.
_OTHERS = (
    *("commit-contended", "commit-bisected", "belated-committed"),
    *("belated-shut-out", "seen-in-part", "old-description", "exporter-changed"),
    *("native-awaited", "native-asked-twice", "native-failed", "native-given-up"),
    *(mark_of(call) for call in MAPPED),  # the model has transactions
    *RETRACTION_MARKS,
    *HEAT_MARKS,
)
ALL_MARKS: Mapping[str, str] = {
    **{name: told for name, told in MARKS.items() if name not in _OTHERS},
    **ROW_MARKS,
}


def watch_rows(system: System, patch: pytest.MonkeyPatch) -> None:
    """Count marks of the rows, and of the store above them."""
    marks = _Rows(system)
    watched(patch, system.world, marks, "note")
    watched(patch, system.store, marks, "insert", "put_seal", "open_gate", "shut_gate")
    watched(patch, system.store, marks, "make_table", "stripes", "row")
    for verb in ("commit", "_looked_after", "_counted", "_check_folded", "fold"):
        patch.setattr(RowStore, verb, _around(getattr(marks, verb), getattr(RowStore, verb)))


def _around(watch: Callable[..., Any], perform: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **named: watch(perform, *args, **named)


class _Rows:
    def __init__(self, system: System) -> None:
        self._system = system
        self._rows: SimRows = system.store  # type: ignore[assignment]
        self._oracle: RowOracle = system.oracle  # type: ignore[assignment]
        self._hit = system.marks.hit
        self._late: dict[str, None] = {}

    def note(self, note: Any, text: str) -> None:
        note(text)
        if text.endswith(" timed out"):
            self._late[text.partition(" ")[0]] = None
        if text.startswith("insert ") and text.endswith(" contended"):
            self._hit("row-contended")
        if text.endswith(" on a slow node"):
            self._hit("node-slow")

    def commit(self, commit: Any, store: Any, spec: Any, *rest: Any) -> Any:
        outcome = commit(store, spec, *rest)
        if outcome.verdict is Verdict.BY_RECORD:
            self._hit("by-record")
        late = self._system.world.current.group.name in self._late
        if late and outcome.verdict is Verdict.COMMITTED:
            self._hit("zombie-committed")
        return outcome

    def _looked_after(self, look: Any, store: Any, spec: Any) -> Any:
        shut = look(store, spec)
        if shut is Verdict.GATE_SHUT:
            self._hit("gate-shut-behind")
        return shut

    def insert(self, insert: Any, table: str, row: Any) -> Any:
        before = len(self._oracle.uncounted)
        there = insert(table, row)
        if len(self._oracle.uncounted) > before:
            self._hit("uncounted")
            if self._rows.seal(table, self._rows.segment(row.key, row.shard)):
                self._hit("uncounted-left")
        return there

    def put_seal(self, put_seal: Any, table: str, segment: int, seal: Any) -> Any:
        before = len(self._oracle.uncounted)
        stands = put_seal(table, segment, seal)
        if len(self._oracle.uncounted) < before:
            self._hit("uncounted-listed")
        if stands.attempt != seal.attempt:
            self._hit("list-lost")
            marks = [listed_marks(self._rows, table, segment, one) for one in (seal, stands)]
            if marks[0] != marks[1]:
                self._hit("list-differs")
        return stands

    def _counted(self, counted: Any, store: Any, spec: Any, rows: Any) -> Any:
        try:
            found = counted(store, spec, rows)
        except Throttled as error:
            if error.code == NOT_FOLDED:
                self._hit("unsettled")
            raise
        if len(found) < len(rows):
            self._hit("uncounted-looked-up")
        return found

    def _check_folded(self, check: Any, store: Any, table: str) -> None:
        try:
            check(store, table)
        except Throttled as error:
            if error.code == NOT_FOLDED:
                self._hit("tallies-unsettled")
            raise

    def fold(self, fold: Any, store: Any, spec: Any, progress: str) -> Any:
        if progress and int(progress) < statements.SEGMENTS:
            self._hit("fold-resumed")
        return fold(store, spec, progress)

    def open_gate(self, open_gate: Any, table: str, number: int) -> Any:
        if self._rows.gate(table, number) is not None:
            self._hit("gate-opened-twice")
        return open_gate(table, number)

    def shut_gate(self, shut_gate: Any, table: str, number: int) -> None:
        if self._rows.gate(table, number) is False:
            self._hit("gate-shut-twice")
        shut_gate(table, number)

    def row(self, row: Any, table: str, *rest: Any) -> Any:
        if self._rows.describe_table(table) is None:
            self._hit("looked-up-nowhere")
        return row(table, *rest)

    def make_table(self, make_table: Any, table: str, *rest: Any) -> None:
        window = self._system.catalog.window(window_of(table))
        if self._rows.describe_table(table):
            self._hit("table-made-twice")
        elif window and window.status is Status.DROPPED:
            self._hit("table-made-again")
        make_table(table, *rest)

    def stripes(self, stripes: Any, table: str, bucket: int, after: str, limit: int) -> Any:
        by_roller = self._system.world.current.group.name.startswith("roller")
        if after and bucket == 1 and by_roller:
            self._hit("seal-resumed")
        return stripes(table, bucket, after, limit)


def marked_gates(patch: pytest.MonkeyPatch, system: System) -> None:
    """Count gates that are not opened, since their window is not being created any more."""
    open_gates = RowStore.open_gates

    def opened(store: RowStore, spec: Any) -> None:
        try:
            open_gates(store, spec)
        except StateConflict:
            system.marks.hit("gate-not-opened")
            raise

    patch.setattr(RowStore, "open_gates", opened)
