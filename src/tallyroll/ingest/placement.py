"""Placement: the window and the record of each message in a batch, or why it has none.

A redriven message goes to the window of its claim in the ledger. The claim is read each time,
because anybody can set a message's own attributes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from tallyroll import limits
from tallyroll.errors import Rejected, StoreError
from tallyroll.ingest.batch_messages import BatchMessage, Placed
from tallyroll.model.acceptance import (
    acceptable_record,
    check_accepts,
    check_comes,
    check_takes,
    identities_of,
    is_undated,
    span_of,
    too_far_ahead,
)
from tallyroll.model.events import Envelope, Event, Packet, load_body
from tallyroll.model.foreign.mappings import NO_MAPPINGS, Mappings
from tallyroll.model.foreign.reading import read
from tallyroll.model.formats.compression import is_compressed, may_be_compressed
from tallyroll.model.formats.references import check_reference
from tallyroll.model.ids import IdentityItem
from tallyroll.model.items import sized
from tallyroll.model.messages import Message
from tallyroll.model.records import Record, event_time, identities
from tallyroll.model.retractions import parse_retraction, retraction_in
from tallyroll.model.specs import Spec, strategy
from tallyroll.model.states import Calendar
from tallyroll.model.windows import Grid, Span, WindowId, window_start
from tallyroll.ports.catalog import Catalog, Claim
from tallyroll.ports.catalog_cache import CachedCatalog
from tallyroll.reasons import Reason
from tallyroll.settings import Settings

_NO_CALENDAR = "the pipeline has no calendar yet: has the roller run?"
T = TypeVar("T")
_log = logging.getLogger(__name__)


class _Timed(NamedTuple):
    """A message that was read, with its envelope, the envelope's time (ms), and the window of that
    time.
    """

    case: BatchMessage
    envelope: Envelope
    ts: int
    span: Span


_Found = list[BatchMessage | _Timed]
"""Messages that have a fate, or are not read yet; and those that were read."""


@dataclass(eq=False)
class Placer:
    """Finds windows and records; one per writer, so that specs and the calendar stay cached."""

    settings: Settings
    catalog: Catalog
    cached: CachedCatalog
    _expanded: int = field(default=0, init=False)
    # Most messages of a batch are of one window, and plain events of a hot key are often equal.
    _last: tuple[str | None, Envelope | None] = field(default=(None, None), init=False)
    _span: tuple[Span, Grid | None] = field(default=(Span(0, 0), None), init=False)

    def __post_init__(self) -> None:
        self._layout = self.settings.layout

    def place(
        self, cases: Sequence[BatchMessage], is_late: Callable[[], bool] = lambda: False
    ) -> list[BatchMessage]:
        """The cases in their order; those without a fate get their place, or their fate.

        Once `is_late`, those that are not read yet are handed back, all but the first. If the
        catalog fails, all that have no fate by then are handed back.
        """
        found: _Found = list(cases)
        try:
            calendar = self._calendar_for([case for case in cases if not case.fate])
            found = self._read_all(cases, calendar, is_late)
            found = self._find_targets(found)
            specs = self._specs_of(found)
            announced = self._announced(found, specs, calendar)
        except StoreError as error:
            known = [each.case if isinstance(each, _Timed) else each for each in found]
            return [case if case.fate else case.handed_back(str(error)) for case in known]
        return [
            _guarded(each.case, self._decide, each, calendar, specs, announced)
            if isinstance(each, _Timed)
            else each
            for each in found
        ]

    def _calendar_for(self, cases: Sequence[BatchMessage]) -> Calendar | None:
        """The calendar, with mappings that are settled for these messages."""
        if any(case.message.redrive for case in cases):
            self.cached.forget_calendar()  # identities in claims have windows of the latest grid
        calendar = self.cached.calendar()
        if calendar and calendar.mappings.entries:
            newest = max((case.message.mapped_at for case in cases), default=0)
            if not calendar.mappings.settles(newest):
                return self.cached.settle_mappings(newest + limits.MAPPED_AHEAD_MS)
        return calendar

    def _read_all(
        self, cases: Sequence[BatchMessage], calendar: Calendar | None, is_late: Callable[[], bool]
    ) -> _Found:
        self._expanded = 0
        found: _Found = []
        begun = False
        for case in cases:
            if case.fate:
                found.append(case)
            elif begun and is_late():
                found.append(case.handed_back("no time left to read it"))
            else:
                begun = True
                found.append(_guarded(case, self._read, calendar))
        return found

    def _read(self, case: BatchMessage, calendar: Calendar | None) -> BatchMessage | _Timed:
        message = case.message
        if (given := retraction_in(message.body)) is not None:
            return self._read_retraction(case, given, calendar)
        if calendar is None and self.settings.mapping:
            return case.handed_back(_NO_CALENDAR, waits=True)
        envelope = self._envelope(message, calendar.mappings if calendar else NO_MAPPINGS)
        if envelope is None:
            return case.handed_back("the compressed packets of this batch are too large")
        ts = event_time(envelope, message.first_sent)
        if calendar is None:
            return case.handed_back(_NO_CALENDAR, waits=True)
        span, grid = self._span
        if grid is not calendar.grid or not span.start <= ts < span.end:
            span = span_of(ts, message.first_sent, calendar, self.settings.skew_ms)
            self._span = span, calendar.grid
        return _Timed(BatchMessage(message, span, undated=is_undated(envelope)), envelope, ts, span)

    def _read_retraction(
        self, case: BatchMessage, given: list[Any], calendar: Calendar | None
    ) -> BatchMessage:
        """The case with its retraction, and the window in which its event happened."""
        if not self.settings.retracts:
            raise Rejected(Reason.RETRACTION_OFF, "the setting `retraction` is off: nobody may")
        retraction = parse_retraction(given)
        if calendar is None:
            return case.handed_back(_NO_CALENDAR, waits=True)
        window, sent, skew = retraction.window, case.message.sent, self.settings.skew_ms
        ts = window_start(window) if window else retraction.ts
        assert ts is not None
        span = span_of(ts, sent, calendar, skew)
        if ts > sent + skew:
            raise too_far_ahead(sent, skew)
        if window and window != span.id:
            span = Span(ts, span.end)  # no window of the calendar, unless that is an old one
        return case._replace(span=span, retraction=retraction)

    def _envelope(self, message: Message, mappings: Mappings) -> Envelope | None:
        """What a message holds; None if it is compressed, and so much was expanded for the messages
        before it that there is no room. Raises Rejected.
        """
        body = message.body
        most = limits.EXPANDED_BATCH_BYTES_MAX
        if not may_be_compressed(body) or not is_compressed(load_body(body)):
            if mappings.entries:
                return read(body, mappings, message.mapped_at)
            if body != self._last[0]:
                self._last = body, read(body)
            return self._last[1]
        if self._expanded >= most:
            return None
        before = self._expanded
        self._expanded += limits.EXPANDED_BYTES_MAX  # also if it is no packet in the end
        envelope = read(body, mappings, message.mapped_at)
        size = envelope.expanded if isinstance(envelope, Packet) else 0
        self._expanded = before + size
        return envelope if self._expanded <= most or not before else None

    def _find_targets(self, found: _Found) -> _Found:
        """Redriven messages get their targets; those without a claim are rejected."""
        identities = {
            number: identities_of(each.envelope, each.case.message, each.span)
            for number, each in enumerate(found)
            if isinstance(each, _Timed) and each.case.message.redrive
        }
        if not identities:
            return found
        asked = list(dict.fromkeys(chain.from_iterable(identities.values())))
        claims = self.catalog.claims(asked)
        return [
            _targeted(each, [claims.get(identity) for identity in identities[number]])
            if isinstance(each, _Timed) and number in identities
            else each
            for number, each in enumerate(found)
        ]

    def _specs_of(self, found: _Found) -> dict[WindowId, Spec | None]:
        """The specs of the messages' windows; only of as many windows as are read for a batch."""
        timed = [each for each in found if isinstance(each, _Timed)]
        windows = dict.fromkeys(each.case.target or each.span.id for each in timed)
        # An event that is known by its id may be so by the rule of its own window.
        windows |= dict.fromkeys(each.span.id for each in timed if each.case.target)
        asked = list(windows)[: limits.WINDOWS_PER_BATCH_MAX]
        specs = self.cached.specs(asked) if asked else {}
        return {window: specs.get(window) for window in asked}

    def _announced(
        self, found: _Found, specs: Mapping[WindowId, Spec | None], calendar: Calendar | None
    ) -> set[WindowId]:
        """The windows before the pipeline's first that have no spec yet, but a state."""
        unmade = {window for window, spec in specs.items() if spec is None}
        if not unmade:
            return set()
        early = dict.fromkeys(
            each.span.id
            for each in found
            if isinstance(each, _Timed) and calendar and not each.case.target
            if each.span.id in unmade and each.span.start < calendar.genesis
        )
        return {window for window in early if self.catalog.window(window)}

    def _decide(
        self,
        case: BatchMessage,
        timed: _Timed,
        calendar: Calendar,
        specs: Mapping[WindowId, Spec | None],
        announced: Container[WindowId],
    ) -> BatchMessage:
        """The case with its place, or to wait for its window. Raises Rejected."""
        _, envelope, ts, span = timed
        window = case.target or span.id
        if window not in specs or (case.target and span.id not in specs):
            return case.handed_back("too many windows in one batch")
        if spec := specs[window]:
            rules = (spec, specs.get(span.id)) if case.target else (spec,)
            try:
                if case.target and (home := specs.get(span.id)) and home.logs:
                    _logs().check_claimed(envelope, case.message, case.claimed_sent, home)
                placed = self._assign(case, envelope, ts, spec)
            except Rejected as refused:
                refusal = case.rejected(refused.reason, refused.detail)
                return refusal._replace(sought=_sought(envelope, case.message, rules))
            if case.target:
                return placed._replace(sought=_sought(envelope, case.message, rules))
            return placed
        if not case.target:
            sent, skew_ms = case.message.sent, self.settings.skew_ms
            check_comes(span, ts, sent, calendar, skew_ms, announced=window in announced)
        return case.handed_back(f"window {window} is not made yet", waits=True)

    def _assign(self, case: BatchMessage, envelope: Envelope, ts: int, spec: Spec) -> BatchMessage:
        """The case with its place. Raises Rejected."""
        message = case.message
        if case.target:
            check_takes(spec, message.sent)
        elif not spec.start <= ts < spec.end:
            # The window length changed after the calendar was cached.
            self.cached.forget_calendar()
            return case.handed_back("the calendar has changed")
        else:
            check_accepts(spec, ts, message.sent)
        if isinstance(envelope, Event) and envelope.reference:
            name, bucket = self.settings.name, self.settings.bucket
            check_reference(envelope.reference, bucket, name, message.sent)
        home = case.span if case.target else None
        entry = None
        if spec.logs:
            strategy(spec.suffix)  # a rule that this release does not know is an error here
            logs = _logs()
            if not (entry := logs.entry_of(envelope, message, spec, home)):
                logs.check_id(envelope, message)
        given = (envelope, message, spec, home, self._layout)
        content = partial(_plain_record, given) if entry else acceptable_record(*given)
        identity = (spec.window, envelope.key, envelope.id or message.first_id)
        return case.at(Placed(message, spec, identity, content, entry))


