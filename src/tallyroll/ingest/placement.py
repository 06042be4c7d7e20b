"""Placement: the window and the record of each message in a batch, or why it has none.

A redriven message goes to the window of its claim in the ledger. The claim is read each time,
because anybody can set a message's own attributes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from tallyroll import limits
from tallyroll.errors import Reason, Rejected, StoreError
from tallyroll.ingest.transactions import Disposition, Fate
from tallyroll.model.acceptance import (
    acceptable_record,
    check_accepts,
    check_comes,
    check_takes,
    identities_of,
    is_undated,
    span_of,
)
from tallyroll.model.events import Envelope, Event, Packet, load_body
from tallyroll.model.foreign.mappings import NO_MAPPINGS, Mappings
from tallyroll.model.foreign.reading import read
from tallyroll.model.formats.compression import is_compressed, may_be_compressed
from tallyroll.model.formats.references import check_reference
from tallyroll.model.ids import Identity
from tallyroll.model.messages import Message, Rejection
from tallyroll.model.records import Record, event_time
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar
from tallyroll.model.windows import Span, WindowId
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.catalog_cache import CachedCatalog
from tallyroll.settings import Settings

_NO_CALENDAR = "the pipeline has no calendar yet: has the roller run?"
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class BatchMessage:
    """A message of a batch, and what is known of it so far.

    `span` is the window of its time, `target` the window to which it was redriven. `undated` events
    have an id of their own but no time. `waits` is whether it waits for its window. A `hopeless`
    message can never count: it comes again only because the dead-letter queue did not take it.
    """

    message: Message
    span: Span | None = None
    target: WindowId | None = None
    spec: Spec | None = None
    record: Record | None = None
    undated: bool = False
    waits: bool = False
    hopeless: bool = False
    fate: Fate | None = None

    @property
    def window(self) -> WindowId | None:
        """The window in which it is to count, if known."""
        return self.target or (self.span.id if self.span else None)

    @property
    def comes_again(self) -> bool:
        """Whether the queue must deliver it again."""
        final = (Disposition.COUNTED, Disposition.DUPLICATE, Disposition.REJECTED)
        return self.fate is None or self.fate.kind not in final

    @property
    def due(self) -> int | None:
        """When (ms) the write rate may have room for it, if it waits for that."""
        return self.fate.due if self.fate else None

    @property
    def rejection(self) -> Rejection | None:
        """What goes to the dead-letter queue, if it can never count."""
        if self.fate is None or self.fate.reason is None:
            return None
        window = self.span.id if self.span else None
        return Rejection(self.message, self.fate.reason, self.fate.detail, window)

    @property
    def placed(self) -> Placed | None:
        """The message with its window and record, if it has them."""
        return Placed(self, self.spec, self.record) if self.spec and self.record else None

    def hand_back(self, detail: str, *, waits: bool = False) -> None:
        """Let it come again; `waits`: once its window takes it."""
        self.fate = Fate(Disposition.HANDED_BACK, detail=detail)
        self.waits |= waits

    def mark_rejected(self, reason: Reason, detail: str) -> None:
        """Let it go to the dead-letter queue."""
        self.fate = Fate(Disposition.REJECTED, reason=reason, detail=detail)


@dataclass(frozen=True, slots=True)
class Placed:
    """A message with its window and record."""

    delivery: BatchMessage
    spec: Spec
    record: Record

    @property
    def identity(self) -> Identity:
        """The identity of the record."""
        return self.spec.window, self.record.key, self.record.id

    @property
    def identities(self) -> list[Identity]:
        """The identities of all records of the event."""
        return [(self.spec.window, each.key, each.id) for each in self.record.group]


class _Timed(NamedTuple):
    """A message with its envelope, the envelope's time (ms), and the window of that time."""

    case: BatchMessage
    envelope: Envelope
    ts: int
    span: Span


