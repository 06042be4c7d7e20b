"""Where marks of retractions are seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

import tallyroll.ingest.correcting
import tallyroll.ingest.tombstone_runs
from tallyroll.ingest.fates import Disposition
from tallyroll.ingest.retracting import Retracting
from tallyroll.model.states import Status
from tallyroll.ports.store import Answer, Verdict
from tallyroll.reasons import Reason
from tests.simulation.retraction_book import CORRECTIONS
from tests.simulation.sent import Asked
from tests.simulation.watching import watched

if TYPE_CHECKING:
    from tests.simulation.pipeline import System

Perform = Callable[..., Any]
VERDICTS = {
    Verdict.UNKNOWN: "retraction-unknown",
    Verdict.GATE_SHUT: "retraction-gate-shut",
}


def watch_retractions(system: System, patch: pytest.MonkeyPatch) -> None:
    """Count marks of retractions, until the patch is undone."""
    done, runs = _Done(system), _Runs(system)
    book = system.oracle.retractions
    watched(patch, book, done, "on_retracted", "on_corrected", "check_found", "check_acknowledged")
    watched(patch, system.oracle, done, "on_read", "on_dead")
    watched(patch, system.bucket, done, "put_once")
    watched(patch, tallyroll.ingest.tombstone_runs, runs, "after")
    watched(patch, tallyroll.ingest.correcting, runs, "_fate")
    patch.setattr(Retracting, "_read", runs.reading(Retracting._read))
    patch.setattr(Retracting, "settle", runs.settling(Retracting.settle))


class _Done:
    """Marks of what was retracted, and of how messages ended."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._book = system.oracle.retractions
        self._hit = system.marks.hit

    def on_retracted(self, note: Perform, spec: Any, tombstones: Sequence[Any]) -> None:
        note(spec, tombstones)
        self._hit("retracted-open")
        for each in tombstones:
            self._event((spec.window, *each.name))

    def on_corrected(self, note: Perform, made: Any) -> None:
        note(made)
        state = self._system.catalog.window(made.window)
        dropped = state and state.status in (Status.DROPPING, Status.DROPPED)
        self._hit("retracted-dropped" if dropped else "retracted-sealed")
        if state and state.status is Status.PROVEN:
            self._hit("correction-after-proof")
        self._event((made.window, made.keys[0], made.id, made.index))

    def _event(self, name: tuple[str, str, str, int | None]) -> None:
        """Marks of the event that was retracted."""
        window, key, record_id, index = name
        counted = self._book.counted[window, key, record_id]
        done = self._book.retracted[name]
        if index is not None:
            self._hit("retracted-in-packet")
        if done.first_asked < counted.at:
            self._hit("retraction-before-event")
        if window != counted.home:
            self._hit("retraction-follows-claim")

    def on_dead(self, note: Perform, letter: Any, *rest: Any) -> None:
        note(letter, *rest)
        sent = self._system.oracle.sent[letter.message.id]
        if isinstance(sent, Asked) and self._book.effect_of(sent):
            self._hit("letter-beside-effect")
        if letter.reason is Reason.ID_CONFLICT or isinstance(sent, Asked):
            return
        identity = self._system.oracle.identity_of(sent) if not sent.bad else None
        if identity and (*identity, None) in self._book.retracted:
            self._hit("retracted-id-rejected")

    def check_acknowledged(self, check: Perform, asked: Asked) -> None:
        check(asked)
        if not asked.first_id:
            return
        self._hit("retraction-redriven")
        letters = self._system.oracle.dead.get(asked.first_id, ())
        if any(each.reason is Reason.RETRACTION_NOT_AUTHORIZED for each in letters):
            self._hit("retraction-authorized-later")

    def check_found(self, check: Perform, named: Any, found: Any, began: int) -> None:
        check(named, found, began)
        if found.note:
            self._hit("retract-finds-it-done")
        elif found.proven:
            self._hit("retract-proves")
        elif found.hopeless:
            self._hit("retract-hopeless")

    def on_read(self, on_read: Perform, read: Any, answer: Any) -> None:
        on_read(read, answer)
        if "retracted" in answer:
            self._hit("read-retracted")
        if any("retracted" in part for part in answer.get("rolled_up", ())):
            self._hit("read-rolled-up-retracted")

    def put_once(self, put_once: Perform, key: str, body: bytes) -> bytes:
        stands: bytes = put_once(key, body)
        if CORRECTIONS in key:
            window = self._system.catalog.window(key.split("/")[4])
            later = window is not None and window.status is Status.DROPPED
            self._hit("corrections-copied-later" if later else "corrections-copied")
        return stands


class _Runs:
    """Marks of the calls of writers."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._hit = system.marks.hit

    def after(self, after: Perform, batch: Any, outcome: Any) -> Any:
        settled, again = after(batch, outcome)
        if name := VERDICTS.get(outcome.verdict):
            self._hit(name)
        answers = [each.answer for each in (*outcome.records, *outcome.increments)]
        if Answer.CONTENDED in answers:
            self._hit("retraction-contended")
        if Answer.DUPLICATE in answers:
            self._hit("own-tombstone-met" if batch.attempt else "tombstone-met")
        return settled, again

    def _fate(self, fate: Perform, made: Any, answer: Any) -> Any:
        found = fate(made, answer)
        if found.kind is Disposition.DUPLICATE:
            self._hit("correction-met")
        return found

    def reading(self, read: Perform) -> Perform:
        """`Retracting._read`, watched."""

        def found(retracting: Any, *args: Any) -> Any:
            done = read(retracting, *args)
            if done.is_missing:
                self._hit("retraction-without-table")
            return done

        return found

    def settling(self, settle: Perform) -> Perform:
        """`Retracting.settle`, watched."""

        def settled(retracting: Any, cases: Any, *rest: Any) -> Any:
            done = settle(retracting, cases, *rest)
            names = [case.retraction.name for case in done if case.retraction]
            if len({*names}) < len(names):
                self._hit("retractions-of-one-in-batch")
            return done

        return settled
