"""The catalog's values besides specs: calendar, states of windows, live pointer, wishes.

Times are ms since the epoch, amounts are millionths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from tallyroll.model.foreign.mappings import NO_MAPPINGS, Mappings
from tallyroll.model.windows import Grid, Span, WindowId, window_start

SPANS_MAX = 16  # spans of windows opened in the past; a listing takes one query for each


@dataclass(frozen=True, slots=True)
class Calendar:
    """The grid of window lengths, the start of the pipeline's first window, its mappings, and the
    `secret` with which cursors are signed; "" until a roller has put it.

    Two calendars are equal if they have the same windows, whatever else they have.
    """

    grid: Grid
    genesis: int
    mappings: Mappings = field(default=NO_MAPPINGS, compare=False)
    secret: str = field(default="", compare=False, repr=False)


class Status(StrEnum):
    """The states of a window, in their order."""

    CREATING = "creating"
    OPEN = "open"
    CLOSING = "closing"
    SEALED = "sealed"
    EXPORTING = "exporting"
    PROVEN = "proven"
    DROPPING = "dropping"
    DROPPED = "dropped"

    @property
    def sealed(self) -> bool:
        """Whether the window's totals are final."""
        return self not in (Status.CREATING, Status.OPEN, Status.CLOSING)


class Moment(StrEnum):
    """Moments in a window's `times`, beside those at which its states began."""

    CHECKED = "checked"  # its table was found to be this pipeline's
    RECOVERABLE = "recoverable"  # point-in-time recovery was switched on
    WARMED = "warmed"  # the roller last warmed its table, which was throttled
    COOLED = "cooled"  # its provisioned capacity was lowered
    SHUT = "shut"  # all its gates were shut
    PROGRESSED = "sealing"  # a slice of its totals was last put
    TRIED = "tried"  # first run on the current attempt at an export since its last progress


@dataclass(frozen=True, slots=True)
class Attempt:
    """The latest attempt at a window's export. What is not known (yet) is empty or 0.

    id, number: which attempt it is, counted from 1; number 0: there was none
    archive: its prefix in the bucket
    exporter: `scan` or `native`
    segments: into how many segments `scan` divides the table
    export_at: the time of the table's state that is exported
    export_arn: the ARN of the native export
    busy_until: until when a run works on it
    noted: how many notes of progress that run found
    items: how many items the proof counted
    problem: why it failed
    """

    id: str = ""
    number: int = 0
    archive: str = ""
    exporter: str = ""
    segments: int = 0
    export_at: int = 0
    export_arn: str = ""
    busy_until: int = 0
    noted: int = 0
    items: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """A window's state. `version` guards every change; `times` has the ms of moments, and those at
    which states began.

    Set when the window opens, or from the start for a past window that an operator opened:
        accept_from, accept_until: when messages must have been sent
    Set when the window opens:
        shards: N of the spec
    Set during its sealing:
        sealing: the progress
    Set when the window is sealed:
        keys, events, amount: its sums
        peak: what its writes cost a second in its busiest sixtieth
        listed: number of buckets under which its totals are listed
    Set when its export begins:
        attempt: the current attempt at it
    """

    id: WindowId
    table: str
    start: int
    end: int
    status: Status = Status.CREATING
    version: int = 1
    times: Mapping[str, int] = field(default_factory=dict)
    accept_from: int | None = None
    accept_until: int | None = None
    shards: int | None = None
    keys: int | None = None
    events: int | None = None
    amount: int | None = None
    sealing: str | None = None
    listed: int | None = None
    peak: int | None = None
    attempt: Attempt = Attempt()

    @property
    def accepts_until(self) -> int:
        """Until when (ms) it accepts messages that are sent."""
        return self.accept_until or self.end


@dataclass(frozen=True, slots=True)
class Wish:
    """An operator's wish for a key: at least N = `shards` in every window that ends after `since`
    and starts before `until` (ms; None: for ever). `at` (ms) is when it was made.
    """

    shards: int
    since: int
    until: int | None
    at: int


