"""What operators do with dead letters, as actions of the model.

Some of what the model does takes no call here, or one that it does not need (`SILENT`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from tallyroll.errors import Missing, StoreError
from tests.model import state
from tests.model.redrive import (
    AFTER,
    CLAIM,
    DELETE,
    IDENTITY,
    PUT,
    RECORD,
    SEND,
    STATE,
)
from tests.model.state import NOWHERE, Operator
from tests.simulation.abstraction import OWN, At, Subject, View, moves, taken
from tests.simulation.model_steps import (
    ANY,
    Judge,
    Learn,
    Perform,
    Steps,
    all_of,
    at_steps,
)
from tests.simulation.retraction_truth import ANY as ANY_RETRACTION
from tests.simulation.retraction_truth import Retracting, RetractionTruth

SILENT: Mapping[str, str] = {
    "look up record": "a window that was never made, before the first of all, has no record",
    "look at state": "it is looked for once; and where an event goes is looked at once more, last",
    "look up identity": "an event that has none needs no read, and by the rule of a target that is"
    " frozen later there is none: there, the transaction meets the identity",
    "claim": "a claim that was read and names the target is not put again; each writer reads it",
}
"""Calls of the model that an operator may leave out, or repeat, and why."""


class OperatorSteps(Steps):
    """What one redrive does, whose clock is `clock_ms` ahead; its pages are worked on at once."""

    mapped = (
        *("claims", "window", "lookup", "identities"),
        *("claim", "move", "resend", "delete"),
    )

    def __init__(self, system: Any, clock_ms: int) -> None:
        super().__init__(system)
        self._clock_ms = clock_ms
        self._retracted = RetractionTruth(system)
        self._pages: dict[str, list[Subject]] = {}
        self._claiming: dict[tuple[str, Any, Any], list[Subject]] = {}

    def begin(self, use_case: Any) -> None:
        """Look at the pages of a redriver that has these ports."""
        use_case.redrive = partial(self._redrive, use_case.redrive)

    def _redrive(self, redrive: Perform, letters: Sequence[Any]) -> Any:
        page = self._pages[self._world.current.name] = []
        for letter in letters:
            sent, name = self._system.oracle.sent[letter.first_id], f"letter {letter.id}"
            found: Subject | None = None
            found = self._retracted.retracting(name, letter.first_id, letter.body)
            if found is None and not sent.bad:
                found = self._truth.subject(name, sent, redriven=True)
            if found:
                found.at.append(taken(_any(found)))
                found.path.append(("take letter", OWN, NOWHERE, str(letter.reason)))
                page.append(found)
                self._hit("take letter")
        for subject in page:
            same = [each for each in page if each.sent.id == subject.sent.id]
            subject.twin = len(same) > 1
        decisions = redrive(letters)
        for subject in self._pages.pop(self._world.current.name):
            if subject.at:
                self._hit("leave letter")
        return decisions

    def _page(self) -> list[Subject]:
        """The letters of events of the page."""
        return [each for each in self._letters() if not isinstance(each, Retracting)]

    def _letters(self) -> list[Subject]:
        """The letters of the page on which the current task works, or one that it started."""
        name = self._world.current.name
        found = (page for at, page in self._pages.items() if f"{name}.".startswith(f"{at}."))
        return next(found, [])

    def _claims(self, identities: Sequence[Any]) -> Judge:
        asked = dict.fromkeys(identities)

        def judge(found: Any) -> Learn | None:
            if isinstance(found, StoreError):
                return None
            learns: list[Learn] = []
            for subject in self._page():
                at = at_steps(subject, CLAIM)
                own = self._truth.claimed(subject)
                if not at or not all(each in asked for each in own):
                    continue
                # If its keys are claimed for several windows, it is looked for in each.
                view, true = self._truth.view(subject), self._truth.claims(subject)
                for place in self._truth.claims(subject, found):
                    now = view._replace(claims=(place, NOWHERE)) if place in true else view
                    learns.append(self._step(subject, now, ("look up claim", OWN, place, ""), at))
            return all_of(learns)

        return judge

    def _window(self, name: str) -> Judge:
        def judge(found: Any) -> Learn | None:
            learns: list[Learn] = []
            for subject in self._page():
                if name not in subject.windows:
                    continue
                place = subject.windows.index(name)
                at = [each for each in at_steps(subject, STATE, AFTER) if each.place == place]
                if not at:
                    continue
                answer = state.STATUS_NAMES[self._truth.status(name, found)]
                view = self._truth.view(subject)
                learns.append(self._step(subject, view, ("look at state", OWN, place, answer), at))
                if found is None:
                    calls = ["look up record", "look at state"]
                    learns.append(partial(self._silently, subject, view, calls))
                # Its target is chosen now, and may have ended when it is claimed.
                learns.append(partial(self._pass_identity, subject))
            return all_of(learns)

        return judge

    def _lookup(self, spec: Any, names: Sequence[tuple[str, str]]) -> Judge:
        asked = dict.fromkeys(names)

        def judge(found: Any) -> Learn | None:
            if isinstance(found, StoreError) and not isinstance(found, Missing):
                return None
            learns: list[Learn] = []
            for subject in self._page():
                own = [(key, subject.sent.id) for key in self._truth.keys(subject)]
                if spec.window not in subject.windows or not all(each in asked for each in own):
                    continue
                place = subject.windows.index(spec.window)
                at = [each for each in at_steps(subject, RECORD) if each.place == place]
                if not at:
                    continue
                answer = "no table"
                if not isinstance(found, Missing):
                    stored = [(spec.window, *each) for each in own if each in found]
                    answer = self._truth.answer(subject, stored)
                action = ("look up record", OWN, place, answer)
                learns.append(self._step(subject, self._truth.view(subject), action, at))
            if not learns:
                self._needless(f"records of {spec.window}", self._page())
            return all_of(learns)

        return judge

    def _identities(self, names: Sequence[str]) -> Judge:
        asked = dict.fromkeys(names)

        def judge(found: Any) -> Learn | None:
            if isinstance(found, StoreError):
                return None
            learns: list[Learn] = []
            for subject in self._page():
                self._add_targets(subject)
                for at in at_steps(subject, STATE, RECORD, AFTER, IDENTITY):
                    learns += self._known(subject, at, asked, found)
            return all_of(learns)

        return judge

    def _known(
        self, subject: Subject, at: At, asked: Mapping[str, None], found: Any
    ) -> Sequence[Learn]:
        """What the identities say, by the rules of each window that a letter may go to."""
        view = self._truth.view(subject)
        takes = [place for place, each in enumerate(view.windows) if each.status == state.OPEN]
        by_any_rule = self._truth.item_names(subject, [0, at.place, *takes])
        learns: list[Learn] = []
        if self._truth.told_by(subject, [n for n in by_any_rule if n in asked], found) == "equal":
            action = ("look up identity", OWN, at.place, "equal")
            return [self._step(subject, view, action, [at])]
        for target, _, _ in _choices(view, at):
            own = self._truth.item_names(subject, _places(at, target))
            answer = self._truth.told_by(subject, [each for each in own if each in asked], found)
            if (not own or not all(each in asked for each in own)) and answer == "absent":
                learns.append(partial(self._unruled, subject, at, target))
            elif at.step == IDENTITY or answer == "equal":
                action = ("look up identity", OWN, target, answer)
                learns.append(self._step(subject, view, action, [at]))
        return learns

    def _unruled(self, subject: Subject, at: At, target: int) -> None:
        """A letter may go to a window whose rule was not known when identities were read."""
        after = at._replace(step=PUT, target=target)
        if at.step == IDENTITY and after not in subject.at:
            subject.at.append(after)

    def _add_targets(self, subject: Subject) -> None:
        """A letter may go to any window since its page began, and to the next one."""
        at, until = subject.began + self._clock_ms, self._world.now + self._clock_ms
        spans, oracle = self._system.oracle.spans, self._system.oracle
        while at <= spans.at(until)[1]:
            subject.number(oracle.window_of(at))
            at = spans.at(at)[1]

    def _claim(self, identity: Any, wanted: Any) -> Judge:
        return self._put(identity, wanted)

    def _move(self, identity: Any, _: Any, wanted: Any) -> Judge:
        return self._put(identity, wanted)

    def _put(self, identity: Any, wanted: Any) -> Judge:
        """The claim of the first key decides; those of the others must then be the same."""
        before = []
        late = self._world.current.group.name == "late"
        asked_by = self._world.current.name.removesuffix("-late")
        for subject in self._claiming[asked_by, identity, wanted]:
            self._pass_identity(subject)
            target = subject.number(wanted.target)
            at = [each for each in at_steps(subject, PUT) if each.target == target]
            if at or not late:  # a late one may repeat what was done long before
                before.append((subject, self._truth.view(subject), at))

        def judge(stands: Any) -> Learn | None:
            if isinstance(stands, StoreError):
                return None
            return all_of(
                [
                    self._step(subject, view, ("claim", OWN, subject.number(stands.target), ""), at)
                    for subject, view, at in before
                ]
            )

        return judge

    def _pass_identity(self, subject: Subject) -> None:
        """What has no identity is where it would be after it was read."""
        self._add_targets(subject)
        view = self._truth.view(subject)
        for at in at_steps(subject, IDENTITY):
            for target, answer, after in _choices(view, at):
                if after is None or after in subject.at:
                    continue
                if not self._truth.item_names(subject, _places(at, target)):
                    if answer == "absent":  # not what an item of another window's rule tells
                        subject.at.append(after)
                elif self._truth.is_ruled_since(subject.windows[target], subject.began):
                    self._unruled(subject, at, target)

    def asked(self, verb: str, args: Sequence[Any]) -> None:
        """What is sent must be claimed when it is given to the wire: it may arrive much later. When
        a claim arrives, its window may have ended, and its page.
        """
        if verb in ("claim", "move"):
            first = [each for each in self._page() if args[0] == self._truth.claimed(each)[0]]
            self._claiming[self._world.current.name, args[0], args[-1]] = first
            for subject in first:
                self._pass_identity(subject)
        for resend in args[0] if verb == "resend" else ():
            for subject in self._sent(resend):
                if isinstance(subject, Retracting):  # it needs no claim
                    continue
                self._pass_identity(subject)
                target = subject.number(resend.redrive.target)
                claimed = [
                    each._replace(step=SEND)
                    for each in at_steps(subject, PUT)
                    if isinstance(each, Operator) and each.target == each.claim == target
                ]
                subject.at += [each for each in claimed if each not in subject.at]
                if not any(each.target == target for each in at_steps(subject, SEND)):
                    view = self._truth.view(subject)
                    self._fail(subject, view, ("redrive", OWN, target, ""), subject.at)

    def _sent(self, resend: Any) -> list[Subject]:
        return [each for each in self._letters() if each.sent.message_id == resend.redrive.id]

    def _resend(self, resends: Sequence[Any]) -> Judge:
        def judge(_: Any) -> Learn | None:
            for resend in resends:
                for subject in self._sent(resend):
                    target = subject.number(resend.redrive.target)
                    if isinstance(subject, Retracting):  # it goes to its event's window
                        target = NOWHERE
                    at = [each for each in at_steps(subject, SEND) if each.target == target]
                    self._step(subject, _any(subject), ("redrive", OWN, target, ""), at)()
            return None

        return judge

    def _delete(self, letters: Sequence[Any]) -> Judge:
        names = [f"letter {letter.id}" for letter in letters]

        def judge(_: Any) -> Learn | None:
            for subject in [each for each in self._letters() if each.name in names]:
                action = ("delete letter", OWN, NOWHERE, "")
                self._step(subject, _any(subject), action, at_steps(subject, DELETE))()
                subject.at = []
            return None

        return judge


def _any(subject: Subject) -> View:
    return ANY_RETRACTION if isinstance(subject, Retracting) else ANY


def _choices(view: View, at: At) -> Iterator[tuple[int, str, At | None]]:
    """The windows that a letter may go to, what its identities say by their rules, and where the
    operator is then. What an equal identity tells by any rule is no such choice.
    """
    for (call, _, target, answer), after in moves(view, at):
        if call == "look up identity" and (target != at.place or at.target == at.place):
            yield target, answer, after


def _places(at: At, target: int) -> list[int]:
    """The windows by whose rules an event may be known."""
    return [0, at.place, target]
