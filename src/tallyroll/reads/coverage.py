"""Splits a range into rolled-up days and months, and gaps to be read by windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain

from tallyroll.model.periods import (
    DAY,
    DAY_MS,
    MONTH,
    Period,
    PeriodState,
    day_of,
    month_of,
    period_of,
)
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
    genesis: int = 0,
) -> list[PeriodState]:
    """The rolled-up months that lie wholly in [since, until) ms, and rolled-up days of the rest;
    only those that fit. Few are before `genesis` (ms), where the first window begins that was not
    opened in its past.

    No period lies within another.
    """
    if until - since < DAY_MS:
        return []
    last = month_of(until - 1)
    # Mostly all months since the first are rolled up but the last two: days of the others are asked
    # for beside the months, and not after them.
    before = month_of(last.start - 1).start if last.start else 0
    begun = month_of(max(since, genesis)).start
    guessed = uncovered(since, until, [Period(begun, before, "")] if begun < before else [])
    if month_of(since).start < since < before:
        guessed.insert(0, (since, month_of(since).end))
    first, apart = month_of(since).name, guessed
    if until >= effects.now():  # no days lie behind the last guess: they and the months by one call
        first, apart = day_of(guessed[-1][0]).name, guessed[:-1]
    asked = [partial(catalog.periods, first, last.name)]
    asked += [partial(_days, catalog, gap) for gap in apart]
    states = list(chain.from_iterable(effects.together(asked, GAPS_AT_ONCE)))
    months = _rolled(states, MONTH, since, until, fits)
    gaps = uncovered(since, until, [period_of(state.name) for state in months])
    unknown = [gap for gap in gaps if not any(_within(gap, guess) for guess in guessed)]
    more = effects.together([partial(_days, catalog, gap) for gap in unknown], GAPS_AT_ONCE)
    days = {state.name: state for state in chain(states, *more)}
    found = _rolled(days.values(), DAY, since, until, fits)
    return [*months, *(day for day in found if any(_holds(gap, day) for gap in gaps))]


def _days(catalog: Catalog, gap: Gap) -> list[PeriodState]:
    since, until = gap
    assert until is not None
    return catalog.periods(day_of(since).name, day_of(until - 1).name)


def _within(gap: Gap, other: Gap) -> bool:
    return other[0] <= gap[0] and gap[1] is not None and other[1] is not None and gap[1] <= other[1]


def _holds(gap: Gap, day: PeriodState) -> bool:
    start = period_of(day.name).start
    return gap[0] <= start and (gap[1] is None or start < gap[1])


def _rolled(
    states: Iterable[PeriodState],
    kind: str,
    since: int,
    until: int,
    fits: Callable[[Period], bool],
) -> list[PeriodState]:
    named = [state for state in states if state.complete and state.name.startswith(kind)]
    complete = [(state, period_of(state.name)) for state in named]
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
