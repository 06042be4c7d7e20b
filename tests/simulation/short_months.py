"""A calendar whose days last half a minute, so that a simulated life has months.

A month has one to three days, a week three, and every grid of whole half minutes has bounds in
common with each: as windows of an hour have with those of the true calendar.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from tallyroll.model import windows
from tallyroll.model.windows import MONTH, QUARTER, WEEK, YEAR
from tallyroll.settings.common import WINDOW_SECONDS
from tests.simulation.plans import START_MS, Plan

DAY_MS = 30_000
DAYS = (2, 1, 2, 3)  # of one month after another, again and again
WEEK_DAYS = 3
CYCLE_DAYS = sum(DAYS)
ORIGIN_MS = START_MS - DAY_MS  # here a month and a week begin
BEFORE = tuple(sum(DAYS[:number]) for number in range(len(DAYS)))
YEAR_DAYS = 60  # how far a common bound is looked for


def first_length(plan: Plan, chance: Random) -> Mapping[str, Any]:
    """The length of windows in the first deployment of a seed."""
    return length_in(chance.random()) if plan.months else {}


def length_in(drawn: float) -> Mapping[str, Any]:
    """The length in a later one, by a number in [0, 1)."""
    if drawn < 0.25:
        return {"window_seconds": (30, 60, 120)[int(drawn * 12)], "window": ""}
    name = (MONTH, MONTH, WEEK, QUARTER)[int((drawn - 0.25) / 0.75 * 4)]
    return {"window_seconds": WINDOW_SECONDS, "window": name}


def shorten_months(patch: pytest.MonkeyPatch) -> None:
    """Let days last half a minute in all reckoning of windows, until the patch is undone."""
    patch.setattr(windows, "_month_number", _month_number)
    patch.setattr(windows, "_begin", _begin)
    patch.setattr(windows, "DAY_MS", DAY_MS)
    patch.setattr(windows, "WEEK_MS", WEEK_DAYS * DAY_MS)
    patch.setattr(windows, "YEAR_MS", YEAR_DAYS * DAY_MS)
    patch.setattr(windows, "_MONDAY", ORIGIN_MS)
    patch.setattr(windows, "_DAYS", {MONTH: (1, 3), QUARTER: (5, 7), YEAR: (24, 24)})


def _month_number(ts: int) -> int:
    cycles, day = divmod((ts - ORIGIN_MS) // DAY_MS, CYCLE_DAYS)
    return cycles * len(DAYS) + bisect_right(BEFORE, day) - 1


def _begin(number: int) -> int:
    cycles, month = divmod(number, len(DAYS))
    return ORIGIN_MS + (cycles * CYCLE_DAYS + BEFORE[month]) * DAY_MS
