"""The oracle's book of identities: which ids are taken within which scope, by its own reckoning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from tallyroll.adapters.dynamodb.items import Item
from tallyroll.adapters.memory import DeadLetter
from tallyroll.model.messages import Message
from tallyroll.model.records import Record
from tallyroll.model.specs import IdentityScope, Spec
from tallyroll.reasons import Reason
from tests.simulation.holdings import Identity
from tests.simulation.identity_rules import QUEUE_DAYS
from tests.simulation.sent import Sent
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.oracle import Oracle

LETTER_DAYS = 2 * QUEUE_DAYS + 1  # after its sending a letter is redriven, at the latest
COPIES_DAYS = 3 * QUEUE_DAYS + 1  # in the queue, as a letter, after a redrive, and one more
Content = tuple[Any, ...]
Name = tuple[str, str, str]
"""A scope, a key (or none) and an id: what counts once."""
IDENTITY_FIRST = (Reason.WINDOW_SEALED, Reason.TOO_LATE, Reason.NOT_OPEN_WHEN_SENT)
"""The reasons that are said only after an identity was looked for in vain."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What took a name: where and when (ms) it counted, and the messages that may have brought it,
    with their contents. These are several only where mappings give copies other keys.

    The name stays taken until `until` at least. `days` are those of its window, in ms.
    """

    window: str
    contents: Sequence[Content]
    messages: Sequence[Sent]
    at: int
    until: int
    days: int


class IdentityBook:
    """Takes note of what counts, and checks that no name counts twice, as the windows' rules are.

    `oracle` knows what was sent, and what counts in which window.
    """

    def __init__(self, oracle: Oracle, world: World, day_seconds: int) -> None:
        self._oracle = oracle
        self._world = world
        self._day_ms = day_seconds * 1000
        self._specs: dict[str, tuple[Spec, int]] = {}
        self._received: dict[str, int] = {}
        self._taken: dict[Name, list[Taken]] = {}
        self._contents: dict[Identity, Sequence[Content]] = {}
        self._times: dict[Identity, int] = {}
        self._items: dict[tuple[str, bytes], tuple[set[str], bool, int]] = {}

    def on_spec(self, spec: Spec) -> None:
        """Take note of a window's rule."""
        self._specs.setdefault(spec.window, (spec, self._world.now))

    def on_delivered(self, message: Message) -> None:
        """Take note of when a delivery began."""
        self._received[message.receipt] = self._world.now

    def began(self, message: Message) -> int:
        """When (ms) this delivery of a message began; 0 if it was never delivered."""
        return self._received.get(message.receipt, 0)

    def contents_of(self, identity: Identity) -> Sequence[Content]:
        """The contents that a stored record may have: one, but where mappings change keys."""
        return self._contents.get(identity, ())

    def time_of(self, identity: Identity) -> int:
        """The time (ms) in a stored record."""
        return self._times[identity]

    def taken_by(self, sent: Sent) -> list[Taken]:
        """What has the id of a message, by the rules of the window of its time and of the one where
        it is to count.
        """
        oracle = self._oracle
        windows = dict.fromkeys((oracle.window_of(sent.time), sent.target))
        keys = [key for _, key, _ in oracle.identities_of(sent)]
        rules = [self._specs[window][0] for window in windows if window in self._specs]
        names = chain.from_iterable(_names(rule, keys, sent.record_id) for rule in rules)
        return [taken for name in dict.fromkeys(names) for taken in self._taken.get(name, ())]

    def has_counted(self, sent: Sent) -> bool:
        """Whether a message counts by its id, in whatever window."""
        content = self._oracle.content_of(sent)
        return any(content in each.contents for each in self.taken_by(sent))

    def is_rival_elsewhere(self, sent: Sent) -> bool:
        """Whether another event has the id of a message, in another window than its own."""
        content, window = self._oracle.content_of(sent), self._oracle.identity_of(sent)[0]
        elsewhere = [each for each in self.taken_by(sent) if each.window != window]
        return any(each.contents != (content,) for each in elsewhere)

    def counts_as(self, sent: Sent) -> list[Identity]:
        """The identities under which a message counts, perhaps by a copy in another window."""
        own, content = self._oracle.identities_of(sent), self._oracle.content_of(sent)
        stored = [each for each in own if each in self._oracle.stored]
        windows = [each.window for each in self.taken_by(sent) if content in each.contents]
        # Its id may have been another event's here, and then have been free for it in `windows`.
        if any(content in self.contents_of(each) for each in stored) or (stored and not windows):
            return own
        return [(windows[0], key, record_id) for _, key, record_id in own if windows]

    def check_letter(self, sent: Sent, letter: DeadLetter) -> None:
        """Check that a message could not be known to count when it was rejected, and that one in
        conflict is so with another event.
        """
        taken, content = self.taken_by(sent), self._oracle.content_of(sent)
        own = self._oracle.identities_of(sent)
        if letter.reason in IDENTITY_FIRST:
            begun = self.began(letter.message)
            for each in taken:
                known = max(each.at, self._ruled(sent)) < begun and self._world.now < each.until
                if known and each.contents == (content,):
                    self._world.fail(f"2: {sent} is {letter.reason}, and counts in {each.window}")
        if letter.reason is Reason.ID_CONFLICT and taken:
            stored = [self._contents.get(each, (content,)) for each in own]
            if all(each == (content,) for each in (*stored, *(each.contents for each in taken))):
                self._world.fail(f"2: {sent} is in conflict with nothing but itself")

    def ruled_since(self, window: str) -> int:
        """Since when (ms) a window's rule stands; 0 if it has none."""
        return self._specs[window][1] if window in self._specs else 0

    def _ruled(self, sent: Sent) -> int:
        """Since when (ms) the rules stand by which a message may be known."""
        return max(map(self.ruled_since, (self._oracle.window_of(sent.time), sent.target)))

    def on_counted(
        self, spec: Spec, record: Record, messages: Sequence[Sent]
    ) -> tuple[Sequence[Content], Sent]:
        """Take note of a record, and check that its id was free; gives what it may hold, and a
        message that brought it.

        It was brought by a message of its time and amount: contents of one id differ in one of
        them, or in their keys.
        """
        identity = (spec.window, record.key, record.id)
        mine = (record.ts, record.n, record.amount)
        brought = [sent for sent in messages if (sent.time, sent.n, sent.amount) == mine]
        if not brought:
            self._world.fail(f"5: no message has what {identity} holds: {mine}")
        contents = (*dict.fromkeys(map(self._oracle.content_of, brought)),)
        self._contents[identity], self._times[identity] = contents, record.ts
        if spec.identity != IdentityScope.WINDOW and brought[0].record_id is not None:
            self._take(spec, record, brought, contents)
        return contents, brought[0]

    def _take(
        self, spec: Spec, record: Record, own: Sequence[Sent], contents: Sequence[Content]
    ) -> None:
        days = spec.identity_days * self._day_ms
        until = min(sent.sent for sent in own) + days + COPIES_DAYS * self._day_ms
        until -= 1_000  # whole seconds are stored
        taken = Taken(spec.window, contents, own, self._world.now, until, days)
        for name in _names(spec, [record.key], own[0].record_id):
            before = self._taken.setdefault(name, [])
            if any(
                each.window == spec.window and _meet(each.contents, contents) for each in before
            ):
                continue  # the same event, under another of its keys
            for each in before:
                if not self._may_count_again(each, taken):
                    self._world.fail(f"1: {name} counts in {each.window} and in {spec.window}")
                self._world.note("an id counts again")
            before.append(taken)
        self._expect(spec, record, until)

    def _may_count_again(self, before: Taken, again: Taken) -> bool:
        """Whether an event may count beside an earlier one: they were sent far apart, or it came
        later than AWS lets a message come.
        """
        days, now = min(before.days, again.days), self._world.now
        return any(
            now - sent.sent > QUEUE_DAYS * self._day_ms
            or sent.sent - _first(sent) > LETTER_DAYS * self._day_ms
            or any(abs(_first(sent) - _first(other)) > days for other in before.messages)
            for sent in again.messages
        )

    def _expect(self, spec: Spec, record: Record, until: int) -> None:
        """Take note that items of a record must be stored."""
        single = spec.identity == IdentityScope.PIPELINE
        place = spec.window, record.digest
        keys, _, known = self._items.get(place, (set[str](), single, until))
        self._items[place] = (keys | {record.key}, single, min(known, until))

    def check_items(self, items: Mapping[str, Item]) -> None:
        """Check that each event that counts has its items, as long as it must not be forgotten, and
        that there are no others.
        """
        stored = Counter(
            (item["w"]["S"], item["h"]["B"], item["k"]["S"]) for item in items.values()
        )
        for (window, digest), (keys, single, until) in self._items.items():
            found, wanted = stored.pop((window, digest, min(keys)), 0), 1 if single else len(keys)
            if found != wanted and (found > wanted or self._world.now < until):
                self._world.fail(f"1: {keys} in {window} has {found} identities, not {wanted}")
        if stored:
            self._world.fail(f"1: identities of nothing that counts: {[*stored][:3]}")


def _names(spec: Spec, keys: Iterable[str], record_id: str | None) -> list[Name]:
    """What an id takes by the rule of a window."""
    if record_id is None or spec.identity == IdentityScope.WINDOW:
        return []
    if spec.identity == IdentityScope.PIPELINE:
        return [(spec.identity, "", record_id)]
    return [(spec.identity, key, record_id) for key in keys]


def _meet(some: Sequence[Content], others: Sequence[Content]) -> bool:
    return any(each in others for each in some)


def _first(sent: Sent) -> int:
    return sent.first_sent or sent.sent
