"""The producer's view of the calendar: the longest span of a packet, and events before the
pipeline's first window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import gcd

from tallyroll.errors import StoreError
from tallyroll.model.events import Envelope, Event
from tallyroll.model.records import event_time
from tallyroll.model.states import Calendar, takes
from tallyroll.model.windows import Span, iso, window_id
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.settings import Settings

_MINUTE_MS = 60_000


@dataclass(eq=False)
class SendCalendar:
    """The calendar, read once, when it is first needed.

    A producer without access to the catalog packs by the settings and gets no warning.
    """

    catalog: Catalog
    settings: Settings
    effects: Effects
    tell: Callable[[str], None]

    def __post_init__(self) -> None:
        self._began = self.effects.now()
        self._early: Counter[Span] = Counter()

    @cached_property
    def _read(self) -> Calendar | StoreError | None:
        try:
            return self.catalog.calendar()
        except StoreError as error:
            return error

    @cached_property
    def span_ms(self) -> int:
        """The longest span of a packet (ms), at most a minute, that lies within one window."""
        if isinstance(self._read, Calendar):
            return gcd(_MINUTE_MS, *(length for _, length in self._read.grid.lengths))
        span_ms = gcd(_MINUTE_MS, self.settings.window_seconds * 1000)
        if self._read:
            code = self._read.code
            self.tell(f"packing by {span_ms // 1000} s: the catalog could not be read ({code})")
        return span_ms

    def note(self, envelope: Envelope) -> None:
        """Count the envelope's events if they lie before the first window."""
        # An event without a time happens when it is sent.
        happened = event_time(envelope, self._began)
        if happened >= self._began or not isinstance(self._read, Calendar):
            return
        if happened < self._read.genesis:
            events = 1 if isinstance(envelope, Event) else len(envelope.entries)
            self._early[self._read.grid.at(happened)] += events

    def warning(self) -> str | None:
        """A warning about events before the first window, unless their windows are open."""
        calendar = self._read if self._early else None
        if not isinstance(calendar, Calendar):
            return None
        since, until = min(self._early).start, max(self._early).end
        try:
            now = self.effects.now()
            open_ = {
                window.start for window in self.catalog.windows(since, until) if takes(window, now)
            }
        except StoreError:
            open_ = None
        shut = [span for span in self._early if span.start not in (open_ or ())]
        if not shut:
            return None
        events = sum(self._early[span] for span in shut)
        them, they = ("it", "1 event") if events == 1 else ("they", f"{events:,} events")
        command = (
            f"`tallyroll windows open --since {min(shut).id} --until {window_id(max(shut).end)}`"
        )
        warning = (
            f"{they} happened before the pipeline's first window, {iso(calendar.genesis)}:"
            f" {them} will be rejected as too-late"
        )
        if open_ is None:
            return f"{warning} unless {command} opened the windows"
        return (
            f"{warning}, since the windows are not open; {command} opens them, for what is sent"
            " after that"
        )
