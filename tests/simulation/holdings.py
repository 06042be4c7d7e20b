"""What tables and archives hold: items weighed as they change, and counted once more in the end."""

from __future__ import annotations

import gzip
import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from tallyroll.adapters.dynamodb.items import Item
from tallyroll.adapters.memory import MemoryBucket, MemoryCatalog, MemoryStore
from tallyroll.errors import Missing
from tallyroll.model.states import Status, Window

Identity = tuple[str, str, str]
Name = tuple[str, str, str, int | None]
"""The window, key and id of a record, and the index of an event in a packet."""
Weight = tuple[int, int, int, int]
"""Events and amount, and those of them that were retracted."""
MICROS = 1_000_000
NOTHING = (0, 0, 0, 0)


class WeighedItems(dict[tuple[str, str], Item]):
    """A table's items, and at any time the keys whose tallies and records do not weigh the same.

    `changes` are all that were ever made: when (ms), of which item, and what stood there before.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        super().__init__()
        self._clock = clock
        self.changes: list[tuple[int, tuple[str, str], Item | None]] = []
        self.unbalanced: dict[str, Weight] = {}
        self.negative: set[tuple[str, str]] = set()
        self.places: dict[tuple[str, str], str] = {}
        self.twice: list[str] = []
        self._parts: dict[tuple[str, str], list[int]] = {}
        self.torn: set[tuple[str, str]] = set()

    def __setitem__(self, primary: tuple[str, str], item: Item) -> None:
        before = self.get(primary)
        super().__setitem__(primary, item)
        self.changes.append((self._clock(), primary, before))
        pk, sk = primary
        if pk.startswith("~g."):
            return
        if sk.startswith("c#"):
            self._count(pk.rpartition(".")[0], sk[2:].rpartition("#")[0], -1 if before else 0, -1)
            return
        if pk.startswith("~t."):
            key, sign = sk[2:].rpartition(".")[0], -1
            if _n(item) < 0:
                self.negative.add(primary)
        elif is_tombstone(sk):
            key, sign = pk.rpartition(".")[0], -1
        else:
            key, sign = pk.rpartition(".")[0], 1
            if owner := _manifest(item):
                self._count(owner[0], sk[2:], 0, owner[1] if owner[0] == key else 0)
            if self.places.setdefault((key, sk), pk) != pk:
                self.twice.append(f"{sk} of {key}")
        had = self.unbalanced.pop(key, NOTHING)
        more = _weight(sk, item)
        less = _weight(sk, before) if before else NOTHING
        n, amount = (sign * (more[at] - less[at]) for at in (0, 1))
        # What tombstones say was retracted, their tallies must say too.
        side = 1 if is_tombstone(sk) else -1
        rn, rv = (side * (more[at] - less[at]) for at in (2, 3))
        weight = had[0] + n, had[1] + amount, had[2] + rn, had[3] + rv
        if weight != NOTHING:
            self.unbalanced[key] = weight

    def _count(self, key: str, record_id: str, less: int, more: int) -> None:
        """Weigh chunks against what records declare; `torn` are the records that lack some, and
        the chunks without a record.
        """
        found = self._parts.setdefault((key, record_id), [0])
        found[0] += more - less
        if found[0]:
            self.torn.add((key, record_id))
        else:
            self.torn.discard((key, record_id))

    @property
    def finding(self) -> str:
        """What does not agree, or "" if all does."""
        if self.unbalanced:
            return f"tallies are off by {self.unbalanced}"
        if self.negative:
            return f"tallies without the event that was retracted: {self.negative}"
        if self.twice:
            return f"stored twice: {self.twice}"
        torn = f"chunks without their record, or a record without some: {self.torn}"
        return torn if self.torn else ""

    def as_of(self, at: float) -> dict[tuple[str, str], Item]:
        """The items as they were at `at` (ms)."""
        past = dict(self)
        for when, primary, before in reversed(self.changes):
            if when <= at:
                break
            put_back(past, primary, before)
        return past


def put_back(
    items: dict[tuple[str, str], Item], primary: tuple[str, str], before: Item | None
) -> None:
    """Undo one change of an item."""
    if before is None:
        items.pop(primary, None)
    else:
        items[primary] = before


def _manifest(item: Any) -> tuple[str, int] | None:
    """The key under which a record's chunks lie, and how many they are, read without the core."""
    if not item.get("fmt", {}).get("S", "").startswith("chunks1:"):
        return None
    key, count, *_ = json.loads(item["data"]["B"][1:])
    return key, count


def is_tombstone(sk: str) -> bool:
    """Whether this is the sort key of a tombstone, of an event or of one in a packet."""
    return sk.startswith(("r#", "p#"))


def _weight(sk: str, item: Any) -> Weight:
    """What a record, tally or tombstone holds."""
    n, amount = _n(item), _v(item)
    if is_tombstone(sk):
        return n, amount, n, amount
    if "rn" in item:
        return n, amount, int(item["rn"]["N"]), int(Decimal(item["rv"]["N"]) * MICROS)
    return n, amount, 0, 0


def _n(item: Any) -> int:
    return int(item["n"]["N"])


def _v(item: Any) -> int:
    return int(Decimal(item["v"]["N"]) * MICROS)


