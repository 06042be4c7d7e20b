"""The pipeline in a simulated world, on a store of single rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any, cast

import pytest

from tallyroll.adapters.rows import folding, statements
from tallyroll.adapters.rows.row_store import RowStore
from tallyroll.errors import UsageError
from tallyroll.lifecycle import draining
from tallyroll.model.states import Status
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.store import Store
from tallyroll.settings import SCAN
from tests.simulation import pipeline
from tests.simulation.heat_rules import HeatPlan
from tests.simulation.identity_rules import IdentityPlan
from tests.simulation.marks import Marks
from tests.simulation.operators import Operator
from tests.simulation.pipeline import Result, System, simulate
from tests.simulation.plans import SETTINGS, Plan, plan_of
from tests.simulation.retraction_rules import RetractionPlan
from tests.simulation.rows.marking import ALL_MARKS, marked_gates, watch_rows
from tests.simulation.rows.oracle import RowOracle
from tests.simulation.rows.watched import SimRows
from tests.simulation.rows.wires import RowsWire
from tests.simulation.weather import Weather
from tests.simulation.wires import Wire
from tests.simulation.world import UNBOUND, Bounds, SimEffects

SEGMENTS = 2
SLOW_NODES = 0.3  # of seeds
SPELL_MS_MAX = 40_000
PART_MARKS = 4  # so that a list has several parts


class RowOperator(Operator):
    """Deploys nothing that needs DynamoDB's own exports."""

    def _changes(self) -> dict[str, Any]:
        changes = super()._changes()
        accept_for_ms = changes["accept_for_ms"] // 10  # so that windows close amid their traffic
        return {**changes, "exporter": SCAN, "accept_for_ms": accept_for_ms}


def hurried(weather: Weather, chance: Random) -> Weather:
    """The weather where windows close at once: rows are slow to come, or gates to be shut."""
    return replace(
        weather,
        zombie=1.0,
        belated=max(weather.belated, 0.6 * chance.random()),
        slow_verb=("commit", "commit", "gate", "shut_gate", "put_seal")[int(chance.random() * 5)],
        slow_ms=int(20_000 * chance.random()),
    )


class RowSystem(System):
    """A system whose functions have a store of single rows, above statements that may fail."""

    base = replace(SETTINGS, accept_for_ms=6_000)
    modelled = False  # the model has transactions
    unlisted = (*System.unlisted, UsageError)

    def __init__(self, seed: int, bounds: Bounds = UNBOUND) -> None:
        super().__init__(seed, bounds)
        self.marks, self.metered = Marks(ALL_MARKS), RowStore
        chance = Random(f"{seed} hurried")
        self.hurried = chance.random() < 0.5 and not self.plan.gentle
        slow = Random(f"{seed} slow node")
        can_be_slow = slow.random() < SLOW_NODES and not self.plan.gentle
        self.spell_ms = int(SPELL_MS_MAX * slow.random()) if can_be_slow else 0
        if self.hurried:
            self.weather = hurried(self.weather, chance)

    def wired_store(self, port: Any) -> Store:
        catalog = cast("Catalog", Wire(self.world, self.catalog))
        rows = cast("Any", RowsWire(self.world, port, self.spell_ms))
        return RowStore(rows, catalog, SimEffects(self.world))

    def is_whole(self, answer: Mapping[str, Any]) -> bool:
        """While a window is being closed, it may be missing."""
        states = map(self.catalog.window, answer.get("missing", ()))
        return all(window and window.status is Status.CLOSING for window in states)

    def watch_store(self, patch: pytest.MonkeyPatch) -> None:
        watch_rows(self, patch)
        marked_gates(patch, self)
        # Whatever the queue holds: it must not be the queue that keeps uncounted rows out.
        if self.hurried:
            patch.setattr(draining, "drained", lambda *_: True)


def _planned(seed: int) -> Plan:
    plan = replace(plan_of(seed), exporter=SCAN, identities=IdentityPlan())
    return replace(plan, retractions=RetractionPlan(), heat=HeatPlan())


def simulate_rows(seed: int, bounds: Bounds = UNBOUND, /, **tweaks: Any) -> Result:
    """Run one seed on a store of single rows, as `simulate` does on DynamoDB's double."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "Oracle", RowOracle)
        patch.setattr(pipeline, "Operator", RowOperator)
        patch.setattr(pipeline, "SimStore", SimRows)
        patch.setattr(pipeline, "System", RowSystem)
        patch.setattr(pipeline, "plan_of", _planned)
        patch.setattr(statements, "SEGMENTS", SEGMENTS)
        patch.setattr(folding, "PART_MARKS", PART_MARKS)
        return simulate(seed, bounds, **tweaks)
