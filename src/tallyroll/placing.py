"""Placing: which window and record each message of a batch has, if it can have one at all."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

from tallyroll import limits
from tallyroll.caches import CachedCatalog
from tallyroll.commits import Fate, Kind
from tallyroll.errors import Reason, Rejected, StoreError
from tallyroll.events import Envelope, Event, decode
from tallyroll.items import item_bytes, record_item
from tallyroll.ports import Calendar, Catalog
from tallyroll.records import Message, Record, event_time, record_of
from tallyroll.routing import check_accepts, check_comes, span_of
from tallyroll.settings import Settings
from tallyroll.specs import Spec
from tallyroll.windows import Span, WindowId, uuid7_time

Identity = tuple[WindowId, str, str]
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Case:
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
        """What makes the record one: its window, key and id."""
        assert self.spec and self.record
        return self.spec.window, self.record.key, self.record.id


class Placer:
    """Finds windows and records; one per writer, so that specs and the calendar stay cached."""

    def __init__(self, settings: Settings, catalog: Catalog, cached: CachedCatalog) -> None:
        self._settings = settings
        self._catalog = catalog
        self._cached = cached

    def place(self, cases: Sequence[Case]) -> None:
        """Give each case its window and record, or the fate that it has without one.

        Raises StoreError if the catalog cannot be read.
        """
        calendar = self._cached.calendar()
        timed: list[tuple[Case, Envelope, int]] = []
        for case in cases:
            with _guarded(case):
                self._read(case, calendar, timed)
        specs = self._specs_of(timed)
        announced = cache(lambda window: self._catalog.window(window) is not None)
        for case, envelope, ts in timed:
            if case.fate or not calendar or not case.span:
                continue
            with _guarded(case):
                if spec := specs.get(case.span.id):
                    self._assign(case, envelope, ts, spec)
                else:
                    self._await(case, ts, calendar, announced)

    def _read(
        self, case: Case, calendar: Calendar | None, timed: list[tuple[Case, Envelope, int]]
    ) -> None:
        envelope = decode(case.message.body)
        ts = event_time(envelope, case.message.sent)
        case.undated = _is_undated(envelope)
        if calendar is None:
            _wait(case, "the pipeline has no calendar yet: has the roller run?")
            return
        case.span = span_of(ts, case.message.sent, calendar, self._settings.skew_ms)
        timed.append((case, envelope, ts))

    def _await(
        self, case: Case, ts: int, calendar: Calendar, announced: Callable[[WindowId], bool]
    ) -> None:
        """Let a case wait for its window. Raises Rejected if none will come."""
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

    def _assign(self, case: Case, envelope: Envelope, ts: int, spec: Spec) -> None:
        """Give a case its window and record. Raises Rejected."""
        if ts not in spec.span:  # the cached calendar is older than a change of the window length
            self._cached.forget_calendar()
            case.fate = Fate(Kind.HANDED_BACK, detail="the calendar has changed")
            return
        check_accepts(spec, ts, case.message.sent)
        if case.undated and spec.require_ts:
            raise Rejected(Reason.TS_REQUIRED, "the event has an id of its own but no ts")
        case.spec, case.record = spec, record_of(envelope, case.message, spec)
        _check_size(case.record)

    def _specs_of(self, timed: Sequence[tuple[Case, Envelope, int]]) -> dict[WindowId, Spec]:
        windows = dict.fromkeys(case.span.id for case, _, _ in timed if case.span)
        asked = list(windows)[: limits.WINDOWS_PER_BATCH_MAX]
        for case, _, _ in timed:
            if case.span and case.span.id not in asked:
                case.fate = Fate(Kind.HANDED_BACK, detail="too many windows in one batch")
        return self._cached.specs(asked) if asked else {}


@contextmanager
def _guarded(case: Case) -> Iterator[None]:
    """One message must not take its batch with it: whatever it raises becomes its own fate."""
    try:
        yield
    except Rejected as rejected:
        case.fate = Fate(Kind.REJECTED, reason=rejected.reason, detail=rejected.detail)
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001  (see above)
        _log.exception("message %s: unexpected", case.message.id)
        detail = f"the writer failed on it: {type(error).__name__}"
        if case.message.receives >= limits.RECEIVES_GIVEN_UP:
            case.fate = Fate(Kind.REJECTED, reason=Reason.CRASHES_WRITER, detail=detail)
        else:
            case.fate = Fate(Kind.HANDED_BACK, detail=detail)


def _is_undated(envelope: Envelope) -> bool:
    """Whether an event has an id of its own but no time: sent again, it may fall elsewhere."""
    return (
        isinstance(envelope, Event)
        and envelope.id is not None
        and envelope.ts is None
        and uuid7_time(envelope.id) is None
    )


def _wait(case: Case, why: str) -> None:
    case.waits = True
    case.fate = Fate(Kind.HANDED_BACK, detail=why)


def _check_size(record: Record) -> None:
    if (size := item_bytes(record_item(record))) > limits.ITEM_BYTES_MAX:
        raise Rejected(
            Reason.ITEM_TOO_LARGE,
            f"record {record.id!r} takes {size} bytes, over {limits.ITEM_BYTES_MAX}:"
            " send a smaller payload",
        )
