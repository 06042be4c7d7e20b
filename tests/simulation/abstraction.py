"""The simulation's truth as a state of the model, which is small: one message, its rivals, and the
windows that concern it.

A *subject* is a message with a writer, or a letter with an operator. In the model it is message 0.
Message 1 stands for all other contents of its identity, message 2 for those of another window. If
it retracts (`retraction_truth.py`), message 1 is the event that it means.
Window 0 is that of its time, window 1 any that does not concern it; further ones are those to which
it is or may be redriven.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from tallyroll.adapters.dynamodb.items import gate_key, record_key
from tallyroll.adapters.memory import MemoryCatalog
from tallyroll.errors import Missing
from tallyroll.model.ids import IdentityItem, identity_names
from tallyroll.model.specs import IdentityScope, Spec
from tallyroll.model.states import Moment, Status, Window
from tallyroll.model.windows import window_start
from tallyroll.ports.catalog import Claim
from tests.model import redrive, retraction, state, writer
from tests.model.state import Action, Numbers, Operator, State, Writer
from tests.model.world import KEY, PIPELINE, WINDOW, Event, Retraction, World
from tests.simulation.holdings import Identity
from tests.simulation.identity_rules import is_deleted
from tests.simulation.sent import Sent

if TYPE_CHECKING:
    from tests.simulation.pipeline import System

At = Writer | Operator
OWN, RIVAL, FOREIGN = 0, 1, 2
MEANT = 1  # by a retraction
GATES = 2  # 2: all are open; 1: some; 0: none
STATUSES = {
    Status.CREATING: state.OPEN,  # the model begins later: its table and gates are there, or not
    Status.OPEN: state.OPEN,
    Status.CLOSING: state.CLOSING,
    Status.SEALED: state.SEALED,
    Status.EXPORTING: state.EXPORTING,
    Status.PROVEN: state.PROVEN,
    Status.DROPPING: state.DROPPING,
    Status.DROPPED: state.DROPPED,
}
RULES = {IdentityScope.WINDOW: WINDOW, IdentityScope.KEY: KEY, IdentityScope.PIPELINE: PIPELINE}
NONE = state.Window(state.SEALED, state.NO_TABLE, state.NO_GATE, (0,), (0,), (0,))
"""A window that does not concern a message."""
SCOPES = {rule: scope for scope, rule in RULES.items()}


@dataclass(eq=False, slots=True)
class Subject:
    """A message or letter. `at` is where its writer or operator may be, by what it did so far;
    `path` is what it did. A `twin` has another message of its id in its batch: for which of them a
    call is, is not known. Only one that is or may be `redriven` has a claim. It was delivered at
    `began` (ms). It is `ambiguous` once it met a record that holds it or another content: where
    mappings give copies of one id other keys, the oracle does not know which.
    """

    name: str
    sent: Sent
    windows: list[str]
    redriven: bool
    began: int
    at: list[At] = field(default_factory=list)
    path: list[Action] = field(default_factory=list)
    twin: bool = False
    ambiguous: bool = False
    rejected: bool = False
    acknowledged: bool = False

    def number(self, window: str) -> int:
        """The model's number of a window."""
        if window not in self.windows:
            self.windows.append(window)
        return self.windows.index(window)


class Kind(NamedTuple):
    """What makes a world: how many keys, the windows' rules, whether the message comes too late, or
    is a retraction.
    """

    keys: int
    rules: Numbers
    late: bool
    retracts: bool = False


class View(NamedTuple):
    """What a subject's world holds now; all small numbers. `proof`: 1 + the window in whose archive
    an operator has proven what it retracts.
    """

    kind: Kind
    windows: tuple[state.Window, ...]
    identities: tuple[Numbers, ...]
    claims: Numbers
    proof: int = 0


@cache
def world_of(kind: Kind) -> World:
    """The world of a subject."""
    names = tuple(range(kind.keys))
    own = Event(names, late=kind.late, late_again=kind.late)
    return World(
        "simulated",
        "a message of the simulation, with its rivals",
        (
            Retraction(names) if kind.retracts else own,
            Event(names, content=1),
            Event(names, content=2, home=1),
        ),
        name_keys=names,
        name_ids=(0,) * kind.keys,
        rules=kind.rules,
        until=(state.DROPPED,) * len(kind.rules),
        gates=GATES,
        operator=(OWN,),
        proves=kind.retracts,
    )


@lru_cache(maxsize=1 << 16)
def moves(view: View, at: At) -> Sequence[tuple[Action, At | None]]:
    """What the model lets a writer or an operator do next, and where it is then."""
    world = world_of(view.kind)
    now = _state(view)
    if isinstance(at, Operator):
        now = now._replace(operator=at)
        return [(action, after.operator) for action, after in redrive.steps(world, now)]
    now = now._replace(writers=(at,))
    steps = retraction if at.step >= writer.FIRST_OF_RETRACTION else writer
    found = [*steps.steps(world, now, 0, at), *writer.finish(world, now, 0, at)]
    return [(action, after.writers[0] if after.writers else None) for action, after in found]


