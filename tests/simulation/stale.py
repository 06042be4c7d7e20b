"""What a read may show that is not the last word: old data, and transactions in part.

DynamoDB promises of a read that did not ask for consistency only that it shows what once stood
(Developer Guide, "DynamoDB read consistency"), and of a Query or Scan beside a transaction only
that each item is one that was committed: of one transaction some items may be seen and others not
yet, until the transaction is answered ("Amazon DynamoDB Transactions: How it works", Isolation
levels). The doubles in `tallyroll.adapters.memory` show every write at once. A lens stands
before such a double and shows it as AWS may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tallyroll.adapters.dynamodb.items import TALLY, Item
from tallyroll.adapters.memory.tables import Items, PrimaryKey
from tallyroll.model.periods import PeriodState
from tallyroll.ports.table_listing import TableFacts
from tests.simulation.holdings import WeighedItems, put_back
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.watched import SimStore

P = TypeVar("P")

# DescribeTable (DynamoDB API Reference: "uses an eventually consistent query"), and what writers
# read of logs; every other read that the adapters make asks for consistency. A planted bug adds the
# verb whose request it makes eventual.
EVENTUAL = frozenset({"describe_table", "records_eventually"})
QUERIES = frozenset({"records", "stripes", "scan", "windows", "windows_with_specs", "periods"})
"""The verbs of store and catalog that are a Query or Scan; the others get items one by one."""

KEPT_MS = 120_000  # how far back a past is kept


@dataclass(frozen=True, slots=True)
class Part:
    """One item of a transaction, which queries show only from `shown_at` (ms) on."""

    table: str
    primary: PrimaryKey
    before: Item | None
    after: Item
    shown_at: float


class StoreLens:
    """The window tables as reads may see them; `lasting_ms` is how long a transaction shows in part
    at most.
    """

    def __init__(self, world: World, lasting_ms: float) -> None:
        self._world = world
        self._lasting_ms = lasting_ms
        self._parts: list[Part] = []

    def take_apart(self, table: str, items: WeighedItems, first: int) -> float:
        """Perhaps show the changes of a transaction, those of the items from number `first` on, one
        after the other; give the time (ms) when all are shown, before which it is not answered.
        """
        world = self._world
        draw = world.current.aside.random
        chance = draw()
        if not self._lasting_ms or not world.roll(world.weather.parted, chance):
            return world.now
        now, lasting_ms = world.now, draw() * self._lasting_ms
        self._parts = [part for part in self._parts if part.shown_at > now]
        self._parts += [
            Part(table, primary, before, items[primary], now + draw() * lasting_ms)
            for _, primary, before in items.changes[first:]
        ]
        return now + lasting_ms

    def hides(self, table: str) -> bool:
        """Whether queries of a table may lack a part of a transaction."""
        return any(each.table == table and each.shown_at > self._world.now for each in self._parts)

    def reveal(self, table: str, keys: Iterable[str]) -> None:
        """What a get of these keys' items has shown is seen by every later query, too."""
        begins = tuple(f"{key}." for key in keys)
        self._parts = [
            part
            for part in self._parts
            if part.table != table or not _named(part.primary).startswith(begins)
        ]

    def seen(self, store: SimStore, verb: str) -> SimStore:
        """The store as this verb may see it now."""
        now = self._world.now
        view: Any = store
        if verb in EVENTUAL:
            view = self._with_items(store, self._old)
            view.describe_table = partial(self._described, store)
        elif verb in QUERIES and any(part.shown_at > now for part in self._parts):
            view = self._with_items(store, self._in_part)
        return cast("SimStore", view)

    def _described(self, store: SimStore, table: str) -> TableFacts | None:
        """What DescribeTable says, which may be old."""
        facts = store.known_at(table, self._world.now - lag_ms(self._world))
        if facts != store.describe_table(table):
            self._world.note("a description is old")
        return facts

    def _with_items(self, store: Any, look: Callable[[str, WeighedItems], Items]) -> Any:
        """The same store, whose every page of items is looked at anew."""
        view = with_state(store, {})
        view.items = lambda table: look(table, store.weighed(table))
        return view

    def _old(self, _table: str, items: WeighedItems) -> Items:
        return items.as_of(self._world.now - lag_ms(self._world))

    def _in_part(self, table: str, items: WeighedItems) -> Items:
        now = self._world.now
        hidden = [
            part
            for part in self._parts
            # What was changed again since must have been shown before.
            if part.table == table and part.shown_at > now and items.get(part.primary) is part.after
        ]
        shown: Items = dict(items) if hidden else items
        if hidden:
            self._world.note("a transaction is seen in part")
        for part in hidden:
            put_back(shown, part.primary, part.before)
        return shown


