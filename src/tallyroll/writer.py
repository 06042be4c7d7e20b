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

from tallyroll import limits
from tallyroll.caches import CachedCatalog
from tallyroll.commits import Fate, Kind, beside_stored, plan, run
from tallyroll.cost import Cost
from tallyroll.errors import Missing, Reason, Rejected, StoreError
from tallyroll.events import Envelope, Event, decode
from tallyroll.items import item_bytes, record_item
from tallyroll.ports import Catalog, Effects, Queue, Rejection, Status, Store
from tallyroll.records import Message, Record, event_time, record_of
from tallyroll.routing import check_accepts, check_comes, span_of
from tallyroll.settings import Settings
from tallyroll.specs import Spec
from tallyroll.windows import Span, WindowId, uuid7_time

DEADLINE_RESERVE_MS = (
    2_000  # for rejections, visibility and notes, once the transactions are joined
)
HAND_BACK_SECONDS = 5
Identity = tuple[WindowId, str, str]


@dataclass(slots=True)
class Report:
    """What became of a batch; `failures` are the ids of the messages that the queue must deliver
    again.
    """

    failures: list[str] = field(default_factory=list)
    messages: int = 0
    single_events: int = 0
    packed_events: int = 0
    duplicates: int = 0
    rejected: Counter[Reason] = field(default_factory=Counter)
    waiting: int = 0
    undated: int = 0
    contended: int = 0
    throttled: int = 0
    unknown: int = 0
    cost: Cost = field(default_factory=Cost)

    @property
    def events(self) -> int:
        """The events that this batch was the first to count."""
        return self.single_events + self.packed_events