@lru_cache(maxsize=1 << 10)
def delivered(view: View, target: int) -> Writer:
    """The writer to which the queue has just given the message."""
    now = _state(view)._replace(queue=((OWN, target, 0),))
    [(_, after)] = writer.deliver(world_of(view.kind), now)
    return after.writers[0]


@lru_cache(maxsize=1 << 10)
def taken(view: View) -> Operator:
    """The operator that has just taken the letter."""
    now = _state(view)._replace(letters=((OWN, state.WINDOW_SEALED),))
    [(_, after)] = redrive.steps(world_of(view.kind), now)
    assert after.operator
    return after.operator


@lru_cache(maxsize=1 << 10)
def is_provable(view: View, place: int) -> bool:
    """Whether an operator may find what is retracted in the archive of a window."""
    found = redrive.steps(world_of(view.kind), _state(view._replace(proof=0)))
    return ("prove in archive", OWN, place, "") in [action for action, _ in found]


def _state(view: View) -> State:
    proofs = (view.proof, *[0] * (len(world_of(view.kind).messages) - 1))
    return State(0, view.windows, view.identities, view.claims, proofs, (), (), (), None)


class Abstraction:
    """Looks at the truth, and changes nothing: no lens is lifted, no chance drawn."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._oracle = system.oracle

    def subject(self, name: str, sent: Sent, *, redriven: bool) -> Subject:
        """A message, of which nothing is known yet."""
        return Subject(
            name, sent, [self._oracle.window_of(sent.time), ""], redriven, self._system.world.now
        )

    def keys(self, subject: Subject) -> list[str]:
        """The keys of a message, the least first."""
        return [key for _, key, _ in self._oracle.identities_of(subject.sent)]

    def claimed(self, subject: Subject) -> list[Identity]:
        """The identities of a message in the window of its time, which a redrive claims."""
        home, sent = self._oracle.window_of(subject.sent.time), subject.sent
        return [(home, key, sent.id) for key in self.keys(subject)]

    def view(
        self, subject: Subject, *, late: bool = False, gates: int | None = None, kept: bool = False
    ) -> View:
        """The truth as it concerns a subject. `gates`: so many are open, whatever the truth is;
        `kept`: identities are there that were put just now, and are deleted at once.
        """
        subject.windows[0] = self._oracle.window_of(subject.sent.time)
        keys, kind = self._kind(subject, late=late)
        return View(
            kind,
            tuple([self._window(subject, name, keys, gates) for name in subject.windows]),
            tuple(
                [
                    self._identity(subject, name, kept=kept)
                    for name in self._item_names(subject, kind, keys)
                ]
            ),
            (self.claim(subject) if subject.redriven else state.NOWHERE, state.NOWHERE),
        )

    def claims(self, subject: Subject, found: Mapping[Identity, Claim] | None = None) -> list[int]:
        """The windows for which the identities of a subject are claimed, each once, by an answer or
        in truth.
        """
        claims = self._system.catalog._claims if found is None else found
        stored = [claims.get(each) for each in self.claimed(subject)]
        places = [subject.number(each.target) if each else state.NOWHERE for each in stored]
        return [*dict.fromkeys(places)]

    def claim(self, subject: Subject, found: Mapping[Identity, Claim] | None = None) -> int:
        """The same as one: if they differ, one that is not the message's target."""
        places = self.claims(subject, found)
        target = subject.number(subject.sent.target) if subject.sent.target else places[0]
        return next((place for place in places if place != target), places[0])

    def spec(self, window: str) -> Spec | None:
        """A window's spec."""
        return self._system.catalog._specs.get(window)

    def state_of(self, window: str) -> Window | None:
        """A window's state, which no lens hides."""
        return MemoryCatalog.window(self._system.catalog, window)

    def status(self, window: str, found: Window | None) -> int:
        """The model's number of a state. A window that was never made, before the first of all, is
        like one that was sealed without events.
        """
        if found is None:
            calendar = self._system.catalog.calendar()
            never = calendar is not None and window_start(window) < calendar.genesis
            return state.SEALED if never else state.OPEN
        shut = found.status is Status.CLOSING and Moment.SHUT in found.times
        return state.SHUT if shut else STATUSES[found.status]

    def content(self, subject: Subject, identity: Identity) -> int:
        """Which message stored a record: this one, or an equal one; or which other."""
        contents = self._oracle.book.contents_of(identity)
        if self._oracle.content_of(subject.sent) in contents:
            subject.ambiguous |= len(contents) > 1
            return OWN
        home = self._oracle.window_of(self._oracle.book.time_of(identity))
        return RIVAL if home == subject.windows[0] else FOREIGN

    def is_ruled_since(self, window: str, at: int) -> bool:
        """Whether a window's rule of identities was frozen at that time (ms), or later."""
        return self._oracle.book.ruled_since(window) >= at

    def opened(self, spec: Spec) -> list[bool | None]:
        """Whether each gate of a window is open; None for one that is missing."""
        try:
            items = self._system.store.items(spec.table)
        except Missing:
            return [None] * spec.gates
        gates = [items.get(each) for each in _gates(spec.gates)]
        return [gate["open"]["BOOL"] if gate else None for gate in gates]

    def item_names(self, subject: Subject, places: Sequence[int]) -> list[str]:
        """The names of a message's identities by the rules of these windows."""
        keys, kind = self._kind(subject, late=False)
        names = self._item_names(subject, kind, keys)
        slots = world_of(kind).slots[OWN]
        return [names[slot] for slot in dict.fromkeys(each for at in places for each in slots[at])]

    def told_by(
        self, subject: Subject, names: Sequence[str], found: Mapping[str, IdentityItem]
    ) -> str:
        """The model's answer to a read that found these of the identities of a message."""
        items = [found[name] for name in names if name in found]
        return self.answer(subject, [(each.window, each.key, subject.sent.id) for each in items])

    def answer(self, subject: Subject, stored: Sequence[Identity]) -> str:
        """The model's answer to a read that found these records, or identities of theirs."""
        contents = [self.content(subject, each) for each in stored]
        return "absent" if not contents else "equal" if OWN in contents else "another content"

    def _kind(self, subject: Subject, *, late: bool) -> tuple[list[str], Kind]:
        keys = self.keys(subject)
        rules = tuple([self._rule(subject, window) for window in subject.windows])
        return keys, Kind(len(keys), rules, late)

    def _rule(self, subject: Subject, window: str) -> int:
        spec = self.spec(window) if subject.sent.record_id is not None else None
        return RULES[spec.identity] if spec else WINDOW

    def _item_names(self, subject: Subject, kind: Kind, keys: Sequence[str]) -> list[str]:
        """The names of all identities of a subject's world, in the order of their numbers."""
        names: list[str] = []
        for rule, *rest in world_of(kind).slot_names:
            spec = self.spec(subject.windows[kind.rules.index(rule)])
            assert spec
            of = (keys[rest[0]],) if rule == KEY else ()
            scoped = replace(spec, identity=SCOPES[rule])
            names += identity_names(scoped, of, subject.sent.id)
        return names

    def _identity(self, subject: Subject, name: str, *, kept: bool) -> Numbers:
        system = self._system
        item = system.store.identity_items.get(name)
        if item is None:
            return ()
        world = system.world
        forgets = system.plan.identities.forgets and not kept
        if forgets and is_deleted(world.seed, name, item, world.now, system.day_seconds):
            return ()
        identity = (item["w"]["S"], item["k"]["S"], subject.sent.id)
        return (state.NOWHERE, self.content(subject, identity), 0)

    def _window(
        self, subject: Subject, name: str, keys: Sequence[str], open_ones: int | None
    ) -> state.Window:
        none = (0,) * len(keys)
        if not name:
            return state.Window(state.SEALED, state.NO_TABLE, state.NO_GATE, none, none, none)
        identities = [(name, key, subject.sent.id) for key in keys]
        stored = self._oracle.stored
        records = tuple(
            [1 + self.content(subject, each) if each in stored else 0 for each in identities]
        )
        status = self.status(name, self.state_of(name))
        table, gates = self.table(name, [each for each in identities if each in stored])
        gates = gates if open_ones is None else open_ones
        return state.Window(status, table, gates, records, none, none)

    def table(self, window: str, stored: Sequence[Identity]) -> tuple[int, int]:
        """Whether a window's table is there, or was made again, and how many gates are open."""
        spec = self.spec(window)
        try:
            items = self._system.store.items(spec.table) if spec else None
        except Missing:
            items = None
        if items is None or spec is None:
            return state.NO_TABLE, state.NO_GATE
        gates = self.opened(spec)
        count = GATES if all(gates) else int(any(gates))
        if all(gate is None for gate in gates):
            count = state.NO_GATE
        for _, key, record_id in stored:
            primary = record_key(key, self._oracle.stored[window, key, record_id], record_id)
            if (primary["pk"]["S"], primary["sk"]["S"]) not in items:
                return state.TABLE_AGAIN, count
        return state.TABLE, count


@cache
def _gates(count: int) -> Sequence[tuple[str, str]]:
    keys = [gate_key(number) for number in range(1, count + 1)]
    return [(key["pk"]["S"], key["sk"]["S"]) for key in keys]