@dataclass(eq=False)
class Placer:
    """Finds windows and records; one per writer, so that specs and the calendar stay cached."""

    settings: Settings
    catalog: Catalog
    cached: CachedCatalog
    _expanded: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._layout = self.settings.layout

    def place(
        self, cases: Sequence[BatchMessage], is_late: Callable[[], bool] = lambda: False
    ) -> None:
        """Give each case without a fate its window and record, or its fate. Raises StoreError.

        Once `is_late`, those that are not read yet are handed back, all but the first.
        """
        cases = [case for case in cases if not case.fate]
        if any(case.message.redrive for case in cases):
            self.cached.forget_calendar()  # identities in claims have windows of the latest grid
        calendar = self._calendar_for(cases)
        timed: list[_Timed] = []
        self._expanded = 0
        for number, case in enumerate(cases):
            if number and is_late():
                case.hand_back("no time left to read it")
            else:
                _guarded(case, self._read, calendar, timed)
        self._find_targets(timed)
        specs = self._specs_of(timed)
        announced = cache(lambda window: self.catalog.window(window) is not None)
        for each in timed:
            if not each.case.fate and calendar:
                _guarded(each.case, self._decide, each, calendar, specs, announced)

    def _calendar_for(self, cases: Sequence[BatchMessage]) -> Calendar | None:
        """The calendar, with mappings that are settled for these messages."""
        calendar = self.cached.calendar()
        if calendar and calendar.mappings.entries:
            newest = max((case.message.mapped_at for case in cases), default=0)
            if not calendar.mappings.settles(newest):
                return self.cached.settle_mappings(newest + limits.MAPPED_AHEAD_MS)
        return calendar

    def _read(self, case: BatchMessage, calendar: Calendar | None, timed: list[_Timed]) -> None:
        if calendar is None and self.settings.mapping:
            case.hand_back(_NO_CALENDAR, waits=True)
            return
        envelope = self._envelope(case, calendar.mappings if calendar else NO_MAPPINGS)
        if envelope is None:
            case.hand_back("the compressed packets of this batch are too large")
            return
        first_sent = case.message.first_sent
        ts = event_time(envelope, first_sent)
        case.undated = is_undated(envelope)
        if calendar is None:
            case.hand_back(_NO_CALENDAR, waits=True)
            return
        case.span = span_of(ts, first_sent, calendar, self.settings.skew_ms)
        timed.append(_Timed(case, envelope, ts, case.span))

    def _envelope(self, case: BatchMessage, mappings: Mappings) -> Envelope | None:
        """What a message holds; None if it is compressed, and so much was expanded for the messages
        before it that there is no room. Raises Rejected.
        """
        body = case.message.body
        most = limits.EXPANDED_BATCH_BYTES_MAX
        if not may_be_compressed(body) or not is_compressed(load_body(body)):
            return read(body, mappings, case.message.mapped_at)
        if self._expanded >= most:
            return None
        before = self._expanded
        self._expanded += limits.EXPANDED_BYTES_MAX  # also if it is no packet in the end
        envelope = read(body, mappings, case.message.mapped_at)
        size = envelope.expanded if isinstance(envelope, Packet) else 0
        self._expanded = before + size
        return envelope if self._expanded <= most or not before else None

    def _find_targets(self, timed: Sequence[_Timed]) -> None:
        """Set the targets of redriven messages, and reject those without a claim."""
        redriven = [
            (case, case.message.redrive.target, identities_of(envelope, case.message, span))
            for case, envelope, _, span in timed
            if case.message.redrive
        ]
        asked = list(dict.fromkeys(each for _, _, identities in redriven for each in identities))
        claims = self.catalog.claims(asked) if asked else {}
        for case, target, identities in redriven:
            found = [claims.get(identity) for identity in identities]
            other = next(
                (claim for claim in found if not claim or claim.target != target), found[0]
            )
            if other and other.target == target:
                case.target = target
                continue
            known = f"is for {other.target}" if other else "does not exist"
            detail = f"redriven to {target!r}, but the ledger's claim {known}"
            case.mark_rejected(Reason.NOT_CLAIMED, detail)

    def _decide(
        self,
        case: BatchMessage,
        timed: _Timed,
        calendar: Calendar,
        specs: Mapping[WindowId, Spec],
        announced: Callable[[WindowId], bool],
    ) -> None:
        """Give a case its record, or let it wait for its window. Raises Rejected."""
        _, envelope, ts, span = timed
        if spec := specs.get(case.target or span.id):
            self._assign(case, envelope, ts, spec)
            return
        if not case.target:
            sent, skew_ms = case.message.sent, self.settings.skew_ms
            known = span.start < calendar.genesis and announced(span.id)
            check_comes(span, ts, sent, calendar, skew_ms, announced=known)
        case.hand_back(f"window {case.window} is not made yet", waits=True)

    def _assign(self, case: BatchMessage, envelope: Envelope, ts: int, spec: Spec) -> None:
        """Give a case its window and record. Raises Rejected."""
        sent = case.message.sent
        if case.target:
            check_takes(spec, sent)
        elif not spec.start <= ts < spec.end:
            # The window length changed after the calendar was cached.
            self.cached.forget_calendar()
            case.hand_back("the calendar has changed")
            return
        else:
            check_accepts(spec, ts, sent)
        if isinstance(envelope, Event) and envelope.reference:
            name, bucket = self.settings.name, self.settings.bucket
            check_reference(envelope.reference, bucket, name, sent)
        home = case.span if case.target else None
        case.record = acceptable_record(envelope, case.message, spec, home, self._layout)
        case.spec = spec

    def _specs_of(self, timed: Sequence[_Timed]) -> dict[WindowId, Spec]:
        open_cases = [each.case for each in timed if not each.case.fate]
        windows = dict.fromkeys(case.window for case in open_cases if case.window)
        asked = list(windows)[: limits.WINDOWS_PER_BATCH_MAX]
        for case in open_cases:
            if case.window not in asked:
                case.hand_back("too many windows in one batch")
        return self.cached.specs(asked) if asked else {}


def _guarded(case: BatchMessage, step: Callable[..., None], *args: Any) -> None:
    """Do a step for a case; turn an exception into the fate of that one message. StoreError passes.

    Not a context manager: making one takes as long as the usual step.
    """
    try:
        step(case, *args)
    except Rejected as rejected:
        case.mark_rejected(rejected.reason, rejected.detail)
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001  (see above)
        _log.exception("message %s: unexpected", case.message.id)
        case.hand_back(f"the writer failed on it: {type(error).__name__}")
