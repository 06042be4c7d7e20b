"""Bugs of a store on single rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest

from tallyroll.adapters.rows import folding, row_store, statements
from tallyroll.adapters.rows.folding import Lists
from tallyroll.adapters.rows.row_store import FINE, RowStore
from tallyroll.adapters.rows.statements import AT_ONCE, Seal
from tallyroll.errors import StoreError
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.ports.store import Answer, Element, Outcome, Verdict
from tests.simulation.planted import Planted

Patch = pytest.MonkeyPatch


def gate_read_before_the_rows_alone(patch: Patch) -> None:
    """A gate that was open before the rows were written says nothing of what came later."""
    patch.setattr(RowStore, "_looked_after", lambda *_: None)


def stored_taken_for_listed(patch: Patch) -> None:
    """A row that is there is taken for counted, though it may be uncounted."""
    patch.setattr(Lists, "_has", lambda *_: True)


def own_list_taken_for_the_winning_one(patch: Patch) -> None:
    """Of two attempts at once, each sums up what it found itself."""
    attempted = folding._attempted

    class Vain:
        """The statements, by which an attempt always believes that it won."""

        def __init__(self, rows: Any) -> None:
            self._rows = rows

        def __getattr__(self, verb: str) -> Any:
            return getattr(self._rows, verb)

        def put_seal(self, table: str, segment: int, seal: Seal) -> Seal:
            self._rows.put_seal(table, segment, seal)
            return seal

    def own(rows: Any, *rest: Any) -> Seal:
        return attempted(cast("Any", Vain(rows)), *rest)

    patch.setattr(folding, "_attempted", own)


def unknown_insert_taken_for_done(patch: Patch) -> None:
    element_of = row_store.element_of

    def hopeful(answer: bytes | StoreError | None) -> Element:
        element = element_of(answer)
        return FINE if element.answer is Answer.UNKNOWN else element

    patch.setattr(row_store, "element_of", hopeful)


def rows_read_without_a_look(patch: Patch) -> None:
    """Reads show whatever rows there are, also while a window is being closed."""
    patch.setattr(RowStore, "_is_live", lambda *_: True)


def listed_before_the_last_gate_is_shut(patch: Patch) -> None:
    shut_gates = RowStore.shut_gates

    def shut(self: Any, spec: Spec) -> None:
        shut_gates(self, replace(spec, gates=spec.gates - 1))

    patch.setattr(RowStore, "shut_gates", shut)


def duplicates_settled_behind_a_shut_gate(patch: Patch) -> None:
    """A record whose row is there is taken for a duplicate, though a gate is shut by now."""
    commit = RowStore.commit

    def hasty(self: Any, spec: Spec, records: Sequence[Record], increments: Any) -> Outcome:
        outcome = commit(self, spec, records, increments)
        if outcome.verdict is not Verdict.GATE_SHUT:
            return outcome
        ask = self._rows.row
        jobs = [partial(ask, spec.table, one.key, one.shard, one.id) for one in records]
        found = self._effects.together(jobs, AT_ONCE)
        answers = [Element(Answer.DUPLICATE, row.digest) if row else FINE for row in found]
        if any(row is None for row in found):
            return outcome
        return Outcome(Verdict.BY_RECORD, tuple(answers))

    patch.setattr(RowStore, "commit", hasty)


def progress_noted_before_the_stripes(patch: Patch) -> None:
    """A run that is cut off leaves a segment without its stripes."""
    fold = folding.fold

    def ahead(rows: Any, spec: Spec, chance: Any, progress: str) -> Iterator[str]:
        for segment in range(int(progress or 0), statements.SEGMENTS):
            yield str(segment + 1)
            next(fold(rows, spec, chance, str(segment)))

    patch.setattr(row_store, "fold", ahead)


SLOW_SEALS: Mapping[str, object] = {
    "belated": 0.8,
    "slow_verb": "put_seal",
    "slow_ms": 18_000,
    "zombie": 1.0,
    **dict.fromkeys(("crash", "stall", "refused", "unanswered", "tardy"), 0.0),
}
SLOW_ROWS: Mapping[str, object] = {"slow_verb": "commit", "slow_ms": 12_000, "belated": 0.0}
SLOWER_ROWS: Mapping[str, object] = {"slow_verb": "commit", "slow_ms": 30_000}
PLANTED = (
    Planted(gate_read_before_the_rows_alone, 0, SLOW_ROWS),
    Planted(stored_taken_for_listed, 0, SLOWER_ROWS),
    Planted(own_list_taken_for_the_winning_one, 71, SLOW_SEALS),
    Planted(unknown_insert_taken_for_done, 0),
    Planted(rows_read_without_a_look, 1),
    Planted(listed_before_the_last_gate_is_shut, 0),
    Planted(duplicates_settled_behind_a_shut_gate, 1),
    Planted(progress_noted_before_the_stripes, 0),
)
