"""Who may take events back under a seed, and whether later deployments say otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tallyroll.settings.common import RETRACTION_OFF, RETRACTION_OPERATOR, RETRACTION_QUEUE
from tests.simulation.weather import Weather

RETRACTING = 0.2  # of seeds
SLOWED = 0.5  # of these
SLOW_VERBS = ("tombstones", "tombstones", "lookup", "retract", "correct", "authorizations")
SLOW_MS_MAX = 12_000
VERY_SLOW = 5  # times: so that a table is gone by then, which a writer does not outlive
ASKING_MS = 75_000  # so long some still ask after the last event was sent
ON = (RETRACTION_OPERATOR, RETRACTION_QUEUE)


@dataclass(frozen=True, slots=True)
class RetractionPlan:
    """Who may retract by the first deployment; and by later ones, if it `changes`: once somebody
    may, somebody may for good.
    """

    first_mode: str = RETRACTION_OFF
    changes: bool = False

    @property
    def retracts(self) -> bool:
        """Whether anybody may ever retract."""
        return self.changes or self.first_mode != RETRACTION_OFF

    @property
    def always(self) -> bool:
        """Whether somebody may from the start."""
        return self.first_mode != RETRACTION_OFF

    @property
    def by_operators(self) -> bool:
        """Whether a message without an operator's word is always rejected."""
        return not self.changes and self.first_mode == RETRACTION_OPERATOR

    def first(self) -> Mapping[str, Any]:
        """The settings of the first deployment."""
        return {"retraction": self.first_mode} if self.retracts else {}

    def later(self, chance: Random) -> Mapping[str, Any]:
        """Those of a later one."""
        if not self.retracts:
            return {}
        return {"retraction": _some(chance) if self.changes else self.first_mode}


def retraction_plan(chance: Random, *, deploys: bool) -> RetractionPlan:
    """The plan of a seed, in which there are deployments or not."""
    roll = chance.random
    if roll() >= RETRACTING:
        return RetractionPlan()
    begins_off = roll() < 0.2
    changes = roll() < 0.4 and deploys
    first_mode = _some(chance)
    return RetractionPlan(RETRACTION_OFF if begins_off and changes else first_mode, changes)


def slowed(weather: Weather, chance: Random) -> Weather:
    """The weather, in which now and then what a retraction calls is slow."""
    if chance.random() >= SLOWED:
        return weather
    verb = SLOW_VERBS[int(chance.random() * len(SLOW_VERBS))]
    slow_ms = int(SLOW_MS_MAX * chance.random())
    if verb != "tombstones":
        return replace(weather, slow_verb=verb, slow_ms=slow_ms)
    return replace(weather, slow_verb=verb, slow_ms=VERY_SLOW * slow_ms, zombie=1.0)


def _some(chance: Random) -> str:
    return ON[int(chance.random() * len(ON))]
