"""A world: the messages, windows, rules and people of a run of the model. It never changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from tests.model.mistakes import Mistake
from tests.model.state import (
    DROPPED,
    NOWHERE,
    OPEN,
    SEALED,
    TABLE,
    Numbers,
    State,
    Window,
    plus,
)

# Rules of identities: the option `tallyroll:identity`.
WINDOW, KEY, PIPELINE = range(3)
RULES = ("window", "key", "pipeline")


@dataclass(frozen=True)
class Event:
    """A message of an event. `names` are its records' (one per key, the least first), as numbers;
    equal `content` means an equal digest. `sent` is the day of sending, `home` the window of its
    time. `late`: it was sent after its window accepted messages; `late_again`: it is redriven after
    its target accepted messages. `forged`: its attributes say that it was redriven to this window.
    """

    names: Numbers
    content: int = 0
    home: int = 0
    sent: int = 0
    value: int = 1
    late: bool = False
    late_again: bool = False
    forged: int = NOWHERE


@dataclass(frozen=True)
class Retraction:
    """A message that retracts the event that has this name and happened in the window `named`."""

    names: Numbers
    named: int = 0
    sent: int = 0


@dataclass(frozen=True)
class World:
    """Surroundings of a run.

    name_keys: the key of each name of a record
    name_ids: the id of each name of a record
    rules: each window's rule of identities
    sealed: the windows that were sealed, empty, before all begins
    until: the last status to which each window comes
    writers: how many work at once; a request that is carried out late is one that stalled
    operator: which messages' letters are redriven
    late_roller: whether a roller that slept makes tables again and puts totals
    parted: whether listings see parts of running transactions
    days: the last day; `kept` for how many days identities are kept, at least
    retention: for how many days the queue, and the dead letters, keep a message
    proves: whether the operator looks for retracted events in archives
    """

    name: str
    about: str
    messages: tuple[Event | Retraction, ...]
    name_keys: Numbers = (0,)
    name_ids: Numbers = (0,)
    rules: Numbers = (WINDOW,)
    sealed: Numbers = ()
    until: Numbers = (DROPPED,)
    gates: int = 1
    writers: int = 2
    operator: Numbers = ()
    late_roller: bool = False
    parted: bool = False
    days: int = 0
    kept: int = 1
    retention: int = 1
    proves: bool = False
    mistake: Mistake | None = None
    marks: tuple[str, ...] = field(default=())

    def start(self) -> State:
        """All messages are queued or will be sent, and windows are open if they are not sealed."""
        none = (0,) * len(self.name_keys)
        window = Window(OPEN, TABLE, self.gates, none, none, none)
        empty = window._replace(status=SEALED, gates=0, total=window.tally)
        queue = [
            (number, getattr(each, "forged", NOWHERE), each.sent)
            for number, each in enumerate(self.messages)
        ]
        return State(
            day=0,
            windows=tuple(
                empty if number in self.sealed else window for number in range(len(self.rules))
            ),
            identities=((),) * len(self.slot_names),
            claims=(NOWHERE,) * len(self._claimed),
            proofs=(0,) * len(self.messages),
            queue=tuple(queue),
            letters=(),
            writers=(),
            operator=None,
        )

    @cached_property
    def slot_names(self) -> dict[tuple[int, ...], int]:
        """The number of each identity: by (KEY, key, id) or (PIPELINE, id)."""
        found: dict[tuple[int, ...], int] = {}
        for key, name in zip(self.name_keys, self.name_ids, strict=True):
            for identity in ((KEY, key, name), (PIPELINE, name)):
                if identity[0] in self.rules:
                    found.setdefault(identity, len(found))
        return found

    @cached_property
    def _claimed(self) -> dict[tuple[int, int], int]:
        """The number of each identity that can be claimed: by home and name."""
        found: dict[tuple[int, int], int] = {}
        for each in self.messages:
            found.setdefault((_home(each), each.names[0]), len(found))
        return found

    @cached_property
    def slots(self) -> tuple[tuple[Numbers, ...], ...]:
        """By message and window: the identities that the message has under the window's rule."""
        return tuple(
            tuple(self._slots_of(each, rule) for rule in self.rules) for each in self.messages
        )

    def _slots_of(self, message: Event | Retraction, rule: int) -> Numbers:
        if rule == WINDOW:
            return ()
        keys, ids = self.name_keys, self.name_ids
        wanted = [
            (KEY, keys[name], ids[name]) if rule == KEY else (PIPELINE, ids[name])
            for name in message.names
        ]
        return tuple(self.slot_names[each] for each in dict.fromkeys(wanted))

    @cached_property
    def claim_of(self) -> Numbers:
        """The number of each message's claim."""
        return tuple(self._claimed[_home(each), each.names[0]] for each in self.messages)

    @cached_property
    def homes(self) -> Numbers:
        """The window of each message's time; that which a retraction names."""
        return tuple(map(_home, self.messages))

    @cached_property
    def is_event(self) -> tuple[bool, ...]:
        """Whether each message is an event."""
        return tuple(isinstance(each, Event) for each in self.messages)

    @cached_property
    def contents(self) -> Numbers:
        """Each message's digest."""
        return tuple(each.content if isinstance(each, Event) else -1 for each in self.messages)

    @cached_property
    def values(self) -> Numbers:
        """Each event's amount."""
        return tuple(each.value if isinstance(each, Event) else 0 for each in self.messages)

    def covers(self, counted: int, window: int, message: int) -> bool:
        """Whether `message` is counted if this window holds the record of the message `counted`."""
        one, other = self.messages[counted], self.messages[message]
        if self.contents[counted] != self.contents[message]:
            return False
        if counted == message or (one.names == other.names and _home(one) == _home(other)):
            return True
        shared = set(self.slots[counted][window]) & set(self.slots[message][window])
        return bool(shared)

    @cached_property
    def covered(self) -> tuple[tuple[frozenset[int], ...], ...]:
        """By message and window: the records' numbers (1 + message) by which it is counted."""
        count = range(len(self.messages))
        return tuple(
            tuple(
                frozenset(1 + each for each in count if self.covers(each, window, message))
                for window in range(len(self.rules))
            )
            for message in count
        )

    @cached_property
    def excluded(self) -> frozenset[tuple[tuple[int, int], tuple[int, int]]]:
        """Pairs of (window, message) that must never both count."""
        events = [number for number, event in enumerate(self.is_event) if event]
        places = [(window, each) for window in range(len(self.rules)) for each in events]
        return frozenset(
            (one, two)
            for one in places
            for two in places
            if one < two and self._excludes(*one, *two)
        )

    def _excludes(self, window: int, message: int, other: int, second: int) -> bool:
        if window != other and self.claim_of[message] == self.claim_of[second]:
            return True
        if message == second or self.rules[window] != self.rules[other]:
            return False
        one, two = self.messages[message], self.messages[second]
        shared = set(self.slots[message][window]) & set(self.slots[second][other])
        return bool(shared) and abs(one.sent - two.sent) <= self.kept


def _home(message: Event | Retraction) -> int:
    return message.home if isinstance(message, Event) else message.named


def is_known(world: World, state: State, message: int, place: int) -> bool:
    """Whether a message's event is counted in a window, or has an identity that is to be asked."""
    covered = world.covered[message][place]
    return not covered.isdisjoint(state.windows[place].records) or has_identity(
        world, state, message, place
    )


def has_identity(world: World, state: State, message: int, place: int) -> bool:
    """Whether a message has an identity of its content, by the rules of home and target."""
    slots = {*world.slots[message][world.homes[message]], *world.slots[message][place]}
    contents = world.contents
    found = [state.identities[slot] for slot in slots]
    return any(each and contents[each[1]] == contents[message] for each in found)


def added(world: World, window: Window, change: Numbers) -> Window:
    """The window with a change of its tally, which a listing may not see yet."""
    tally = plus(window.tally, change)
    unseen = plus(change, window.unseen) if world.parted else ()
    return window._replace(tally=tally, unseen=unseen)
