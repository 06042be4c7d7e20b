"""The store of seeds in which tallies are raised: each process knows their stripes by itself, and
reads them by requests of their own, as the adapter for DynamoDB does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from tallyroll.adapters.dynamodb.items import Item, Key
from tallyroll.adapters.dynamodb.store import DynamoStore, Widths
from tallyroll.model.records import Increment, Record
from tallyroll.model.specs import Spec
from tallyroll.model.tallies import Tally
from tallyroll.ports.store import Outcome
from tests.simulation.wires import WRITES, StoreWire

if TYPE_CHECKING:
    from tests.simulation.watched import SimStore
    from tests.simulation.world import World


class NoWidths(Widths):
    """What a release knows that knows no raised numbers."""

    def note(self, spec: Spec, stripe: Tally) -> None:
        """Nothing."""


class RaisedWire(StoreWire):
    """The store as one process has it. A release without `hints` adds none to tallies."""

    writes = WRITES | {"widen"}

    def __init__(self, world: World, port: Any, store: SimStore) -> None:
        super().__init__(world, port)
        self._store = store
        self._widths = Widths()
        self._hints = True

    def become(self, *, before: bool) -> None:
        """Be of another release: that before, or one that knows no hints."""
        self._widths = NoWidths() if before else self._widths
        self._hints = before

    def commit(
        self, spec: Spec, records: Sequence[Record], increments: Sequence[Increment]
    ) -> Outcome:
        """A commit on stripes that this process knows of now, however late it is carried out."""
        known = {each.key: self._widths.of(spec, each.key) for each in increments}
        carry_out = partial(self._carried_out, known, spec, records, increments)
        return self._transacted("commit", spec, records, len(increments), carry_out)

    def _carried_out(self, known: dict[str, int], *commit: Any) -> Outcome:
        self._store.known, self._store.hints = known, self._hints
        try:
            return self._port.commit(*commit)
        finally:
            self._store.known, self._store.hints = {}, True

    def tallies(self, spec: Spec, keys: Sequence[str]) -> dict[str, Tally]:
        """As the adapter reads them."""
        return DynamoStore.tallies(cast("DynamoStore", self), spec, keys)

    def widen(self, spec: Spec, key: str) -> None:
        """As the adapter raises them."""
        DynamoStore.widen(cast("DynamoStore", self), spec, key)

    def _table(self, name: str) -> _Table:
        return _Table(self, name)


class _Table:
    """The requests that the adapter makes."""

    def __init__(self, wire: RaisedWire, name: str) -> None:
        self._wire = wire
        self._name = name

    def get_all(self, places: Sequence[Key]) -> list[Item]:
        wire = self._wire
        found: list[Item] = wire._call(
            "tallies", lambda: wire._seen("tallies").read_stripes(self._name, places)
        )
        return found

    def get(self, place: Key) -> Item | None:
        return next(iter(self.get_all([place])), None)

    def update_if(self, change: Any) -> None:
        wide = int(change["ExpressionAttributeValues"][":w"]["N"])
        port: Any = self._wire._port
        self._wire._call("widen", lambda: port.raise_stripes(self._name, change["Key"], wide))
