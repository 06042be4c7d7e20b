"""The writer counts a batch of queue messages: each is counted, found a duplicate, rejected, or
handed back; or it takes an event back (`ingest/retracting.py`).

No message is acknowledged before it is stored, or in the dead-letter queue with its reason.
Next on the reading path: `lifecycle/state_machine.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from tallyroll.errors import StoreError
from tallyroll.ingest.batch_messages import BatchMessage, Placed
from tallyroll.ingest.batch_notes import BatchNotes
from tallyroll.ingest.cost import ItemSizes, LogCounts, WriteCost
from tallyroll.ingest.counted_messages import CountedMessages
from tallyroll.ingest.fates import (
    STORED,
    Disposition,
    Fate,
    beside_stored,
    handed_back,
    rejected,
)
from tallyroll.ingest.handing_back import is_expiring
from tallyroll.ingest.hot_keys import HotKeyDetector
from tallyroll.ingest.placement import Placer
from tallyroll.ingest.stored_events import StoredEvents
from tallyroll.ingest.transactions import CommitRun, plan, run
from tallyroll.model.events import no_collections
from tallyroll.model.ids import Identity
from tallyroll.model.messages import Message
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.model.windows import WindowId, iso
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.catalog_cache import CachedCatalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.queue import Queue
from tallyroll.ports.store import Store
from tallyroll.reasons import Reason
from tallyroll.settings import Settings

if TYPE_CHECKING:
    from tallyroll.ingest.appending import Appended, Appender
    from tallyroll.ports.totals import Totals

# For a last commit, rejections, visibility and notes: each is a call of up to 1 s to connect and
# 5 s to read. With less than three times as much time, the reserve is a third of it.
DEADLINE_RESERVE_MS = 15_000
UNDECIDED = (Disposition.SHUT_OUT, Disposition.UNCOMPARED)


@dataclass(slots=True)
class BatchReport:
    """The result of a batch.

    `failures` are the ids of the messages that the queue must deliver again, `oldest_back_ms` is
    the age of the oldest of them. `waiting` of them wait for their window, `paced` for the write
    rate. `notes_failed` counts notes that the catalog did not store.
    """

    failures: list[str] = field(default_factory=list)
    messages: int = 0
    single_events: int = 0
    packed_events: int = 0
    logged_events: int = 0
    duplicates: int = 0
    retracted: int = 0
    rejected: Counter[Reason] = field(default_factory=Counter)
    waiting: int = 0
    paced: int = 0
    oldest_back_ms: int = 0
    notes_failed: int = 0
    undated: int = 0
    contended: int = 0
    throttled: Counter[str] = field(default_factory=Counter)
    unknown: int = 0
    cost: WriteCost = field(default_factory=WriteCost)
    sizes: ItemSizes = field(default_factory=ItemSizes)
    logs: LogCounts = field(default_factory=LogCounts)

    @property
    def finished(self) -> int:
        """The number of messages that need not come again."""
        return self.messages - len(self.failures)

    @property
    def events(self) -> int:
        """The number of events that were counted."""
        return self.single_events + self.packed_events + self.logged_events


@dataclass(eq=False)
class Writer:
    """Counts batches; one per process, with a cache of specs and the calendar, and a memory of the
    messages that were counted. It needs `totals` only where events may be taken back.

    Raises SettingsError if its store cannot do what the mapping says; so does `Roller`.
    """

    settings: Settings
    store: Store
    catalog: Catalog
    queue: Queue
    effects: Effects
    totals: Totals | None = None

    def __post_init__(self) -> None:
        self.settings.check_store(transactional=self.store.transactional)
        cached = CachedCatalog(self.catalog, self.effects, self.settings.cache_calendar_ms)
        self._placer = Placer(self.settings, self.catalog, cached)
        self._detector = HotKeyDetector(
            self.settings, self.catalog, self.store.metering_of, self.effects
        )
        self._notes = BatchNotes(self.settings, self.catalog, self.queue, self.effects)
        self._memory = CountedMessages()
        self._stored = StoredEvents(self.settings, self.store, self.catalog, self.effects)
        self._appender: Appender | None = None
        self._run: Callable[..., CommitRun] = run
        admit = None
        # What most pipelines do not have is imported where it is needed.
        if self.settings.write_rate:
            from tallyroll.ingest.pacing import Pacer  # noqa: PLC0415

            pacer = Pacer(self.settings.write_rate, self.catalog)
            self._run, admit = pacer.run, partial(pacer.admitted, self.effects)
        self._retract: Callable[..., list[BatchMessage]] | None = None
        if self.settings.retracts:
            from tallyroll.ingest.retracting import Retracting  # noqa: PLC0415

            assert self.totals, "a writer that retracts needs the totals"
            ports = (self.store, self.catalog, cached, self.totals, self.effects)
            self._retract = Retracting(self.settings, *ports, admit).settle

    def write(self, messages: Sequence[Message], time_left_ms: int) -> BatchReport:
        """Count a batch within `time_left_ms`; messages that are not finished by then are handed
        back.

        Messages that this writer counted before are duplicates, and nothing is read or written for
        them. Of the others, those that were received before are noted first. So even if this
        process dies, no window closes while it may accept them, and the next writers know of the
        death.
        """
        with no_collections():  # a batch's values hold no cycles, but there are many of them
            return self._written(messages, time_left_ms)

    def _written(self, messages: Sequence[Message], time_left_ms: int) -> BatchReport:
        reserve = min(DEADLINE_RESERVE_MS, time_left_ms // 3)
        deadline = self.effects.now() + time_left_ms - reserve
        report = BatchReport(messages=len(messages))
        known, fresh = list[Message](), list[Message]()
        for message in messages:
            (known if message in self._memory else fresh).append(message)
        groups = self._notes.begin([BatchMessage(message) for message in fresh])
        cases: list[BatchMessage] = []
        for number, group in enumerate(groups):
            if number and self.effects.now() >= deadline:
                late = [case if case.fate else case.handed_back("no time left") for case in group]
                self._notes.hand_back(late)
                cases += late
                continue
            if number:
                self._notes.narrow(group)
            written = self._write_group(group, report, deadline)
            cases += written
            if number < len(groups) - 1:  # the next group may kill this process
                done = [case.message.receipt for case in written if not case.comes_again]
                self.queue.acknowledge(done)
        report.notes_failed = self._notes.end(cases)
        cases += [BatchMessage(message, fate=Fate(Disposition.DUPLICATE)) for message in known]
        self._memory.keep(case.message for case in cases if case.fate and case.fate.kind in STORED)
        _sum_up(report, cases, self.effects.now())
        return report

    def _write_group(
        self, group: Sequence[BatchMessage], report: BatchReport, deadline: int
    ) -> list[BatchMessage]:
        """The messages of a group with their fates, which are carried out."""
        now = self.effects.now()
        # What is read must also be counted: that takes most of the time.
        read_until = now + (deadline - now) // 2
        cases = self._placer.place(group, lambda: self.effects.now() > read_until)
        self._notes.placed(cases)
        placed = [case.placed for case in cases if case.placed and not case.fate]
        fates = iter(self._fates(placed, report, deadline))
        cases = [case.decided(next(fates)) if _counts(case) else case for case in cases]
        if self._retract:
            cases = self._retract(cases, deadline, report)
        cases = self._reject(cases)
        self._notes.hand_back(cases)
        return cases

    def _fates(self, placed: Sequence[Placed], report: BatchReport, deadline: int) -> list[Fate]:
        """The fates of messages. If a store fails, those that are undecided are handed back."""
        fates: list[Fate] = []
        try:
            fates = self._count(placed, report, deadline)
            fates = _redecided(Disposition.UNCOMPARED, placed, fates, self._stored.compared)
            behind = partial(self._stored.behind_shut_gates, deadline=deadline)
            return _redecided(Disposition.SHUT_OUT, placed, fates, behind)
        except StoreError as error:
            back = handed_back(str(error))
            kept = [back if fate.kind in UNDECIDED else fate for fate in fates]
            return kept or [back] * len(placed)

    def _count(self, placed: Sequence[Placed], report: BatchReport, deadline: int) -> list[Fate]:
        """Commit one message of each identity; return the fate of every message."""
        keepers = _keepers(placed)
        kept = [each for each, keeper in zip(placed, keepers, strict=True) if keeper is each]
        logged = [each for each in kept if each.entry]
        appended = self._appended(logged, deadline) if logged else None
        if appended:
            report.logs.add(appended.counts)
            report.logged_events += appended.counted
            kept = [each for each in kept if each.identity not in appended.fates]
        fresh = [each for each in kept if each.message.receives == 1]
        again = [each for each in kept if each.message.receives > 1]
        known = self._already_stored(again)
        again = [each for each in again if each.identity not in known]
        commits = [
            commit
            # Likely duplicates have commits of their own, so that they do not cancel others.
            for group in (fresh, again)
            for spec, records in _by_window(group)
            for commit in plan(spec, records, self.store.metering_of(spec.table))
        ]
        done = self._run(
            self.store, commits, self.effects, deadline, self.settings.transactions_at_once
        )
        done.fates.update(known)
        if appended:
            done.add(appended.run)
            done.fates.update(appended.fates)
        report.cost += done.cost
        report.contended += done.contended
        report.throttled.update(done.throttled)
        report.unknown += done.unknown
        counted = [
            (each.spec, each.record)
            for each in kept
            if done.fates[each.identity].kind is Disposition.COUNTED
        ]
        counted += [(spec, other) for spec, record in counted for other in record.others]
        report.sizes.add([record for _, record in counted])
        self._detector.observe(counted, done.throttled_keys)
        return [
            fate if each is keeper else _follower_fate(each, keeper, fate)
            for each, keeper in zip(placed, keepers, strict=True)
            for fate in (done.fates[keeper.identity],)
        ]

    def _appended(self, logged: Sequence[Placed], deadline: int) -> Appended:
        """Put entries into logs, in half of the time left. What gets no fate needs a record."""
        if not self._appender:
            from tallyroll.ingest.appending import Appender  # noqa: PLC0415

            at_once = self.settings.transactions_at_once
            self._appender = Appender(self.store, self.effects, at_once)
        return self._appender.append(logged, self._run, (self.effects.now() + deadline) // 2)

    def _already_stored(self, again: Sequence[Placed]) -> dict[Identity, Fate]:
        """The fates of the messages that are surely duplicates, of those received before.

        To read records costs a tenth of a transaction that finds them stored. If they cannot be
        read, the transactions decide.
        """
        known: dict[Identity, Fate] = {}
        for spec, records in _by_window(again):
            with suppress(StoreError):
                stored = self.store.lookup(spec, [(record.key, record.id) for record in records])
                for record in records:
                    found = stored.get((record.key, record.id))
                    if found and found.digest == record.digest:
                        identity = (spec.window, record.key, record.id)
                        known[identity] = beside_stored(record, found.digest)
        return known

    def _reject(self, cases: Sequence[BatchMessage]) -> list[BatchMessage]:
        """Send messages that can never count, or that the queue will soon drop, to the dead-letter
        queue; return all cases. Those that it does not take are handed back.
        """
        if not any(case.comes_again or case.rejection for case in cases):
            return [*cases]
        now, retention_ms = self.effects.now(), self.settings.queue_retention_ms
        cases = [_expired(case, now, retention_ms) for case in cases]
        if any(case.rejection and case.identities for case in cases):
            cases = self._stored.beside_identities(cases)
            cases = [_expired(case, now, retention_ms) for case in cases]
        rejections = [rejection for case in cases if (rejection := case.rejection)]
        sent = [False] * len(rejections)
        with suppress(StoreError):
            if rejections:
                sent = self.queue.reject(rejections)
        there = iter(sent)
        return [_not_taken(case) if case.rejection and not next(there) else case for case in cases]


def _counts(case: BatchMessage) -> bool:
    """Whether transactions decide its fate."""
    return case.placed is not None and not case.fate


def _expired(case: BatchMessage, now: int, retention_ms: int) -> BatchMessage:
    """The case, rejected if it would come again, and the queue will soon drop it."""
    message, fate = case.message, case.fate
    if not (fate and case.comes_again and is_expiring(message, now, retention_ms)):
        return case
    detail = f"sent {iso(message.sent)} and not counted: {fate.detail}"
    return case._replace(fate=rejected(Reason.EXPIRING, detail, waits=fate.waits))


def _not_taken(case: BatchMessage) -> BatchMessage:
    """The rejected case, which the dead-letter queue did not take."""
    assert case.fate
    back = handed_back("the dead-letter queue did not take it", waits=case.fate.waits)
    hopeless = case.fate.reason is not Reason.EXPIRING
    return case._replace(fate=replace(back, hopeless=hopeless))


def _redecided(
    kind: Disposition,
    placed: Sequence[Placed],
    fates: list[Fate],
    decide: Callable[[Sequence[Placed]], list[Fate]],
) -> list[Fate]:
    """The fates, with new ones for the messages whose fate is of this kind."""
    chosen = [each for each, fate in zip(placed, fates, strict=True) if fate.kind is kind]
    if not chosen:
        return fates
    decided = iter(decide(chosen))
    return [next(decided) if fate.kind is kind else fate for fate in fates]


def _by_window(placed: Sequence[Placed]) -> list[tuple[Spec, list[Record]]]:
    groups: dict[WindowId, tuple[Spec, list[Record]]] = {}
    for each in placed:
        groups.setdefault(each.spec.window, (each.spec, []))[1].append(each.record)
    return list(groups.values())


def _keepers(placed: Sequence[Placed]) -> list[Placed]:
    """For each message, itself, or the first earlier one that has one of its identities."""
    kept: dict[Identity | str, Placed] = {}
    keepers: list[Placed] = []
    for each in placed:
        if each.entry or not (each.record.others or each.record.identities):
            keepers.append(kept.setdefault(each.identity, each))
            continue
        unique = each.unique
        known = (kept[name] for name in unique if name in kept)
        if (keeper := next(known, each)) is each:
            kept.update(dict.fromkeys(unique, each))
        keepers.append(keeper)
    return keepers


def _follower_fate(placed: Placed, keeper: Placed, fate: Fate) -> Fate:
    """The fate of a message that has an identity of an earlier one of the batch, `keeper`.

    In another window only what is stored decides: a shut gate or a refusal there says nothing here.
    """
    same = placed.unique == keeper.unique and bool(placed.entry) == bool(keeper.entry)
    stored = keeper.record.digest if fate.kind in STORED else fate.digest
    if placed.record.digest == keeper.record.digest and (stored or same):
        return beside_stored(placed.record, stored) if stored else fate
    if stored and same:
        return beside_stored(placed.record, stored)
    return handed_back("another message of the same id is undecided")


def _sum_up(report: BatchReport, cases: Sequence[BatchMessage], now: int) -> None:
    report.single_events -= report.logged_events  # which are told from others by their fates alone
    for case in cases:
        assert case.fate
        match case.fate.kind:
            case Disposition.COUNTED:
                assert case.placed
                if not case.placed.entry and case.placed.record.packed:
                    report.packed_events += case.placed.record.n
                else:
                    report.single_events += 1
                report.undated += case.undated
            case Disposition.DUPLICATE:
                report.duplicates += 1
            case Disposition.RETRACTED:
                report.retracted += 1
            case Disposition.REJECTED:
                assert case.fate.reason
                report.rejected[case.fate.reason] += 1
            case _:
                report.failures.append(case.message.id)
                report.oldest_back_ms = max(report.oldest_back_ms, now - case.message.sent)
                report.waiting += case.fate.waits
                report.paced += case.fate.due is not None
