"""Which limit a window's table is throttled at, and when the roller warms it by itself.

DynamoDB counts nearly every throttle of an on-demand table as one of a partition, since a table
grows by splitting them (Developer Guide, "Troubleshooting throttling in Amazon DynamoDB"). What
tells a table that has not grown from a hot key is how much it takes: near what it is warm for, the
whole table is at its limit; far below that, few of its partitions are.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from tallyroll.lifecycle.health import MINUTE_MS
from tallyroll.lifecycle.runner import Rolled, turn
from tallyroll.model.states import Moment, Status, Window
from tallyroll.model.windows import DYNAMODB, store_of
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Store
from tallyroll.ports.table_listing import TableFacts, TableLoad, TableLoads, TableStatus
from tallyroll.settings import Settings

NEAR_SHARE = 0.75  # of what a table takes at once: one key of 16 shards comes to two thirds
LOOKED_BACK_MS = 5 * MINUTE_MS  # CloudWatch's metrics of tables are some minutes late
PAUSE_MS = 10 * MINUTE_MS  # after a warming, until its effect can be seen
GROWTH = 2  # a step: as an on-demand table grows by itself within half an hour
STEP_WARM = "warm"
_log = logging.getLogger(__name__)


class Bottleneck(StrEnum):
    """What limits the writes to a table."""

    NONE = "none"
    GIVEN = "given"  # the account's quota, or a capacity that the table was given
    TABLE = "table"  # an on-demand table that has not grown to its load
    KEY = "key"
    UNKNOWN = "unknown"


def bottleneck(load: TableLoad, warm: int | None) -> Bottleneck:
    """What limits the writes to a table that takes `warm` units a second at once; None: that is
    not known.
    """
    if load.throttled <= 0:
        return Bottleneck.NONE
    if 2 * load.given > load.throttled:
        return Bottleneck.GIVEN
    if warm is None or load.units <= 0:
        return Bottleneck.UNKNOWN
    return Bottleneck.TABLE if load.units >= NEAR_SHARE * warm else Bottleneck.KEY


def next_units(
    load: TableLoad, facts: TableFacts | None, most: int, now: int, warmed_at: int | None
) -> int:
    """The write units a second for which a table should be warm, more than it is; 0: leave it.

    Twice as many as now, at most `most`, if the table is what limits its writes. Not while it
    changes, nor within ten minutes after `warmed_at` (ms), the last time.
    """
    if facts is None or facts.warm is None or facts.provisioned:
        return 0
    if facts.warming or facts.status is not TableStatus.ACTIVE:
        return 0
    if warmed_at is not None and now < warmed_at + PAUSE_MS:
        return 0
    if bottleneck(load, facts.warm) is not Bottleneck.TABLE:
        return 0
    wanted = min(most, GROWTH * facts.warm)
    return wanted if wanted > facts.warm else 0


@dataclass(frozen=True)
class Warming:
    """Warms the tables of open windows that are throttled, up to `warm_units_max`; 0: none."""

    settings: Settings
    store: Store
    catalog: Catalog
    loads: TableLoads
    effects: Effects

    def run(self, windows: Iterable[Window], rolled: Rolled) -> None:
        """Look at each window once; report what failed. The states that it changes are stored."""
        if self.settings.warm_units_max <= 0:
            return
        for window in windows:
            if window.status is Status.OPEN and store_of(window.table) == DYNAMODB:
                self._look(window, rolled)

    def _look(self, window: Window, rolled: Rolled) -> None:
        with turn(lambda: f"window {window.id} (not warmed)", rolled):
            now = self.effects.now()
            load = self.loads.table_load(window.table, now - LOOKED_BACK_MS)
            if not load.throttled:
                return
            facts = self.store.describe_table(window.table)
            warmed_at = window.times.get(Moment.WARMED)
            units = next_units(load, facts, self.settings.warm_units_max, now, warmed_at)
            if not units:
                return
            # Noted first: of two runs at once only one warms, and a failure is not paid twice.
            times = {**window.times, Moment.WARMED: now}
            self.catalog.advance(replace(window, times=times))
            self.store.warm_table(window.table, units)
            _log.info("window %s: warmed for %s units a second", window.id, units)
            rolled.steps[STEP_WARM] += 1
