"""A key's events by the minute, in windows that are not sealed.

Tallies count events by the sixtieth of their window: in windows that divide an hour, minutes follow
from that. Totals do not keep sixtieths: they would be some 0.4 KB more for each key and window, and
as much again in the listing, and both stay for good. Sums by the minute are kept nowhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from functools import partial
from typing import Any

from tallyroll.errors import Absent, StoreError, UsageError
from tallyroll.limits import SERIES_SLOTS
from tallyroll.model.specs import Spec
from tallyroll.model.states import Window
from tallyroll.model.windows import Grid, WindowId, iso
from tallyroll.reads.counts import COUNT_MS
from tallyroll.reads.lookups import Lookups, deadline_of
from tallyroll.reads.steps import STEPS_MAX, check_shown, local_iso

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
WINDOWS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class MinutePoint:
    """A key's events in the minute from `start` (ms) on: what was counted, less what was retracted.
    It is `complete` if its window could be read.
    """

    start: int
    events: int
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Minutes:
    """A key's `points`, one for each minute of a range, as of a time (ms). `why_missing` names the
    windows that could not be read, each with the reason.
    """

    key: str
    zone: tzinfo
    points: tuple[MinutePoint, ...]
    as_of: int
    why_missing: Mapping[WindowId, str]

    @property
    def events(self) -> int:
        """The events of all minutes."""
        return sum(point.events for point in self.points)

    @property
    def complete(self) -> bool:
        """Whether all windows could be read."""
        return not self.why_missing


class MinuteReads(Lookups):
    """Counts of keys by the minute."""

    def minutes(
        self,
        key: str,
        since: int | None = None,
        until: int | None = None,
        zone: tzinfo = UTC,
        time_left_ms: int = COUNT_MS,
    ) -> Minutes:
        """A key's events in each minute of [since, until) in ms, both whole minutes, at the time at
        which they happened, or were redriven.

        Without `since` from the end of the last sealed window on, and without `until` to the end of
        the current minute. Raises UsageError for bounds within a minute, over `STEPS_MAX` minutes,
        and windows that are sealed or do not divide an hour; Absent if the pipeline has no windows
        yet.
        """
        now = self._effects.now()
        deadline = deadline_of(now, time_left_ms)
        calendar, pointer = self._catalog.calendar(), self._catalog.live()
        if calendar is None or pointer is None:
            raise Absent("the pipeline has no windows: its roller has not run yet")
        until = _after(now) if until is None else until
        check_shown(until, zone)
        if since is not None:
            _check(since, until)
        first = pointer.since if since is None else calendar.grid.at(since).start
        states = self._catalog.windows(first, max(first, until))
        sealed = [state.end for state in states if state.status.sealed]
        if since is None:
            since = _whole(max([first, *sealed]))
            if since >= until:
                raise UsageError(
                    f"until {iso(until)}: windows before {iso(since)} are sealed, or not made"
                )
            _check(since, until)
        asked = [state for state in states if state.end > since]
        _check_windows(calendar.grid, asked, since, until)
        found, why = self._minutes_of(key, asked, deadline)
        points = _points(found, why, asked, since, until)
        return Minutes(key, zone, tuple(points), now, why)

    def _minutes_of(
        self, key: str, windows: list[Window], deadline: int
    ) -> tuple[Mapping[int, int], dict[WindowId, str]]:
        """The events of the minutes that have some, by their starts; and what could not be read."""
        specs = self._specs.specs([window.id for window in windows])
        jobs = [partial(self._window_minutes, key, spec, deadline) for spec in specs.values()]
        events: Counter[int] = Counter()
        why: dict[WindowId, str] = {}
        found = self._effects.together(jobs, WINDOWS_AT_ONCE)
        for window, minutes in zip(specs, found, strict=True):
            if isinstance(minutes, str):
                why[window] = minutes
            else:
                events += minutes
        return events, why

    def _window_minutes(self, key: str, spec: Spec, deadline: int) -> Counter[int] | str:
        if self._effects.now() >= deadline:
            return "no time left"
        try:
            # Its tallies stay when it is sealed meanwhile, and nothing is taken from them then.
            tally = self._store.tallies(spec, [key])[key]
        except StoreError as error:
            return str(error)
        minutes: Counter[int] = Counter()
        for slot, events in tally.series:
            at = spec.start + slot * (spec.end - spec.start) // SERIES_SLOTS
            minutes[at - at % MINUTE_MS] += events
        return minutes


def minutes_json(minutes: Minutes) -> dict[str, Any]:
    """Minutes as JSON, as those of a series: each `start` is in the time zone."""
    answer: dict[str, Any] = {
        "key": minutes.key,
        "step": "minute",
        "tz": str(minutes.zone),
        "until": local_iso(minutes.points[-1].start + MINUTE_MS, minutes.zone),
        "events": minutes.events,
        "points": [
            {
                "start": local_iso(point.start, minutes.zone),
                "events": point.events,
                **({} if point.complete else {"complete": False}),
            }
            for point in minutes.points
        ],
        "as_of": iso(minutes.as_of),
        "complete": minutes.complete,
    }
    if minutes.why_missing:
        answer["missing"] = list(minutes.why_missing)
    return answer


def _after(at: int) -> int:
    return at - at % MINUTE_MS + MINUTE_MS


def _whole(at: int) -> int:
    """The first whole minute from `at` on."""
    return _after(at - 1)


def _check(since: int, until: int) -> None:
    for name, at in (("since", since), ("until", until)):
        if at % MINUTE_MS:
            raise UsageError(f"{name} {iso(at)}: by the minute it must be a whole minute")
    if since >= until:
        raise UsageError(f"since {iso(since)} is not before until {iso(until)}")
    if (count := (until - since) // MINUTE_MS) > STEPS_MAX:
        raise UsageError(f"{count:,} minutes: at most {STEPS_MAX:,}; give a shorter range")


def _check_windows(grid: Grid, windows: list[Window], since: int, until: int) -> None:
    """Raise UsageError unless all windows of a range have minutes."""
    for span in grid.over(grid.at(since).start, until):
        if HOUR_MS % (span.end - span.start):
            raise UsageError(
                f"step minute: windows are counted by sixtieths, and those of {span.id} do not make"
                " up minutes, since its length does not divide an hour; give a longer step"
            )
    sealed = [window for window in windows if window.status.sealed]
    if sealed:
        raise UsageError(
            f"step minute: the window {sealed[-1].id} is sealed, and totals have no minutes; give"
            f" since={iso(_whole(sealed[-1].end))} or later, or step hour"
        )


def _points(
    found: Mapping[int, int],
    why: Mapping[WindowId, str],
    windows: list[Window],
    since: int,
    until: int,
) -> Iterator[MinutePoint]:
    lost = [window for window in windows if window.id in why]
    for start in range(since, until, MINUTE_MS):
        end = start + MINUTE_MS
        complete = not any(each.start < end and start < each.end for each in lost)
        yield MinutePoint(start, found.get(start, 0), complete)
