"""Redrive: an operator sends dead letters again, and each event still counts once.

An event may count in another window only if it can no longer count in its own: that window is
sealed without its record, or never existed. First its identity is claimed for the target in the
ledger, then the message is sent, then the dead letter is deleted. An interrupted redrive is
repeated from the start: the claim leads to the same target.

A retraction is sent again as it is, whatever became of it. In a sealed window it must not come
before its event, which may be a letter, too: so it is sent once the claims of events are put.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, partial

from tallyroll.errors import StoreError, UsageError
from tallyroll.limits import QUEUE_RETENTION_MS_MAX
from tallyroll.model.acceptance import acceptable_record
from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.model.ids import Identity, IdentityItem
from tallyroll.model.messages import RedriveMark
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar, Window, takes
from tallyroll.model.windows import WindowId, iso, window_start
from tallyroll.operations.event_status import EventStatus, Whereabouts
from tallyroll.operations.letter_events import (
    Decision,
    Leave,
    LetterEvent,
    LetterOutcome,
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
from tallyroll.reasons import Reason
from tallyroll.settings import Settings

CLAIMS_AT_ONCE = 25  # per page; 8 concurrent pages take 200 of the client's 256 connections
WINDOWS_NAMED = 5


@dataclass(frozen=True, slots=True)
class _Page:
    """Reads that all letters of a page share; `specs` are those of the windows in which they may
    count, and `identities` the stored ones of their ids, by name; `unread` is why these could not
    be read. `default` is where events go that can no longer count in their own window.
    """

    calendar: Calendar
    default: WindowId
    window: Callable[[WindowId], Window | None]
    specs: Mapping[WindowId, Spec]
    identities: Mapping[str, IdentityItem]
    unread: StoreError | None


@dataclass(eq=False)
class Redriver:
    """Decides on dead letters and redrives them, a page at a time.

    Events that can no longer count in their own window go to the window `to`, or to the current one
    if it is None. `unverified` also redrives events that a dropped window may have counted.
    """

    settings: Settings
    store: Store
    catalog: Catalog
    letters: DeadLetters
    effects: Effects
    _: KW_ONLY
    to: WindowId | None = None
    unverified: bool = False

    def __post_init__(self) -> None:
        self._reader = LetterReader(self.settings, self.catalog, self.letters, self.effects)
        self._whereabouts = Whereabouts(self.store, self.catalog, self.effects)

    def check_target(self) -> None:
        """Raise UsageError, which names windows that take events, unless `to` does."""
        if self.to is None:
            return
        window_start(self.to)
        state = self.catalog.window(self.to)
        now = self.effects.now()
        if state and takes(state, now):
            return
        live = list_live(self.catalog, self.catalog.live(), 0, now + 1)
        others = [window.id for window in live if takes(window, now)][-WINDOWS_NAMED:]
        status = f"is {state.status}" if state else "is not there"
        raise UsageError(
            f"window {self.to} {status} and takes no events: "
            + (f"give one of {', '.join(others)}" if others else "none does; does the roller run?")
        )

    def decide(self, letters: Sequence[ReceivedLetter]) -> list[Decision]:
        """The decisions on at most 100 letters, in order; changes nothing.

        Reads the calendar anew each time, then all claims, then all windows, then all identities.
        """
        try:
            calendar = self._calendar(letters)
        except StoreError as error:
            return [not_looked_up(letter, error) for letter in letters]
        if calendar is None:
            detail = "the pipeline has no calendar: has the roller run?"
            return [left(letter, "no calendar", detail) for letter in letters]
        read = self._reader.read(letters, calendar)
        events = [each for each in read if isinstance(each, LetterEvent)]
        places = iter(
            self._whereabouts.places([sight for each in events for sight in each.sights()])
        )
        try:
            page = self._page(calendar, events)
        except StoreError as error:
            return [
                each if isinstance(each, Decision) else not_looked_up(each.letter, error)
                for each in read
            ]
        return [
            each
            if isinstance(each, Decision)
            else decided(
                each.letter,
                partial(self._plan, each, dict(zip(each.windows, places, strict=False)), page),
            )
            for each in read
        ]

    def _page(self, calendar: Calendar, events: Sequence[LetterEvent]) -> _Page:
        """What is read for all these events; their identities after the windows' records."""
        # Once for all: by the rule of another window identities may be that are not read.
        default = self.to or calendar.grid.at(self.effects.now()).id
        windows = dict.fromkeys(window for each in events for window in _rules(each, default))
        specs = self._whereabouts.specs([*windows])
        names = dict.fromkeys(
            item.name for each in events for item in _identities(each, default, specs)
        )
        stored, unread = dict[str, IdentityItem](), None
        try:
            stored |= self.store.identities([*names]) if names else {}
        except StoreError as error:
            unread = error
        return _Page(calendar, default, cache(self.catalog.window), specs, stored, unread)

    def _calendar(self, letters: Sequence[ReceivedLetter]) -> Calendar | None:
        """The calendar, with mappings that are settled for these letters."""
        calendar = self.catalog.calendar()
        newest = max((letter.first_sent for letter in letters), default=0)
        if calendar and not calendar.mappings.settles(newest):
            # Attributes, which anybody can set, may name any time.
            return self.catalog.settle_mappings(min(newest, self.effects.now()) + 1)
        return calendar

    def redrive(self, letters: Sequence[ReceivedLetter]) -> list[Decision]:
        """Redrive at most 100 letters, as far as possible; one decision per letter, in order.

        All are claimed before any is sent, and all are sent before any is deleted. Thread-safe:
        concurrent calls with letters of one event find the same claim.
        """
        plans = self.decide(letters)
        decisions = self.effects.together(
            [partial(self._claimed, plan) for plan in plans],
            CLAIMS_AT_ONCE if any(plan.event for plan in plans) else 1,
        )
        self._send(decisions)
        self._delete(decisions)
        return decisions

    def _send(self, decisions: list[Decision]) -> None:
        sent: list[int] = []
        resends: list[Resend] = []
        for index, one in enumerate(decisions):
            if one.body and one.target:
                letter = one.event.letter if one.event else one.letter
                mark = RedriveMark(one.target, letter.first_id, letter.first_sent)
                sent.append(index)
                resends.append(Resend(one.body, mark))
        answers = self.letters.resend(resends) if resends else []
        for index, why in zip(sent, answers, strict=True):
            if why:
                one = decisions[index]
                claimed = f"claimed for {one.target}, but " if one.event else ""
                detail = f"{claimed}not surely sent: {why}"
                decisions[index] = decisions[index].left("not sent", detail)

    def _delete(self, decisions: list[Decision]) -> None:
        done = [
            index for index, one in enumerate(decisions) if one.course is not LetterOutcome.LEFT
        ]
        letters = [decisions[index].letter for index in done]
        gone = self.letters.delete(letters) if letters else []
        for index, deleted in zip(done, gone, strict=True):
            if not deleted:
                one = decisions[index]
                detail = f"{one.course}, but the letter still exists: redrive again, it counts once"
                decisions[index] = one.left("not deleted", detail)

    def _plan(
        self, event: LetterEvent, places: Mapping[WindowId, EventStatus | StoreError], page: _Page
    ) -> Decision:
        """Follow existing claims, and move one only if its target can no longer count the event.
        Without a claim, choose the target. Raises Leave, Rejected and StoreError.
        """
        if counted := self._counted_beyond(event, page):
            return Decision(event.letter, LetterOutcome.COUNTED, counted)
        window, place = self._deciding(event, places, page)
        claimed = window in event.targets
        match place:
            case EventStatus.COUNTED:
                return Decision(event.letter, LetterOutcome.COUNTED, window)
            case EventStatus.TAKES if not claimed and self.to not in (None, window):
                raise Leave(
                    "own window open",
                    f"its own window {window} still takes events, so a copy may count there:"
                    " redrive it without --to",
                )
            case EventStatus.TAKES:
                return self._fitting(event, window, page)
            case _ if self._passes_over(event, window, place, page):
                return self._elsewhere(event, page)
            case EventStatus.UNVERIFIED if claimed or event.letter.reason != Reason.ID_CONFLICT:
                raise Leave(
                    "unverified",
                    f"window {window} is dropped: look whether it counted"
                    f" {event.identity[2]!r}, by `tallyroll archive read {window} --key"
                    f" {event.identity[1]}`; if not, give --unverified",
                )
            case _:
                raise _why_not(event, window, place)

    def _counted_beyond(self, event: LetterEvent, page: _Page) -> WindowId | None:
        """The window in which an event counts by its identities, also if that is dropped; None if
        they do not tell. Raises Leave if its id is taken by another event.
        """
        items = _identities(event, page.default, page.specs)
        if items and page.unread:
            raise page.unread
        stored = [(each, found) for each in items if (found := page.identities.get(each.name))]
        for each, found in stored:
            if found.digest == each.digest:
                return found.window
        if stored:
            raise _taken(event, stored[0][1].window)
        return None

    def _check_age(self, event: LetterEvent, page: _Page) -> None:
        """Raise Leave if the letter is so old that the identities of its event may be forgotten."""
        known_until = event.letter.first_sent + QUEUE_RETENTION_MS_MAX
        known_until += self.settings.queue_retention_ms
        if self.unverified or self.effects.now() <= known_until:
            return
        if _identities(event, page.default, page.specs):
            raise Leave(
                "unverified",
                f"it was first sent at {iso(event.letter.first_sent)}, and its id may be forgotten"
                " since: look whether it counted; if not, give --unverified",
            )

    def _deciding(
        self, event: LetterEvent, places: Mapping[WindowId, EventStatus | StoreError], page: _Page
    ) -> tuple[WindowId, EventStatus]:
        """The window that decides, and the event's status there. Of several windows, all but one
        must be passed over. Raises Leave and StoreError.
        """
        seen: list[tuple[WindowId, EventStatus]] = []
        for window, place in places.items():
            if isinstance(place, StoreError):
                raise place
            seen.append((window, place))
        for window, place in seen:
            if place is EventStatus.COUNTED:
                return window, place
        left_over = [each for each in seen if not self._passes_over(event, *each, page)]
        if len(left_over) <= 1:
            return (left_over or seen)[0]
        for window, place in left_over:
            if place is not EventStatus.TAKES:
                return window, place
        raise _claimed_apart(event, [window for window, _ in left_over])

    def _passes_over(
        self, event: LetterEvent, window: WindowId, place: EventStatus, page: _Page
    ) -> bool:
        """Whether an event can no longer count in a window, so that it may count in another."""
        claimed = window in event.targets
        match place:
            case EventStatus.ABSENT:
                return True
            case EventStatus.DISPLACED:
                return window != event.home.id
            case EventStatus.NEVER:
                return not claimed and event.home.start < page.calendar.genesis
            case EventStatus.UNVERIFIED:
                known_stored = not claimed and event.letter.reason == Reason.ID_CONFLICT
                return self.unverified and not known_stored
            case _:
                return False

    def _elsewhere(self, event: LetterEvent, page: _Page) -> Decision:
        """Redrive an event that can no longer count in its own window."""
        now = self.effects.now()
        target = page.default
        state = page.window(target)
        if state is None or not takes(state, now):
            status = state.status if state else "not made yet"
            raise Leave("no window", f"window {target} is {status}: does the roller run?")
        return self._fitting(event, target, page)

    def _fitting(self, event: LetterEvent, target: WindowId, page: _Page) -> Decision:
        """The redrive to a window. Raises Rejected if it could never count there, and Leave if it
        may have counted too long ago to tell.
        """
        self._check_age(event, page)
        message = event.message(target, self.effects.now())
        acceptable_record(event.envelope, message, self._whereabouts.spec(target), event.home)
        return Decision(event.letter, LetterOutcome.REDRIVEN, target, event=event)

    def _claimed(self, plan: Decision) -> Decision:
        """Claim a redrive's target for all identities of its event, or follow an earlier claim."""
        event, target = plan.event, plan.target
        if event is None or target is None:
            return plan
        sent = event.logged_at(self._whereabouts.specs([event.home.id]).get(event.home.id))
        for index, (identity, read) in enumerate(zip(event.identities, event.claims, strict=True)):
            try:
                others = read is not None and read.sent != sent  # which must not move
                claim = read if read and others else self._claim(identity, read, target, sent)
            except StoreError as error:
                return plan.left("not claimed", str(error))
            if claim.sent != sent:
                return plan.left(Reason.NOT_CLAIMED, event.of_another(claim))
            if index and claim.target != target:
                apart = _claimed_apart(event, [target, claim.target])
                return plan.left(apart.why, apart.detail)
            target = claim.target
        return replace(plan, target=target)

    def _claim(
        self, identity: Identity, read: Claim | None, target: WindowId, sent: int | None
    ) -> Claim:
        """The claim that was read, if it names the target; else the one that then is stored."""
        if read and read.target == target:
            return read
        wanted = Claim(target, self.effects.now(), read.sent if read else sent)
        if read:
            return self.catalog.move(identity, read, wanted)
        return self.catalog.claim(identity, wanted)


def _rules(event: LetterEvent, default: WindowId) -> set[WindowId]:
    """The windows by whose rules an event may be known: its own, and those it may count in."""
    return {event.home.id, *event.targets, default}


def _identities(
    event: LetterEvent, default: WindowId, specs: Mapping[WindowId, Spec]
) -> tuple[IdentityItem, ...]:
    windows = _rules(event, default)
    return event.identity_items(specs[window] for window in windows if window in specs)


def _claimed_apart(event: LetterEvent, windows: Sequence[WindowId]) -> Leave:
    return Leave(
        "claimed apart",
        f"its keys are claimed for the windows {' and '.join(windows)}: another event has the id"
        f" {event.identity[2]!r} and some of its keys; redrive it once those windows are sealed",
    )


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
            return _taken(event, window)


def _taken(event: LetterEvent, window: WindowId) -> Leave:
    return Leave(
        Reason.ID_CONFLICT,
        f"another event has the id {event.identity[2]!r} in window {window}: send it anew under an"
        " id of its own",
    )
