"""Splits a range into rolled-up days and months, and gaps to be read by windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain

from tallyroll.model.periods import DAY_MS, Period, PeriodState, day_of, month_of, period_of
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects

GAPS_AT_ONCE = 16

Gap = tuple[int, int | None]
"""A span [since, until) in ms; until None is open."""


def every(_: Period) -> bool:
    """Any period will do."""
    return True


def rolled_within(
    catalog: Catalog,
    effects: Effects,
    since: int,
    until: int,
    fits: Callable[[Period], bool] = every,
) -> list[PeriodState]:
    """The rolled-up months that lie wholly in [since, until) ms, and rolled-up days of the rest;
    only those that fit.

    No period lies within another.
    """
    if until - since < DAY_MS:
        return []
    first, last = month_of(since).name, month_of(until - 1).name
    months = _rolled(catalog.periods(first, last), since, until, fits)
    gaps = uncovered(since, until, [period_of(state.name) for state in months])
    jobs = [partial(_days, catalog, gap[0], gap[1], fits) for gap in gaps if gap[1] is not None]
    days = effects.together(jobs, GAPS_AT_ONCE)
    return [*months, *chain.from_iterable(days)]


def _days(
    catalog: Catalog, since: int, until: int, fits: Callable[[Period], bool]
) -> list[PeriodState]:
    states = catalog.periods(day_of(since).name, day_of(until - 1).name)
    return _rolled(states, since, until, fits)


def _rolled(
    states: Iterable[PeriodState], since: int, until: int, fits: Callable[[Period], bool]
) -> list[PeriodState]:
    complete = [(state, period_of(state.name)) for state in states if state.complete]
    return [
        state for state, its in complete if since <= its.start and its.end <= until and fits(its)
    ]


def uncovered(since: int, until: int | None, periods: Sequence[Period]) -> list[Gap]:
    """The gaps that non-overlapping periods leave in [since, until), ascending."""
    gaps: list[Gap] = []
    for period in sorted(periods):
        if since < period.start:
            gaps.append((since, period.start))
        since = period.end
    if until is None or since < until:
        gaps.append((since, until))
    return gaps