@dataclass(slots=True)
class Found:
    """What the tables or archives hold in the end: records, tombstones, and sums by (window, key):
    of records less tombstones, and of tallies. `retracted` are those that tallies name.
    """

    records: dict[Identity, tuple[int, int]] = field(default_factory=dict)
    by_records: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    by_tallies: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    twice: list[Identity] = field(default_factory=list)
    tombstones: dict[Name, tuple[int, int]] = field(default_factory=dict)
    retracted: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)

    def add(self, window: str, item: Any) -> None:
        """Count one item."""
        pk, sk, sums = item["pk"]["S"], item["sk"]["S"], self.by_records
        if pk.startswith("~g.") or sk.startswith("c#"):
            return
        sign = 1
        if pk.startswith("~t."):
            key, sums = sk[2:].rpartition(".")[0], self.by_tallies
            _, _, rn, rv = _weight(sk, item)
            if rn:
                before = self.retracted.get((window, key), (0, 0))
                self.retracted[window, key] = (before[0] + rn, before[1] + rv)
        elif is_tombstone(sk):
            key, sign = pk.rpartition(".")[0], -1
            self.tombstones[(window, key, *_tombstone_place(sk))] = (_n(item), _v(item))
        else:
            key = pk.rpartition(".")[0]
            for record_id, weight in _events(sk[2:], item):
                identity = (window, key, record_id)
                if identity in self.records:
                    self.twice.append(identity)
                self.records[identity] = weight
        n, amount = sums.get((window, key), (0, 0))
        sums[window, key] = (n + sign * _n(item), amount + sign * _v(item))


def _events(record_id: str, item: Any) -> list[tuple[str, tuple[int, int]]]:
    """A record with what it holds; of a leaf of a log, each event with its own, by message."""
    if not item.get("fmt", {}).get("S", "").startswith("log1"):
        return [(record_id, (_n(item), _v(item)))]
    data = item["data"]["B"]
    data = b64decode(data) if isinstance(data, str) else data
    return [(each.message, (1, each.amount)) for each in logged(data, _n(item))]


class Logged(NamedTuple):
    """An event in a leaf of a log: its message, its times (ms), and its amount."""

    message: str
    ts: int
    amount: int
    sent: int


def logged(data: bytes, n: int) -> list[Logged]:
    """The `n` events in the data of a leaf, read without the core."""
    ids = [str(UUID(bytes=data[at : at + 16])) for at in range(0, 16 * n, 16)]
    begin, entries = json.loads(zlib.decompress(data[16 * n :]))
    return [
        Logged(message, begin + dt, int(Decimal(value) * MICROS), begin + sent)
        for message, (dt, value, _, sent) in zip(ids, entries, strict=True)
    ]


def _tombstone_place(sk: str) -> tuple[str, int | None]:
    """The id and index in the sort key of a tombstone, read without the core."""
    if sk.startswith("r#"):
        return sk[2:], None
    record_id, _, index = sk[2:].rpartition("#")
    return record_id, int(index)


def made_again(catalog: MemoryCatalog, store: MemoryStore) -> list[str]:
    """Dropped windows of whose name there is a table: made again by a roller that slept."""
    tables = store.tables()
    windows = catalog.windows(0, 10**15)
    dropped = [window for window in windows if window.status is Status.DROPPED]
    return [window.id for window in dropped if window.table in tables]


def may_count(items: Iterable[Item]) -> bool:
    """Whether there are records, or a gate that lets one in."""
    return any("h" in item or item.get("open") == {"BOOL": True} for item in items)


def told(items: Iterable[Any]) -> list[str]:
    """Items with all that they hold, as an archive tells them, in one order."""
    return sorted(
        json.dumps(item, sort_keys=True, default=lambda binary: b64encode(binary).decode())
        for item in items
    )


def archive_items(bucket: MemoryBucket, window: Window) -> list[Any]:
    """The items of a window's proven archive, read without the core's reader."""
    return [
        json.loads(line)["Item"]
        for key in bucket.list(f"{window.attempt.archive}/")
        if "/data/" in key
        for line in gzip.decompress(bucket.get(key)).splitlines()
    ]


def is_whole(archived: Iterable[Any], items: Iterable[Any]) -> bool:
    """Whether an archive is the table. A writer that slept may raise a key's stripes after the
    export: that says nothing, as there are no stripes beyond the archived number.
    """
    without = [
        [
            {name: it for name, it in each.items() if name != "w" or not _is_tally(each)}
            for each in some
        ]
        for some in (archived, items)
    ]
    return told(without[0]) == told(without[1])


def _is_tally(item: Any) -> bool:
    return str(item["pk"]["S"]).startswith("~t.")


def last_items(
    window: Window, store: MemoryStore, bucket: MemoryBucket, fail: Callable[[str], None]
) -> list[Any]:
    """What a window holds in the end: the items of its table, or of its archive once that is gone.

    It is to `fail` if a dropped window's table is back and may count.
    """
    try:
        items = list(store.items(window.table).values())
    except Missing:  # also one that is being made again
        items = []
    if window.status is Status.DROPPED and may_count(items):
        fail(f"3: {window.id} is dropped, but its table is back and takes commits")
    begun = window.status in (Status.DROPPING, Status.DROPPED)
    dropped = begun and not any("h" in item for item in items)
    return archive_items(bucket, window) if dropped else items
