"""With Parquet the invariants hold, mistakes with it are found, and rare states are met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from tests.simulation.columns.marking import COLUMN_MARKS
from tests.simulation.columns.planted import PLANTED
from tests.simulation.columns.system import simulate_columns
from tests.simulation.lanes import bug_name, finding_seed
from tests.simulation.planted import Planted
from tests.simulation.run import replay_command

FEW, MORE = (2, 5), (3, 9, 10, 21, 22, 23, 26, 73, 90, 155)
RARE = ("column-disk-full", "column-read-in-vain", "column-too-long")


@pytest.mark.parametrize(
    ("seeds", "unmet"), [(FEW, RARE), pytest.param(MORE, (), marks=pytest.mark.proof)]
)
def test_invariants_hold_and_the_rare_states_are_met(
    seeds: Sequence[int], unmet: Sequence[str]
) -> None:
    met: Counter[str] = Counter()
    broken, dropped = {}, 0
    for seed in seeds:
        result = simulate_columns(seed)
        met += result.marks
        dropped += result.dropped
        if result.violation:
            broken[replay_command(seed, {}, None, None, "parquet")] = result.violation
    assert not broken
    assert met["column-proven"] > dropped / 2 > 2 * len(seeds)
    assert [name for name in COLUMN_MARKS if not met[name] and name not in unmet] == []


@pytest.mark.proof
def test_a_seed_replays_exactly() -> None:
    assert simulate_columns(3).trace == simulate_columns(3).trace


@pytest.mark.proof
@pytest.mark.parametrize("planted", PLANTED, ids=bug_name)
def test_a_planted_mistake_is_found(planted: Planted) -> None:
    seed = finding_seed(simulate_columns, planted)
    assert seed is not None, "it survived: make simulate STORE=parquet BUGS=all"
    assert not simulate_columns(seed, **planted.weather).violation, "it is not the planted mistake"
