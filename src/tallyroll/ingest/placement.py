"""Placement: the window and the record of each message in a batch, or why it has none.

A redriven message goes to the window of its claim in the ledger. The claim is read each time,
because anybody can set a message's own attributes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

from tallyroll import limits
from tallyroll.errors import Reason, Rejected, StoreError
from tallyroll.ingest.transactions import Disposition, Fate
from tallyroll.model.acceptance import (
    acceptable_record,
    check_accepts,
    check_comes,
    check_takes,
    identity_of,
    is_undated,
    span_of,
)
from tallyroll.model.events import Envelope, decode
from tallyroll.model.ids import Identity
from tallyroll.model.messages import Message
from tallyroll.model.records import Record, event_time
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar
from tallyroll.model.windows import Span, WindowId
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.catalog_cache import CachedCatalog
from tallyroll.settings import Settings

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Delivery:
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
    def placed(self) -> Placed | None:
        """The message with its window and record, if it has them."""
        return Placed(self, self.spec, self.record) if self.spec and self.record else None


@dataclass(frozen=True, slots=True)
class Placed:
    """A message with its window and record."""

    delivery: Delivery
    spec: Spec
    record: Record

    @property
    def identity(self) -> Identity:
        """The identity of the record."""
        return self.spec.window, self.record.key, self.record.id


class Placer:
    """Finds windows and records; one per writer, so that specs and the calendar stay cached."""

    def __init__(self, settings: Settings, catalog: Catalog, cached: CachedCatalog) -> None:
        self._settings = settings
        self._catalog = catalog
        self._cached = cached

    def place(self, cases: Sequence[Delivery]) -> None:
        """Give each case without a fate its window and record, or else its fate.

        Raises StoreError if the catalog cannot be read.
        """
        cases = [case for case in cases if not case.fate]
        if any(case.message.redrive for case in cases):
            self._cached.forget_calendar()  # identities in claims have windows of the latest grid
        calendar = self._cached.calendar()
        timed: list[tuple[Delivery, Envelope, int]] = []
        for case in cases:
            with _guarded(case):
                self._read(case, calendar, timed)
        self._find_targets(timed)
        specs = self._specs_of(timed)
        announced = cache(lambda window: self._catalog.window(window) is not None)
        for case, envelope, ts in timed:
            if case.fate or not calendar or not case.span:
                continue
            with _guarded(case):
                if spec := specs.get(case.target or case.span.id):
                    self._assign(case, envelope, ts, spec)
                elif case.target:
                    _wait(case, f"window {case.target} is not made yet")
                else:
                    self._await(case, ts, calendar, announced)

    def _read(
        self, case: Delivery, calendar: Calendar | None, timed: list[tuple[Delivery, Envelope, int]]
    ) -> None:
        envelope = decode(case.message.body)
        first_sent = case.message.first_sent
        ts = event_time(envelope, first_sent)
        case.undated = is_undated(envelope)
        if calendar is None:
            _wait(case, "the pipeline has no calendar yet: has the roller run?")
            return
        case.span = span_of(ts, first_sent, calendar, self._settings.skew_ms)
        timed.append((case, envelope, ts))

    def _find_targets(self, timed: Sequence[tuple[Delivery, Envelope, int]]) -> None:
        """Set the targets of redriven messages, and reject those without a claim."""
        redriven = [
            (case, case.message.redrive.target, identity_of(envelope, case.message, case.span))
            for case, envelope, _ in timed
            if case.message.redrive and case.span
        ]
        asked = list(dict.fromkeys(identity for _, _, identity in redriven))
        claims = self._catalog.claims(asked) if asked else {}
        for case, target, identity in redriven:
            claim = claims.get(identity)
            if claim and claim.target == target:
                case.target = target
                continue
            known = f"is for {claim.target}" if claim else "does not stand"
            detail = f"redriven to {target!r}, but the ledger's claim {known}"
            case.fate = Fate(Disposition.REJECTED, reason=Reason.NOT_CLAIMED, detail=detail)

    def _await(
        self, case: Delivery, ts: int, calendar: Calendar, announced: Callable[[WindowId], bool]
    ) -> None:
        """Let a case wait for its window. Raises Rejected if the window will not be created."""
        assert case.span
        check_comes(
            case.span,
            ts,
            case.message.sent,
            calendar,
            self._settings.skew_ms,
            announced=case.span.start < calendar.genesis and announced(case.span.id),
        )
        _wait(case, f"window {case.span.id} is not made yet")

    def _assign(self, case: Delivery, envelope: Envelope, ts: int, spec: Spec) -> None:
        """Give a case its window and record. Raises Rejected."""
        sent = case.message.sent
        if case.target:
            check_takes(spec, sent)
        elif ts not in spec.span:  # the window length changed after the calendar was cached
            self._cached.forget_calendar()
            case.fate = Fate(Disposition.HANDED_BACK, detail="the calendar has changed")
            return
        else:
            check_accepts(spec, ts, sent)
        home = case.span if case.target else None
        record = acceptable_record(envelope, case.message, spec, home)
        case.spec, case.record = spec, record

    def _specs_of(self, timed: Sequence[tuple[Delivery, Envelope, int]]) -> dict[WindowId, Spec]:
        open_cases = [case for case, _, _ in timed if not case.fate]
        windows = dict.fromkeys(case.window for case in open_cases if case.window)
        asked = list(windows)[: limits.WINDOWS_PER_BATCH_MAX]
        for case in open_cases:
            if case.window not in asked:
                case.fate = Fate(Disposition.HANDED_BACK, detail="too many windows in one batch")
        return self._cached.specs(asked) if asked else {}


@contextmanager
def _guarded(case: Delivery) -> Iterator[None]:
    """Turn an exception into the fate of the one message that caused it. StoreError passes."""
    try:
        yield
    except Rejected as rejected:
        case.fate = Fate(Disposition.REJECTED, reason=rejected.reason, detail=rejected.detail)
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001  (see above)
        _log.exception("message %s: unexpected", case.message.id)
        case.fate = Fate(
            Disposition.HANDED_BACK, detail=f"the writer failed on it: {type(error).__name__}"
        )


def _wait(case: Delivery, why: str) -> None:
    case.waits = True
    case.fate = Fate(Disposition.HANDED_BACK, detail=why)