@dataclass(frozen=True, slots=True)
class Wishes:
    """The wishes by key, one for each. `version` counts their changes; 0: there never was one."""

    of: Mapping[str, Wish] = field(default_factory=dict)
    version: int = 0

    def during(self, start: int, end: int) -> dict[str, int]:
        """The N that is wished of each key in a window from `start` to `end` (ms)."""
        return {
            key: wish.shards
            for key, wish in self.of.items()
            if wish.since < end and (wish.until is None or start < wish.until)
        }

    def without_ended(self, now: int) -> dict[str, Wish]:
        """The wishes whose last window starts after `now` (ms), or has no end."""
        return {
            key: wish for key, wish in self.of.items() if wish.until is None or now < wish.until
        }


@dataclass(frozen=True, slots=True)
class LivePointer:
    """Where windows that are not dropped can be: at or after `since`, or in the spans `opened`.

    The spans are ascending and do not touch. `version` guards the pointer. `created` is the window
    that was created last, if the pointer was not moved since. A listing that ran concurrently with
    the creation may lack this window, and then the pointer must not be moved by that listing.
    """

    since: int
    version: int
    opened: tuple[Span, ...] = ()
    created: WindowId | None = None

    def covers(self, start: int) -> bool:
        """Whether a listing by this pointer finds a window that starts at `start` (ms)."""
        return start >= self.since or any(start in span for span in self.opened)

    def spans(self, since: int, until: int) -> list[Span]:
        """The spans to list for all windows that start in [since, until) and are not dropped."""
        spans = (
            Span(max(since, span.start), min(until, span.end))
            for span in (*self.opened, Span(self.since, max(self.since, until)))
        )
        return [span for span in spans if span.start < span.end]

    def with_created(self, window: Window) -> LivePointer:
        """The pointer after a window was created."""
        opened = self.opened
        if window.start < self.since:
            opened = joined([*opened, Span(window.start, window.end)])
        return LivePointer(self.since, self.version + 1, opened, window.id)

    def moved_by(self, listed: Sequence[Window], genesis: int) -> LivePointer | None:
        """The pointer moved by a listing of all windows that it covers.

        It then begins at the oldest regular window that is not dropped, with the spans of older
        windows that are not dropped. None if the listing may lack a window.
        """
        alive = [window for window in listed if window.status is not Status.DROPPED]
        regular = (window.start for window in alive if window.start >= genesis)
        since = min(regular, default=self.since)
        past = [Span(window.start, window.end) for window in alive if window.start < since]
        unseen = self.created and all(window.id != self.created for window in listed)
        if self.created and unseen and window_start(self.created) < since:
            return None
        return LivePointer(since, self.version, joined(past))


def joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    """At most 16 spans, ascending, that cover all of these. Spans that touch or overlap are joined;
    if more than 16 are left, also those with the smallest gaps between them.
    """
    apart: list[Span] = []
    for span in sorted(spans):
        if apart and span.start <= apart[-1].end:
            apart[-1] = Span(apart[-1].start, max(apart[-1].end, span.end))
        else:
            apart.append(span)
    widest = sorted(range(1, len(apart)), key=lambda at: apart[at - 1].end - apart[at].start)
    bounds = [0, *sorted(widest[: SPANS_MAX - 1]), len(apart)]
    return tuple(
        Span(apart[first].start, apart[end - 1].end) for first, end in pairwise(bounds) if end
    )


def takes_events(window: Window, now: int) -> bool:
    """Whether a window accepts events sent at `now` (ms), now or once it is open."""
    begun = window.status in (Status.CREATING, Status.OPEN)
    return begun and (window.accept_until is None or now <= window.accept_until)


def takes(window: Window, now: int) -> bool:
    """Whether a window is open and accepts what is sent at `now` (ms)."""
    until = window.accept_until
    return window.status is Status.OPEN and (until is None or now <= until)
