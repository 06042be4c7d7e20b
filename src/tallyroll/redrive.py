"""Redrive: dead letters sent again, by an operator's word, so that each event still counts once.

An event that happened in one window may count in another only if it can no longer count in its own:
that one is sealed without its record, or never was. Then its identity is claimed for the target in
the ledger, and only after that the message is sent, and only after that the dead letter deleted.
Whatever is interrupted is done again from the start: the claim leads to the same target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from tallyroll.dead_letters import DeadLetters, ReceivedLetter, Resend
from tallyroll.errors import Reason, Rejected, StoreError, UsageError
from tallyroll.events import Envelope, decode, digest
from tallyroll.ledger import Claim, Identity
from tallyroll.live import list_live
from tallyroll.placing import acceptable_record, identity_of
from tallyroll.ports import Catalog, Effects, Store
from tallyroll.records import Message, Redrive, event_time
from tallyroll.routing import span_of
from tallyroll.settings import Settings
from tallyroll.states import Calendar
from tallyroll.whereabouts import Place, Whereabouts, takes
from tallyroll.windows import Span, WindowId, window_start

LETTERS_AT_ONCE = 10
WINDOWS_NAMED = 5


class Course(StrEnum):
    """What becomes of a dead letter."""

    REDRIVEN = "redriven"
    COUNTED = "counted already"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a letter: `why` it is left, in few words, and in `detail`; else where it
    counts.
    """

    letter: ReceivedLetter
    course: Course
    target: WindowId | None = None
    why: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class _Event:
    """What a letter holds: an event or packet, its window, the identity that it had at first."""

    letter: ReceivedLetter
    body: str
    envelope: Envelope
    home: Span
    identity: Identity

    def message(self, target: WindowId, now: int) -> Message:
        """The message as which it would arrive in a window."""
        redrive = Redrive(target, self.letter.first_id, self.letter.first_sent)
        return Message(self.letter.id, self.body, now, 1, "", redrive)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A redrive to be: the claim to be put, in the place of `read` if one stands."""

    event: _Event
    target: WindowId
    read: Claim | None


class _Leave(Exception):
    """Leave a letter where it is."""

    def __init__(self, why: str, detail: str) -> None:
        super().__init__(why)
        self.why = why
        self.detail = detail


class Redriver:
    """Decides on dead letters and redrives them, page by page.

    `to` names the window for what can no longer count in its own, the current one if it is None.
    `unverified` lets also go what a dropped window may have counted.
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
        self._settings = settings
        self._catalog = catalog
        self._letters = letters
        self._effects = effects
        self._to = to
        self._unverified = unverified
        self._whereabouts = Whereabouts(store, catalog, effects)

    def check_target(self) -> None:
        """Raise UsageError, naming windows that do, unless `to` takes events."""
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
        """What would become of these letters now; nothing is changed."""
        return [_decision(plan) for plan in self._plans(letters)]

    def redrive(self, letters: Sequence[ReceivedLetter]) -> list[Decision]:
        """Redrive these letters, as far as they can be; what became of each, in order."""
        plans = self._plans(letters)
        jobs = [partial(self._claimed, plan) for plan in plans]
        decisions = self._effects.together(jobs, LETTERS_AT_ONCE)
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
        self._delete(decisions)
        return decisions

    def _delete(self, decisions: list[Decision]) -> None:
        done = [index for index, one in enumerate(decisions) if one.course is not Course.LEFT]
        letters = [decisions[index].letter for index in done]
        gone = self._letters.delete(letters) if letters else []
        for index, deleted in zip(done, gone, strict=True):
            if not deleted:
                one = decisions[index]
                detail = f"{one.course}, but it still stands here: redrive again, it counts once"
                decisions[index] = replace(
                    one, course=Course.LEFT, why="not deleted", detail=detail
                )

    def _plans(self, letters: Sequence[ReceivedLetter]) -> list[_Plan | Decision]:
        calendar = self._catalog.calendar()  # anew for each page: its windows may have changed
        jobs = [partial(self._plan, letter, calendar) for letter in letters]
        return self._effects.together(jobs, LETTERS_AT_ONCE)

    def _plan(self, letter: ReceivedLetter, calendar: Calendar | None) -> _Plan | Decision:
        try:
            if calendar is None:
                raise _Leave("no calendar", "the pipeline has no calendar: has the roller run?")
            event, claim = self._event(letter, calendar)
            if claim:
                return self._along(event, claim, calendar)
            return self._afresh(event, calendar)
        except _Leave as leave:
            return Decision(letter, Course.LEFT, None, leave.why, leave.detail)
        except Rejected as rejected:
            detail = f"it would only come back: {rejected.detail}"
            return Decision(letter, Course.LEFT, None, rejected.reason, detail)
        except StoreError as error:
            return Decision(letter, Course.LEFT, None, "not looked up", str(error))

    def _event(self, letter: ReceivedLetter, calendar: Calendar) -> tuple[_Event, Claim | None]:
        """The event and the claim that stands for it. Raises Rejected for what can never count."""
        body = self._letters.body(letter)
        envelope = decode(body)
        event = self._identified(letter, body, envelope, calendar)
        claim = self._catalog.claims([event.identity]).get(event.identity)
        if claim or letter.target is None:
            return event, claim
        if letter.reason:
            raise _Leave(
                Reason.NOT_CLAIMED,
                f"it says it was redriven to {letter.target!r}, which nobody claimed: let its"
                " producer send it without our attributes",
            )
        event = self._identified(letter.untold, body, envelope, calendar)
        return event, self._catalog.claims([event.identity]).get(event.identity)

    def _identified(
        self, letter: ReceivedLetter, body: str, envelope: Envelope, calendar: Calendar
    ) -> _Event:
        ts = event_time(envelope, letter.first_sent)
        home = span_of(ts, letter.first_sent, calendar, self._settings.skew_ms)
        if home.start > self._effects.now():
            raise _Leave(
                "lies ahead",
                f"its window {home.id} has not begun: redrive it then, or send it anew with its"
                " right time",
            )
        message = Message("", body, 0, 1, "", Redrive("", letter.first_id, letter.first_sent))
        return _Event(letter, body, envelope, home, identity_of(envelope, message, home))

    def _along(self, event: _Event, claim: Claim, calendar: Calendar) -> _Plan | Decision:
        """Keep to a claim that stands; it moves only once its target cannot count the event."""
        own = claim.target == event.home.id
        match self._look(event, claim.target):
            case Place.COUNTED:
                return Decision(event.letter, Course.COUNTED, claim.target)
            case Place.TAKES:
                return self._fitting(event, claim.target, claim)
            case Place.ABSENT:
                return self._elsewhere(event, claim, calendar)
            case Place.DISPLACED if not own:
                return self._elsewhere(event, claim, calendar)
            case Place.UNVERIFIED:
                self._need_unverified(event, claim.target)
                return self._elsewhere(event, claim, calendar)
            case place:
                raise _why_not(event, claim.target, place)

    def _afresh(self, event: _Event, calendar: Calendar) -> _Plan | Decision:
        """Choose the window of an event that nobody has claimed yet."""
        home = event.home.id
        match self._look(event, home):
            case Place.COUNTED:
                return Decision(event.letter, Course.COUNTED, home)
            case Place.TAKES if self._to not in (None, home):
                raise _Leave(
                    "own window open",
                    f"its own window {home} still takes events, so a copy may count there: redrive"
                    " it without --to",
                )
            case Place.TAKES:
                return self._fitting(event, home, None)
            case Place.ABSENT:
                return self._elsewhere(event, None, calendar)
            case Place.NEVER if event.home.start < calendar.genesis:
                return self._elsewhere(event, None, calendar)
            case Place.UNVERIFIED if event.letter.reason != Reason.ID_CONFLICT:
                self._need_unverified(event, home)
                return self._elsewhere(event, None, calendar)
            case place:
                raise _why_not(event, home, place)

    def _need_unverified(self, event: _Event, window: WindowId) -> None:
        if self._unverified:
            return
        raise _Leave(
            "unverified",
            f"window {window} is dropped: look whether it counted {event.identity[2]!r}, by"
            f" `tallyroll archive read {window} --key {event.identity[1]}`; if not, give"
            " --unverified",
        )

    def _elsewhere(self, event: _Event, read: Claim | None, calendar: Calendar) -> _Plan:
        """Redrive an event that can no longer count where it belongs."""
        now = self._effects.now()
        target = self._to or calendar.grid.at(now).id
        state = self._catalog.window(target)
        if state is None or not takes(state, now):
            status = state.status if state else "not made yet"
            raise _Leave("no window", f"window {target} is {status}: does the roller run?")
        return self._fitting(event, target, read)

    def _fitting(self, event: _Event, target: WindowId, read: Claim | None) -> _Plan:
        """The redrive to a window. Raises Rejected for what that could never hold."""
        message = event.message(target, self._effects.now())
        acceptable_record(event.envelope, message, self._whereabouts.spec(target), event.home)
        return _Plan(event, target, read)

    def _look(self, event: _Event, window: WindowId) -> Place:
        _, key, record_id = event.identity
        content = digest(event.envelope)
        return self._whereabouts.place(window, key, record_id, content, home=event.home)

    def _claimed(self, plan: _Plan | Decision) -> Decision:
        """Claim a redrive's target, or take that of the claim which another one put first."""
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


def _decision(plan: _Plan | Decision) -> Decision:
    if isinstance(plan, Decision):
        return plan
    return Decision(plan.event.letter, Course.REDRIVEN, plan.target)


def _why_not(event: _Event, window: WindowId, place: Place) -> _Leave:
    match place:
        case Place.NEVER | Place.CREATING:
            return _Leave(
                "not open yet", f"window {window} is not open yet: redrive it in a few minutes"
            )
        case Place.CLOSING:
            return _Leave(
                "being closed",
                f"window {window} takes no more events, but a copy on its way may still count"
                " there: redrive it once the window is sealed",
            )
        case _:
            return _Leave(
                Reason.ID_CONFLICT,
                f"another event has the id {event.identity[2]!r} in window {window}: send it anew"
                " under an id of its own",
            )
