"""The store of window tables, and its answers to a commit.

>>> store.commit(spec, [record], increments_of([record])).verdict
<Verdict.COMMITTED: 'committed'>
>>> store.commit(spec, [record], increments_of([record])).records[0].answer
<Answer.DUPLICATE: 'duplicate'>

`Store.commit` is why a redelivery cannot count twice, and why a late writer cannot change a closed
window: one transaction checks that a gate is open, puts each record only if it is absent, and adds
to the tallies. Next on the reading path: `ingest/writer.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from tallyroll.model.formats.payloads import Chunk
from tallyroll.model.ids import IdentityItem
from tallyroll.model.items import Content, StoredItem
from tallyroll.model.records import Increment, Record, RecordName, RecordPage
from tallyroll.model.retractions import Tombstone, TombstoneName
from tallyroll.model.specs import Spec
from tallyroll.model.tallies import Stripe, Tally
from tallyroll.model.windows import WindowId
from tallyroll.ports.table_listing import TableFacts

LIMIT_UNKNOWN = "other"
LIMIT_OF_IDENTITIES = "identities"
"""Any limit of the table of identities: it says nothing of the keys that were written."""


class Answer(StrEnum):
    """A store's answer for one record or increment of a commit that has a verdict for each."""

    FINE = "fine"  # nothing is wrong with it; if the verdict is BY_RECORD, it is counted
    DUPLICATE = "duplicate"
    CONTENDED = "contended"
    THROTTLED = "throttled"
    INVALID = "invalid"
    UNKNOWN = "unknown"  # it may be stored, now or later


@dataclass(frozen=True, slots=True)
class Element:
    """The answer for one record or increment. `digest` is that of the stored record, for a
    duplicate; if its identity said so, `window` is where it counts. `limit` is the store's name of
    the exceeded limit, for a throttled one.
    """

    answer: Answer
    digest: bytes | None = None
    detail: str = ""
    limit: str = LIMIT_UNKNOWN
    window: WindowId = ""


class Verdict(StrEnum):
    """The result of a commit."""

    COMMITTED = "committed"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"  # nothing is written
    BY_RECORD = "by-record"  # of a store that is not transactional: some records are counted
    THROTTLED = "throttled"
    INVALID = "invalid"
    GATE_SHUT = "gate-shut"
    GATE_MISSING = "gate-missing"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A commit's verdict and its reasons.

    If CANCELLED, `records` and `increments` have one answer each, in the order of the request; if
    BY_RECORD, only `records` have.
    `limit` names the limit that the request or its gate exceeded. `gate_contended` is whether
    another transaction held the gate.
    """

    verdict: Verdict
    records: tuple[Element, ...] = ()
    increments: tuple[Element, ...] = ()
    detail: str = ""
    limit: str | None = None
    gate_contended: bool = False


@dataclass(frozen=True)
class Metering(ABC):
    """What writes cost, in the store's own measure, and how much a commit or a shard may take.

    A commit has at most `elements_max` items and increments together, and `bytes_max` bytes: the
    sizes of records and of what is beside them, and up to `element_bytes` for each element. A shard
    should take at most `shard_cost_max` a second at its key's peak. If not `tallied`, the store
    keeps no tallies while it takes events, and increments are no elements.
    """

    elements_max: int
    bytes_max: int
    element_bytes: int
    shard_cost_max: int
    tallied: bool = field(default=True, kw_only=True)

    @abstractmethod
    def record_cost(self, record: Record) -> int:
        """The cost of storing a record with what is beside it."""

    def identities_cost(self, record: Record) -> int:  # noqa: ARG002 - of a store without them
        """The cost of the record's identities, which another table takes."""
        return 0

    def tombstone_cost(self, tombstone: Tombstone) -> int:  # noqa: ARG002 - of a store without them
        """The cost of storing a tombstone."""
        return 0

    @abstractmethod
    def shared_cost(self, increments: int) -> int:
        """The cost of one attempt at a commit besides its records."""

    @abstractmethod
    def likely_increments(self, cost: int, seconds: int) -> int:
        """How many increments a key's records of this cost brought along within these seconds."""

    @abstractmethod
    def total_cost(self, cost: int, increments: int) -> int:
        """The cost of records together with that of these increments and of full commits."""


class ItemCodec(Protocol):
    """A store's form of items, and of the lines that hold them in archives."""

    def encode(self, item: StoredItem) -> bytes:
        """The item as one line of an archive, with its line feed."""
        ...

    def decode(self, line: bytes) -> StoredItem:
        """The item in a line of an archive. Raises ValueError for any other line."""
        ...

    def parse(self, item: StoredItem) -> Content:
        """What an item holds. Raises ValueError for an item of another form."""
        ...

    def item_of(self, content: Record | Chunk) -> StoredItem:
        """The item that holds a record or a chunk."""
        ...

    def spelled(self, record: Record, item: StoredItem) -> str | None:
        """What `spaced` gives of the attributes of an item, if it is one of the usual form and
        what `item_of` gives of the record; None for others. It takes half as long as these.
        """
        ...


