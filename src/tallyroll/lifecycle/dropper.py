"""The dropper deletes the tables of windows whose archives cleanup has proven and tagged.

It has a role of its own: it may delete tables, and set no tag and write no archive. Cleanup, which
proves and tags, may delete none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from tallyroll.lifecycle.proven import confirm, facts_of_drop
from tallyroll.lifecycle.runner import DEADLINE_RESERVE_MS, Rolled, carry_out
from tallyroll.lifecycle.state_machine import DROPPER_STEPS, Step
from tallyroll.model.states import Status, Window
from tallyroll.ports.bucket import ArchiveBucket
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.live_windows import list_live
from tallyroll.ports.store import Store
from tallyroll.settings import Settings


@dataclass(eq=False)
class Dropper:
    """Deletes the tables of windows that are being dropped, and notes when they are gone."""

    settings: Settings
    store: Store
    catalog: Catalog
    bucket: ArchiveBucket
    effects: Effects

    def run(self, time_left_ms: int, until: int | None = None) -> Rolled:
        """Do the due steps of windows that start before `until` (ms, by default now), the oldest
        first, within `time_left_ms`.

        Raises StoreError if the windows cannot be listed.
        """
        rolled = Rolled()
        deadline = self.effects.now() + time_left_ms - DEADLINE_RESERVE_MS
        pointer = self.catalog.live()
        before = self.effects.now() if until is None else until
        for window in list_live(self.catalog, pointer, 0, before):
            if window.status is not Status.DROPPING:
                continue
            lived = carry_out(
                window,
                DROPPER_STEPS,
                partial(facts_of_drop, store=self.store),
                self._perform,
                self.effects,
                self.settings,
                deadline,
                rolled,
            )
            rolled.states[lived.status] += 1
        return rolled

    def _perform(self, step: Step, window: Window) -> Window:
        if step is Step.DELETE:
            confirm(window, self.settings, self.bucket, self.catalog)
            self.store.drop_table(window.table)
            return window
        assert step is Step.FINISH, step
        times = {**window.times, Status.DROPPED: self.effects.now()}
        attempt = replace(window.attempt, problem="")
        gone = replace(window, status=Status.DROPPED, times=times, attempt=attempt)
        return self.catalog.advance(gone)
