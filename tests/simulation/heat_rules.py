"""In which seeds keys have many shards and their tallies are raised, who wishes shards, and when
the release before runs again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tallyroll.settings.common import STRIPES_OF_SHARDS
from tests.simulation.weather import Weather

HEATED = 0.2  # of seeds
SHARDS_LEAST, SHARDS_MOST = 17, 64  # more than are listed without a hint
STRIPES_LEAST = 8
CONTENDED_LEAST = 0.1  # so that two conflicts follow one another
WISHED_LEAST, WISHED_MOST = 20, 90
WISHERS = 2
SPELL_MS_LEAST, SPELL_MS_MOST = 60_000, 200_000


@dataclass(frozen=True, slots=True)
class HeatPlan:
    """What is so where a seed `heats`. From `before_from` to `before_until` (ms after the start)
    some functions are of other releases: that before, and one that knows no hints.
    """

    heats: bool = False
    wishes: bool = False
    before_from: int = 0
    before_until: int = 0
    shards: int = 0

    @property
    def has_before(self) -> bool:
        """Whether other releases run for a while."""
        return self.before_until > 0

    def first(self) -> Mapping[str, Any]:
        """The settings of the first deployment."""
        facts = {"shards": self.shards, "shards_max": SHARDS_MOST, "stripes_min": STRIPES_LEAST}
        return facts if self.heats else {}

    def later(self, chance: Random) -> Mapping[str, Any]:
        """Those of a later one."""
        if not self.heats:
            return {}
        rule = {"stripes_rule": STRIPES_OF_SHARDS} if chance.random() < 0.15 else {}
        return {
            "shards": _shards(chance),
            "shards_max": SHARDS_MOST,
            "stripes_min": STRIPES_LEAST + int(chance.random() * 3),
            "hot_shards": {"hot": 1 + int(chance.random() * 40)} if chance.random() < 0.3 else {},
            **rule,
        }


def heat_plan(chance: Random, faults_ms: int, *, with_fuse: bool) -> HeatPlan:
    """The plan of a seed, in which faults last so long. The release before hands messages back that
    a fuse would count.
    """
    roll = chance.random
    if roll() >= HEATED:
        return HeatPlan()
    begins = int(roll() * faults_ms / 2)
    lasts = SPELL_MS_LEAST + int(roll() * (SPELL_MS_MOST - SPELL_MS_LEAST))
    has_before = roll() < 0.5 and not with_fuse
    return HeatPlan(
        heats=True,
        wishes=roll() < 0.7,
        before_from=begins if has_before else 0,
        before_until=begins + lasts if has_before else 0,
        shards=_shards(chance),
    )


def heated(weather: Weather, chance: Random) -> Weather:
    """The weather, in which commits conflict, and mostly on the tallies."""
    contended = max(weather.contended, CONTENDED_LEAST + 0.3 * chance.random())
    return replace(weather, contended=contended, crowded=0.5 + 0.5 * chance.random())


def _shards(chance: Random) -> int:
    return SHARDS_LEAST + int(chance.random() * (SHARDS_MOST - SHARDS_LEAST))
