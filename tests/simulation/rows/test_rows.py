"""A store on single rows: invariants hold, each planted bug is found, rare states are met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from tests.simulation import run
from tests.simulation.lanes import bug_name, finding_seed
from tests.simulation.planted import Planted
from tests.simulation.rows.marking import ROW_MARKS
from tests.simulation.rows.planted import PLANTED, SLOW_SEALS
from tests.simulation.rows.system import RowSystem, simulate_rows
from tests.simulation.run import replay_command


@pytest.mark.parametrize(
    "seeds", [(101, 103, 104, 105), pytest.param(range(100, 112), marks=pytest.mark.proof)]
)
def test_invariants_hold_and_the_rare_states_are_met(seeds: Sequence[int]) -> None:
    met: Counter[str] = Counter()
    broken, messages, commits, dropped = {}, 0, 0, 0
    for seed in seeds:
        result = simulate_rows(seed)
        messages, commits = messages + result.messages, commits + result.commits
        dropped += result.dropped
        met += result.marks
        if result.violation:
            broken[replay_command(seed, {}, None, None, "rows")] = result.violation
    met += simulate_rows(71, **SLOW_SEALS).marks
    assert not broken
    assert messages > commits > dropped > len(seeds)
    assert [name for name in ROW_MARKS if not met[name]] == []


@pytest.mark.proof
@pytest.mark.parametrize("planted", PLANTED, ids=bug_name)
def test_a_planted_bug_is_caught(planted: Planted) -> None:
    seed = finding_seed(simulate_rows, planted)
    assert seed is not None, "it survived: make simulate STORE=rows BUGS=all"
    assert not simulate_rows(seed, **planted.weather).violation, "it is not the planted bug"


def test_a_seed_replays_exactly() -> None:
    assert simulate_rows(103).trace == simulate_rows(103).trace


def test_half_of_the_seeds_close_windows_amid_their_traffic() -> None:
    hurried = [RowSystem(seed).hurried for seed in range(40)]
    assert 10 <= sum(hurried) <= 30


def test_a_run_of_seeds_names_its_store(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--store", "rows", "--seeds", "1", "--from", "103", "--jobs", "1"]) == 0
    told = capsys.readouterr().out
    assert "1 seeds in" in told
    assert "uncounted-left" in told
    assert "native-asked-twice" not in told
    replayed = ["--store", "rows", "--seed", "103", "--lines", "0"]
    assert run.main(replayed) == 0
    assert capsys.readouterr().out.startswith("seed 103: ")


def test_a_planted_bug_is_known_by_its_store(capsys: pytest.CaptureFixture[str]) -> None:
    bug = "unknown_insert_taken_for_done"
    arguments = ["--seed", "0", "--bugs", bug, "--shrink", "0", "--lines", "0"]
    assert run.main(["--store", "rows", *arguments]) == 1
    assert f"make simulate SEED=0 STORE=rows BUGS={bug}" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        run.main(arguments)
    assert "no planted bug is named" in capsys.readouterr().err
