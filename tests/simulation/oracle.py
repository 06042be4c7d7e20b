"""What must hold, checked after every change and once more at the end.

The oracle knows every message that was ever sent and works out on its own to which window it
belongs; it shares no code with the writer for that.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from tallyroll.errors import Reason
from tallyroll.memory import DeadLetter, MemoryBucket, MemoryCatalog, MemoryStore, MemoryTotals
from tallyroll.memory_store import Items
from tallyroll.ports import Item, Outcome, Status, Total, Verdict, Window
from tallyroll.records import Record
from tallyroll.specs import Spec
from tests.simulation.world import World

Identity = tuple[str, str, str]
MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class Sent:
    """What a producer sent: what it should count as, or the reason for which it can never count."""

    key: str = ""
    record_id: str | None = None
    ts: int | None = None
    n: int = 1
    amount: int = MICROS
    bad: Reason | None = None
    message_id: str = ""
    sent: int = 0

    @property
    def time(self) -> int:
        """The instant by which its window is chosen."""
        return self.sent if self.ts is None else self.ts


class WeighedItems(dict[tuple[str, str], Item]):
    """A table's items, and at any time the keys whose tallies and records do not weigh the same."""

    def __init__(self) -> None:
        super().__init__()
        self.unbalanced: dict[str, tuple[int, int]] = {}
        self.places: dict[tuple[str, str], str] = {}
        self.twice: list[str] = []

    def __setitem__(self, primary: tuple[str, str], item: Item) -> None:
        before = self.get(primary)
        super().__setitem__(primary, item)
        pk, sk = primary
        if pk.startswith("~g."):
            return
        if pk.startswith("~t."):
            key, sign = sk[2:].rpartition(".")[0], -1
        else:
            key, sign = pk.rpartition(".")[0], 1
            if self.places.setdefault((key, sk), pk) != pk:
                self.twice.append(f"{sk} of {key}")
        n, amount = self.unbalanced.pop(key, (0, 0))
        n += sign * (_n(item) - (_n(before) if before else 0))
        amount += sign * (_v(item) - (_v(before) if before else 0))
        if n or amount:
            self.unbalanced[key] = (n, amount)


def _n(item: Any) -> int:
    return int(item["n"]["N"])


def _v(item: Any) -> int:
    return int(Decimal(item["v"]["N"]) * MICROS)


@dataclass(slots=True)
class Found:
    """What the tables or archives hold in the end: records, and sums by (window, key)."""

    records: dict[Identity, tuple[int, int]] = field(default_factory=dict)
    by_records: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    by_tallies: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    twice: list[Identity] = field(default_factory=list)

    def add(self, window: str, item: Any) -> None:
        """Count one item."""
        pk, sk, sums = item["pk"]["S"], item["sk"]["S"], self.by_records
        if pk.startswith("~g."):
            return
        if pk.startswith("~t."):
            key, sums = sk[2:].rpartition(".")[0], self.by_tallies
        else:
            key = pk.rpartition(".")[0]
            identity = (window, key, sk[2:])
            if identity in self.records:
                self.twice.append(identity)
            self.records[identity] = (_n(item), _v(item))
        n, amount = sums.get((window, key), (0, 0))
        sums[window, key] = (n + _n(item), amount + _v(item))


