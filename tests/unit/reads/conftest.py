"""Days of sealed windows, of which some are rolled up, and the plain sums of their keys."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from tallyroll.model.states import Calendar
from tallyroll.model.totals import Correction
from tallyroll.model.windows import Grid, window_id
from tests.harness.pipeline import HOUR
from tests.unit.lifecycle.test_rollups import DAY, FIRST, MICROS, Days

KEYS = ("a", "a-1", "a-1.b", "a.", "a.-", "a.1", "a.1.0", "a!", "a/", "a0", "b", "ü")
LAST = FIRST + 3 * DAY


@pytest.fixture
def days() -> Days:
    """Three days of windows of an hour, two of them rolled up."""
    made, random = Days(hours=1), Random(3)
    made.catalog.found(Calendar(Grid.of(3600), FIRST, secret="0" * 64))
    for start in range(FIRST, LAST, HOUR):
        sums = {key: random.randrange(1, 9) for key in KEYS if random.random() < 0.4}
        window = made.window(start, sums, sealed=False)
        n = sum(sums.values())
        made.seal(replace(window, events=n, amount=n * MICROS))
    made.at(3)
    made.roll()
    made.at(4)
    for key, at in (("a", FIRST), ("a.1", FIRST + 30 * HOUR), ("b", LAST - 12 * HOUR)):
        starts = range(at, LAST, HOUR)
        named = window_id(next(w for w in starts if by_hand(made, w, w + HOUR)[key]))
        made.totals.correct([Correction(named, "x", (key,), 1, MICROS, b"digest", at)])
    return made


def by_hand(days: Days, since: int = FIRST, until: int = LAST) -> Counter[str]:
    found = Counter[str]()
    for key in KEYS:
        for total in days.totals.of_key(key, window_id(since), window_id(until)):
            found[key] += total.n - total.corrections.n
    return found
