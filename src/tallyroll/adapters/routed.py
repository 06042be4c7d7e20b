"""A store of window tables in DynamoDB and in Keyspaces: each verb goes where its table is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock

from tallyroll.adapters.rows.metering import METERING
from tallyroll.errors import StoreError
from tallyroll.model.formats.payloads import Chunk
from tallyroll.model.ids import IdentityItem
from tallyroll.model.items import StoredItem
from tallyroll.model.records import Increment, Record, RecordName, RecordPage
from tallyroll.model.retractions import Tombstone, TombstoneName
from tallyroll.model.specs import Spec
from tallyroll.model.tallies import Stripe, Tally
from tallyroll.model.windows import KEYSPACES, STORES, WindowId, store_of
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import ItemCodec, Metering, Outcome, Store, Verdict
from tallyroll.ports.table_listing import TableFacts

FAILURE_KEPT_MS = 2_000


class RoutedStore:
    """The store port over two stores whose archives have the same items.

    `open_keyspaces` is called when a table in Keyspaces is first met; if it fails, again after two
    seconds, since a batch's commits would wait for it one after the other.
    """

    transactional = False

    def __init__(
        self, dynamodb: Store, open_keyspaces: Callable[[], Store], effects: Effects
    ) -> None:
        self.codec: ItemCodec = dynamodb.codec
        self._dynamodb = dynamodb
        self._open = open_keyspaces
        self._effects = effects
        self._keyspaces: Store | None = None
        self._failed: tuple[int, StoreError] | None = None
        self._lock = Lock()

    def _of(self, table: str) -> Store:
        """The store of a table. Raises StoreError if it cannot be reached."""
        if store_of(table) != KEYSPACES:
            return self._dynamodb
        return self._keyspaces or self._opened()

    def _opened(self) -> Store:
        with self._lock:
            if self._keyspaces is None:
                if self._failed and 0 <= self._effects.now() - self._failed[0] < FAILURE_KEPT_MS:
                    error = self._failed[1]
                    raise type(error)(str(error), error.code)
                try:
                    self._keyspaces = self._open()
                except StoreError as error:
                    self._failed = (self._effects.now(), error)
                    raise
            return self._keyspaces

    def metering_of(self, table: str) -> Metering:
        """Needs no connection."""
        return METERING if store_of(table) == KEYSPACES else self._dynamodb.metering_of(table)

    def commit(
        self, spec: Spec, records: Sequence[Record], increments: Sequence[Increment]
    ) -> Outcome:
        try:
            store = self._of(spec.table)
        except StoreError as error:
            return Outcome(Verdict.UNKNOWN, detail=str(error))
        return store.commit(spec, records, increments)

    def retract(self, spec: Spec, tombstones: Sequence[Tombstone]) -> Outcome:
        try:
            store = self._of(spec.table)
        except StoreError as error:
            return Outcome(Verdict.UNKNOWN, detail=str(error))
        return store.retract(spec, tombstones)

    def tombstones(
        self, spec: Spec, names: Sequence[TombstoneName]
    ) -> Mapping[TombstoneName, Tombstone]:
        return self._of(spec.table).tombstones(spec, names)

    def record(self, spec: Spec, key: str, record_id: str) -> Record | None:
        return self._of(spec.table).record(spec, key, record_id)

    def lookup(self, spec: Spec, names: Sequence[RecordName]) -> Mapping[RecordName, Record]:
        return self._of(spec.table).lookup(spec, names)

    def lookup_across(
        self, specs: Sequence[Spec], names: Sequence[RecordName]
    ) -> Mapping[WindowId, Mapping[RecordName, Record]]:
        found: dict[WindowId, Mapping[RecordName, Record]] = {}
        for store in STORES:
            if some := [spec for spec in specs if store_of(spec.table) == store]:
                found |= self._of(some[0].table).lookup_across(some, names)
        return found

    def identities(self, names: Sequence[str]) -> Mapping[str, IdentityItem]:
        return self._dynamodb.identities(names)

    def chunks(self, spec: Spec, key: str, record_id: str, count: int) -> Sequence[Chunk]:
        return self._of(spec.table).chunks(spec, key, record_id, count)

    def records(
        self, spec: Spec, key: str, shard: int, after: str, limit: int, before: str = ""
    ) -> RecordPage:
        return self._of(spec.table).records(spec, key, shard, after, limit, before)

    def records_eventually(
        self, spec: Spec, key: str, shard: int, after: str, limit: int, before: str = ""
    ) -> RecordPage:
        return self._of(spec.table).records_eventually(spec, key, shard, after, limit, before)

    def tallies(self, spec: Spec, keys: Sequence[str]) -> dict[str, Tally]:
        return self._of(spec.table).tallies(spec, keys)

    def widen(self, spec: Spec, key: str) -> None:
        self._of(spec.table).widen(spec, key)

    def stripes(self, spec: Spec, number: int, after: str, limit: int) -> Iterator[list[Stripe]]:
        return self._of(spec.table).stripes(spec, number, after, limit)

    def open_gates(self, spec: Spec) -> None:
        self._of(spec.table).open_gates(spec)

    def shut_gates(self, spec: Spec) -> None:
        self._of(spec.table).shut_gates(spec)

    def fold(self, spec: Spec, progress: str) -> Iterator[str]:
        return self._of(spec.table).fold(spec, progress)

    def scan(self, table: str, segment: int, segments: int) -> Iterator[list[StoredItem]]:
        return self._of(table).scan(table, segment, segments)

    def make_table(self, table: str, tags: Mapping[str, str], peak: int = 0) -> None:
        self._of(table).make_table(table, tags, peak)

    def describe_table(self, table: str) -> TableFacts | None:
        return self._of(table).describe_table(table)

    def check_table(self, table: str, tags: Mapping[str, str]) -> None:
        self._of(table).check_table(table, tags)

    def recover_table(self, table: str) -> None:
        self._of(table).recover_table(table)

    def reduce_capacity(self, table: str) -> None:
        self._of(table).reduce_capacity(table)

    def warm_table(self, table: str, units: int) -> None:
        self._of(table).warm_table(table, units)

    def tags(self, table: str) -> Mapping[str, str] | None:
        return self._of(table).tags(table)

    def tag_table(self, table: str, tags: Mapping[str, str]) -> None:
        self._of(table).tag_table(table, tags)

    def drop_table(self, table: str) -> None:
        self._of(table).drop_table(table)
