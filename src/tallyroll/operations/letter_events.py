"""Reads dead letters: the event or packet of each, its identities, and the claims on them.

The letters of a page are read together, their claims in one request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import chain

from tallyroll.errors import Rejected, StoreError
from tallyroll.logs.entries import is_plain
from tallyroll.model.acceptance import identities_of, span_of
from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.model.events import Envelope, digest
from tallyroll.model.foreign.reading import read
from tallyroll.model.formats.json_texts import load_json
from tallyroll.model.ids import Identity, IdentityItem
from tallyroll.model.messages import Message, RedriveMark
from tallyroll.model.records import event_time, identities
from tallyroll.model.retractions import parse_retraction
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar
from tallyroll.model.windows import Span, WindowId, iso
from tallyroll.operations.event_status import Sought
from tallyroll.ports.catalog import Catalog, Claim
from tallyroll.ports.dead_letters import DeadLetters
from tallyroll.ports.effects import Effects, T
from tallyroll.reasons import Reason
from tallyroll.settings import Settings

BODIES_AT_ONCE = 10


class LetterOutcome(StrEnum):
    """The outcome for a dead letter."""

    REDRIVEN = "redriven"
    COUNTED = "counted already"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class LetterEvent:
    """A letter's event or packet, its window, and its original identities, one per key, with the
    claim on each.
    """

    letter: ReceivedLetter
    body: str
    envelope: Envelope
    home: Span
    identities: tuple[Identity, ...]
    claims: tuple[Claim | None, ...] = ()

    @property
    def identity(self) -> Identity:
        """Its first identity."""
        return self.identities[0]

    @property
    def targets(self) -> set[WindowId]:
        """The windows for which its identities are claimed: one, unless a redrive was interrupted,
        or an event of the same id that shares some of its keys was redriven.
        """
        return {claim.target for claim in self.claims if claim}

    @property
    def windows(self) -> list[WindowId]:
        """The windows in which it might count: the claimed ones, and its own if an identity is not
        claimed.
        """
        found = [claim.target if claim else self.home.id for claim in self.claims]
        return [*dict.fromkeys(found)] or [self.home.id]

    @property
    def digest(self) -> bytes:
        """The digest of its content."""
        return digest(self.envelope)

    def sights(self) -> list[Sought]:
        """Itself in each of its windows."""
        names = [identity[1:] for identity in self.identities]
        message, digest = self.message("", 0), self.digest
        return [
            Sought(window, self.home, names, digest, message, self.envelope)
            for window in self.windows
        ]

    def identity_items(self, specs: Iterable[Spec]) -> tuple[IdentityItem, ...]:
        """Its identities beyond the window, by the rules of these windows."""
        message = self.message("", 0)
        return tuple(
            chain.from_iterable(identities(self.envelope, message, each) for each in specs)
        )

    def logged_at(self, home: Spec | None) -> int | None:
        """When it was first sent (ms), if its window, of which this is the spec, may have it in a
        log: its place there follows from that.
        """
        logged = home and self.envelope.key in home.logs and is_plain(self.envelope)
        return self.letter.first_sent if logged else None

    def of_another(self, claim: Claim) -> str:
        """Why it stays where the claim of its id, which may also be a message's, is another's."""
        said = f"is of {iso(claim.sent)}" if claim.sent is not None else "says no time of sending"
        return (
            f"it was sent at {iso(self.letter.first_sent)}, but the claim of its id {said}, and its"
            " key is logged: look for its message in the answers of /v1/events; if it did not"
            " count, send it anew"
        )

    def message(self, target: WindowId, now: int) -> Message:
        """The message that a redrive to a window would deliver."""
        redrive = RedriveMark(target, self.letter.first_id, self.letter.first_sent)
        return Message(self.letter.id, self.body, now, 1, "", redrive)


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome for a letter: its target, or why it is left, in short (`why`) and in `detail`.
    If it is redriven, `event` is set, or `retraction`, the body of one.
    """

    letter: ReceivedLetter
    course: LetterOutcome
    target: WindowId | None = None
    why: str = ""
    detail: str = ""
    event: LetterEvent | None = None
    retraction: str | None = None

    @property
    def body(self) -> str | None:
        """What is sent again."""
        return self.event.body if self.event else self.retraction

    def left(self, why: str, detail: str) -> Decision:
        """The decision to leave the letter after all."""
        course = LetterOutcome.LEFT
        return replace(self, course=course, why=why, detail=detail, event=None, retraction=None)


class Leave(Exception):
    """The letter stays where it is."""

    def __init__(self, why: str, detail: str) -> None:
        super().__init__(why)
        self.why = why
        self.detail = detail


