"""The pipeline in a simulated world, with plain events of hot keys in logs."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tallyroll import limits
from tallyroll.logs import slots
from tests.simulation import pipeline
from tests.simulation.logs.oracle import LogOracle
from tests.simulation.operators import Operator
from tests.simulation.pipeline import Result, System, simulate
from tests.simulation.plans import SETTINGS, Plan, plan_of
from tests.simulation.producers import Letter, Producer
from tests.simulation.retraction_rules import RetractionPlan
from tests.simulation.world import UNBOUND, Bounds

RATES = (7, 30, 30, 90)  # events a second: slots of 4 to 53 seconds
PLAIN = 0.6  # of the letters
POSITIONS, ENTRIES, ENDS = 5, 3, 2  # so that slots are full, or ended, now and then


def logs_of(drawn: float) -> dict[str, int]:
    """The keys that a deployment logs, by a chance; sometimes none."""
    rate = RATES[int(drawn * 100) % len(RATES)]
    return {} if drawn < 0.1 else {"hot": rate} if drawn < 0.7 else {"hot": rate, "käse": 7}


class LogOperator(Operator):
    """Deploys other logs, too."""

    def _changes(self) -> dict[str, Any]:
        return {**super()._changes(), "logs": logs_of(self._chance())}


class LogProducer(Producer):
    """Sends plain events mostly."""

    def letter(self, now: int) -> Letter:
        return self._anonymous(now) if self._random.random() < PLAIN else super().letter(now)


class LogSystem(System):
    """A system whose first deployment logs a key."""

    base = replace(SETTINGS, logs={"hot": 30})
    modelled = False  # the model of writers knows records alone


def _planned(seed: int) -> Plan:
    plan = replace(plan_of(seed), retractions=RetractionPlan(), ranges=False, months=False)
    return replace(plan, redrives=plan.redrives or Random(f"{seed} logs").random() < 0.5)


def simulate_logs(seed: int, bounds: Bounds = UNBOUND, /, **tweaks: Any) -> Result:
    """Run one seed with logs, as `simulate` does without."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "Oracle", LogOracle)
        patch.setattr(pipeline, "Operator", LogOperator)
        patch.setattr(pipeline, "Producer", LogProducer)
        patch.setattr(pipeline, "System", LogSystem)
        patch.setattr(pipeline, "plan_of", _planned)
        patch.setattr(limits, "LOG_POSITIONS", POSITIONS)
        patch.setattr(limits, "LOG_ENTRIES_MAX", ENTRIES)
        patch.setattr(slots, "END_FROM", ENDS)
        return simulate(seed, bounds, **tweaks)
