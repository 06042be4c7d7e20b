"""A cache of the catalog: specs for ever, since they are immutable; their absence and the calendar
for a short time.
"""

from __future__ import annotations

from collections.abc import Sequence

from tallyroll.limits import SPEC_ABSENT_CACHED_MS, SPECS_CACHED_MAX
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar
from tallyroll.model.windows import WindowId
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects


class CachedCatalog:
    """Specs and calendar of one pipeline; one per process."""

    def __init__(self, catalog: Catalog, effects: Effects, calendar_ms: int) -> None:
        self._catalog = catalog
        self._effects = effects
        self._calendar_ms = calendar_ms
        self._calendar: Calendar | None = None
        self._calendar_at = 0
        self._specs: dict[WindowId, Spec] = {}
        self._absent: dict[WindowId, int] = {}

    def calendar(self) -> Calendar | None:
        """The calendar, at most `calendar_ms` old. None is not cached."""
        now = self._effects.now()
        if self._calendar is None or not 0 <= now - self._calendar_at < self._calendar_ms:
            self._calendar, self._calendar_at = self._catalog.calendar(), now
        return self._calendar

    def forget_calendar(self) -> None:
        """Read the calendar again at the next call."""
        self._calendar = None

    def settle_mappings(self, until: int) -> Calendar | None:
        """The calendar, after its mappings were settled until then."""
        now = self._effects.now()
        self._calendar, self._calendar_at = self._catalog.settle_mappings(until), now
        return self._calendar

    def specs(self, windows: Sequence[WindowId]) -> dict[WindowId, Spec]:
        """The specs that exist of these windows. Absence may be 5 s old."""
        now = self._effects.now()
        self._absent = {
            window: at
            for window, at in self._absent.items()
            if 0 <= now - at < SPEC_ABSENT_CACHED_MS
        }
        unknown = [
            window for window in windows if window not in self._specs and window not in self._absent
        ]
        if unknown:
            found = self._catalog.specs(unknown)
            self._specs.update(found)
            self._absent.update({window: now for window in unknown if window not in found})
        known = {window: self._specs[window] for window in windows if window in self._specs}
        for window in known:  # keep the least recently used first
            self._specs[window] = self._specs.pop(window)
        while len(self._specs) > SPECS_CACHED_MAX:
            self._specs.pop(next(iter(self._specs)))
        return known
