"""Reads that share counts, and reads over ranges: the promises hold, and each planted mistake is
found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.model import counting, ranges, shared
from tests.model.run import main
from tests.model.search import Found

SHARED = {
    shared.Mistake.FEWER_TAKEN: shared.Promise.GROWS,
    shared.Mistake.AGED_BY_PUT: shared.Promise.AGE,
    shared.Mistake.FEWER_KEPT: shared.Promise.GROWS,
    shared.Mistake.STALE_JOINED: shared.Promise.AGE,
    shared.Mistake.CONSISTENT_JOINS: shared.Promise.CONSISTENT,
}
RANGES = {
    ranges.Mistake.STATE_BEFORE: ranges.Promise.LISTED,
    ranges.Mistake.STATES_ONCE: ranges.Promise.FOUND,
    ranges.Mistake.GONE_IS_ABSENT: ranges.Promise.FOUND,
    ranges.Mistake.FIRST_ALONE: ranges.Promise.FOUND,
    ranges.Mistake.BELOW_MISSED: ranges.Promise.FOLLOWED,
    ranges.Mistake.TALLY_AFTER: ranges.Promise.FOLLOWED,
    ranges.Mistake.STATE_AFTER: ranges.Promise.FOLLOWED,
    ranges.Mistake.UNCHECKED_END: ranges.Promise.FOLLOWED,
}


@pytest.mark.parametrize(
    ("found", "states", "seen"),
    [
        (
            shared.explore_all,
            100_000,
            {
                *("tick", "count", "begin", "read other", "lose", "put"),
                *("ask", "join", "read", "answer", "ask consistently"),
            },
        ),
        (
            ranges.explore_all,
            1_000,
            {*("commit", "seal", "drop", "make"), *("begin", "look", "read", "read the states")},
        ),
    ],
    ids=["shared", "ranges"],
)
def test_promises_hold_in_every_state(
    found: Callable[[], Found[Any]], states: int, seen: set[str]
) -> None:
    result = found()
    assert not result.broken, "\n".join(result.trace)
    assert result.states > states
    assert result.seen == seen


@pytest.mark.parametrize("mistake", shared.Mistake, ids=lambda each: each.name.lower())
def test_a_planted_mistake_of_shared_counts_is_found(mistake: shared.Mistake) -> None:
    found = shared.explore_all(mistake)
    assert found.broken is SHARED[mistake]
    assert 1 < len(found.trace) < 15


@pytest.mark.parametrize("mistake", ranges.Mistake, ids=lambda each: each.name.lower())
def test_a_planted_mistake_of_ranges_is_found(mistake: ranges.Mistake) -> None:
    found = ranges.explore_all(mistake)
    assert found.broken is RANGES[mistake]
    assert 1 < len(found.trace) < 15


def test_every_promise_is_broken_by_a_mistake() -> None:
    assert {*SHARED.values()} == {*shared.Promise}
    assert {*RANGES.values()} == {*ranges.Promise}


def test_the_command_tells_traces(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    none = Found[shared.Promise]()
    real = shared.explore_all
    monkeypatch.setattr(shared, "explore_all", lambda each=None: real(each) if each else none)
    assert main(["--reads"]) == 0
    told = capsys.readouterr().out
    mistakes = (*counting.Mistake, *shared.Mistake, *ranges.Mistake)
    assert all(f": {mistake}\n  broken: " in told for mistake in mistakes)
    assert "NOT FOUND" not in told
