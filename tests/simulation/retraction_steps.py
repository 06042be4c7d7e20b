"""What writers do with the retractions of their batches, as actions of the model: what they put,
and whether they reject.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tallyroll.errors import StoreError
from tallyroll.ports.store import Answer, Verdict
from tallyroll.reasons import Reason
from tallyroll.settings.common import RETRACTION_OFF
from tests.model import retraction as r
from tests.model import state
from tests.model.state import NOWHERE, Action, Writer
from tests.model.writer import REJECT
from tests.simulation.abstraction import MEANT, OWN, At, Subject, View
from tests.simulation.model_steps import Judge, Learn, all_of, at_steps
from tests.simulation.retraction_reads import RetractionReads
from tests.simulation.retraction_truth import ANY, Retracting
from tests.simulation.writer_steps import REMEMBERED

if TYPE_CHECKING:
    from tests.simulation.pipeline import System

FOUND = 1 + MEANT
REASONS = {
    Reason.NOTHING_TO_RETRACT: state.NOTHING_TO_RETRACT,
    Reason.RETRACTION_UNPROVEN: state.NOT_PROVEN,
}
"""The model's reasons. Who may retract is no promise, so the model has no operator's word but for
proofs: here a retraction without one must be refused at once. The others are said before anything
is read, and the oracle judges them.
"""


class RetractingSteps(RetractionReads):
    """What the writer of one sandbox does, also with retractions."""

    mapped: ClassVar[Sequence[str]] = (*RetractionReads.mapped, "retract", "correct")

    def __init__(self, system: System) -> None:
        super().__init__(system)
        self._stones: dict[Any, list[tuple[Retracting, list[int]]]] = {}
        self._corrections: dict[Any, list[Retracting]] = {}
        self._corrected: list[tuple[Any, Learn]] = []

    def asked(self, verb: str, args: Sequence[Any]) -> None:
        """Keep the messages of a transaction: it may be carried out when their batch is over."""
        super().asked(verb, args)
        if verb == "retract":
            spec, stones = args
            self._stones[spec.window, *(each.name for each in stones)] = self._of(spec, stones)
        if verb == "correct":
            self._corrected = []
            for made in args[0]:
                self._corrections[_name(made)] = self._of_correction(made)

    def _of(self, spec: Any, stones: Sequence[Any]) -> list[tuple[Retracting, list[int]]]:
        """The retractions to which tombstones of a transaction belong, and the numbers of these."""
        found, rest = [], {*range(len(stones))}
        for subject, place in self._in(spec.window):
            own = [n for n in range(len(stones)) if _is_of(subject, stones[n])]
            digests = [stones[n].digest for n in own if stones[n].key in subject.keys]
            numbers = [n for n in own if stones[n].digest in digests]
            if not numbers:
                continue
            rest.difference_update(numbers)
            found.append((subject, numbers, _at(subject, r.PUT, place)))
        if rest:
            other = [stones[n].name for n in sorted(rest)]
            self._world.fail(f"model: no message of the batch retracts {other} in {spec.window}")
        there = [each for each in found if each[2]]
        return [(subject, numbers) for subject, numbers, _ in there or found]

    def _of_correction(self, made: Any) -> list[Retracting]:
        found = [
            (subject, _at(subject, r.CORRECT, place))
            for subject, place in self._in(made.window)
            if (subject.id, subject.index) == (made.id, made.index)
            and {*subject.keys} & {*made.keys}
        ]
        if not found:
            self._world.fail(f"model: no message of the batch retracts {made}")
        there = [subject for subject, at in found if at]
        return there or [subject for subject, _ in found]

    def _retract(self, spec: Any, stones: Sequence[Any]) -> Judge:
        concerned = self._stones[spec.window, *(each.name for each in stones)]
        late = self._is_late()
        before = [self._retracted.view(subject) for subject, _ in concerned]

        def judge(outcome: Any) -> Learn | None:
            learns = []
            for (subject, numbers), view in zip(concerned, before, strict=True):
                if answer := _answer(outcome, numbers):
                    keys = [stones[number].key for number in numbers]
                    self._check_keys(subject, spec.window, keys)
                    place = subject.windows.index(spec.window)
                    action = ("put tombstone", OWN, place, answer)
                    learns.append(self._answered(subject, view, action, r.PUT, late=late))
            return all_of(learns)

        return judge

    def _correct(self, corrections: Sequence[Any]) -> Judge:
        late, distinct = self._is_late(), {_name(made): made for made in corrections}
        concerned = [(name, subject) for name in distinct for subject in self._corrections[name]]
        before = [self._retracted.view(subject) for _, subject in concerned]

        def judge(found: Any) -> Learn | None:
            if isinstance(found, StoreError):
                return None
            answers: dict[Any, str] = {}
            for made, element in zip(corrections, found, strict=True):
                stored = element.answer is not Answer.FINE
                answer = "duplicate" if stored else "committed"
                if stored and element.digest != made.digest:
                    answer = "another event"
                answers.setdefault(_name(made), answer)
            for (name, subject), view in zip(concerned, before, strict=True):
                made = distinct[name]
                self._check_keys(subject, made.window, made.keys)
                place = subject.windows.index(made.window)
                action = ("put correction", OWN, place, answers[name])
                learn = self._answered(subject, view, action, r.CORRECT, late=late)
                self._corrected += [(element, learn) for element in found]
            return None

        return judge

    def _learn(self, answer: Any) -> None:
        """Corrections are put one by one, and answered together."""
        super()._learn(answer)
        for element in answer if isinstance(answer, list) else ():
            for learn in [learn for one, learn in self._corrected if one is element]:
                learn()

    def _is_late(self) -> bool:
        return self._world.current.group.name == "late"

    def _check_keys(self, subject: Retracting, window: str, keys: Sequence[str]) -> None:
        """In the model all keys of an event are retracted by one step."""
        if sorted(keys) != sorted(self._retracted.group(subject, window)):
            self._world.fail(f"model: {subject.name} retracts {subject.id} under {keys} alone")

    def _answered(
        self, subject: Retracting, view: View, action: Action, step: int, *, late: bool
    ) -> Learn:
        """A retraction whose transaction is answered, or carried out without an answer."""
        _, _, place, answer = action
        at = _at(subject, step, place)
        if late:  # as by a writer that slept before it sent the transaction
            at = [Writer(OWN, NOWHERE, 0, place, step, FOUND)]
        learn = self._step(subject, view, action, at)
        if answer == "committed":
            subject.path[-1] = (*action[:3], "committed, no answer")

        def learned() -> None:
            subject.path[-1] = action
            learn()

        return learned

    # --- letters

    def _rejected(self, subject: Subject, rejection: Any) -> None:
        reason = rejection.reason
        is_off = reason is Reason.RETRACTION_OFF and self._by_whom == RETRACTION_OFF
        if not isinstance(subject, Retracting) and not is_off:
            super()._rejected(subject, rejection)
            return
        subject.rejected = True
        if is_off or not isinstance(subject, Retracting):
            subject.at = [REMEMBERED]
            return
        refused = reason is Reason.RETRACTION_NOT_AUTHORIZED and subject.refused
        found = at_steps(subject, r.PUT, r.CORRECT)
        if refused or (found and reason is self._retracted.hopeless(subject)):
            subject.at = [REMEMBERED]
        elif reason in REASONS:
            action = ("reject", OWN, NOWHERE, state.REASONS[REASONS[reason]])
            self._step(subject, ANY, action, at_steps(subject, REJECT))()
        elif not subject.at or at_steps(subject, r.IDENTITY):  # that nothing was asked for
            subject.at = [REMEMBERED]
        else:
            self._fail(subject, ANY, ("reject", OWN, NOWHERE, str(reason)), subject.at)


def _at(subject: Retracting, step: int, place: int) -> list[At]:
    return [each for each in at_steps(subject, step) if each.place == place]


def _name(made: Any) -> tuple[Any, ...]:
    return made.window, made.keys, made.id, made.index


def _is_of(subject: Retracting, stone: Any) -> bool:
    return (subject.id, subject.index) == (stone.id, stone.index) and subject.means(stone.ts)


def _answer(outcome: Any, numbers: Sequence[int]) -> str:
    """The model's answer of a transaction for the tombstones of one event; "" if that was not
    decided: for the model, it was not sent then.
    """
    match outcome.verdict:
        case Verdict.COMMITTED:
            return "committed"
        case Verdict.GATE_SHUT | Verdict.GATE_MISSING:
            return "gate shut or missing"
        case Verdict.CANCELLED:
            answers = [outcome.records[number].answer for number in numbers]
            return "duplicate" if Answer.DUPLICATE in answers else ""
        case _:
            return ""
