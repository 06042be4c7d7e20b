"""After whatever struck, the doctor finds every invariant whole, and nothing else's table."""

from __future__ import annotations

from random import Random
from unittest.mock import patch

import pytest

from tallyroll.adapters.memory import MemoryListing
from tallyroll.operations.doctor.checkup import Checkup, Level
from tallyroll.operations.doctor.examine import examine
from tallyroll.resources import declare
from tests.faults.operators import INVARIANTS
from tests.harness.doctoring import LetterQueue
from tests.simulation.holdings import made_again
from tests.simulation.liveness import forever
from tests.simulation.pipeline import System, simulate
from tests.simulation.world import Group, SimEffects

# Short ones. Each drops windows, if nothing fails for ever that is needed for that.
SEEDS = (23, 34, 38, 39, 42, 54, 55, 60)


@pytest.mark.parametrize("seed", SEEDS)
def test_after_a_life_under_faults_the_doctor_finds_all_invariants_whole(seed: int) -> None:
    """But for tables that a roller made again after it had slept through their window's life."""
    found: dict[str, list[str]] = {}
    run = System.run

    def examined(system: System) -> None:
        run(system)
        case = _case(system)

        def look() -> None:
            for check in examine(case):
                signs = [sign.text for sign in check.bad if sign.level is not Level.WARNING]
                if check.name in INVARIANTS and signs:
                    found[check.name] = signs

        system.world.spawn("doctor", look, Group("doctor", mortal=False))
        system.world.run()
        back = found.pop("stray-tables", [])
        assert len(back) == len(made_again(system.catalog, system.store))

    with patch.object(System, "run", examined):
        result = simulate(seed)
    assert not result.violation
    assert found == {}
    ill = {fault.name for fault in forever(Random(f"{seed} forever"))}
    assert result.dropped or ill & {"roller", "cleanup", "export", "deletion"}


def _case(system: System) -> Checkup:
    effects = SimEffects(system.world)
    return Checkup(
        settings=system.settings,
        catalog=system.catalog,
        store=system.store,
        totals=system.totals,
        tables=MemoryListing(system.store, declare(system.settings).permanent),
        queue=system.queue,
        dead_letters=LetterQueue(system.queue, effects),
        bucket=system.bucket,
        effects=effects,
        deep=True,
    )
