"""The pipeline in a simulated world, with plain events of hot keys in logs."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tallyroll import limits
from tallyroll.ingest import appending
from tallyroll.logs import slots
from tests.simulation import pipeline
from tests.simulation.heat_rules import SHARDS_LEAST, HeatPlan
from tests.simulation.logs.oracle import LogBook, LogOracle
from tests.simulation.operators import Operator
from tests.simulation.pipeline import Result, System, simulate
from tests.simulation.plans import FAULTS_MS, SETTINGS, Plan, plan_of
from tests.simulation.producers import Letter, Producer
from tests.simulation.retraction_rules import ON, RetractionPlan
from tests.simulation.retractors import Retractors
from tests.simulation.sent import Asked, Sent
from tests.simulation.world import UNBOUND, Bounds

RATES = (20, 80, 80, 250)  # events a second: slots of 4 to 50 seconds
PLAIN = 0.6  # of the letters
RETRACTING = 0.5  # of the seeds
BESIDE = 0.25  # of the seeds also have functions of releases without logs
BESIDE_MS = 150_000
POSITIONS, ENTRIES, FEW = 5, 3, 2  # so that slots are full, or ended, now and then


def logs_of(drawn: float) -> dict[str, int]:
    """The keys that a deployment logs, by a chance; sometimes none."""
    rate = RATES[int(drawn * 100) % len(RATES)]
    return {} if drawn < 0.1 else {"hot": rate} if drawn < 0.7 else {"hot": rate, "käse": 20}


class LogOperator(Operator):
    """Deploys other logs, too."""

    def _changes(self) -> dict[str, Any]:
        return {**super()._changes(), "logs": logs_of(self._chance())}


class LogProducer(Producer):
    """Sends plain events mostly."""

    def letter(self, now: int) -> Letter:
        return self._anonymous(now) if self._random.random() < PLAIN else super().letter(now)


class LogRetractors(Retractors):
    """Take events of logs back by the names under which they are listed."""

    def _asked(self, sent: Sent) -> Asked:
        asked, book = super()._asked(sent), self._system.oracle.retractions
        assert isinstance(book, LogBook)
        if sent.record_id is None and (place := book.places.get(sent.id)):
            *_, leaf, index = place
            return replace(asked, record_id=leaf, index=index)
        return asked


class LogSystem(System):
    """A system whose first deployment logs a key."""

    base = replace(SETTINGS, logs={"hot": 80})
    modelled = False  # the model of writers knows records alone


def _planned(seed: int) -> Plan:
    chance = Random(f"{seed} logs")
    plan = replace(plan_of(seed), ranges=False, months=False)
    redrives = plan.redrives or chance.random() < 0.5
    retractions = (
        RetractionPlan(chance.choice(ON)) if chance.random() < RETRACTING else RetractionPlan()
    )
    heat, begins = plan.heat, int(chance.random() * FAULTS_MS / 2)
    if chance.random() < BESIDE and not (heat.has_before or plan.with_fuse):
        until = begins + BESIDE_MS
        heat = HeatPlan(heats=True, before_from=begins, before_until=until, shards=SHARDS_LEAST)
    return replace(plan, redrives=redrives, retractions=retractions, heat=heat)


def log_keys(patch: pytest.MonkeyPatch) -> None:
    """Let simulated pipelines log keys, until the patch is undone."""
    patch.setattr(pipeline, "Oracle", LogOracle)
    patch.setattr(pipeline, "Operator", LogOperator)
    patch.setattr(pipeline, "Producer", LogProducer)
    patch.setattr(pipeline, "Retractors", LogRetractors)
    patch.setattr(pipeline, "System", LogSystem)
    patch.setattr(pipeline, "plan_of", _planned)
    patch.setattr(limits, "LOG_POSITIONS", POSITIONS)
    patch.setattr(limits, "LOG_ENTRIES_MAX", ENTRIES)
    for each in (slots, appending):
        patch.setattr(each, "FEW_ENTRIES", FEW)
    patch.setattr(appending, "OLD_MS", 0)


def simulate_logs(seed: int, bounds: Bounds = UNBOUND, /, **tweaks: Any) -> Result:
    """Run one seed with logs, as `simulate` does without."""
    with pytest.MonkeyPatch.context() as patch:
        log_keys(patch)
        return simulate(seed, bounds, **tweaks)