@cache
def _logs() -> ModuleType:
    """What only windows with logs need."""
    from tallyroll.logs import entries  # noqa: PLC0415

    return entries


def _plain_record(given: tuple[Any, ...]) -> Record:
    return sized(replace(acceptable_record(*given), plain=True, size=0))


def _sought(
    envelope: Envelope, message: Message, rules: Sequence[Spec | None]
) -> tuple[IdentityItem, ...]:
    """The identities of an envelope by the rules of these windows."""
    found = (identities(envelope, message, spec) for spec in rules if spec)
    return tuple({each.name: each for each in chain.from_iterable(found)}.values())


def _targeted(timed: _Timed, claims: Sequence[Claim | None]) -> BatchMessage | _Timed:
    """A redriven message with its target, if the ledger's claims of its identities are for it."""
    case, redrive = timed.case, timed.case.message.redrive
    assert redrive
    target = redrive.target
    other = next((claim for claim in claims if not claim or claim.target != target), claims[0])
    if other and other.target == target:
        return timed._replace(case=case._replace(target=target, claimed_sent=other.sent))
    known = f"is for {other.target}" if other else "does not exist"
    detail = f"redriven to {target!r}, but the ledger's claim {known}"
    return case.rejected(Reason.NOT_CLAIMED, detail)


def _guarded(case: BatchMessage, step: Callable[..., T], *args: Any) -> T | BatchMessage:
    """What a step makes of a case; an exception becomes the fate of that one message.

    Not a context manager: making one takes as long as the usual step.
    """
    try:
        return step(case, *args)
    except Rejected as refused:
        return case.rejected(refused.reason, refused.detail)
    except Exception as error:  # noqa: BLE001  (see above)
        _log.exception("message %s: unexpected", case.message.id)
        return case.handed_back(f"the writer failed on it: {type(error).__name__}")
