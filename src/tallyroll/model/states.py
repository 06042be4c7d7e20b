"""The catalog's values besides specs: the calendar, states of windows, the live pointer.

Times are ms since the epoch, amounts millionths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from tallyroll.model.windows import Grid, Span, WindowId, window_start

SPANS_MAX = 16  # of windows opened in the past; a listing takes a query of each


@dataclass(frozen=True, slots=True)
class Calendar:
    """The grid of window lengths, and the start of the pipeline's first window."""

    grid: Grid
    genesis: int


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
        """Whether the window's totals stand."""
        return self not in (Status.CREATING, Status.OPEN, Status.CLOSING)


@dataclass(frozen=True, slots=True)
class Window:
    """A window's state item: `version` guards every change, `times` holds the ms at which each
    state began.

    `accept_from` and `accept_until` stand from opening on, and from the start for a past window
    that was opened on purpose. `shards` is the spec's N. `sealing` is how far its sealing has come;
    `keys`, `events`, `amount` and `peak`, the write units a second in the busiest sixtieth, stand
    from its end on, and `listed`, in how many buckets its totals are listed. `attempt` is the
    current export attempt, one of `attempts`, `archive` its prefix in the bucket, `items` what the
    proof counted there, `problem` why the last was not proven. `exporter` takes that attempt: a
    scan in so many `segments`, or DynamoDB itself, whose export is `export_arn`; `export_at` is the
    time of the table's state that it takes. Until `busy_until` a run works on it, which found
    `noted` notes of progress.
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
    attempt: str | None = None
    attempts: int = 0
    archive: str | None = None
    items: int | None = None
    problem: str | None = None
    exporter: str | None = None
    segments: int | None = None
    export_at: int | None = None
    export_arn: str | None = None
    busy_until: int | None = None
    noted: int = 0


@dataclass(frozen=True, slots=True)
class LivePointer:
    """Every window that starts before `since` and in none of the spans `opened` is dropped; these
    are ascending and apart. `version` guards the pointer.

    `created` is the window that was created last, as long as the pointer was not moved since: a
    listing beside that creation may lack it, and then tells too little to move the pointer by.
    """

    since: int
    version: int
    opened: tuple[Span, ...] = ()
    created: WindowId | None = None

    def covers(self, start: int) -> bool:
        """Whether a window that starts then (ms) is among those that may live."""
        return start >= self.since or any(start in span for span in self.opened)

    def spans(self, since: int, until: int) -> list[Span]:
        """Where the windows that start in [since, until) and may live are to be looked for."""
        spans = (
            Span(max(since, span.start), min(until, span.end))
            for span in (*self.opened, Span(self.since, max(self.since, until)))
        )
        return [span for span in spans if span.start < span.end]

    def with_created(self, window: Window) -> LivePointer:
        """The pointer once a window was created."""
        opened = self.opened
        if window.start < self.since:
            opened = joined([*opened, Span(window.start, window.end)])
        return LivePointer(self.since, self.version + 1, opened, window.id)

    def moved_by(self, listed: Sequence[Window], genesis: int) -> LivePointer | None:
        """The pointer by a listing of all windows that it covers: from the oldest regular one on
        that lives, and for those of the past that live. None if the listing may lack one.
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
    """At most 16 spans, ascending and apart, that hold all of these: neighbours are made one,
    and so are those with the least between them.
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
    """Whether events sent at `now` (ms) will go to the window, at once or when it is made."""
    begun = window.status in (Status.CREATING, Status.OPEN)
    return begun and (window.accept_until is None or now <= window.accept_until)


def takes(window: Window, now: int) -> bool:
    """Whether what is sent at `now` (ms) counts in the window, which is open."""
    until = window.accept_until
    return window.status is Status.OPEN and (until is None or now <= until)
