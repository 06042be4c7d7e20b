"""The steps of the real functions as actions of the model (`tests/model`): each must be one that
the model allows in the truth of that moment.

A call between a function and its port is looked at twice. Where it is carried out, it and its
answer are compared with what the model's own functions give there. Where the answer comes back, the
function knows it: only then is its writer or operator further. So a lost answer leaves it where it
was, as in the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from tallyroll.errors import StoreError
from tests.model import state
from tests.model.state import NOWHERE, Action
from tests.model.words import told
from tests.simulation.abstraction import NONE, At, Kind, Subject, View, moves, world_of
from tests.simulation.model_calls import mark_of

if TYPE_CHECKING:
    from tests.simulation.pipeline import System

Perform = Callable[..., Any]
Learn = Callable[[], None]
Judge = Callable[[Any], Learn | None]
"""Compares an answer with the model's; gives what the function knows once it has that answer."""

ANY = View(Kind(1, (0, 0, 0), late=False), (NONE,) * 3, (), (NOWHERE, NOWHERE))
"""For actions that look at nothing but the writer or operator."""
FROZEN = "it never changes, or an old one makes a message wait"
NOTES = "it changes when windows close and messages come, not what a step does"
PAYLOADS = "a record's payload never changes, and says what it says of its packet's events"
UNMAPPED: Mapping[str, str] = {
    "calendar": FROZEN,
    "settle_mappings": FROZEN,
    "specs": FROZEN,
    "metering_of": "it says how large a transaction may be",
    **dict.fromkeys(
        ("widen", "raise_stripes", "read_stripes"),
        "a tally is the sum of its stripes, however many there are",
    ),
    "take_turn": "the write rate decides when a transaction is sent",
    "note_received": NOTES,
    "clear_received": NOTES,
    "receptions": NOTES,
    "note_straggler": NOTES,
    "note_hot": NOTES,
    "beat": NOTES,
    "counts": NOTES,
    "delay": "it hides a message that is handed back",
    "body": "a letter's body never changes",
    "chunks": PAYLOADS,
    "peek": "letters are taken when the page begins on which they are",
    "give_back": "a letter may be left at any time",
    "count": "the scan of letters ends by it",
}
"""The verbs of ports that map to no action, and why. What is in no table fails the seed."""


TABLES = ("no table", "its table", "a table that was made again")
GATES = ("no gate open", "some gates open", "all gates open", "no gates")


