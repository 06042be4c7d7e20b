"""A failing run is shrunk to what breaks the same promise, and the command brings that back."""

from __future__ import annotations

import shlex

import pytest

from tests.simulation import run
from tests.simulation.lanes import (
    Hunt,
    Summary,
    bug_name,
    hunt_bugs,
    in_place,
    planted_named,
    run_seeds,
)
from tests.simulation.pipeline import Result, simulate
from tests.simulation.shrinking import concerning, promise_of, shrink
from tests.simulation.weather import CALM, LETTER, RISKS, Risk, Weather, parse_weather, weather_text
from tests.simulation.world import Bounds

pytestmark = pytest.mark.no_cover  # it tests the simulation, and takes three times as long traced
UNCONDITIONAL = planted_named("put_without_condition")
SEED = 34


def failing() -> Result:
    with in_place(UNCONDITIONAL):
        result = simulate(SEED)
    assert result.violation
    return result


def struck(result: Result) -> frozenset[str]:
    return frozenset(fault.name for fault in result.faults)


def test_what_struck_is_all_that_it_takes_to_bring_a_run_back() -> None:
    whole = failing()
    with in_place(UNCONDITIONAL):
        again = simulate(SEED, Bounds(struck(whole), struck(whole)))
    assert again.trace == whole.trace


def test_a_fault_that_is_left_out_changes_nothing_that_producers_send() -> None:
    whole = simulate(SEED)
    calm = simulate(SEED, Bounds(faults=frozenset()))
    assert {fault.kind for fault in calm.faults} == {LETTER.kind}
    assert len(whole.faults) > len(calm.faults)

    def letters(result: Result) -> list[str]:
        return [fault.name for fault in result.faults if fault.kind == LETTER.kind]

    assert letters(calm) == letters(whole)


def test_a_weather_without_a_kind_of_fault_leaves_producers_alone_as_well() -> None:
    assert simulate(SEED).messages == simulate(SEED, crash=0.0, unanswered=0.0).messages


def test_a_shrunk_run_breaks_the_same_promise_with_less(capsys: pytest.CaptureFixture[str]) -> None:
    whole = failing()
    with in_place(UNCONDITIONAL):
        shrunk = shrink(whole, {}, 20)
    assert whole.violation
    assert shrunk.result.violation
    assert shrunk.only is not None
    assert promise_of(shrunk.result.violation) == promise_of(whole.violation) == "1"
    assert len(shrunk.only) <= 4 < len(struck(whole))
    assert len(shrunk.result.trace) < len(whole.trace)
    assert any("commit" in line for line in concerning(shrunk.result))

    command = run.replay_command(SEED, shrunk.tweaks, shrunk.only, UNCONDITIONAL)
    words = dict(word.split("=", 1) for word in shlex.split(command)[2:])
    assert words["SEED"] == str(SEED)
    options = ["--seed", words["SEED"], "--bugs", words["BUGS"], "--weather", words["WEATHER"]]
    assert run.main([*options, "--only-faults", words["ONLY_FAULTS"]]) == 1
    assert f"VIOLATION {shrunk.result.violation}" in capsys.readouterr().out


def test_shrinking_stops_in_time_and_gives_the_best_so_far() -> None:
    whole, ticks = failing(), iter(range(100))
    with in_place(UNCONDITIONAL):
        shrunk = shrink(whole, {}, 3, clock=lambda: next(ticks))
    assert shrunk.runs == 2
    assert shrunk.result.violation
    assert len(shrunk.result.faults) <= len(whole.faults)


def test_promises_are_told_apart_by_number_or_error() -> None:
    assert promise_of("4: a commit: succeeded") == "4"
    assert promise_of("writer17 raised KeyError('x')") == "raised KeyError"
    assert promise_of("writer17 raised KeyError('x')") == promise_of("roller1 raised KeyError(1)")


def test_a_runs_bounds_end_it() -> None:
    result = simulate(SEED, Bounds(until_ms=5_000))
    assert result.violation
    assert result.lasted_ms < 60_000
    assert not result.violation[0].isdigit()


def test_weather_is_read_as_it_is_written() -> None:
    tweaks = parse_weather("crash=0 stall=0.04 slow_verb=stripes slow_ms=9000")
    assert tweaks == {"crash": 0.0, "stall": 0.04, "slow_verb": "stripes", "slow_ms": 9000}
    assert parse_weather(weather_text(tweaks)) == tweaks
    assert parse_weather("") == {}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("rain=1", "'rain'"),
        ("crash", "crash"),
        ("crash=often", "'often'"),
        ("crash=2", "no chance"),
        ("crash=nan", "no chance"),
        ("slow_ms=-1", "slow_ms"),
        ("slow_ms=1.5", "'1.5'"),
        ("slow_verb=walk", "'walk'"),
    ],
)
def test_bad_weather_is_refused_by_name(
    text: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run.main(["--seed", "1", "--weather", text])
    assert named in capsys.readouterr().err


def test_risks_keep_their_kind() -> None:
    assert {getattr(CALM, name).kind for name in RISKS} == set(RISKS)
    doubled = 2 * Weather(crash=0.25).crash
    assert isinstance(doubled, Risk)
    assert (doubled, doubled.kind) == (0.5, "crash")


@pytest.mark.proof
def test_processes_give_what_one_gives() -> None:
    seeds = range(4)
    alone, side_by_side = Summary(), Summary()
    for result in run_seeds(seeds, {}, 1):
        alone.add(result)
    for result in run_seeds(seeds, {}, 2):
        side_by_side.add(result)
    assert alone == side_by_side
    assert alone.seeds == 4
    assert alone.faults.total() > alone.messages


def test_a_planted_bug_is_hunted_down() -> None:
    (hunt,) = hunt_bugs([bug_name(UNCONDITIONAL)], range(2, 20), 1)
    assert isinstance(hunt, Hunt)
    assert hunt.seed == 1 + hunt.tried
    assert hunt.violation


def test_many_seeds_are_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--seeds", "2", "--from", str(SEED), "--jobs", "1"]) == 0
    shown = capsys.readouterr().out
    assert "2 seeds in" in shown
    assert "0 violations" in shown


def test_many_seeds_fail_if_one_does(capsys: pytest.CaptureFixture[str]) -> None:
    with in_place(UNCONDITIONAL):
        assert run.main(["--seeds", "1", "--from", str(SEED), "--jobs", "1", "--shrink", "2"]) == 1
    shown = capsys.readouterr().out
    assert f"failed seeds: {SEED}" in shown
    assert f"replay: make simulate SEED={SEED}" in shown
    assert "ONLY_FAULTS=" in shown
