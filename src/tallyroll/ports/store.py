"""The seams: what the core asks of a store, a catalog, totals, queues, a bucket, time and chance.

Production, the emulators and the in-memory doubles all satisfy these protocols; every one of their
methods may raise StoreError (Throttled, Unknown, Missing, Refused). Times are ms since the epoch,
amounts millionths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from tallyroll.model.items import Item
from tallyroll.model.records import Increment, Page, Record, RecordName
from tallyroll.model.specs import Spec
from tallyroll.model.tallies import Stripe, Tally


class Answer(StrEnum):
    """What a store says of one record or increment of a commit that it did not carry out."""

    FINE = "fine"
    DUPLICATE = "duplicate"
    CONTENDED = "contended"
    THROTTLED = "throttled"
    INVALID = "invalid"


class Limit(StrEnum):
    """What a throttled write was too much for, as far as the store said."""

    KEY_RANGE = "key-range"  # one partition: a hot shard
    TABLE = "table"  # what the table takes by now; on demand it grows
    PROVISIONED = "provisioned"  # the capacity that a table was given
    ON_DEMAND_MAX = "on-demand-max"  # the most that a table on demand was allowed
    ACCOUNT = "account"  # the account's quota
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Element:
    """The answer for one element; `digest` is that of the stored record if it is a duplicate,
    `limit` what it was too much for if it was throttled.
    """

    answer: Answer
    digest: bytes | None = None
    detail: str = ""
    limit: Limit = Limit.OTHER


class Verdict(StrEnum):
    """What became of a commit as a whole."""

    COMMITTED = "committed"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"
    THROTTLED = "throttled"
    INVALID = "invalid"
    GATE_SHUT = "gate-shut"
    GATE_MISSING = "gate-missing"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A commit's verdict; if it is CANCELLED, `records` and `increments` answer one by one, in
    request order. `limit` is what it was too much for as a whole, or for its gate;
    `gate_contended` says that another transaction held the gate.
    """

    verdict: Verdict
    records: tuple[Element, ...] = ()
    increments: tuple[Element, ...] = ()
    detail: str = ""
    limit: Limit | None = None
    gate_contended: bool = False


class TableStatus(StrEnum):
    """The state of a window table as its store reports it."""

    CREATING = "creating"
    ACTIVE = "active"
    UPDATING = "updating"
    DELETING = "deleting"


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a window table takes a second, in units: provisioned, or on demand and warm from its
    first second on.
    """

    write: int
    read: int
    provisioned: bool = False


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What a store knows about a window table."""

    status: TableStatus
    protected: bool


class Store(Protocol):
    """Window tables. `commit` is the only verb that writes events."""

    def commit(
        self, spec: Spec, records: Sequence[Record], increments: Sequence[Increment]
    ) -> Outcome:
        """All or nothing, if a gate of the window stands open and no record is there: put the
        records, add the increments, each to a random stripe. Never raises StoreError: the outcome
        says it.
        """
        ...

    def record(self, spec: Spec, key: str, record_id: str) -> Record | None:
        """The stored record, strongly consistent. Raises Missing if the table is gone."""
        ...

    def lookup(self, spec: Spec, names: Sequence[RecordName]) -> Mapping[RecordName, Record]:
        """The stored records of these names, strongly consistent. Raises Missing like `record`."""
        ...

    def records(self, spec: Spec, key: str, shard: int, after: str, limit: int) -> Page:
        """Some of a key's records on one shard, 1..N: at most `limit` whose ids follow `after` ("":
        from the first on), by id in code point order, strongly consistent. Raises Missing.
        """
        ...

    def tallies(self, spec: Spec, keys: Sequence[str]) -> dict[str, Tally]:
        """The keys' tallies, stripes gathered, strongly consistent; zero for one without events."""
        ...

    def bucket(self, spec: Spec, number: int) -> list[Tally]:
        """All stripes listed under one bucket, 1..spec.buckets, strongly consistent."""
        ...

    def stripes(self, spec: Spec, number: int, after: str, limit: int) -> Iterator[list[Stripe]]:
        """The stripes of one bucket whose places follow `after` ("": from the first on), ascending,
        in pages of at most `limit`, strongly consistent.
        """
        ...

    def open_gates(self, spec: Spec) -> None:
        """Put the window's gates, open, where they are absent. Raises Refused if one is shut.

        Raises StateConflict, with no gate put, if the window's state is not `creating`: a roller
        that slept through a window's life must not open a table that was made again.
        """
        ...

    def shut_gates(self, spec: Spec) -> None:
        """Shut every gate, also an absent one; on return no commit of this window can succeed any
        more.
        """
        ...

    def scan(self, table: str, segment: int, segments: int) -> Iterator[list[Item]]:
        """All items of one segment (0..segments-1) of a table, in pages, strongly consistent."""
        ...

    def make_table(
        self, table: str, tags: Mapping[str, str], capacity: Capacity | None = None
    ) -> None:
        """Begin to make a window table, with deletion protection; fine if it is there already. No
        capacity: as the store gives it on demand.
        """
        ...

    def describe_table(self, table: str) -> TableFacts | None:
        """What the store knows about a table, or None if there is none."""
        ...

    def check_table(self, table: str, tags: Mapping[str, str]) -> None:
        """Raise Refused for a new table that is none of ours, by schema or tags, or was used
        before; repair what else is wrong with one that a crash left half-made.
        """
        ...

    def recover_table(self, table: str) -> None:
        """Switch point-in-time recovery on. Raises Throttled while it cannot be yet."""
        ...

    def resize_table(self, table: str, capacity: Capacity) -> None:
        """Give a provisioned table another capacity."""
        ...

    def tag_table(self, table: str, tags: Mapping[str, str]) -> None:
        """Add tags to a table."""
        ...

    def drop_table(self, table: str) -> None:
        """Lift the deletion protection or, where that is lifted, begin to delete the table; to be
        repeated until it is gone.
        """
        ...