class Store(Protocol):
    """Window tables. Only `commit` writes events, and only `retract` takes them back. All reads of
    items are strongly consistent.

    A read of records gives only counted ones. A store that is not transactional cannot always tell
    which they are while a window is being closed, before `fold` has ended: such a read then raises
    Throttled.
    """

    codec: ItemCodec
    transactional: bool
    """Whether a commit of several records is all or nothing, and adds to tallies. If not, no
    mapping may have `keys`, and stripes are listed only once `fold` has written them.
    """

    def metering_of(self, table: str) -> Metering:
        """What writes to a window's table cost."""

    def commit(
        self, spec: Spec, records: Sequence[Record], increments: Sequence[Increment]
    ) -> Outcome:
        """Put the records with what is beside them, and add each increment to a random stripe, all
        or nothing: only if a random gate of the window is open and no record or identity exists
        yet. The answer for a record is also that for what is beside it. Never raises StoreError.

        A store that is not transactional puts each record for itself, if it does not exist yet,
        and leaves the increments to `fold`. It says COMMITTED, or FINE of a record, only if it
        found a gate open after the record was stored.
        """

    def retract(self, spec: Spec, tombstones: Sequence[Tombstone]) -> Outcome:
        """Put the tombstones, and take from each one's stripe what it says, all or nothing: only
        if a random gate of the window is open, and no tombstone exists yet. Never raises
        StoreError.

        Records never change, so it is the caller who has read those of the tombstones. An answer
        for each tombstone is as for a record, and one for each of its `decrements_of`.

        A store that is not transactional refuses it, as INVALID.
        """

    def tombstones(
        self, spec: Spec, names: Sequence[TombstoneName]
    ) -> Mapping[TombstoneName, Tombstone]:
        """The stored tombstones of these names. Raises Missing if the table does not exist."""

    def record(self, spec: Spec, key: str, record_id: str) -> Record | None:
        """A stored record. Raises Missing if the table does not exist."""

    def lookup(self, spec: Spec, names: Sequence[RecordName]) -> Mapping[RecordName, Record]:
        """The stored records of these names. Raises Missing if the table does not exist."""

    def lookup_across(
        self, specs: Sequence[Spec], names: Sequence[RecordName]
    ) -> Mapping[WindowId, Mapping[RecordName, Record]]:
        """The stored records of these names in each of these windows that has any. Raises Missing
        if one of the tables does not exist.
        """

    def identities(self, names: Sequence[str]) -> Mapping[str, IdentityItem]:
        """The stored identities of these names. Raises Missing if their table does not exist."""

    def chunks(self, spec: Spec, key: str, record_id: str, count: int) -> Sequence[Chunk]:
        """The stored ones of a record's chunks 0..count-1, in no order. Raises Missing if the table
        does not exist.
        """

    def records(
        self, spec: Spec, key: str, shard: int, after: str, limit: int, before: str = ""
    ) -> RecordPage:
        """At most `limit` of a key's records on one shard, 1..N, whose ids follow `after`,
        ascending in code point order; "" precedes all. With `before`, only of those whose ids
        precede it. Raises Missing if there is no table.
        """

    def records_eventually(
        self, spec: Spec, key: str, shard: int, after: str, limit: int, before: str = ""
    ) -> RecordPage:
        """Like `records` at half the read units; the page may lack any that are new."""

    def widen(self, spec: Spec, key: str) -> None:
        """Double the stripes of the key's tally as far as this store knows them, up to
        `spec.stripes_most`, unless there are more or the first is empty. Never lowers them.
        """

    def tallies(self, spec: Spec, keys: Sequence[str]) -> dict[str, Tally]:
        """The keys' tallies, summed over all stripes there are; zero for a key without events."""

    def stripes(self, spec: Spec, number: int, after: str, limit: int) -> Iterator[list[Stripe]]:
        """The stripes of one bucket, 1..spec.buckets, whose places follow `after`, ascending, in
        pages of at most `limit`; "" precedes all.
        """

    def open_gates(self, spec: Spec) -> None:
        """Put the window's gates, open, where they are absent. Raises Refused if one is shut.

        Raises StateConflict, without putting a gate, if the window's state is not `creating`: a
        late roller must not open a table that was made again after the window was dropped.
        """

    def shut_gates(self, spec: Spec) -> None:
        """Shut every gate, also an absent one. After that no commit to this window succeeds."""

    def fold(self, spec: Spec, progress: str) -> Iterator[str]:
        """Settle which records of a window count whose gates were shut `settle_ms` ago, and write
        their stripes, if commits have not done so; yield the progress after each part.

        Continues from `progress`, which may be any that was yielded before; "" is the beginning.
        Runs that fold at once, or again, all come to the same records and stripes.
        """

    def scan(self, table: str, segment: int, segments: int) -> Iterator[list[StoredItem]]:
        """All items of one segment, 0..segments-1, of a table, in pages."""

    def make_table(self, table: str, tags: Mapping[str, str], peak: int = 0) -> None:
        """Begin to create a window table, with deletion protection, unless it exists. It should
        suffice for `peak`, the highest cost a second of the last windows; 0: not known.
        """

    def describe_table(self, table: str) -> TableFacts | None:
        """A table's state, or None if it does not exist."""

    def check_table(self, table: str, tags: Mapping[str, str]) -> None:
        """Check a new table, and finish one that a crash left incomplete. Raises Refused if its
        schema or tags are not those of this pipeline, or if it was used before.
        """

    def recover_table(self, table: str) -> None:
        """Switch point-in-time recovery on. Raises Throttled while that is not possible yet."""

    def reduce_capacity(self, table: str) -> None:
        """Lower what is paid for a table whose window is sealed."""

    def warm_table(self, table: str, units: int) -> None:
        """Begin to prepare a table for so many write units a second, more than it takes at once
        now. That is charged, and cannot be undone. Raises Throttled while the table changes, and
        Refused for fewer, or in a store that prepares none.
        """

    def tags(self, table: str) -> Mapping[str, str] | None:
        """A table's tags; None if the store has no tags. Raises Missing."""

    def tag_table(self, table: str, tags: Mapping[str, str]) -> None:
        """Add tags to a table."""

    def drop_table(self, table: str) -> None:
        """Lift the deletion protection or, if that is lifted, begin to delete the table. Repeat
        until the table does not exist.
        """
