"""A key's counts in the steps of a range: the points of a curve."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Any

from tallyroll.errors import Absent, UsageError
from tallyroll.model.amounts import Summed
from tallyroll.model.periods import Period, period_of
from tallyroll.model.tallies import retracted_of
from tallyroll.model.windows import HOUR_MS, Grid, iso, window_start
from tallyroll.reads.counting.plans import Range
from tallyroll.reads.counts import COUNT_MS, Count, PeriodCount, WindowCount, sums_json
from tallyroll.reads.lookups import Lookups, deadline_of
from tallyroll.reads.steps import StepName, cuts, local_iso, step_named
from tallyroll.settings import Settings


@dataclass(frozen=True, slots=True)
class Point(Summed):
    """A key's events in a step [start, end) in ms, and their sum: `value`, and `amount` in
    millionths. What was `retracted` (events, amount) is not counted. It is `complete` if all
    windows of the step could be read.
    """

    start: int
    end: int
    events: int
    amount: int
    retracted: tuple[int, int] = (0, 0)
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Curve:
    """A key's `points`, one for each step of a range in the time zone `zone`, also where nothing
    was counted; their sums are those of `count`.
    """

    count: Count
    step: StepName
    zone: tzinfo
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps between `bounds` (ms, ascending)."""

    bounds: Sequence[int]

    def check(self, grid: Grid, step: StepName, zone: tzinfo) -> None:
        """Raise UsageError unless each step begins where a window does."""
        for bound in self.bounds[1:-1]:
            window = grid.at(bound)
            if window.start != bound:
                remedy = "a longer step"
                if HOUR_MS % (window.end - window.start) == 0:
                    remedy = "a zone whose offset they divide, such as UTC, or another step"
                raise UsageError(
                    f"tz {zone}: a{'n' * (step == 'hour')} {step} begins there at {iso(bound)},"
                    f" inside the window {window.id}: windows cannot be divided; give {remedy}"
                )

    def hold(self, period: Period) -> bool:
        """Whether a day or month lies within one step."""
        return self._at(period.start) == self._at(period.end - 1)

    def points(self, count: Count) -> tuple[Point, ...]:
        """The sums of the steps: each window or period of a count is in the one where it begins."""
        parts: list[list[WindowCount | PeriodCount]] = [[] for _ in self.bounds[1:]]
        for window in count.windows:
            parts[self._at(window_start(window.window))].append(window)
        for period in count.periods:
            parts[self._at(period_of(period.period).start)].append(period)
        missing = {self._at(window_start(window)) for window in count.missing}
        spans = zip(self.bounds, self.bounds[1:], parts, strict=False)
        return tuple(
            Point(
                start,
                end,
                sum(part.events for part in inside),
                sum(part.amount for part in inside),
                retracted_of(part.retracted for part in inside),
                at not in missing,
            )
            for at, (start, end, inside) in enumerate(spans)
        )

    def _at(self, ts: int) -> int:
        return bisect_right(self.bounds, ts) - 1


class SeriesReads(Lookups):
    """Counts of keys by steps."""

    _settings: Settings

    def series(
        self,
        key: str,
        since: int | None = None,
        until: int | None = None,
        step: StepName = "hour",
        zone: tzinfo = UTC,
        time_left_ms: int = COUNT_MS,
    ) -> Curve:
        """A key's counts in each hour, day, week or month of a time zone within [since, until) in
        ms, both on bounds of windows: the first step and the last one may be in part.

        Without `since` from the pipeline's first window on, without `until` to the end of the
        current one. Raises UsageError as `count` does, for over `STEPS_MAX` steps, and if a step
        begins inside a window; Absent if the pipeline has no windows yet.
        """
        now = self._effects.now()
        calendar = self._catalog.calendar()
        if calendar is None:
            raise Absent("the pipeline has no windows: its roller has not run yet")
        calendar.grid.check_range(since, until)
        since = calendar.genesis if since is None else since
        until = calendar.grid.at(now).end if until is None else until
        steps = Steps(cuts(since, until, step_named(step), zone))
        steps.check(calendar.grid, step, zone)
        fits = steps.hold if self._settings.rollups else None
        of = Range(since, until, (step, str(zone)), fits)
        count = self._count(key, of, now, deadline_of(now, time_left_ms))
        return Curve(count, step, zone, steps.points(count))

    @abstractmethod
    def _count(self, key: str, of: Range, now: int, deadline: int) -> Count:
        """Count a key over a range."""


def curve_json(curve: Curve) -> dict[str, Any]:
    """A curve as JSON. `until` and each `start` are in its time zone; a point ends where the next
    one starts, and the last one at `until`.
    """
    count, points, zone = curve.count, curve.points, curve.zone
    answer: dict[str, Any] = {
        "key": count.key,
        "step": curve.step,
        "tz": str(zone),
        "until": local_iso(points[-1].end, zone),
        **sums_json(count),
        "points": [
            {
                "start": local_iso(point.start, zone),
                **sums_json(point),
                **({} if point.complete else {"complete": False}),
            }
            for point in points
        ],
        "as_of": iso(count.as_of),
        "complete": count.complete,
    }
    if count.missing:
        answer["missing"] = list(count.missing)
    return answer
