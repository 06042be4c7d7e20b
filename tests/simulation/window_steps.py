"""What roller, cleanup and dropper do with windows, as actions of the model.

A change of a window must be one that `tests/model/lifecycle.py` allows. All records of a window are
one in the model, and all that were retracted are another: they are all there, or they are not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tallyroll.errors import Missing
from tallyroll.model.states import Status
from tests.model import lifecycle, state
from tests.model.state import DROPPED, NO_TABLE, Action, State, Window
from tests.model.words import told
from tests.model.world import Event, Retraction, World
from tests.simulation import holdings
from tests.simulation.model_calls import mark_of

if TYPE_CHECKING:
    from tests.simulation.pipeline import System

Perform = Callable[..., Any]
LEFT, RETRACTED, BY = 1, 2, 3  # the numbers of the messages, and 1
NONE = (0, 0)
OTHER = (2, 2, 0, 0)
UNMAPPED = {
    "a window that is being made": "the model begins when windows are open",
    "a state of the same name": "progress that only the run which made it needs",
    "a gate that is missing": "it is put shut, into a table that was made again: as good as none",
    "a total that stands": "it is put only if it is absent or equal",
    "what was retracted, noted": "it is a part of the total, which is not whole without it",
}
"""Changes that map to no action, and why."""
CALLS = {
    (state.OPEN, state.CLOSING): ("close",),
    (state.CLOSING, state.SHUT): ("note shut",),
    (state.SHUT, state.SEALED): ("seal",),
    (state.SEALED, state.EXPORTING): ("export",),
    (state.EXPORTING, state.EXPORTING): ("prove", "export"),  # another attempt
    (state.EXPORTING, state.PROVEN): ("prove",),
    (state.PROVEN, state.DROPPING): ("tag",),
    (state.DROPPING, state.DROPPED): ("finish",),
}
"""The calls between two states."""


@lru_cache(maxsize=1 << 12)
def steps(gates: int, window: Window) -> Sequence[tuple[Action, Window]]:
    """What the model lets happen to a window with so many gates."""
    world = _world(gates)
    found = lifecycle.steps(world, State(0, (window,), (), (), (0, 0, 0), (), (), (), None))
    return [(action, after.windows[0]) for action, after in found]


@lru_cache
def _world(gates: int) -> World:
    about = "a window of the simulation"
    return World(
        "simulated",
        about,
        (Event((0,)), Event((1,)), Retraction((1,))),
        name_keys=(0, 1),
        name_ids=(0, 0),
        until=(DROPPED,),
        gates=gates,
        late_roller=True,
    )


class WindowSteps:
    """Looks at each change where it is carried out, whoever asked for it, and however late."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._truth = system.truth

    def advance(self, advance: Perform, window: Any) -> Any:
        before = self._truth.state_of(window.id)
        old = self._truth.status(window.id, before)
        new = self._truth.status(window.id, window)
        again = before is not None and before.attempt.id != window.attempt.id
        if old == new and not (again and old == state.EXPORTING):
            return advance(window)
        model = self._window(window.id)
        changed = advance(window)
        if new == state.PROVEN:
            model = model._replace(archive=self._archive(changed, model))
        self._take(window.id, model, CALLS.get((old, new), ("none",)), new)
        return changed

    def make_table(self, make: Perform, table: str, *rest: Any) -> None:
        name, there = table.rpartition("-")[2], self._system.store.describe_table(table)
        window = self._truth.state_of(name)
        if not there and window and window.status is not Status.CREATING:
            self._take(name, self._window(name), ("make table late",))
        make(table, *rest)

    def shut_gate(self, shut: Perform, spec: Any, number: int) -> None:
        opened = self._truth.opened(spec)
        shut(spec, number)
        if self._truth.opened(spec).count(True) < opened.count(True):
            after = self._window(spec.window)
            before = after._replace(gates=after.gates + 1)
            self._take(spec.window, before, ("shut gate",))

    def drop_table(self, drop: Perform, table: str) -> None:
        facts = self._system.store.describe_table(table)
        if facts and facts.protected:
            name = table.rpartition("-")[2]
            self._take(name, self._window(name), ("drop table",))
        drop(table)

    def put(self, put: Perform, totals: Sequence[Any]) -> None:
        stand = self._system.oracle.totals
        new = [total for total in totals if (total.window, total.key) not in stand]
        for window in dict.fromkeys(total.window for total in new):
            self._take(window, self._window(window), ("put total",))
        put(totals)

    def _take(self, name: str, window: Window, calls: Sequence[str], status: int = -1) -> None:
        """Take these calls, one after the other; the last one leads to the status, if given."""
        gates = max(1, self._gates(name))
        states, path = [window], []
        for call in calls:
            found = [each for at in states for each in steps(gates, at) if each[0][0] == call]
            path += [action for action, _ in found[:1]] or [(call, -1, 0, "")]
            states = [after for _, after in found]
            if states:
                self._system.marks.hit(mark_of(call))
        if not any(status in (-1, each.status) for each in states):
            words = "; ".join(line.strip() for line in told(_world(gates), path)) if states else ""
            allowed = [action for action, _ in steps(gates, window)]
            self._system.world.fail(
                f"model: seed {self._system.world.seed}: window {name}: {calls}"
                f" {words}: the model does not allow it in {window}, but only {allowed}"
            )

    def _gates(self, name: str) -> int:
        spec = self._truth.spec(name)
        return spec.gates if spec else 0

    def _window(self, name: str) -> Window:
        """A window with its table, totals and tallies, as the model has them."""
        system, spec = self._system, self._truth.spec(name)
        status = self._truth.status(name, self._truth.state_of(name))
        table, gates = NO_TABLE, state.NO_GATE
        sealed = system.oracle.sealed.get(name)
        noted = self._noted(name)
        n, gone = sealed.events or 0 if sealed else 0, sum(each[0] for each in noted.values())
        tally, totals = _tally(n, gone), self._totals(name)
        is_listed = sum(totals.values()) == n
        try:
            items = system.store.items(spec.table) if spec else None
        except Missing:
            items = None
        if items is not None and spec:
            held = Held.of(items)
            table = state.TABLE_AGAIN if (n or gone) and not held.stored else state.TABLE
            if held.stored:
                n, gone = held.stored - held.gone, held.gone
                tally = _tally(n, gone) if held.agrees else OTHER
                is_listed = totals == held.left and noted == held.taken
            gates = sum(held.gates) if held.gates else state.NO_GATE
        total = tally if is_listed else ()
        records = LEFT if n else 0, RETRACTED if gone else 0
        tombs = 0, BY if gone else 0
        unseen = _tally(1, 0) if spec and system.store._lens.hides(spec.table) else ()
        archive = (NONE, NONE) if status >= state.EXPORTING else ()
        return Window(
            *(status, table, gates, records, tombs, NONE, tally, unseen, total), archive=archive
        )

    def _totals(self, name: str) -> dict[str, int]:
        found = self._system.oracle.totals.items()
        return {key: total.n for (window, key), total in found if window == name}

    def _noted(self, name: str) -> dict[str, tuple[int, int]]:
        """What was retracted of each key before the window was sealed, as it is noted."""
        sums = self._system.totals._corrected.items()
        return {key: each.before for (key, of), each in sums if of == name and any(each.before)}

    def _archive(self, window: Any, model: Window) -> tuple[state.Numbers, ...]:
        items = self._system.store.items(window.table).values()
        archived = holdings.archive_items(self._system.bucket, window)
        whole = holdings.is_whole(archived, items)
        whole &= _finds_all(self._truth.spec(window.id), archived)
        return (model.records, model.tombs) if whole else (NONE, NONE)


