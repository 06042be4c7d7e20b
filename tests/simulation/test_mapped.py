"""The invariants hold where messages are mapped and deployments change the mapping, and mistakes
with the list of mappings are found.
"""

from __future__ import annotations

import pytest

from tests.simulation.mapped import PLANTED, simulate_mapped
from tests.simulation.planted import Planted

pytestmark = pytest.mark.proof

SEEDS = 8


def test_invariants_hold_while_the_mapping_changes() -> None:
    changes = fanned = 0
    for seed in range(SEEDS):
        result, mappings, counted = simulate_mapped(seed)
        assert not result.violation, f"seed {seed}: {result.violation}"
        assert result.messages > result.commits > 0
        changes += len(mappings.entries) - 1
        fanned += counted
    assert changes >= SEEDS // 2
    assert fanned > 100 * SEEDS


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.bug.__name__)
def test_a_planted_mistake_with_mappings_is_found(planted: Planted) -> None:
    with pytest.MonkeyPatch.context() as patch:
        planted.bug(patch)
        found = simulate_mapped(planted.seed, **planted.weather)[0].violation
    assert found
    assert " raised " not in found
    assert not simulate_mapped(planted.seed, **planted.weather)[0].violation
