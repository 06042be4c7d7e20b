"""The writer: a batch of queue messages in, each counted, found a duplicate, rejected, or handed
back.

Nothing is acknowledged before it is stored or stands in the dead-letter queue with its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial

from tallyroll.errors import Missing, Reason, StoreError
from tallyroll.ingest.cost import Cost
from tallyroll.ingest.handing_back import is_expiring
from tallyroll.ingest.hot_keys import Scout
from tallyroll.ingest.notebook import WriterNotebook
from tallyroll.ingest.placement import Delivery, Placer
from tallyroll.ingest.transactions import Disposition, Fate, beside_stored, plan, run
from tallyroll.model.ids import Identity
from tallyroll.model.messages import Message, Rejection
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status
from tallyroll.model.windows import WindowId, iso
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.catalog_cache import CachedCatalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.queue import Queue
from tallyroll.ports.store import Limit, Store
from tallyroll.settings import Settings

# For a last commit, rejections, visibility and notes: each a call of up to 1 s to connect and 5 s
# to read. A function that has less time than that in all keeps a third of it.
DEADLINE_RESERVE_MS = 15_000
UNDECIDED = (Disposition.SHUT_OUT, Disposition.UNCOMPARED)


@dataclass(slots=True)
class Report:
    """What became of a batch; `failures` are the ids of the messages that the queue must deliver
    again, `oldest_back_ms` is the age of the oldest of them. `notes_failed` counts
    notes that the catalog did not take.
    """

    failures: list[str] = field(default_factory=list)
    messages: int = 0
    single_events: int = 0
    packed_events: int = 0
    duplicates: int = 0
    rejected: Counter[Reason] = field(default_factory=Counter)
    waiting: int = 0
    oldest_back_ms: int = 0
    notes_failed: int = 0
    undated: int = 0
    contended: int = 0
    throttled: Counter[Limit] = field(default_factory=Counter)
    unknown: int = 0
    cost: Cost = field(default_factory=Cost)

    @property
    def finished(self) -> int:
        """The messages that need not come again."""
        return self.messages - len(self.failures)

    @property
    def events(self) -> int:
        """The events that this batch was the first to count."""
        return self.single_events + self.packed_events


class Writer:
    """Counts batches; one per process, so that specs and the calendar stay cached."""

    def __init__(
        self, settings: Settings, store: Store, catalog: Catalog, queue: Queue, effects: Effects
    ) -> None:
        self._settings = settings
        self._store = store
        self._catalog = catalog
        self._queue = queue
        self._effects = effects
        cached = CachedCatalog(catalog, effects, settings.cache_calendar_ms)
        self._placer = Placer(settings, catalog, cached)
        self._scout = Scout(settings, catalog, effects)
        self._notes = WriterNotebook(settings, catalog, queue, effects)

    def write(self, messages: Sequence[Message], time_left_ms: int) -> Report:
        """Count a batch within `time_left_ms`; what could not be done by then is handed back.

        Before anything else, messages that were received before are noted: whatever happens then,
        even if this process dies, no window closes on them, and the next writer knows.
        """
        reserve = min(DEADLINE_RESERVE_MS, time_left_ms // 3)
        deadline = self._effects.now() + time_left_ms - reserve
        report = Report(messages=len(messages))
        cases = [Delivery(message) for message in messages]
        groups = self._notes.begin(cases)
        for number, group in enumerate(groups):
            if number and self._effects.now() >= deadline:
                for case in group:
                    case.fate = case.fate or Fate(Disposition.HANDED_BACK, detail="no time left")
                self._notes.hand_back(group)
                continue
            if number:
                self._notes.narrow(group)
            self._write_group(group, report, deadline)
            if number < len(groups) - 1:  # what follows may kill this process: settle this first
                self._queue.acknowledge(
                    [case.message.receipt for case in group if not case.comes_again]
                )
        report.notes_failed = self._notes.end(cases)
        _sum_up(report, cases, self._effects.now())
        return report

    def _write_group(self, group: Sequence[Delivery], report: Report, deadline: int) -> None:
        try:
            self._placer.place(group)
            self._notes.placed(group)
            self._count(group, report, deadline)
            self._compare_with_stored(group)
            self._look_behind_shut_gates(group, deadline)
        except StoreError as error:
            for case in group:
                if case.fate is None or case.fate.kind in UNDECIDED:
                    case.fate = Fate(Disposition.HANDED_BACK, detail=str(error))
        self._reject(group)
        self._notes.hand_back(group)

    def _count(self, cases: Sequence[Delivery], report: Report, deadline: int) -> None:
        """Collapse duplicates, commit, and give every placed message its fate."""
        keepers: dict[Identity, Delivery] = {}
        placed = [case for case in cases if not case.fate]
        for case in placed:
            keepers.setdefault(case.identity, case)
        fresh = [case for case in keepers.values() if case.message.receives == 1]
        again = [case for case in keepers.values() if case.message.receives > 1]
        commits = [
            commit
            # Likely duplicates among themselves, so that they cancel no clean ones.
            for group in (fresh, again)
            for spec, records in _by_window(group)
            for commit in plan(spec, records)
        ]
        done = run(
            self._store, commits, self._effects, deadline, self._settings.transactions_at_once
        )
        for case in placed:
            keeper, fate = keepers[case.identity], done.fates[case.identity]
            case.fate = fate if case is keeper else _follower_fate(case, keeper, fate)
        report.cost += done.cost
        report.contended += done.contended
        report.throttled.update(done.throttled)
        report.unknown += done.unknown
        counted = [
            case for case in keepers.values() if case.fate and case.fate.kind is Disposition.COUNTED
        ]
        self._scout.look(
            ((case.spec, case.record) for case in counted if case.spec and case.record),
            done.throttled_keys,
        )

    def _compare_with_stored(self, cases: Sequence[Delivery]) -> None:
        """What is a duplicate or a conflict, as the stored record decides."""
        uncompared = [
            case for case in cases if case.fate and case.fate.kind is Disposition.UNCOMPARED
        ]
        for case, stored, known in self._find(uncompared):
            assert case.record
            gone = Fate(Disposition.HANDED_BACK, detail=f"it was stored, but now {known}")
            case.fate = beside_stored(case.record, stored.digest) if stored else gone

    def _look_behind_shut_gates(self, cases: Sequence[Delivery], deadline: int) -> None:
        """What met a shut or missing gate: the state of its window decides."""
        shut_out = [case for case in cases if case.fate and case.fate.kind is Disposition.SHUT_OUT]
        if self._effects.now() >= deadline:
            for case in shut_out:
                case.fate = Fate(
                    Disposition.HANDED_BACK, detail="no time left to look behind the gate"
                )
            return
        windows = {case.spec.window: None for case in shut_out if case.spec}
        states = {window: self._catalog.window(window) for window in windows}
        sealed = []
        for case in shut_out:
            assert case.spec
            state = states[case.spec.window]
            if state and state.status.sealed:
                sealed.append(case)
                continue
            status = state.status if state else "not made yet"
            case.fate = Fate(
                Disposition.HANDED_BACK, detail=f"window {case.spec.window} is {status}"
            )
            case.waits = state is None or state.status in (Status.CREATING, Status.OPEN)
        for case, stored, known in self._find(sealed):
            assert case.spec
            state = states[case.spec.window]
            detail = f"window {case.spec.window} is {state and state.status}: {known}"
            _judge(case, stored, Reason.WINDOW_SEALED, detail)

    def _find(self, cases: Sequence[Delivery]) -> list[tuple[Delivery, Record | None, str]]:
        """The records stored under the cases' identities, or None, and what is known of each; those
        that could not be looked up are handed back.

        The states are read after the records: only while a window is not being dropped is its table
        the one that it always had, and not one that a late roller made again.
        """
        jobs = [partial(self._stored, case) for case in cases]
        answers = self._effects.together(jobs, self._settings.transactions_at_once)
        state_of = cache(self._catalog.window)
        found: list[tuple[Delivery, Record | None, str]] = []
        for case, answer in zip(cases, answers, strict=True):
            assert case.spec
            if isinstance(answer, Record):
                found.append((case, answer, "it is stored"))
                continue
            gone = answer is None or isinstance(answer, Missing)
            state = state_of(case.spec.window) if gone else None
            if state and state.status in (Status.DROPPING, Status.DROPPED):
                known = "unverified whether it was counted, since the table is dropped"
                found.append((case, None, known))
            elif answer:
                case.fate = Fate(Disposition.HANDED_BACK, detail=str(answer))
            else:
                found.append((case, None, "this record is not in it"))
        return found

    def _stored(self, case: Delivery) -> Record | StoreError | None:
        assert case.spec and case.record
        try:
            return self._store.record(case.spec, case.record.key, case.record.id)
        except StoreError as error:
            return error

    def _reject(self, cases: Sequence[Delivery]) -> None:
        """Send to the dead-letter queue what can never count, and what the queue would soon drop;
        what that queue does not take is handed back.
        """
        now, retention_ms = self._effects.now(), self._settings.queue_retention_ms
        for case in cases:
            if case.fate and case.comes_again and is_expiring(case.message, now, retention_ms):
                detail = f"sent {iso(case.message.sent)} and not counted: {case.fate.detail}"
                case.fate = Fate(Disposition.REJECTED, reason=Reason.EXPIRING, detail=detail)
        rejected = [
            (case, case.fate)
            for case in cases
            if case.fate and case.fate.kind is Disposition.REJECTED
        ]
        rejections = [
            Rejection(case.message, fate.reason, fate.detail, case.span.id if case.span else None)
            for case, fate in rejected
            if fate.reason
        ]
        sent = [False] * len(rejections)
        with suppress(StoreError):
            if rejections:
                sent = self._queue.reject(rejections)
        for (case, fate), there in zip(rejected, sent, strict=True):
            if not there:
                case.hopeless = fate.reason is not Reason.EXPIRING
                case.fate = Fate(
                    Disposition.HANDED_BACK, detail="the dead-letter queue did not take it"
                )


def _judge(case: Delivery, stored: Record | None, otherwise: Reason, detail: str) -> None:
    assert case.record
    rejected = Fate(Disposition.REJECTED, reason=otherwise, detail=detail)
    case.fate = beside_stored(case.record, stored.digest) if stored else rejected


def _by_window(cases: Sequence[Delivery]) -> list[tuple[Spec, list[Record]]]:
    groups: dict[WindowId, tuple[Spec, list[Record]]] = {}
    for case in cases:
        assert case.spec and case.record
        groups.setdefault(case.spec.window, (case.spec, []))[1].append(case.record)
    return list(groups.values())


def _follower_fate(case: Delivery, keeper: Delivery, fate: Fate) -> Fate:
    """The fate of a message whose identity another one of the batch had first."""
    assert case.record and keeper.record
    if fate.digest:
        return beside_stored(case.record, fate.digest)
    if case.record.digest == keeper.record.digest:
        return fate
    return Fate(Disposition.HANDED_BACK, detail="another message of the same id is undecided")


def _sum_up(report: Report, cases: Sequence[Delivery], now: int) -> None:
    for case in cases:
        assert case.fate
        match case.fate.kind:
            case Disposition.COUNTED:
                assert case.record
                if case.record.packed:
                    report.packed_events += case.record.n
                else:
                    report.single_events += 1
                report.undated += case.undated
            case Disposition.DUPLICATE:
                report.duplicates += 1
            case Disposition.REJECTED:
                assert case.fate.reason
                report.rejected[case.fate.reason] += 1
            case _:
                report.failures.append(case.message.id)
                report.oldest_back_ms = max(report.oldest_back_ms, now - case.message.sent)
                report.waiting += case.waits