@dataclass(slots=True)
class _Case:
    """A message on its way to its fate."""

    message: Message
    span: Span | None = None
    spec: Spec | None = None
    record: Record | None = None
    undated: bool = False
    waits: bool = False
    fate: Fate | None = None

    @property
    def identity(self) -> Identity:
        assert self.spec and self.record
        return self.spec.window, self.record.key, self.record.id


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
        self._cached = CachedCatalog(catalog, effects, settings.cache_calendar_ms)
        self._noted: dict[WindowId, int] = {}

    def write(self, messages: Sequence[Message], time_left_ms: int) -> Report:
        """Count a batch within `time_left_ms`; what could not be done by then is handed back."""
        deadline = self._effects.now() + time_left_ms - DEADLINE_RESERVE_MS
        report = Report(messages=len(messages))
        cases = [_Case(message) for message in messages]
        usual = [case for case in cases if case.message.receives < limits.RECEIVES_ALONE]
        alone = [[case] for case in cases if case.message.receives >= limits.RECEIVES_ALONE]
        for group in [usual, *alone]:
            try:
                self._place(group)
                self._give_up(group)
                self._count(group, report, deadline)
                self._look_behind_shut_gates(group)
            except StoreError as error:
                for case in group:
                    if case.fate is None or case.fate.kind is Kind.SHUT_OUT:
                        case.fate = Fate(Kind.HANDED_BACK, detail=str(error))
        self._reject(cases)
        self._hand_back(cases)
        _sum_up(report, cases)
        return report

    def _place(self, cases: Sequence[_Case]) -> None:
        """Find each message's window and record, or reject it, or let it wait for its window."""
        calendar = self._cached.calendar()
        timed: list[tuple[_Case, Envelope, int]] = []
        for case in cases:
            try:
                envelope = decode(case.message.body)
                ts = event_time(envelope, case.message.sent)
                self._check_dated(case, envelope)
                if calendar:
                    case.span = span_of(ts, case.message.sent, calendar, self._settings.skew_ms)
                    timed.append((case, envelope, ts))
                else:
                    _wait(case, "the pipeline has no calendar yet: has the roller run?")
            except Rejected as rejected:
                _refuse(case, rejected)
        specs = self._specs_of(timed)
        announced = cache(lambda window: self._catalog.window(window) is not None)
        for case, envelope, ts in timed:
            if case.fate or not calendar or not case.span:
                continue
            try:
                if spec := specs.get(case.span.id):
                    self._assign(case, envelope, ts, spec)
                    continue
                early = case.span.start < calendar.genesis
                check_comes(
                    case.span,
                    ts,
                    case.message.sent,
                    calendar,
                    self._settings.skew_ms,
                    announced=early and announced(case.span.id),
                )
                _wait(case, f"window {case.span.id} is not made yet")
            except Rejected as rejected:
                _refuse(case, rejected)

    def _assign(self, case: _Case, envelope: Envelope, ts: int, spec: Spec) -> None:
        """Give a case its window and record. Raises Rejected."""
        if ts not in spec.span:  # the cached calendar is older than a change of the window length
            self._cached.forget_calendar()
            case.fate = Fate(Kind.HANDED_BACK, detail="the calendar has changed")
            return
        check_accepts(spec, ts, case.message.sent)
        case.spec, case.record = spec, record_of(envelope, case.message, spec)
        _check_size(case.record)

    def _check_dated(self, case: _Case, envelope: Envelope) -> None:
        if (
            isinstance(envelope, Event)
            and envelope.id
            and envelope.ts is None
            and uuid7_time(envelope.id) is None
        ):
            case.undated = True
            if self._settings.require_ts:
                raise Rejected(
                    Reason.TS_REQUIRED, f"event {envelope.id!r} has an id of its own but no ts"
                )

    def _specs_of(self, timed: Sequence[tuple[_Case, Envelope, int]]) -> dict[WindowId, Spec]:
        windows = dict.fromkeys(case.span.id for case, _, _ in timed if case.span)
        asked = list(windows)[: limits.WINDOWS_PER_BATCH_MAX]
        for case, _, _ in timed:
            if case.span and case.span.id not in asked:
                case.fate = Fate(Kind.HANDED_BACK, detail="too many windows in one batch")
        return self._cached.specs(asked) if asked else {}

    def _give_up(self, cases: Sequence[_Case]) -> None:
        """Reject what seems to crash the writer again and again, unless it is stored already."""
        for case in cases:
            if case.message.receives >= limits.RECEIVES_GIVEN_UP and not case.fate:
                stored, known = self._find(case)
                detail = f"received {case.message.receives} times and still not counted: {known}"
                self._judge(case, stored, Reason.CRASHES_WRITER, detail)

    def _count(self, cases: Sequence[_Case], report: Report, deadline: int) -> None:
        """Collapse duplicates, commit, and give every placed message its fate."""
        keepers: dict[Identity, _Case] = {}
        placed = [case for case in cases if not case.fate]
        for case in placed:
            keepers.setdefault(case.identity, case)
        fresh = [case for case in keepers.values() if case.message.receives == 1]
        again = [case for case in keepers.values() if case.message.receives > 1]
        commits = [
            commit
            for group in (
                fresh,
                again,
            )  # likely duplicates among themselves, so that they cancel no clean ones
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
        report.throttled += done.throttled
        report.unknown += done.unknown

    def _look_behind_shut_gates(self, cases: Sequence[_Case]) -> None:
        """What met a shut or missing gate: the state of its window decides."""
        shut_out = [case for case in cases if case.fate and case.fate.kind is Kind.SHUT_OUT]
        windows = {case.spec.window: None for case in shut_out if case.spec}
        states = {window: self._catalog.window(window) for window in windows}
        jobs = []
        for case in shut_out:
            assert case.spec
            state = states[case.spec.window]
            if state and state.status.sealed:
                jobs.append(partial(self._look_up, case, state.status))
            else:
                status = state.status if state else "not made yet"
                case.fate = Fate(Kind.HANDED_BACK, detail=f"window {case.spec.window} is {status}")
                case.waits = state is None or state.status in (Status.CREATING, Status.OPEN)
        self._effects.together(jobs, self._settings.transactions_at_once)

    def _look_up(self, case: _Case, status: Status) -> None:
        assert case.spec
        stored, known = self._find(case)
        detail = f"window {case.spec.window} is {status}: {known}"
        self._judge(case, stored, Reason.WINDOW_SEALED, detail)

    def _find(self, case: _Case) -> tuple[Record | None, str]:
        """The record that is stored under a case's identity, or None and what is known of it.

        The state is read after the record: only while a window is not being dropped is its table
        the one that it always had, and not one that a late roller made again.
        """
        assert case.spec and case.record
        missing: Missing | None = None
        try:
            if stored := self._store.record(case.spec, case.record.key, case.record.id):
                return stored, "it is stored"
        except Missing as error:
            missing = error
        state = self._catalog.window(case.spec.window)
        if state and state.status in (Status.DROPPING, Status.DROPPED):
            return None, "unverified whether it was counted, since the table is dropped"
        if missing:
            raise missing
        return None, "this record is not in it"

    def _judge(self, case: _Case, stored: Record | None, otherwise: Reason, detail: str) -> None:
        assert case.record
        rejected = Fate(Kind.REJECTED, reason=otherwise, detail=detail)
        case.fate = beside_stored(case.record, stored.digest) if stored else rejected

    def _reject(self, cases: Sequence[_Case]) -> None:
        rejected = [
            (case, case.fate) for case in cases if case.fate and case.fate.kind is Kind.REJECTED
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
        for (case, _), there in zip(rejected, sent, strict=True):
            if not there:
                case.fate = Fate(Kind.HANDED_BACK, detail="the dead-letter queue did not take it")

    def _hand_back(self, cases: Sequence[_Case]) -> None:
        """Set when the messages come again, and note on their windows that there are stragglers."""
        back = [case for case in cases if case.fate and case.fate.kind is Kind.HANDED_BACK]
        now = self._effects.now()
        with suppress(StoreError):
            if back:
                self._queue.delay(
                    [(case.message.receipt, _delay_seconds(case, now)) for case in back]
                )
        for window in dict.fromkeys(case.span.id for case in back if case.span):
            if (
                now - self._noted.get(window, -limits.STRAGGLER_NOTE_EVERY_MS)
                >= limits.STRAGGLER_NOTE_EVERY_MS
            ):
                with suppress(StoreError):
                    self._catalog.note_straggler(window, now)
                    self._noted[window] = now


def _refuse(case: _Case, rejected: Rejected) -> None:
    case.fate = Fate(Kind.REJECTED, reason=rejected.reason, detail=rejected.detail)


def _wait(case: _Case, why: str) -> None:
    case.waits = True
    case.fate = Fate(Kind.HANDED_BACK, detail=why)


def _check_size(record: Record) -> None:
    if (size := item_bytes(record_item(record))) > limits.ITEM_BYTES_MAX:
        raise Rejected(
            Reason.ITEM_TOO_LARGE,
            f"record {record.id!r} takes {size} bytes, over {limits.ITEM_BYTES_MAX}:"
            " send a smaller payload",
        )


def _by_window(cases: Sequence[_Case]) -> list[tuple[Spec, list[Record]]]:
    groups: dict[WindowId, tuple[Spec, list[Record]]] = {}
    for case in cases:
        assert case.spec and case.record
        groups.setdefault(case.spec.window, (case.spec, []))[1].append(case.record)
    return list(groups.values())


def _follower_fate(case: _Case, keeper: _Case, fate: Fate) -> Fate:
    """The fate of a message whose identity another one of the batch had first."""
    assert case.record and keeper.record
    if fate.digest:
        return beside_stored(case.record, fate.digest)
    if case.record.digest == keeper.record.digest:
        return fate
    return Fate(Kind.HANDED_BACK, detail="another message of the same id is undecided")


def _delay_seconds(case: _Case, now: int) -> int:
    if case.waits and now - case.message.sent < limits.WAITING_SOON_MS:
        return limits.WAITING_VISIBILITY_SECONDS
    doublings = min(case.message.receives - 1, 10)
    return min(limits.VISIBILITY_SECONDS_MAX, HAND_BACK_SECONDS << doublings)


def _sum_up(report: Report, cases: Sequence[_Case]) -> None:
    for case in cases:
        assert case.fate
        match case.fate.kind:
            case Kind.COUNTED:
                assert case.record
                if case.record.packed:
                    report.packed_events += case.record.n
                else:
                    report.single_events += 1
                report.undated += case.undated
            case Kind.DUPLICATE:
                report.duplicates += 1
            case Kind.REJECTED:
                assert case.fate.reason
                report.rejected[case.fate.reason] += 1
            case _:
                report.failures.append(case.message.id)
                report.waiting += case.waits
