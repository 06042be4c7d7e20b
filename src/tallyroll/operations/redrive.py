"""Redrive: an operator sends dead letters again, and each event still counts once.

An event may count in another window only if it can no longer count in its own: that window is
sealed without its record, or never existed. First its identity is claimed for the target in the
ledger, then the message is sent, then the dead letter is deleted. An interrupted redrive is
repeated from the start: the claim leads to the same target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from tallyroll.errors import Reason, StoreError, UsageError
from tallyroll.model.acceptance import acceptable_record
from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.model.events import digest
from tallyroll.model.messages import Redrive
from tallyroll.model.states import Calendar, Window, takes
from tallyroll.model.windows import WindowId, window_start
from tallyroll.operations.event_status import Asked, EventStatus, Whereabouts
from tallyroll.operations.letter_events import (
    Course,
    Decision,
    Leave,
    LetterEvent,
    LetterReader,
    decided,
    left,
    not_looked_up,
)
from tallyroll.ports.catalog import Catalog, Claim
from tallyroll.ports.dead_letters import DeadLetters, Resend
from tallyroll.ports.effects import Effects
from tallyroll.ports.live_windows import list_live
from tallyroll.ports.store import Store
from tallyroll.settings import Settings

CLAIMS_AT_ONCE = 25  # per page; 8 concurrent pages take 200 of the client's 256 connections
WINDOWS_NAMED = 5


@dataclass(frozen=True, slots=True)
class _Plan:
    """A planned redrive; its claim replaces `read`, if that is not None."""

    event: LetterEvent
    target: WindowId
    read: Claim | None


class _Page:
    """Reads that all letters of a page share."""

    def __init__(self, calendar: Calendar, read: Callable[[WindowId], Window | None]) -> None:
        self.calendar = calendar
        self.window = cache(read)


class Redriver:
    """Decides on dead letters and redrives them, a page at a time.

    Events that can no longer count in their own window go to the window `to`, or to the current one
    if it is None. `unverified` also redrives events that a dropped window may have counted.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        catalog: Catalog,
        letters: DeadLetters,
        effects: Effects,
        *,
        to: WindowId | None = None,
        unverified: bool = False,
    ) -> None:
        self._catalog = catalog
        self._reader = LetterReader(settings, catalog, letters, effects)
        self._letters = letters
        self._effects = effects
        self._to = to
        self._unverified = unverified
        self._whereabouts = Whereabouts(store, catalog, effects)

    def check_target(self) -> None:
        """Raise UsageError, which names windows that take events, unless `to` does."""
        if self._to is None:
            return
        window_start(self._to)
        state = self._catalog.window(self._to)
        now = self._effects.now()
        if state and takes(state, now):
            return
        live = list_live(self._catalog, self._catalog.live(), 0, now + 1)
        others = [window.id for window in live if takes(window, now)][-WINDOWS_NAMED:]
        status = f"is {state.status}" if state else "is not there"
        raise UsageError(
            f"window {self._to} {status} and takes no events: "
            + (f"give one of {', '.join(others)}" if others else "none does; does the roller run?")
        )

    def decide(self, letters: Sequence[ReceivedLetter]) -> list[Decision]:
        """The decisions on at most 100 letters; changes nothing."""
        return [_decision(plan) for plan in self._plans(letters)]

    def redrive(self, letters: Sequence[ReceivedLetter]) -> list[Decision]:
        """Redrive at most 100 letters, as far as possible; one decision per letter, in order.

        All are claimed before any is sent, and all are sent before any is deleted. Thread-safe:
        concurrent calls with letters of one event find the same claim.
        """
        plans = self._plans(letters)
        decisions = self._effects.together(
            [partial(self._claimed, plan) for plan in plans],
            CLAIMS_AT_ONCE if any(isinstance(plan, _Plan) for plan in plans) else 1,
        )
        self._send(plans, decisions)
        self._delete(decisions)
        return decisions

    def _send(self, plans: Sequence[_Plan | Decision], decisions: list[Decision]) -> None:
        sent = [
            (index, plan.event, decision.target)
            for index, (plan, decision) in enumerate(zip(plans, decisions, strict=True))
            if isinstance(plan, _Plan) and decision.target and decision.course is Course.REDRIVEN
        ]
        resends = [
            Resend(event.body, Redrive(target, event.letter.first_id, event.letter.first_sent))
            for _, event, target in sent
        ]
        answers = self._letters.resend(resends) if resends else []
        for (index, event, target), why in zip(sent, answers, strict=True):
            if why:
                detail = f"claimed for {target}, but not surely sent: {why}"
                decisions[index] = Decision(event.letter, Course.LEFT, target, "not sent", detail)

    def _delete(self, decisions: list[Decision]) -> None:
        done = [index for index, one in enumerate(decisions) if one.course is not Course.LEFT]
        letters = [decisions[index].letter for index in done]
        gone = self._letters.delete(letters) if letters else []
        for index, deleted in zip(done, gone, strict=True):
            if not deleted:
                one = decisions[index]
                detail = f"{one.course}, but the letter still exists: redrive again, it counts once"
                decisions[index] = replace(
                    one, course=Course.LEFT, why="not deleted", detail=detail
                )

    def _plans(self, letters: Sequence[ReceivedLetter]) -> list[_Plan | Decision]:
        """The plan for each letter, in order; looks all letters up together.

        Reads the calendar anew each time, then the claims, then the windows.
        """
        try:
            calendar = self._catalog.calendar()
        except StoreError as error:
            return [not_looked_up(letter, error) for letter in letters]
        if calendar is None:
            detail = "the pipeline has no calendar: has the roller run?"
            return [left(letter, "no calendar", detail) for letter in letters]
        page = _Page(calendar, self._catalog.window)
        claimed = self._reader.read(letters, calendar)
        asked = [self._asked(event, claim) for event, claim in _events(claimed)]
        places = iter(self._whereabouts.places(asked))
        return [
            each if isinstance(each, Decision) else self._plan(*each, next(places), page)
            for each in claimed
        ]

    def _plan(
        self, event: LetterEvent, claim: Claim | None, place: EventStatus | StoreError, page: _Page
    ) -> _Plan | Decision:
        def plan() -> _Plan | Decision:
            if isinstance(place, StoreError):
                raise place
            if claim:
                return self._along(event, claim, place, page)
            return self._afresh(event, place, page)

        return decided(event.letter, plan)

    def _along(
        self, event: LetterEvent, claim: Claim, place: EventStatus, page: _Page
    ) -> _Plan | Decision:
        """Follow an existing claim; move it only if its target can no longer count the event."""
        own = claim.target == event.home.id
        match place:
            case EventStatus.COUNTED:
                return Decision(event.letter, Course.COUNTED, claim.target)
            case EventStatus.TAKES:
                return self._fitting(event, claim.target, claim)
            case EventStatus.ABSENT:
                return self._elsewhere(event, claim, page)
            case EventStatus.DISPLACED if not own:
                return self._elsewhere(event, claim, page)
            case EventStatus.UNVERIFIED:
                self._need_unverified(event, claim.target)
                return self._elsewhere(event, claim, page)
            case _:
                raise _why_not(event, claim.target, place)

    def _afresh(self, event: LetterEvent, place: EventStatus, page: _Page) -> _Plan | Decision:
        """Choose the target of an event without a claim."""
        home = event.home.id
        match place:
            case EventStatus.COUNTED:
                return Decision(event.letter, Course.COUNTED, home)
            case EventStatus.TAKES if self._to not in (None, home):
                raise Leave(
                    "own window open",
                    f"its own window {home} still takes events, so a copy may count there: redrive"
                    " it without --to",
                )
            case EventStatus.TAKES:
                return self._fitting(event, home, None)
            case EventStatus.ABSENT:
                return self._elsewhere(event, None, page)
            case EventStatus.NEVER if event.home.start < page.calendar.genesis:
                return self._elsewhere(event, None, page)
            case EventStatus.UNVERIFIED if event.letter.reason != Reason.ID_CONFLICT:
                self._need_unverified(event, home)
                return self._elsewhere(event, None, page)
            case _:
                raise _why_not(event, home, place)

    def _need_unverified(self, event: LetterEvent, window: WindowId) -> None:
        if self._unverified:
            return
        raise Leave(
            "unverified",
            f"window {window} is dropped: look whether it counted {event.identity[2]!r}, by"
            f" `tallyroll archive read {window} --key {event.identity[1]}`; if not, give"
            " --unverified",
        )

    def _elsewhere(self, event: LetterEvent, read: Claim | None, page: _Page) -> _Plan:
        """Redrive an event that can no longer count in its own window."""
        now = self._effects.now()
        target = self._to or page.calendar.grid.at(now).id
        state = page.window(target)
        if state is None or not takes(state, now):
            status = state.status if state else "not made yet"
            raise Leave("no window", f"window {target} is {status}: does the roller run?")
        return self._fitting(event, target, read)

    def _fitting(self, event: LetterEvent, target: WindowId, read: Claim | None) -> _Plan:
        """The redrive to a window. Raises Rejected if the window could never count the event."""
        message = event.message(target, self._effects.now())
        acceptable_record(event.envelope, message, self._whereabouts.spec(target), event.home)
        return _Plan(event, target, read)

    def _asked(self, event: LetterEvent, claim: Claim | None) -> Asked:
        """The lookup of an event in the window that it is claimed for, or else in its own."""
        _, key, record_id = event.identity
        window = claim.target if claim else event.home.id
        return Asked(window, key, record_id, digest(event.envelope), event.home)

    def _claimed(self, plan: _Plan | Decision) -> Decision:
        """Claim a redrive's target, or follow the claim that another redrive has put first."""
        if isinstance(plan, Decision):
            return plan
        identity, letter = plan.event.identity, plan.event.letter
        claim = plan.read
        try:
            if claim is None or claim.target != plan.target:
                wanted = Claim(plan.target, self._effects.now())
                if claim is None:
                    claim = self._catalog.claim(identity, wanted)
                else:
                    claim = self._catalog.move(identity, claim, wanted)
        except StoreError as error:
            return Decision(letter, Course.LEFT, plan.target, "not claimed", str(error))
        return Decision(letter, Course.REDRIVEN, claim.target)


def _events(
    found: Sequence[tuple[LetterEvent, Claim | None] | Decision],
) -> list[tuple[LetterEvent, Claim | None]]:
    return [each for each in found if not isinstance(each, Decision)]


def _decision(plan: _Plan | Decision) -> Decision:
    if isinstance(plan, Decision):
        return plan
    return Decision(plan.event.letter, Course.REDRIVEN, plan.target)


def _why_not(event: LetterEvent, window: WindowId, place: EventStatus) -> Leave:
    match place:
        case EventStatus.NEVER | EventStatus.CREATING:
            return Leave(
                "not open yet", f"window {window} is not open yet: redrive it in a few minutes"
            )
        case EventStatus.CLOSING:
            return Leave(
                "being closed",
                f"window {window} takes no more events, but a copy on its way may still count"
                " there: redrive it once the window is sealed",
            )
        case _:
            return Leave(
                Reason.ID_CONFLICT,
                f"another event has the id {event.identity[2]!r} in window {window}: send it anew"
                " under an id of its own",
            )