@dataclass(slots=True)
class Held:
    """What a table holds: how many events are `stored`, and how many of them are `gone`; by key the
    events that tallies have `left`, and the (events, amount) that they say were `taken`.
    """

    stored: int = 0
    gone: int = 0
    left: dict[str, int] = field(default_factory=dict)
    taken: dict[str, tuple[int, int]] = field(default_factory=dict)
    gates: list[bool] = field(default_factory=list)

    @classmethod
    def of(cls, items: Mapping[tuple[str, str], Any]) -> Held:
        """The same of these items."""
        held = cls()
        for (pk, sk), item in items.items():
            if pk.startswith("~g."):
                held.gates.append(item["open"]["BOOL"])
            elif pk.startswith("~t."):
                held._add(sk[2:].rpartition(".")[0], item)
            elif sk.startswith(("r#", "p#")):
                held.gone += int(item["n"]["N"])
            elif "h" in item:
                held.stored += int(item["n"]["N"])
        return held

    def _add(self, key: str, item: Any) -> None:
        self.left[key] = self.left.get(key, 0) + int(item["n"]["N"])
        if "rn" in item:
            n, amount = self.taken.get(key, NONE)
            more = int(Decimal(item["rv"]["N"]) * holdings.MICROS)
            self.taken[key] = n + int(item["rn"]["N"]), amount + more

    @property
    def agrees(self) -> bool:
        """Whether tallies say what records and tombstones do."""
        taken = sum(n for n, _ in self.taken.values())
        return taken == self.gone and sum(self.left.values()) == self.stored - self.gone


def _tally(n: int, gone: int) -> state.Numbers:
    return (int(n > 0),) * 2 + (int(gone > 0),) * 2


def _finds_all(spec: Any, archived: Sequence[Any]) -> bool:
    """Whether a reader of an archive asks for each stripe that there is."""
    raised = {_stripe(each)[0]: int(each["w"]["N"]) for each in archived if "w" in each}
    stripes = [_stripe(each) for each in archived if each["pk"]["S"].startswith("~t.")]
    return all(number <= raised.get(key, spec.stripes_of(key)) for key, number in stripes)


def _stripe(item: Any) -> tuple[str, int]:
    key, _, number = item["sk"]["S"][2:].rpartition(".")
    return key, int(number)
