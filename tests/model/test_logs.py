"""Logs: the promises hold in every state of the worlds, and each planted mistake is found."""

from __future__ import annotations

import pytest

from tests.model import log_worlds
from tests.model.log_worlds import LARGE, PLANTED, SMALL, explore, find
from tests.model.logs import Mistake, Promise, World
from tests.model.run import main


def world_name(world: World) -> str:
    return world.name


def holds(world: World) -> set[str]:
    found = explore(world)
    assert not found.broken, "\n".join(found.trace)
    return found.seen


def test_promises_hold_in_every_state() -> None:
    seen = set[str]().union(*map(holds, SMALL))
    assert seen == {
        *("deliver", "refuse", "die", "read", "put", "lose", "give up", "land", "meet a shut gate"),
        *("move", "look", "leave", "claim", "redrive", "delete", "read claims", "seal"),
    }


@pytest.mark.proof
@pytest.mark.parametrize("world", LARGE, ids=world_name)
def test_promises_hold_in_every_state_of_a_larger_world(world: World) -> None:
    holds(world)


@pytest.mark.parametrize("mistake", Mistake, ids=lambda each: each.name.lower())
def test_a_planted_mistake_is_found(mistake: Mistake) -> None:
    found = find(mistake)
    assert found.broken is PLANTED[mistake][1]
    assert 2 < len(found.trace) < 20


def test_every_promise_is_broken_by_a_mistake() -> None:
    assert {promise for _, promise in PLANTED.values()} == {*Promise}


def test_the_command_tells_worlds_and_traces(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_worlds, "LARGE", ())
    monkeypatch.setattr(log_worlds, "PLANTED", {Mistake.DIVIDED: PLANTED[Mistake.DIVIDED]})
    monkeypatch.setattr(log_worlds, "SMALL", SMALL[:1])
    assert main(["--logs"]) == 0
    told = capsys.readouterr().out
    assert "logs, two-messages: 3,328 states\n" in told
    assert f"divided: {Mistake.DIVIDED}\n  broken: {Promise.GAPLESS}\n    1. world: " in told
