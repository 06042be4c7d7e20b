"""The producer's view of the calendar: the span of a packet, and events whose windows take none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from tallyroll.client.packing import MINUTE_MS
from tallyroll.errors import StoreError
from tallyroll.model.states import Calendar, Window, takes_events
from tallyroll.model.windows import Span, WindowId, dividing, iso, length_of, start_of, window_id
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.settings import Settings

WINDOWS_PER_READ = 512
STATES_KEPT_MS = 30_000


class Untaken(StrEnum):
    """Why no window would take an event that is sent now."""

    EARLY = "early"  # before the pipeline's first window, in one that nobody has opened
    OVER = "over"  # its window takes no more events
    AHEAD = "ahead"  # it lies too far ahead of this machine's clock


@dataclass(frozen=True, slots=True)
class _Block:
    """The windows of a stretch of time by their starts, as they were at `read_at` (ms)."""

    read_at: int
    windows: dict[int, Window]


@dataclass(eq=False)
class SendCalendar:
    """The calendar and the states of windows, read when they are first needed.

    A producer without access to the catalog packs by the settings and refuses nothing. Windows that
    are `expected` take events although they are not made.
    """

    catalog: Catalog
    settings: Settings
    effects: Effects
    tell: Callable[[str], None]
    expected: Container[WindowId] = ()

    def __post_init__(self) -> None:
        self._blocks: dict[tuple[int, int], _Block] = {}
        self._last = Span(0, 0)
        self._states_unread = False
        self._untaken: Counter[tuple[Untaken, Span]] = Counter()

    @cached_property
    def _read(self) -> Calendar | StoreError | None:
        try:
            return self.catalog.calendar()
        except StoreError as error:
            return error

    @cached_property
    def span_ms(self) -> int:
        """The span of packets (ms): the longest, at most a minute, that divides every window."""
        if isinstance(self._read, Calendar):
            return dividing(MINUTE_MS, *(length for _, length in self._read.grid.lengths))
        span_ms = dividing(MINUTE_MS, length_of(self.settings.window_length))
        if self._read:
            code = self._read.code
            self.tell(f"packing by {span_ms // 1000} s: the catalog could not be read ({code})")
        return span_ms

    @cached_property
    def _skew_ms(self) -> int:
        """How far ahead an event may lie (ms), by the current window's spec or the settings."""
        try:
            if isinstance(self._read, Calendar):
                current = self._read.grid.at(self.effects.now()).id
                if spec := self.catalog.specs([current]).get(current):
                    return spec.skew
        except StoreError:
            pass
        return self.settings.skew_ms

    def window_start(self, ts: int) -> int:
        """The start (ms) of the window of a time, as far as is known."""
        if isinstance(self._read, Calendar):
            return self._read.grid.at(ts).start
        return start_of(length_of(self.settings.window_length), ts)

    def start_of(self, ts: int) -> int:
        """The start (ms) of the span for a packet with an event of the time `ts`: that of its
        window if the window is made, since its bounds are then final, or one of `span_ms`.

        Events that lie ahead have spans of `span_ms`, because the writer judges how far ahead a
        packet lies by its first event.
        """
        if ts <= self.effects.now():
            if ts in self._last:
                return self._last.start
            span = self._read.grid.at(ts) if isinstance(self._read, Calendar) else None
            window = self._state(span) if span else None
            if span and window and window.end == span.end:
                self._last = span
                return span.start
        return ts // self.span_ms * self.span_ms

    def check(self, happened: int, events: int) -> bool:
        """Whether a window takes events of this time (ms) that are sent now, as far as is known.

        Counts those that no window takes.
        """
        calendar, now = self._read, self.effects.now()
        if not isinstance(calendar, Calendar):
            return True
        span = calendar.grid.at(happened)
        if happened > now and happened > now + self._skew_ms:
            why = Untaken.AHEAD
        else:
            window = self._state(span)
            if window and takes_events(window, now):
                return True
            if window is None and (span.start >= calendar.genesis or span.id in self.expected):
                return True  # the roller makes it, if it has not
            why = Untaken.OVER if window else Untaken.EARLY
        self._untaken[why, span] += events
        return self._states_unread and why is Untaken.EARLY

    def _state(self, span: Span) -> Window | None:
        """The state of a window; None if it has none, or if states cannot be read."""
        length = WINDOWS_PER_READ * (span.end - span.start)
        number, now = span.start // length, self.effects.now()
        block = self._blocks.get((length, number))
        if not self._states_unread and (not block or now - block.read_at > STATES_KEPT_MS):
            try:
                found = self.catalog.windows(number * length, (number + 1) * length)
            except StoreError:
                self._states_unread = True
                return None
            block = _Block(now, {window.start: window for window in found})
            self._blocks[length, number] = block
        return block.windows.get(span.start) if block else None

    def warnings(self, *, sent: bool, load: bool = False) -> list[str]:
        """What to tell of the events that no window takes: why, whether they were `sent` all the
        same, and what to do, in the words of `tallyroll load` or of `tallyroll send`.
        """
        return [
            self._warning(why, spans, sent=sent, load=load)
            for why in Untaken
            if (spans := {span: n for (cause, span), n in self._untaken.items() if cause is why})
        ]

    def _warning(self, why: Untaken, spans: dict[Span, int], *, sent: bool, load: bool) -> str:
        events = sum(spans.values())
        them, they = ("it", "1 event") if events == 1 else ("they", f"{events:,} events")
        first, last = min(spans), max(spans)
        if why is Untaken.EARLY:
            assert isinstance(self._read, Calendar)
            command = (
                f"`tallyroll windows open --since {first.id} --until {window_id(last.end)} --wait`"
            )
            begin = f"{they} happened before the pipeline's first window, {iso(self._read.genesis)}"
            if self._states_unread:
                return f"{begin}: {them} will be rejected as too-late unless {command} was run"
            if sent:
                fate = f"{them} will be rejected as too-late; {command} opens them, for what is"
                return f"{begin}, in windows that are not open: {fate} sent after that"
            begin = f"{begin}, in windows that are not open: not sent; {command} opens them"
            if load:
                return f"{begin}, as --open-windows does; then load again"
            return f"{begin}, then send again (--anyway sends all the same, into the dead letters)"
        if why is Untaken.AHEAD:
            fate = f"{them} will be rejected as too-far-ahead" if sent else "not sent"
            return (
                f"{they} lie{'s' * (events == 1)} more than {self._skew_ms / 1000:g} s ahead of"
                f" this machine's clock, {iso(self.effects.now())}: {fate}; correct the times"
            )
        names = first.id if first == last else f"{first.id} to {last.id}"
        if load:
            return f"{they} happened in windows that take no more events ({names}): not sent"
        redrive = "`tallyroll dlq redrive --reason too-late` counts them in the current window"
        fate = (
            f"{them} will be rejected as too-late; {redrive}"
            if sent
            else f"not sent; --anyway sends all the same, into the dead letters; then {redrive}"
        )
        return f"{they} happened in windows that take no more events ({names}): {fate}"
