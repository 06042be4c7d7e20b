"""What must hold, checked after every change and once more at the end.

The oracle works out by itself in which window each message belongs, with none of our own code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from tallyroll.adapters.memory import (
    DeadLetter,
    MemoryBucket,
    MemoryCatalog,
    MemoryStore,
)
from tallyroll.adapters.memory.tables import Items
from tallyroll.limits import LONE_DEATHS_MAX
from tallyroll.model.messages import Message, RedriveMark
from tallyroll.model.periods import PeriodState
from tallyroll.model.records import Record
from tallyroll.model.retractions import Tombstone
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status, Window
from tallyroll.model.totals import PeriodTotal, Total
from tallyroll.ports.store import Outcome, Verdict
from tallyroll.reasons import Reason
from tallyroll.settings import Settings
from tests.simulation.archive_book import ArchiveBook
from tests.simulation.freezing import is_of, may_be_hot
from tests.simulation.holdings import (
    Found,
    Identity,
    WeighedItems,
    last_items,
)
from tests.simulation.identity_book import Content, IdentityBook
from tests.simulation.retraction_book import ONCE_MORE, RetractionBook
from tests.simulation.sent import Asked, Opened, Sent, too_late
from tests.simulation.spans import Spans
from tests.simulation.truth import Read, Truth, window_name, wrong_roll_up
from tests.simulation.wish_book import WishBook
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.watched_archives import SimTotals


class Oracle:
    """Holds what was sent and what was stored, and compares."""

    def __init__(self, world: World, window_ms: int, day_seconds: int, *, with_fuse: bool) -> None:
        self._world = world
        self.book = IdentityBook(self, world, day_seconds)
        self.retractions, self.archives = RetractionBook(self, world), ArchiveBook(world)
        self.spans, self.wishes = Spans(world, window_ms), WishBook(world)
        self._with_fuse = with_fuse
        self.gentle = False
        self.truth = Truth()
        self.reads = 0
        self._specs: dict[str, Spec] = {}
        self.sent: dict[str, Sent] = {}
        self._by_id: dict[tuple[str, str], list[Sent]] = {}
        self._redriven: set[str] = set()
        self._counts_as: dict[Identity, Identity] = {}
        self._counted: dict[tuple[str, str], list[Content]] = {}
        self.stored: dict[Identity, int] = {}
        self.sealed: dict[str, Window] = {}
        self.totals: dict[tuple[str, str], Total] = {}
        self.dead: dict[str, list[DeadLetter]] = {}
        self._deaths = Counter[str]()
        self.overdue: Collection[str] = ()
        self.commits = 0
        self.rolled_up = 0

    def window_of(self, ts: int) -> str:
        """The id of the window in which an instant lies."""
        return window_name(self.spans.at(ts)[0])

    @property
    def deployed(self) -> list[Settings]:
        """The settings of all deployments."""
        return self.spans.deployed

    @property
    def opened(self) -> dict[str, Opened]:
        """The windows of the past that were opened."""
        return self.spans.opened

    def identity_of(self, sent: Sent) -> Identity:
        """The (window, key, record id) under which a message must be stored."""
        return sent.target or self.window_of(sent.time), sent.key, sent.id

    def identities_of(self, sent: Sent) -> list[Identity]:
        """All of them, if a mapping counts it under several keys."""
        return [self.identity_of(sent)]

    def content_of(self, sent: Sent) -> Content:
        """What makes it another event than one of the same id."""
        return sent.key, sent.ts, sent.n, sent.amount, sent.times

    def _home_of(self, sent: Sent) -> Identity:
        """The identity that it had before it was ever redriven."""
        return self.window_of(sent.time), sent.key, sent.id

    def _messages_of(self, identity: Identity) -> list[Sent]:
        """The messages that may be stored under an identity."""
        sent = self._by_id.get(identity[1:], [])
        return [each for each in sent if self.identity_of(each) == identity]

    def _rivals(self, sent: Sent) -> list[Content]:
        """The contents that may have its identity or its id."""
        found = [each for one in self.identities_of(sent) for each in self._messages_of(one)]
        taken = chain.from_iterable(each.contents for each in self.book.taken_by(sent))
        return [*map(self.content_of, found), *taken]

    def _is_mixed(self, sent: Sent) -> bool:
        return len({self.window_of(at) for at in sent.times}) > 1

    def on_send(self, sent: Sent) -> None:
        """Take note of a message."""
        self.sent[sent.message_id] = sent
        if isinstance(sent, Asked):
            self.retractions.on_asked(sent)
        if not sent.bad:
            self._by_id.setdefault((sent.key, sent.id), []).append(sent)

    def on_redriven(self, message_id: str, redrive: RedriveMark) -> None:
        """Take note of a message that an operator sent again."""
        first = self.sent[redrive.id]
        if (first.bad and not isinstance(first, Asked)) or first.sent != redrive.sent:
            self._world.fail(f"2: {first} was redriven as {redrive}")
        again = replace(first, message_id=message_id, sent=self._world.now, target=redrive.target)
        self.on_send(replace(again, first_id=redrive.id, first_sent=redrive.sent))
        self._redriven.add(redrive.id)

    def on_letter_deleted(self, first_id: str) -> None:
        """Check that what is a dead letter no more was sent again, or counts."""
        first = self.sent[first_id]
        if isinstance(first, Asked) and first_id in self._redriven:
            return
        known = self._counted.get(self.identity_of(first)[1:], ())
        if self.content_of(first) not in known and first_id not in self._redriven:
            self._world.fail(f"2: the dead letter of {first} was deleted, and it is nowhere")

    def on_spec(self, spec: Spec) -> None:
        """Check that a spec never changes, and is that of one deployment and no mixture."""
        if self._specs.setdefault(spec.window, spec) != spec:
            self._world.fail(f"5: {spec} replaced {self._specs[spec.window]}")
        self.book.on_spec(spec)
        span, opened = self.spans.at(spec.start), self.opened.get(spec.window)
        if not any(
            is_of(spec, settings, span, opened)
            and may_be_hot(spec, settings, self.deployed, self.wishes.most)
            for settings in self.deployed
        ):
            self._world.fail(f"5: {spec} is not what any deployment would freeze")

    def on_read(self, read: Read, answer: Mapping[str, Any]) -> None:
        """Check an answer of the aggregator."""
        self.reads += 1
        if finding := self.truth.finding(read, answer):
            self._world.fail(f"read: {finding}")

    def some_identity(self, chance: float) -> Identity | None:
        """One of the identities under which a record was sent, if there is any."""
        known = list(self._by_id.values())
        return self.identity_of(known[int(chance * len(known))][0]) if known else None

    def on_looked_up(
        self, identity: Identity, answer: str, catalog: MemoryCatalog, *, before: bool
    ) -> None:
        """Check what was said of a record that was stored `before` it was asked for, or not."""
        window = catalog.window(identity[0])
        ended = window is not None and window.status in (Status.DROPPING, Status.DROPPED)
        true = {"Absent": not before, "Archived": ended, "Found": identity in self.stored}
        if not true[answer]:
            self._world.fail(f"read: {identity} is said to be {answer}, its window is {window}")

    def told(self, spec: Spec, records: Sequence[Record]) -> Sequence[Record]:
        """The records of a commit as the book has them."""
        return records

    def on_commit(
        self, spec: Spec, records: list[Record], outcome: Outcome, items: WeighedItems
    ) -> None:
        """Check invariants 1, 4 and 5 after a commit."""
        if finding := items.finding:
            self._world.fail(f"1: {spec.window}: {finding}")
        if outcome.verdict is not Verdict.COMMITTED:
            return
        self.commits += 1
        for record in records:
            self._count(spec, record)

    def on_retract(
        self, spec: Spec, tombstones: Sequence[Tombstone], outcome: Outcome, items: WeighedItems
    ) -> None:
        """Check invariants 1, 4 and 7 after a transaction of tombstones."""
        if finding := items.finding:
            self._world.fail(f"1: {spec.window}: {finding}")
        if outcome.verdict is Verdict.COMMITTED:
            self.retractions.on_retracted(spec, tombstones)

    def _count(self, spec: Spec, record: Record) -> None:
        """Check that a record may be counted, and take note that it is."""
        fail, identity = self._world.fail, (spec.window, record.key, record.id)
        if spec.window in self.sealed:
            fail(f"4: a commit succeeded in the sealed window {spec.window}")
        messages = self._messages_of(identity)
        if not any((sent.n, sent.amount) == (record.n, record.amount) for sent in messages):
            fail(f"5: no message maps to {identity}")
        if not any(self._admissible(sent, spec) for sent in messages):
            fail(f"5: {identity} was counted though it was sent too late or too early")
        if identity not in self.stored:
            contents, brought = self.book.on_counted(spec, record, messages)
            self.retractions.on_counted(spec.window, record, brought)
            self._counted.setdefault(identity[1:], []).extend(contents)
            self.truth.on_counted(self._world.now, spec.window, record.key, record.n, record.amount)
        if self.stored.setdefault(identity, record.shard) != record.shard:
            fail(f"5: {identity} was on shard {self.stored[identity]}, now {record.shard}")
        self._count_once(identity, messages)

    def _count_once(self, identity: Identity, messages: Sequence[Sent]) -> None:
        """Check that a redriven event counts in one window alone, be it its own or another."""
        homes = {self._home_of(sent): None for sent in messages}
        for home in (identity,) if identity in homes else homes:
            counts_as = self._counts_as.setdefault(home, identity)
            if counts_as != identity:
                self._world.fail(f"1: {home} counts as {counts_as} and as {identity}")

    def _admissible(self, sent: Sent, spec: Spec) -> bool:
        opened = self.opened.get(spec.window)
        accepts_from = opened.accept_from if opened else 0
        in_time = accepts_from <= sent.sent <= spec.accept_until and not self._is_mixed(sent)
        return in_time and (bool(sent.target) or sent.time <= sent.sent + spec.skew)

    def on_gate(self, spec: Spec, before: Items, after: Items) -> None:
        """Check that no gate which was shut stands open again."""
        for primary, item in before.items():
            if "open" in item and not item["open"]["BOOL"] and after[primary]["open"]["BOOL"]:
                self._world.fail(f"4: gate {primary} of {spec.window} was opened again")

    def on_dead(self, letter: DeadLetter, catalog: MemoryCatalog) -> None:
        """Take note of a message in the dead-letter queue."""
        sent = self.sent[letter.message.id]
        self.dead.setdefault(letter.message.id, []).append(letter)
        if isinstance(sent, Asked):
            self.retractions.check_letter(sent, letter, catalog)
        if sent.bad:
            return
        if letter.reason is Reason.WINDOW_SEALED and self.identity_of(sent)[0] not in self.sealed:
            self._world.fail(f"2: {sent} was rejected, and its window is not sealed")
        self.book.check_letter(sent, letter)

    def on_died(self, message_ids: Sequence[str]) -> None:
        """Take note of a batch whose writer did not answer, or could not take back its note."""
        self._deaths.update(message_ids)

    def on_acknowledged(self, message_id: str) -> None:
        """Check invariant 2 when a message is deleted from the queue."""
        if message_id in self.dead:
            return
        sent = self.sent[message_id]
        if isinstance(sent, Asked):
            self.retractions.check_acknowledged(sent)
        elif sent.bad or not self.book.counts_as(sent):
            self._world.fail(f"2: message {message_id} {sent} was acknowledged and is nowhere")

    def on_total(self, total: Total) -> None:
        """Check that a total never changes."""
        if self.totals.setdefault((total.window, total.key), total) != total:
            self._world.fail(f"4: {total} replaced {self.totals[total.window, total.key]}")

    def on_rolled_up(
        self, state: PeriodState, windows: Sequence[Window], rolled: Sequence[PeriodTotal]
    ) -> None:
        """Check that the sums of a day or month, which stand now, are those of all its windows."""
        self.rolled_up += 1
        if finding := wrong_roll_up(state, windows, rolled, self.totals):
            self._world.fail(f"4: {finding}")

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

    def final(
        self,
        store: MemoryStore,
        catalog: MemoryCatalog,
        totals: SimTotals,
        bucket: MemoryBucket,
        waiting: Sequence[str] = (),
    ) -> Found:
        """Recount everything: each accepted id once, in a table or archive; no message lost. Those
        of the ids `waiting` are in the queue.
        """
        found = Found()
        for window in catalog.windows(0, 10**15):
            items = last_items(window, store, bucket, self._world.fail)
            for item in items:
                found.add(window.id, item)
            if window.status.sealed:
                self._check_totals(window, found)
        if found.twice or found.by_records != found.by_tallies:
            self._world.fail(f"1: twice {found.twice}; {found.by_records} != {found.by_tallies}")
        if sorted(found.records) != sorted(self.stored):
            lost = [identity for identity in self.stored if identity not in found.records]
            self._world.fail(f"1: committed, but in neither table nor archive: {lost}")
        self.retractions.check(found, *totals.corrections_made())
        for total in totals.listed():
            if self.totals.get((total.window, total.key)) != total:
                self._world.fail(f"4: {total} is not what was sealed")
        if isinstance(store, MemoryStore):
            self.book.check_items(store.identity_items)
        for sent in self.sent.values():
            self._judge(sent, found, catalog, waits=sent.message_id in waiting)
        return found

    def _judge(self, sent: Sent, found: Found, catalog: MemoryCatalog, *, waits: bool) -> None:
        letters = self.dead.get(sent.message_id, [])
        if isinstance(sent, Asked):
            self.retractions.judge(sent, letters, waits=waits)
            letters = [each for each in letters if each.reason in ONCE_MORE]
        stored = None if sent.bad else found.records.get(self.identity_of(sent))
        counted = stored == (sent.n, sent.amount)
        elsewhere = not sent.bad and self.book.has_counted(sent)
        if not (counted or elsewhere or letters or waits or isinstance(sent, Asked)):
            self._world.fail(f"2: {sent} is neither counted nor a dead letter")
        for letter in letters:
            if not self._deserved(sent, letter, catalog, counted=counted):
                self._world.fail(f"2: {sent} was wrongly rejected: {letter}")

    def deserved(self, sent: Sent, reason: Reason, catalog: MemoryCatalog) -> bool:
        """Whether a message that is not counted may be rejected for a reason."""
        message = Message(sent.message_id, "", sent.sent, 1, "")
        return self._deserved(sent, DeadLetter(message, reason), catalog, counted=False)

    def _deserved(
        self, sent: Sent, letter: DeadLetter, catalog: MemoryCatalog, *, counted: bool
    ) -> bool:
        match letter.reason:
            case None | Reason.CRASHES_WRITER:
                if "writers died" in letter.detail:
                    return self._deaths[letter.message.id] >= LONE_DEATHS_MAX
                return self._with_fuse and "the writer failed on it" not in letter.detail
            case Reason.TOO_FAR_AHEAD:
                ahead_ms = min(each.skew_ms for each in self.deployed)
                return not sent.target and sent.time > sent.sent + ahead_ms
            case Reason.TOO_LATE:
                window, calendar = self.identity_of(sent)[0], catalog.calendar()
                return too_late(sent, self._specs.get(window), self.opened.get(window), calendar)
            case Reason.NOT_OPEN_WHEN_SENT:
                opened = self.opened.get(self.identity_of(sent)[0])
                return opened is not None and sent.sent < opened.accept_from
            case Reason.TS_REQUIRED:
                spec = self._specs.get(self.identity_of(sent)[0])
                return bool(spec and spec.require_ts) and sent.record_id is not None and not sent.ts
            case Reason.PACKET_MIXED_WINDOWS:
                return self._is_mixed(sent)
            case Reason.WINDOW_SEALED:
                in_time = self.gentle and sent.message_id not in self.overdue
                return not in_time and (not counted or "unverified" in letter.detail)
            case Reason.NOT_CLAIMED:
                claim = catalog.claims([home := self._home_of(sent)]).get(home)
                return bool(sent.target) and claim is not None and claim.target != sent.target
            case Reason.ID_CONFLICT:
                return any(each != self.content_of(sent) for each in self._rivals(sent))
            case reason:
                return reason is sent.bad
