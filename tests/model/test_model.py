"""The promises hold in every state of the model's worlds, and each planted mistake is found."""

from __future__ import annotations

import pytest

from tests.model.explore import explore
from tests.model.marks import MARKS
from tests.model.mistakes import Mistake
from tests.model.promises import Promise
from tests.model.run import main, named
from tests.model.words import CALLS, told
from tests.model.world import World
from tests.model.worlds import LARGE, PLANTED, SMALL, world_named


def world_name(world: World) -> str:
    return world.name


def holds(world: World) -> None:
    result = explore(world, MARKS)
    assert not result.broken, "\n".join((result.broken, *told(world, result.trace)))
    assert not result.unseen, "the world is too small for its marks"
    assert result.calls <= CALLS.keys()


@pytest.mark.parametrize("world", SMALL, ids=world_name)
def test_promises_hold_in_every_state(world: World) -> None:
    holds(world)


@pytest.mark.proof
@pytest.mark.parametrize("world", LARGE, ids=world_name)
def test_promises_hold_in_every_state_of_a_larger_world(world: World) -> None:
    holds(world)


@pytest.mark.parametrize("mistake", Mistake, ids=named)
def test_a_planted_mistake_is_found(mistake: Mistake) -> None:
    name, promise = PLANTED[mistake]
    world = world_named(name, mistake)
    result = explore(world, MARKS)
    assert result.broken is promise
    assert len(list(told(world, result.trace))) > len(result.trace) > 1


def test_every_promise_is_broken_by_a_mistake() -> None:
    assert {promise for _, promise in PLANTED.values()} == set(Promise)


def test_every_mark_is_asked_for() -> None:
    assert {mark for world in (*SMALL, *LARGE) for mark in world.marks} == MARKS.keys()
    assert len({world.name for world in (*SMALL, *LARGE)}) == len((*SMALL, *LARGE))


def test_the_command_tells_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--mistake", "put-without-condition"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        "  broken: 1: the tally is the number and sum of accepted events, less those retracted"
        in (lines)
    )
    assert lines[-1] == "    3. the writer of a commits in window 0: committed"


def test_the_command_fails_if_a_mistake_is_not_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--world", "forged", "--mistake", "drop-before-proof"]) == 1
    assert "NOT FOUND" in capsys.readouterr().out


def test_the_command_prints_worlds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--world", "beyond-days"]) == 0
    name, states, *_ = capsys.readouterr().out.splitlines()[1].split()
    assert (name, int(states)) == ("beyond-days", 747)
