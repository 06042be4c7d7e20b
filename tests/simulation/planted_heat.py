"""Bugs of raised stripes, of hints and of wishes.

No release misses hints in a window whose tallies say them. So the bug of hints is found by a
release that does, which a seed has beside this one (`tests.simulation.before`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import tallyroll.reads.hints
from tallyroll.adapters.dynamodb.attributes import expressed
from tallyroll.adapters.dynamodb.items import Key, stripe_in, tally_key
from tallyroll.adapters.dynamodb.store import DynamoStore
from tallyroll.adapters.memory import MemoryCatalog
from tallyroll.model.specs import Spec
from tallyroll.model.states import Wish
from tallyroll.model.tallies import Tally, gathered
from tallyroll.operations.heat.wishes import WishDesk
from tests.simulation.watched import SimStore

Patch = pytest.MonkeyPatch
PUT_SPEC = MemoryCatalog.put_spec
LACKING = WishDesk._lacking


def _read_once(self: Any, spec: Spec, keys: Sequence[str]) -> dict[str, list[Tally]]:
    """The stripes that a reader knows of."""
    found: dict[str, list[Tally]] = {key: [] for key in keys}
    places = [
        tally_key(spec, key, number)
        for key in found
        for number in range(1, self._widths.of(spec, key) + 1)
    ]
    for stripe in map(stripe_in, self._table(spec.table).get_all(places)):
        found[stripe.key].append(stripe)
    return found


def stripes_by_a_cached_number(patch: Patch) -> None:
    """A reader goes by the number that it knows, whatever the first stripe says."""

    def tallies(self: Any, spec: Spec, keys: Sequence[str]) -> dict[str, Tally]:
        found = _read_once(self, spec, keys)
        return {key: gathered(key, stripes) for key, stripes in found.items()}

    patch.setattr(DynamoStore, "tallies", tallies)


def number_read_after_the_stripes(patch: Patch) -> None:
    """A reader learns the number with the stripes, for its next read, and not the rest now."""

    def tallies(self: Any, spec: Spec, keys: Sequence[str]) -> dict[str, Tally]:
        found = _read_once(self, spec, keys)
        for stripes in found.values():
            for stripe in stripes:
                self._widths.note(spec, stripe)
        return {key: gathered(key, stripes) for key, stripes in found.items()}

    patch.setattr(DynamoStore, "tallies", tallies)


def stripes_lowered(patch: Patch) -> None:
    """Who knows fewer stripes than there are, says so."""

    def lowered(self: Any, table: str, place: Key, wide: int) -> None:
        items, name = self.items(table), (place["pk"]["S"], place["sk"]["S"])
        if name in items:
            items[name] = {**items[name], "w": {"N": str(wide)}}

    patch.setattr(SimStore, "raise_stripes", lowered)


def stripes_beyond_what_the_release_before_reads(patch: Patch) -> None:
    def widen(self: Any, spec: Spec, key: str) -> None:
        table, first = self._table(spec.table), tally_key(spec, key, 1)
        table.update_if({"Key": first, **expressed("SET #w = :w", w=4 * spec.stripes_most(key))})
        if item := table.get(first):
            self._widths.note(spec, stripe_in(item))

    patch.setattr(DynamoStore, "widen", widen)


def hint_trusted_without_its_count(patch: Patch) -> None:
    """Events are stored whose blocks no tally names."""
    patch.setattr(tallyroll.reads.hints, "covers_all", lambda _: True)


def wish_taken_after_the_freeze(patch: Patch) -> None:
    """The specs are read before the wish is put, and not after it."""

    def lacking(self: Any, key: str, wish: Wish) -> list[Spec]:
        stands = self.catalog.wishes().of.get(key) == wish
        return [] if stands else LACKING(self, key, wish)

    patch.setattr(WishDesk, "_lacking", lacking)


def wish_lost_between_read_and_put(patch: Patch) -> None:
    """A spec is put though the wishes have changed since they were read."""

    def put_spec(self: Any, spec: Spec, _wishes: int | None = None) -> Spec:
        return PUT_SPEC(self, spec)

    patch.setattr(MemoryCatalog, "put_spec", put_spec)
