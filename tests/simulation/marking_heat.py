"""Where marks of raised stripes, of hints, of wishes and of other releases are seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

import tallyroll.reads.hints
import tallyroll.reads.parts
from tallyroll.adapters.dynamodb.store import DynamoStore
from tallyroll.errors import StateConflict
from tallyroll.model.states import Status
from tallyroll.operations.heat.wishes import WishDesk
from tests.simulation.raised import NoWidths
from tests.simulation.watching import watched

if TYPE_CHECKING:
    from tests.simulation.pipeline import System

Perform = Callable[..., Any]


def watch_heat(system: System, patch: pytest.MonkeyPatch) -> None:
    """Count these marks, until the patch is undone."""
    stripes, wishes = _Stripes(system), _Wishes(system)
    watched(patch, system.store, stripes, "raise_stripes", "_stripes", "retract")
    watched(patch, system.catalog, stripes, "advance")
    watched(patch, tallyroll.reads.parts, stripes, "shards_to_list")
    watched(patch, tallyroll.reads.hints, stripes, "covers_all")
    patch.setattr(DynamoStore, "tallies", stripes.reading(DynamoStore.tallies))
    watched(patch, system.catalog, wishes, "put_wishes", "put_spec")
    watched(patch, system.oracle.wishes, wishes, "on_refused")
    patch.setattr(WishDesk, "_change", wishes.changing(WishDesk._change))


class _Stripes:
    """Marks of raised tallies, and of what is done with them."""

    def __init__(self, system: System) -> None:
        self._store = system.store
        self._hit = system.marks.hit

    def raise_stripes(self, raise_: Perform, table: str, place: Any, wide: int) -> None:
        before = self._said(table, place)
        raise_(table, place, wide)
        if before >= wide:
            self._hit("raise-in-vain")
        elif self._said(table, place) == wide:
            self._hit("stripes-raised-again" if before else "stripes-raised")

    def _said(self, table: str, place: Any) -> int:
        item = self._store.items(table).get((place["pk"]["S"], place["sk"]["S"]), {})
        return int(item.get("w", {"N": "0"})["N"])

    def _stripes(self, choose: Perform, spec: Any, increments: Sequence[Any]) -> Any:
        known = self._store.known
        chosen = choose(spec, increments)
        items = self._store.items(spec.table)
        for key, stripe in chosen.items():
            if stripe > spec.stripes_of(key):
                self._hit("stripe-of-a-raise")
            if known and known[key] < self._store._width(spec, key, items):
                self._hit("stripe-by-stale-number")
        return chosen

    def retract(self, retract: Perform, spec: Any, tombstones: Sequence[Any]) -> Any:
        if any(each.stripe > spec.stripes_of(each.key) for each in tombstones):
            self._hit("raised-retracted")
        return retract(spec, tombstones)

    def advance(self, advance: Perform, window: Any) -> Any:
        changed = advance(window)
        items = self._store.items(window.table) if changed.status is Status.SEALED else {}
        if any("w" in item for item in items.values()):
            self._hit("raised-sealed")
        return changed

    def shards_to_list(self, choose: Perform, store: Any, spec: Any, key: str) -> Any:
        shards = choose(store, spec, key)
        if len(shards) < spec.shards_of(key):
            self._hit("listed-by-hint")
        return shards

    def covers_all(self, covers: Perform, tally: Any) -> bool:
        covered = bool(covers(tally))
        if not covered:
            self._hit("listed-without-hint")
        return covered

    def reading(self, read: Perform) -> Perform:
        """`DynamoStore.tallies`, watched."""

        def tallies(wire: Any, spec: Any, keys: Sequence[str]) -> Any:
            known = {key: wire._widths.of(spec, key) for key in keys}
            found = read(wire, spec, keys)
            for key, tally in found.items():
                if tally.raised and isinstance(wire._widths, NoWidths):
                    self._hit("read-by-before")
                elif tally.raised > known[key]:
                    self._hit("rest-of-stripes-read")
            return found

        return tallies


class _Wishes:
    """Marks of wishes, and of the specs that they meet."""

    def __init__(self, system: System) -> None:
        self._catalog = system.catalog
        self._hit = system.marks.hit

    def put_wishes(self, put: Perform, read: Any, wanted: Any) -> Any:
        after = put(read, wanted)
        if any(read.of.get(key) != wish for key, wish in wanted.items()):
            self._hit("wish-put")
        return after

    def put_spec(self, put: Perform, spec: Any, wishes: int | None = None) -> Any:
        wished = self._catalog.standing.during(spec.start, spec.end)
        is_new = spec.window not in [each.window for each in self._catalog.frozen]
        try:
            stands = put(spec, wishes)
        except StateConflict:
            self._hit("wish-met-by-roller")
            raise
        if is_new and wished:
            lacks = any(stands.shards_of(key) < shards for key, shards in wished.items())
            self._hit("wish-lacked" if lacks else "wish-taken")
        return stands

    def on_refused(self, check: Perform, key: str, standing: Any) -> None:
        check(key, standing)
        self._hit("wish-refused")

    def changing(self, change: Perform) -> Perform:
        """`WishDesk._change`, watched."""

        def changed(desk: Any, key: str, wish: Any, only: Any = None) -> Any:
            before = change(desk, key, wish, only)
            if only is not None and before == only:
                self._hit("wish-raced")
            return before

        return changed
