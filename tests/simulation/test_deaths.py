"""Writers that die for minutes, and are mended: no window closes over what they left."""

from __future__ import annotations

from itertools import count
from random import Random

import pytest

from tests.simulation.deaths import KINDS, LASTS_MS_MAX, deaths
from tests.simulation.pipeline import simulate


def seed_of(kind: str) -> int:
    """The first seed under which this befalls the writers."""
    for seed in count():
        befalls = deaths(Random(f"{seed} death"))
        if befalls and befalls[0].name == kind:
            return seed
    raise AssertionError


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_rejected_that_was_sent_in_time(kind: str) -> None:
    result = simulate(seed_of(kind))
    assert not result.violation
    assert result.marks[f"ill-{kind}"] == 1, "it struck nobody"
    assert result.dropped > 3, "no window came to its end"


def test_it_is_over_before_the_calm() -> None:
    drawn = [each for seed in range(300) for each in deaths(Random(f"{seed} death"))]
    assert len({each.name for each in drawn}) == len(KINDS)
    assert all(0 < each.until - each.since <= LASTS_MS_MAX for each in drawn)
