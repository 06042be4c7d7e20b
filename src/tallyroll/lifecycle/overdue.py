"""Which windows are overdue or stuck in their state, by the bounds in `health`."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from tallyroll.lifecycle import health
from tallyroll.lifecycle.state_machine import due_from, retained_until
from tallyroll.model.states import Calendar, Moment, Status, Window, takes
from tallyroll.model.windows import Span, iso
from tallyroll.settings import Settings

ARCHIVED = frozenset({Status.SEALED, Status.EXPORTING, Status.PROVEN, Status.DROPPING})
"""The states of the windows that cleanup and dropper work on."""

_LATE = {
    Status.CREATING: "not open yet",
    Status.OPEN: "over, and not closing",
    Status.CLOSING: "closing, and not sealed",
    Status.SEALED: "past its retention, and not exported",
    Status.EXPORTING: "in export, and not proven",
    Status.PROVEN: "proven, and not dropped",
    Status.DROPPING: "its table is not gone",
}


def roller_grace_ms(settings: Settings) -> int:
    """How long a due step of the roller may take: three of its periods, and a minute."""
    return 3 * settings.roller_period_ms + health.MINUTE_MS


def overdue_from(window: Window, settings: Settings) -> int | None:
    """By when, ms, a window should have left its state; None for a dropped one."""
    due, times = due_from(window, settings), window.times
    if due is None:
        return None
    match window.status:
        case Status.CREATING:
            if window.accept_from is not None:
                return times.get(Status.CREATING, window.start) + health.PAST_LATE_MS
            # Events may lie in the window from `skew_ms` before its start on.
            made = times.get(Status.CREATING, 0) + roller_grace_ms(settings)
            return max(window.start - settings.skew_ms, made)
        case Status.OPEN:
            return due + 2 * settings.visibility_ms + health.OPEN_LATE_MS
        case Status.CLOSING:
            return due + health.CLOSING_LATE_MS
        case Status.SEALED:
            return due + health.COLD_LATE_MS
        case Status.EXPORTING:
            # Later attempts overwrite when the first one began.
            begun = times.get(Status.EXPORTING, 0) if window.attempt.number <= 1 else 0
            return max(retained_until(window, settings), begun) + health.EXPORT_LATE_MS
        case Status.PROVEN:
            return due + settings.settle_ms + health.DROP_LATE_MS
        case _:
            return due + health.DROP_LATE_MS


def stuck_ms(
    windows: Iterable[Window], states: AbstractSet[Status], now: int, settings: Settings
) -> int:
    """The time since the most-stuck window in one of these states last made progress, ms; 0 if none
    is stuck. A slow window that makes progress is not stuck.
    """
    found = (_progressed_at(window, settings) for window in windows if window.status in states)
    return max(0, now - min((at for at in found if at is not None), default=now))


def _progressed_at(window: Window, settings: Settings) -> int | None:
    """When (ms) a window last made progress, or should have; None while it makes progress."""
    times = window.times
    match window.status:
        case Status.CLOSING:
            return max(
                times.get(each, 0) for each in (Status.CLOSING, Moment.SHUT, Moment.PROGRESSED)
            )
        case Status.SEALED:
            return retained_until(window, settings)
        case Status.EXPORTING if window.attempt.number <= 1 and not window.attempt.problem:
            return times.get(Moment.TRIED)
        case Status.EXPORTING:
            return retained_until(window, settings)
        case Status.PROVEN | Status.DROPPING:
            return times.get(window.status)
        case _:
            return None


def late(window: Window, now: int, settings: Settings) -> str | None:
    """What a window is overdue with at `now` (ms), for people, or None."""
    attempt = window.attempt
    if window.status is Status.EXPORTING and attempt.problem:
        return f"its archive is not proven after attempt {attempt.number}: {attempt.problem}"
    by = overdue_from(window, settings)
    if by is None or now <= by:
        return None
    return f"{_LATE[window.status]}; due by {iso(by)}"


def why_not_taking(window: Window, now: int) -> str:
    """Why the current window takes no events at `now` (ms), for people; "" if it takes them."""
    if takes(window, now):
        return ""
    if window.status is Status.CREATING:
        return "its events wait until it is open"
    if window.status is Status.OPEN:
        return f"it took events until {iso(window.accepts_until)}"
    return "its events are rejected"


def next_missing(
    calendar: Calendar, windows: dict[str, Window], now: int, settings: Settings
) -> list[Span]:
    """The current window and those after it that should exist at `now` (ms) and do not."""
    wanted = [calendar.grid.at(max(now, calendar.genesis))]
    for _ in range(settings.ahead_windows):
        wanted.append(calendar.grid.after(wanted[-1]))
    # The last of them is created after the current window has begun.
    if now - roller_grace_ms(settings) < wanted[0].start:
        wanted.pop()
    return [span for span in wanted if span.id not in windows]
