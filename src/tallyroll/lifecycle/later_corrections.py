"""Copies what was retracted after its window was dropped beside the window's archive.

    archive/{pipeline}/corrected-2026-11.json    how far that is for the windows of a month

The month's revision tells that there are new corrections, not of which windows. So cleanup looks at
all windows of the month that are dropped, at most once a day. A pass begins with its note, and is
gone on with once what the revision counts can be seen in whole.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

from tallyroll.archive.corrections import copy_later_ones
from tallyroll.archive.proof import check_place
from tallyroll.errors import Missing
from tallyroll.lifecycle.runner import Rolled, turn
from tallyroll.model.periods import DAY_MS, PeriodName, period_of, shown_name
from tallyroll.model.states import Status, Window
from tallyroll.model.windows import WindowId, window_start
from tallyroll.ports.bucket import ArchiveBucket, corrected_note
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.totals import Totals
from tallyroll.settings import Settings

EVERY_MS = DAY_MS
NOTED_EVERY = 50  # windows
BEING_DROPPED = (Status.PROVEN, Status.DROPPING)


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass over a month's windows, which began at `begun` (ms): those up to the window `after`
    have all corrections of the `revision`; None if all have.
    """

    revision: int
    begun: int
    after: WindowId | None = ""


def next_pass(noted: Pass | None, revision: int, now: int) -> Pass | None:
    """The pass to begin or to go on with, or None if nothing is due."""
    if noted is None:
        return Pass(revision, now) if revision else None
    if noted.after is not None:
        return noted
    due = revision != noted.revision and now >= noted.begun + EVERY_MS
    return Pass(revision, now) if due else None


@dataclass(frozen=True, slots=True)
class LaterCorrections:
    """Copies corrections of dropped windows. Those that a revision counts are seen in whole once
    it has settled.
    """

    settings: Settings
    catalog: Catalog
    totals: Totals
    bucket: ArchiveBucket
    effects: Effects

    def copy(self, deadline: int, rolled: Rolled) -> None:
        """Do what is due until `deadline` (ms); a problem with a window holds no other up."""
        months: dict[PeriodName, int] = {}
        with turn(lambda: "corrections of dropped windows", rolled):
            months.update(self.totals.revisions())
        for month, revision in sorted(months.items()):
            with turn(lambda of=month: f"corrections of {shown_name(of)}", rolled):  # type: ignore[misc]
                noted, now = self._noted(month), self.effects.now()
                due = next_pass(noted, revision, now)
                if due and due != noted:
                    self._note(month, due)
                elif due and now >= due.begun + self.settings.settle_ms:
                    self._go_on(month, due, deadline, rolled)

    def _go_on(self, month: PeriodName, noted: Pass, deadline: int, rolled: Rolled) -> None:
        """Corrections of windows that are about to be dropped may be missed by both copies. So
        with any of these, or with a problem, the pass counts as one of no revision, and the next
        day has another.
        """
        for number, window in enumerate(self._windows(month, noted), 1):
            if self.effects.now() >= deadline:
                return self._note(month, noted)
            problems = len(rolled.problems)
            if window.status is Status.DROPPED:
                with turn(lambda of=window: f"corrections of window {of.id}", rolled):  # type: ignore[misc]
                    check_place(window, self.settings.name)
                    copy_later_ones(window, self.totals, self.bucket, self.effects)
            if window.status in BEING_DROPPED or len(rolled.problems) > problems:
                noted = replace(noted, revision=0)
            noted = replace(noted, after=window.id)
            if number % NOTED_EVERY == 0:
                self._note(month, noted)
        return self._note(month, replace(noted, after=None))

    def _windows(self, month: PeriodName, noted: Pass) -> list[Window]:
        """Those of the month that are left."""
        span = period_of(month)
        since = window_start(noted.after) + 1 if noted.after else span.start
        return self.catalog.windows(since, span.end)

    def _noted(self, month: PeriodName) -> Pass | None:
        try:
            return Pass(**json.loads(self.bucket.get(self._key(month))))
        except (Missing, ValueError, TypeError):
            return None

    def _note(self, month: PeriodName, noted: Pass) -> None:
        self.bucket.put(self._key(month), json.dumps(asdict(noted)).encode())

    def _key(self, month: PeriodName) -> str:
        return corrected_note(self.settings.name, shown_name(month))
