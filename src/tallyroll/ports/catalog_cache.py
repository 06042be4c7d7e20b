"""Caches of the catalog: the specs that were used last, which are immutable; their absence and the
calendar for a short time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tallyroll.limits import SPEC_ABSENT_CACHED_MS, SPECS_CACHED_MAX
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar
from tallyroll.model.windows import WindowId
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects


class CachedSpecs:
    """The specs of at most 1,000 windows, those that were asked for last.

    The cache is replaced, never changed: threads that share it ask twice at worst.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._cached: dict[WindowId, Spec] = {}

    def specs(self, windows: Sequence[WindowId]) -> dict[WindowId, Spec]:
        """The specs that exist of these windows."""
        cached = self._cached
        if unknown := [window for window in windows if window not in cached]:
            cached = cached | self._catalog.specs(unknown)
        known = {window: cached[window] for window in windows if window in cached}
        others = [each for each in cached.items() if each[0] not in known]
        self._cached = dict([*others, *known.items()][-SPECS_CACHED_MAX:])
        return known

    def cached(self, since: int, until: int) -> list[WindowId]:
        """The windows that start in [since, until) in ms and whose specs are cached, ascending."""
        starts = {spec.start: window for window, spec in self._cached.items()}
        return [starts[start] for start in sorted(starts) if since <= start < until]

    def forget(self, windows: Iterable[WindowId]) -> None:
        """Cache the specs of these windows no longer."""
        gone = frozenset(windows)
        if not gone.isdisjoint(self._cached):
            self._cached = {each: spec for each, spec in self._cached.items() if each not in gone}


class CachedCatalog:
    """Specs and calendar of one pipeline; one per process."""

    def __init__(self, catalog: Catalog, effects: Effects, calendar_ms: int) -> None:
        self._catalog = catalog
        self._effects = effects
        self._calendar_ms = calendar_ms
        self._calendar: Calendar | None = None
        self._calendar_at = 0
        self._specs = CachedSpecs(catalog)
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
        asked = [window for window in windows if window not in self._absent]
        found = self._specs.specs(asked)
        self._absent.update({window: now for window in asked if window not in found})
        return found