class Oracle:
    """Holds what was sent and what was stored, and compares."""

    def __init__(self, world: World, window_ms: int, skew_ms: int, *, with_fuse: bool) -> None:
        self._world = world
        self._window_ms = window_ms
        self._skew_ms = skew_ms
        self._with_fuse = with_fuse
        self._names: dict[int, str] = {}
        self.sent: dict[str, Sent] = {}
        self.by_identity: dict[Identity, list[Sent]] = {}
        self.stored: dict[Identity, int] = {}
        self.sealed: dict[str, Window] = {}
        self.totals: dict[tuple[str, str], Total] = {}
        self.dead: dict[str, list[DeadLetter]] = {}
        self.commits = 0
        self.dropped = 0

    def window_of(self, sent: Sent) -> str:
        """The id of the window to which a message belongs."""
        start = sent.time - sent.time % self._window_ms
        if start not in self._names:
            named = datetime.fromtimestamp(start // 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
            self._names[start] = named
        return self._names[start]

    def identity_of(self, sent: Sent) -> Identity:
        """The (window, key, record id) under which a message must be stored."""
        return self.window_of(sent), sent.key, sent.record_id or sent.message_id

    def on_send(self, sent: Sent) -> None:
        """Take note of a message."""
        self.sent[sent.message_id] = sent
        if not sent.bad:
            self.by_identity.setdefault(self.identity_of(sent), []).append(sent)

    def on_commit(
        self, spec: Spec, records: list[Record], outcome: Outcome, items: WeighedItems
    ) -> None:
        """Check invariants 1, 4 and 5 after a commit."""
        fail = self._world.fail
        if items.unbalanced:
            fail(f"1: tallies of {spec.window} are off by {items.unbalanced}")
        if items.twice:
            fail(f"1: stored twice in {spec.window}: {items.twice}")
        if outcome.verdict is not Verdict.COMMITTED:
            return
        self.commits += 1
        if spec.window in self.sealed:
            fail(f"4: a commit succeeded in the sealed window {spec.window}")
        for record in records:
            identity = (spec.window, record.key, record.id)
            messages = self.by_identity.get(identity, [])
            if not any((sent.n, sent.amount) == (record.n, record.amount) for sent in messages):
                fail(f"5: no message maps to {identity}")
            if not any(self._admissible(sent, spec) for sent in messages):
                fail(f"5: {identity} was counted though it was sent too late or too early")
            if self.stored.setdefault(identity, record.shard) != record.shard:
                fail(f"5: {identity} was on shard {self.stored[identity]}, now {record.shard}")

    def _admissible(self, sent: Sent, spec: Spec) -> bool:
        return sent.sent <= spec.accept_until and sent.time <= sent.sent + self._skew_ms

    def on_gate(self, spec: Spec, before: Items, after: Items) -> None:
        """Check that no gate which was shut stands open again."""
        for primary, item in before.items():
            if "open" in item and not item["open"]["BOOL"] and after[primary]["open"]["BOOL"]:
                self._world.fail(f"4: gate {primary} of {spec.window} was opened again")

    def on_dead(self, letter: DeadLetter) -> None:
        """Take note of a message in the dead-letter queue."""
        self.dead.setdefault(letter.message.id, []).append(letter)

    def on_acknowledged(self, message_id: str) -> None:
        """Check invariant 2 when a message is deleted from the queue."""
        if message_id in self.dead:
            return
        sent = self.sent[message_id]
        if sent.bad or self.identity_of(sent) not in self.stored:
            self._world.fail(f"2: message {message_id} {sent} was acknowledged and is nowhere")

    def on_total(self, total: Total) -> None:
        """Check that a total never changes."""
        if self.totals.setdefault((total.window, total.key), total) != total:
            self._world.fail(f"4: {total} replaced {self.totals[total.window, total.key]}")

    def on_sealed(self, window: Window, items: WeighedItems) -> None:
        """Check that a window's totals equal its tallies and its records, now that it is sealed."""
        self.sealed[window.id] = window
        found = Found()
        for item in items.values():
            found.add(window.id, item)
        self._check_totals(window, found)

    def _check_totals(self, window: Window, found: Found) -> None:
        totals = {
            key: (total.n, total.amount)
            for (of, key), total in self.totals.items()
            if of == window.id
        }
        for name, sums in (("records", found.by_records), ("tallies", found.by_tallies)):
            counted = {key: value for (of, key), value in sums.items() if of == window.id}
            if counted != totals:
                self._world.fail(f"4: {window.id}: totals {totals}, {name} {counted}")
        if window.events != sum(n for n, _ in totals.values()):
            self._world.fail(f"4: {window.id}: state says {window.events} events, totals {totals}")

    def on_drop(self, window: Window | None, items: WeighedItems, tags: Any, bucket: Any) -> None:
        """Check invariant 3 just before a table goes: proven, tagged, and its archive whole."""
        if window and window.status is Status.DROPPED and not _may_count(items.values()):
            return  # made again by a roller that slept for long, and empty
        if window is None or window.status is not Status.DROPPING or not tags.get("proven"):
            self._world.fail(f"3: a table is dropped in state {window}, tags {tags}")
            return
        if f"{window.archive}/proof.json" not in bucket.list(f"{window.archive}/"):
            self._world.fail(f"3: {window.id} is dropped, but there is no proof")
        live, archived = Found(), Found()
        for item in items.values():
            live.add(window.id, item)
        for item in archive_items(bucket, window):
            archived.add(window.id, item)
        if live != archived:
            self._world.fail(f"3: {window.id} is dropped, but its archive is not the table")
        self.dropped += 1

    def final(
        self,
        store: MemoryStore,
        catalog: MemoryCatalog,
        totals: MemoryTotals,
        bucket: MemoryBucket,
    ) -> Found:
        """Recount everything: each accepted id once, in a table or archive; no message lost."""
        found = Found()
        for window in catalog.windows(0, 10**15):
            items = self._last_items(window, store, bucket)
            for item in items:
                found.add(window.id, item)
            if window.status.sealed:
                self._check_totals(window, found)
        if found.twice or found.by_records != found.by_tallies:
            self._world.fail(f"1: twice {found.twice}; {found.by_records} != {found.by_tallies}")
        if sorted(found.records) != sorted(self.stored):
            lost = [identity for identity in self.stored if identity not in found.records]
            self._world.fail(f"1: committed, but in neither table nor archive: {lost}")
        for total in totals.listed():
            if self.totals.get((total.window, total.key)) != total:
                self._world.fail(f"4: {total} is not what was sealed")
        for sent in self.sent.values():
            self._judge(sent, found, catalog)
        return found

    def _last_items(self, window: Window, store: MemoryStore, bucket: MemoryBucket) -> list[Any]:
        items = list(store.items(window.table).values()) if window.table in store.tables() else []
        if window.status is Status.DROPPED and _may_count(items):
            self._world.fail(f"3: {window.id} is dropped, but its table is back and takes commits")
        dropped = window.archive and not any("h" in item for item in items)
        return archive_items(bucket, window) if dropped else items

    def _judge(self, sent: Sent, found: Found, catalog: MemoryCatalog) -> None:
        letters = self.dead.get(sent.message_id, [])
        stored = None if sent.bad else found.records.get(self.identity_of(sent))
        counted = stored == (sent.n, sent.amount)
        if not counted and not letters:
            self._world.fail(f"2: {sent} is neither counted nor a dead letter")
        for letter in letters:
            if not self._deserved(sent, letter, catalog, counted=counted):
                self._world.fail(f"2: {sent} was wrongly rejected: {letter}")

    def _deserved(
        self, sent: Sent, letter: DeadLetter, catalog: MemoryCatalog, *, counted: bool
    ) -> bool:
        match letter.reason:
            case None | Reason.CRASHES_WRITER:
                return self._with_fuse
            case Reason.TOO_FAR_AHEAD:
                return sent.time > sent.sent + self._skew_ms
            case Reason.TOO_LATE:
                window = self.window_of(sent)
                calendar, spec = catalog.calendar(), catalog.specs([window]).get(window)
                before = calendar is not None and sent.time < calendar.genesis
                return before or (spec is not None and sent.sent > spec.accept_until)
            case Reason.WINDOW_SEALED:
                return not counted or "unverified" in letter.detail
            case Reason.ID_CONFLICT:
                rivals = self.by_identity[self.identity_of(sent)]
                return any(rival.amount != sent.amount for rival in rivals)
            case reason:
                return reason is sent.bad


def made_again(catalog: MemoryCatalog, store: MemoryStore) -> list[str]:
    """Dropped windows of whose name there is a table: made again by a roller that slept."""
    tables = store.tables()
    windows = catalog.windows(0, 10**15)
    dropped = [window for window in windows if window.status is Status.DROPPED]
    return [window.id for window in dropped if window.table in tables]


def _may_count(items: Iterable[Item]) -> bool:
    """Whether there are records, or a gate that lets one in."""
    return any("h" in item or item.get("open") == {"BOOL": True} for item in items)


def archive_items(bucket: MemoryBucket, window: Window) -> list[Any]:
    """The items of a window's proven archive, read without the core's reader."""
    return [
        json.loads(line)["Item"]
        for key in bucket.list(f"{window.archive}/")
        if "/data/" in key
        for line in gzip.decompress(bucket.get(key)).splitlines()
    ]
