"""The raise of stripes: the promises hold in every state, and each planted mistake is found."""

from __future__ import annotations

import pytest

from tests.model.run import main
from tests.model.stripes import Mistake, Promise, explore

BROKEN = {
    Mistake.CACHED: Promise.READ,
    Mistake.AFTERWARDS: Promise.READ,
    Mistake.LOWERED: Promise.READ,
    Mistake.UNANSWERED: Promise.READ,
    Mistake.BEYOND: Promise.READ_BEFORE,
    Mistake.SEALED_BY_NUMBER: Promise.TOTAL,
}


def test_promises_hold_in_every_state() -> None:
    found = explore()
    assert not found.broken, "\n".join(found.trace)
    assert found.states > 10_000
    assert found.seen == {
        "commit",
        "hear",
        "raise",
        "shut",
        "seal",
        "begin",
        "go by",
        "learn",
        "read",
        "end",
    }


@pytest.mark.parametrize("mistake", Mistake, ids=lambda each: each.name.lower())
def test_a_planted_mistake_is_found(mistake: Mistake) -> None:
    found = explore(mistake)
    assert found.broken is BROKEN[mistake]
    assert 1 < len(found.trace) < 15


def test_every_promise_is_broken_by_a_mistake() -> None:
    assert set(BROKEN.values()) == set(Promise)
    assert BROKEN.keys() == set(Mistake)


def test_the_command_tells_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--stripes"]) == 0
    told = capsys.readouterr().out
    assert all(str(mistake) in told for mistake in Mistake)
    assert "NOT FOUND" not in told