class Steps:
    """Looks at what one function does; `mapped` are the verbs that are, or may be, actions."""

    mapped: ClassVar[Sequence[str]]

    def __init__(self, system: System) -> None:
        self._system = system
        self._world = system.world
        self._truth = system.truth
        self._pending: dict[Any, tuple[Any, Learn | None]] = {}

    def inside(self, port: Any) -> Any:
        """A port as its wire has it: here its calls are carried out."""
        return _Watched(self, port, self._happens)

    def outside(self, port: Any) -> Any:
        """A wired port as the function has it."""
        return _Watched(self, port, self._asks)

    def begin(self, use_case: Any) -> None:
        """Look at the work of a use case that has these ports."""

    def verb(self, verb: str, perform: Perform, watch: Perform) -> Perform:
        """A verb of a port, looked at if it maps to an action."""
        if verb in self.mapped:
            return partial(watch, verb, perform)
        if verb not in UNMAPPED:
            self._world.fail(f"model: the verb {verb} is in no table")
        return perform

    def asked(self, verb: str, args: Sequence[Any]) -> None:
        """Take note of a call that may be carried out much later."""

    def _happens(self, verb: str, perform: Perform, *args: Any) -> Any:
        judge: Judge = getattr(self, f"_{verb}")(*args)
        task = self._world.current
        try:
            answer = perform(*args)
        except StoreError as error:
            self._pending[task] = error, judge(error)
            raise
        self._pending[task] = answer, judge(answer)
        return answer

    def _asks(self, verb: str, perform: Perform, *args: Any) -> Any:
        self._pending.pop(self._world.current, None)
        self.asked(verb, args)
        try:
            answer = perform(*args)
        except StoreError as error:
            self._learn(error)
            raise
        self._learn(answer)
        return answer

    def _learn(self, answer: Any) -> None:
        """The function has an answer: that of the port, or only that there is none."""
        found, learn = self._pending.pop(self._world.current, (None, None))
        if learn and found is answer:
            learn()

    def _step(
        self, subject: Subject, view: View, action: Action, at: Sequence[At], *, stays: bool = False
    ) -> Learn:
        """Take an action, which the model must allow where a writer or operator may be. It is
        further once it learns of it; one that `stays` may also be where it was.
        """
        after = [after for each in at for found, after in moves(view, each) if found == action]
        if not after and not subject.ambiguous:
            self._fail(subject, view, action, at)
        self._hit(action[0])
        subject.path.append(action)

        def learn() -> None:
            kept = [each for each in subject.at if stays or subject.twin or each not in at]
            subject.at = [*dict.fromkeys([*kept, *there(after)])]

        return learn

    def _silently(self, subject: Subject, view: View, calls: Iterable[str]) -> None:
        """Let a writer or operator also be where these calls lead it, which were not needed."""
        for call in calls:
            for at in [*subject.at]:
                after = [after for found, after in moves(view, at) if found[0] == call]
                subject.at += [each for each in there(after) if each not in subject.at]

    def _view(self, subject: Subject) -> View:
        """The truth as it concerns a message."""
        return self._truth.view(subject)

    def _hit(self, call: str) -> None:
        self._system.marks.hit(mark_of(call))

    def _fail(self, subject: Subject, view: View, action: Action, at: Sequence[At]) -> None:
        """End the simulation: the model does not allow an action."""
        allowed = dict.fromkeys(found for each in at for found, _ in moves(view, each))
        what = _told(subject, view, [*subject.path, action])
        self._world.fail(
            f"model: seed {self._world.seed}: {what}; the model does not allow this last step,"
            f" but only {[*allowed]}"
        )

    def _needless(self, what: str, subjects: Sequence[Subject]) -> None:
        """End the simulation: a read that no message needs now, in the model and in the table."""
        if any(each.ambiguous for each in subjects):
            return
        after = [_told(each, self._view(each), each.path) for each in subjects]
        self._world.fail(
            f"model: seed {self._world.seed}: {self._world.current.name} reads {what}; the model"
            f" does not allow this step after {' / '.join(after) or 'nothing'}"
        )


def _told(subject: Subject, view: View, path: Sequence[Action]) -> str:
    """A message or letter, its windows as they are, and what was done with it."""
    names = [f"window {n} is {name}" for n, name in enumerate(subject.windows) if name]
    truth = [
        f"window {n}: {state.STATUS_NAMES[one.status]}, {TABLES[one.table]}, {GATES[one.gates]},"
        f" records {one.records}"
        for n, one in enumerate(view.windows)
        if n < len(subject.windows) and subject.windows[n] and view.windows is not ANY.windows
    ]
    lines = map(str.strip, told(world_of(view.kind), path))
    known = [f"identities {view.identities}, claim {view.claims[0]}"] if truth else []
    return f"{subject.name}, id {subject.sent.id}: " + "; ".join([*names, *truth, *known, *lines])


class Unmapped(Steps):
    """Looks at nothing: the function has no messages."""

    def inside(self, port: Any) -> Any:
        """The port itself."""
        return port

    outside = inside


def at_steps(subject: Subject, *steps: int) -> list[At]:
    """Where a writer or operator may be, of these steps."""
    return [at for at in subject.at if at.step in steps]


def there(after: Iterable[At | None]) -> list[At]:
    """Where writers and operators may be that are still at work."""
    return [each for each in after if each is not None]


def all_of(learns: Sequence[Learn]) -> Learn:
    """All of these."""

    def learn() -> None:
        for each in learns:
            each()

    return learn


class _Watched:
    """A port whose mapped verbs are looked at."""

    def __init__(self, steps: Steps, port: Any, watch: Perform) -> None:
        self._steps = steps
        self._port = port
        self._watch = watch

    def __getattr__(self, verb: str) -> Any:
        found = getattr(self._port, verb)
        if not callable(found):
            return found
        if verb == "seen":
            found = partial(self._seen, found)
        else:
            found = self._steps.verb(verb, found, self._watch)
        setattr(self, verb, found)
        return found

    def _seen(self, see: Perform, verb: str) -> Any:
        """The port as this verb may see it."""
        view = see(verb)
        return self if view is self._port else _Watched(self._steps, view, self._watch)
