"""The store of window tables, and its answers to a commit."""

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
    """A store's answer for one record or increment of a cancelled commit."""

    FINE = "fine"
    DUPLICATE = "duplicate"
    CONTENDED = "contended"
    THROTTLED = "throttled"
    INVALID = "invalid"


class Limit(StrEnum):
    """The limit that a throttled write exceeded, as far as the store reported it."""

    KEY_RANGE = "key-range"  # throughput of one partition: a hot shard
    TABLE = "table"  # current throughput of an on-demand table, which grows
    PROVISIONED = "provisioned"  # a table's provisioned capacity
    ON_DEMAND_MAX = "on-demand-max"  # the configured maximum of an on-demand table
    ACCOUNT = "account"  # the account's quota
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Element:
    """The answer for one record or increment. `digest` is that of the stored record, for a
    duplicate; `limit` is the exceeded limit, for a throttled one.
    """

    answer: Answer
    digest: bytes | None = None
    detail: str = ""
    limit: Limit = Limit.OTHER


class Verdict(StrEnum):
    """The result of a commit."""

    COMMITTED = "committed"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"
    THROTTLED = "throttled"
    INVALID = "invalid"
    GATE_SHUT = "gate-shut"
    GATE_MISSING = "gate-missing"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A commit's verdict and its reasons.

    If CANCELLED, `records` and `increments` have one answer each, in the order of the request.
    `limit` is the limit that the request or its gate exceeded. `gate_contended` is whether another
    transaction held the gate.
    """

    verdict: Verdict
    records: tuple[Element, ...] = ()
    increments: tuple[Element, ...] = ()
    detail: str = ""
    limit: Limit | None = None
    gate_contended: bool = False


class TableStatus(StrEnum):
    """The status of a window table, as its store reports it."""

    CREATING = "creating"
    ACTIVE = "active"
    UPDATING = "updating"
    DELETING = "deleting"


@dataclass(frozen=True, slots=True)
class Capacity:
    """The throughput of a window table, in units a second: provisioned capacity, or the warm
    throughput of an on-demand table.
    """

    write: int
    read: int
    provisioned: bool = False


@dataclass(frozen=True, slots=True)
class TableFacts:
    """The state of a window table."""

    status: TableStatus
    protected: bool


class Store(Protocol):
    """Window tables. Only `commit` writes events. All reads of items are strongly consistent."""

    def commit(
        self, spec: Spec, records: Sequence[Record], increments: Sequence[Increment]
    ) -> Outcome:
        """Put the records and add each increment to a random stripe, all or nothing.

        Succeeds only if a random gate of the window is open and no record exists yet. Never raises
        StoreError: the outcome reports errors.
        """
        ...

    def record(self, spec: Spec, key: str, record_id: str) -> Record | None:
        """A stored record. Raises Missing if the table does not exist."""
        ...

    def lookup(self, spec: Spec, names: Sequence[RecordName]) -> Mapping[RecordName, Record]:
        """The stored records of these names. Raises Missing if the table does not exist."""
        ...

    def records(self, spec: Spec, key: str, shard: int, after: str, limit: int) -> Page:
        """At most `limit` of a key's records on one shard, 1..N, whose ids follow `after`.

        Ascending by id in code point order; "" precedes all. Raises Missing if the table does not
        exist.
        """
        ...

    def tallies(self, spec: Spec, keys: Sequence[str]) -> dict[str, Tally]:
        """The keys' tallies, summed over their stripes; zero for a key without events."""
        ...

    def stripes(self, spec: Spec, number: int, after: str, limit: int) -> Iterator[list[Stripe]]:
        """The stripes of one bucket, 1..spec.buckets, whose places follow `after`, ascending, in
        pages of at most `limit`; "" precedes all.
        """
        ...

    def open_gates(self, spec: Spec) -> None:
        """Put the window's gates, open, where they are absent. Raises Refused if one is shut.

        Raises StateConflict, without putting a gate, if the window's state is not `creating`: a
        late roller must not open a table that was made again after the window was dropped.
        """
        ...

    def shut_gates(self, spec: Spec) -> None:
        """Shut every gate, also an absent one. On return no commit to this window can succeed any
        more.
        """
        ...

    def scan(self, table: str, segment: int, segments: int) -> Iterator[list[Item]]:
        """All items of one segment, 0..segments-1, of a table, in pages."""
        ...

    def make_table(
        self, table: str, tags: Mapping[str, str], capacity: Capacity | None = None
    ) -> None:
        """Begin to create a window table, with deletion protection, unless it exists.

        Without `capacity` it is on demand, with the store's default throughput.
        """
        ...

    def describe_table(self, table: str) -> TableFacts | None:
        """A table's state, or None if it does not exist."""
        ...

    def check_table(self, table: str, tags: Mapping[str, str]) -> None:
        """Check a new table, and finish one that a crash left incomplete.

        Raises Refused if its schema or tags are not those of this pipeline, or if it was used
        before.
        """
        ...

    def recover_table(self, table: str) -> None:
        """Switch point-in-time recovery on. Raises Throttled while that is not possible yet."""
        ...

    def resize_table(self, table: str, capacity: Capacity) -> None:
        """Change the capacity of a provisioned table."""
        ...

    def tag_table(self, table: str, tags: Mapping[str, str]) -> None:
        """Add tags to a table."""
        ...

    def drop_table(self, table: str) -> None:
        """Lift the deletion protection or, if that is lifted, begin to delete the table. Repeat
        until the table does not exist.
        """
        ...
