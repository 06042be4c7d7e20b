"""No wish that was answered with success is lost, and both planted mistakes are found."""

from __future__ import annotations

import pytest

from tests.model.wishes import (
    DEAD,
    DONE,
    REFUSED,
    WishMistake,
    WishPromise,
    explore_wishes,
    tell_wishes,
)


def test_promises_hold_in_every_state() -> None:
    result = explore_wishes()
    assert not result.broken, result.trace
    assert result.states > 1_000
    assert {DONE, REFUSED, DEAD} <= result.ends


@pytest.mark.parametrize(
    ("mistake", "last"),
    [
        (WishMistake.TAKEN_AFTER_FREEZE, "the command puts its wish"),
        (WishMistake.LOST_BEFORE_PUT, "a roller freezes window 0"),
    ],
)
def test_a_planted_mistake_is_found(mistake: WishMistake, last: str) -> None:
    result = explore_wishes(mistake)
    assert result.broken is WishPromise.KEPT
    assert result.trace[-1] == last


def test_the_command_tells_both(capsys: pytest.CaptureFixture[str]) -> None:
    assert tell_wishes() == 0
    said = capsys.readouterr().out
    assert all(f"wishes: {each}" in said for each in ("no mistake", *WishMistake))
    assert said.count("broken: a wish that was answered with success") == 2