@dataclass(frozen=True, slots=True)
class LetterReader:
    """Reads the letters of a page and their claims."""

    settings: Settings
    catalog: Catalog
    letters: DeadLetters
    effects: Effects

    def read(
        self, letters: Sequence[ReceivedLetter], calendar: Calendar
    ) -> list[LetterEvent | Decision]:
        """Each letter's event with its claim, or the decision to leave the letter or, if it is a
        retraction, to send it again.
        """
        jobs = [partial(self._decided, letter, calendar) for letter in letters]
        in_bucket = any(letter.pointer for letter in letters)
        read = self.effects.together(jobs, BODIES_AT_ONCE if in_bucket else 1)
        claimed = self._with_claims(read)
        untold = {
            index: decided(each.letter, partial(self._unreported, each, calendar))
            for index, each in enumerate(claimed)
            if isinstance(each, LetterEvent) and not each.targets and each.letter.target is not None
        }
        for index, each in zip(untold, self._with_claims([*untold.values()]), strict=True):
            claimed[index] = each
        return claimed

    def _decided(self, letter: ReceivedLetter, calendar: Calendar) -> LetterEvent | Decision:
        return decided(letter, partial(self._read, letter, calendar))

    def _read(self, letter: ReceivedLetter, calendar: Calendar) -> LetterEvent | Decision:
        body = self.letters.body(letter)
        if letter.retracts:
            return self._retraction(letter, body, calendar)
        envelope = read(body, calendar.mappings, letter.first_sent)
        return self._identified(letter, body, envelope, calendar)

    def _retraction(self, letter: ReceivedLetter, body: str, calendar: Calendar) -> Decision:
        """A retraction goes again as it is, without a claim: whatever it did, it does once, and its
        event is where that is claimed for.
        """
        asked = parse_retraction(load_json(body, float))
        window = asked.window
        if window is None:
            assert asked.ts is not None
            window = span_of(asked.ts, letter.first_sent, calendar, self.settings.skew_ms).id
        return Decision(letter, LetterOutcome.REDRIVEN, window, retraction=body)

    def _with_claims(
        self, events: Sequence[LetterEvent | Decision]
    ) -> list[LetterEvent | Decision]:
        read = [each for each in events if isinstance(each, LetterEvent)]
        asked = dict.fromkeys(identity for each in read for identity in each.identities)
        try:
            claims = self.catalog.claims([*asked]) if asked else {}
        except StoreError as error:
            return [
                each if isinstance(each, Decision) else not_looked_up(each.letter, error)
                for each in events
            ]
        return [
            each
            if isinstance(each, Decision)
            else replace(each, claims=tuple(map(claims.get, each.identities)))
            for each in events
        ]

    def _unreported(self, event: LetterEvent, calendar: Calendar) -> LetterEvent:
        """The event of a letter whose target nobody has claimed: read as if it named none."""
        letter = event.letter
        if letter.reason:
            raise Leave(
                Reason.NOT_CLAIMED,
                f"it says it was redriven to {letter.target!r}, which nobody claimed: let its"
                " producer send it without our attributes",
            )
        return self._identified(letter.untold, event.body, event.envelope, calendar)

    def _identified(
        self, letter: ReceivedLetter, body: str, envelope: Envelope, calendar: Calendar
    ) -> LetterEvent:
        ts = event_time(envelope, letter.first_sent)
        home = span_of(ts, letter.first_sent, calendar, self.settings.skew_ms)
        if home.start > self.effects.now():
            raise Leave(
                "lies ahead",
                f"its window {home.id} has not begun: redrive it then, or send it anew with its"
                " right time",
            )
        message = Message("", body, 0, 1, "", RedriveMark("", letter.first_id, letter.first_sent))
        identities = identities_of(envelope, message, home)
        return LetterEvent(letter, body, envelope, home, identities)


def decided(letter: ReceivedLetter, work: Callable[[], T]) -> T | Decision:
    """The result of `work`, or the decision to leave the letter if it raises Leave, Rejected or
    StoreError.
    """
    try:
        return work()
    except Leave as leave:
        return left(letter, leave.why, leave.detail)
    except Rejected as rejected:
        return left(letter, rejected.reason, f"it would only come back: {rejected.detail}")
    except StoreError as error:
        return not_looked_up(letter, error)


def left(letter: ReceivedLetter, why: str, detail: str) -> Decision:
    """The decision to leave a letter."""
    return Decision(letter, LetterOutcome.LEFT, None, why, detail)


def not_looked_up(letter: ReceivedLetter, error: StoreError) -> Decision:
    """The decision to leave a letter because something could not be read."""
    return left(letter, "not looked up", str(error))