def _named(primary: PrimaryKey) -> str:
    """The key and suffix of a record or of a stripe."""
    pk, sk = primary
    return sk.removeprefix(TALLY) if pk.startswith("~t.") else pk


def lag_ms(world: World) -> float:
    """How old what an eventual read shows is: mostly by little, now and then by much."""
    return world.current.aside.random() ** 3 * world.weather.stale_ms


TOTALS_STATE = ("_totals", "_rolled", "_listings", "_corrections", "_corrected", "_revisions")
TOTALS_READS = (
    *("listing", "of_key", "of_window", "periods_of_key"),
    *("corrected", "corrections", "revision", "revisions"),
)
CATALOG_STATE = (
    *("_calendar", "_specs", "_windows", "_live", "_stragglers", "_hot", "_periods", "_unrolled"),
    *("_claims", "_receptions", "_heartbeat"),
)
CATALOG_READS = (
    *("calendar", "specs", "window", "windows", "windows_with_specs", "live", "hot", "stragglers"),
    *("periods", "unrolled", "claims", "receptions", "heartbeat"),
)


class PastLens:
    """A port whose state is the attributes `names`, as reads by one of `verbs` may see it."""

    def __init__(self, world: World, names: Sequence[str], verbs: Iterable[str]) -> None:
        self._world = world
        self._names = names
        self._verbs = frozenset(verbs)
        self._past: list[tuple[int, Mapping[str, Any]]] = []

    def seen(self, port: P, verb: str) -> P:
        """The port as this verb may see it now.

        To be called before every verb: between two verbs nothing changes.
        """
        if not self._verbs & EVENTUAL:
            return port
        now = self._world.now
        self._past.append((now, {name: _copied(getattr(port, name)) for name in self._names}))
        while self._past[0][0] < now - KEPT_MS:
            self._past.pop(0)
        if verb not in EVENTUAL:
            return port
        at = now - lag_ms(self._world)
        held = next(held for until, held in self._past if until >= at)
        return with_state(port, held)


class CatalogLens(PastLens):
    """The catalog; the creation of a window shows in part for at most `lasting_ms`."""

    def __init__(self, world: World, lasting_ms: float) -> None:
        super().__init__(world, CATALOG_STATE, CATALOG_READS)
        self._lasting_ms = lasting_ms
        self._hidden: dict[str, float] = {}
        self._before: dict[str, PeriodState | None] = {}

    def reveal(self, window: str) -> None:
        """What a get of a window's state has shown is seen by every later query, too."""
        self._hidden.pop(window, None)

    def take_apart(self, window: str, before: Mapping[str, PeriodState | None]) -> float:
        """Perhaps show a window's creation to queries part by part; `before` are its day and month
        as they were. Gives the time (ms) when all is shown.
        """
        world = self._world
        draw = world.current.aside.random
        chance = draw()
        if not self._lasting_ms or not world.roll(world.weather.parted, chance):
            return world.now
        lasting_ms = draw() * self._lasting_ms
        for name in (window, *before):
            self._hidden[name] = world.now + draw() * lasting_ms
        self._before.update(before)
        return world.now + lasting_ms

    def seen(self, port: P, verb: str) -> P:
        """The catalog as this verb may see it now."""
        now = self._world.now
        seen: Any = super().seen(port, verb)
        if verb not in QUERIES or all(shown_at <= now for shown_at in self._hidden.values()):
            return cast("P", seen)
        hidden = [name for name, shown_at in self._hidden.items() if shown_at > now]
        windows = {name: one for name, one in seen._windows.items() if name not in hidden}
        periods = dict(seen._periods)
        for name in hidden:
            before = self._before.get(name)
            # What was changed again since must have been shown before.
            if name in periods and _follows(periods[name], before):
                periods.pop(name)
                periods |= {name: before} if before else {}
        return cast("P", with_state(seen, {"_windows": windows, "_periods": periods}))


def _follows(state: PeriodState, before: PeriodState | None) -> bool:
    """Whether this state is that after one creation of a window in the period, and no more."""
    return state == replace(before or PeriodState(state.name, 0), epoch=state.epoch) and (
        state.epoch == (before.epoch if before else 0) + 1
    )


def with_state(port: P, state: Mapping[str, Any]) -> P:
    """The same port in another state, to read from."""
    view = copy(port)
    for name in [name for name in vars(view) if hasattr(type(view), name)]:
        delattr(view, name)  # a method that is watched, and bound to the port itself
    vars(view).update(state)
    return view


def _copied(state: Any) -> Any:
    """As deep as the memory doubles change in place."""
    match state:
        case dict():
            return {name: copy(part) for name, part in state.items()}
        case set() | list():
            return copy(state)
        case _:
            return state
