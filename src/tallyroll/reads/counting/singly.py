"""A look at ports that have no batch across their tables: one call for each thing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tallyroll.model.specs import Spec
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.counting.glances import Glance, Seen
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Store
from tallyroll.ports.totals import Totals

CALLS_AT_ONCE = 16


class SingleGlances:
    """The port of glances on the ports of a pipeline."""

    has_eventual = False

    def __init__(self, store: Store, catalog: Catalog, totals: Totals, effects: Effects) -> None:
        self._store = store
        self._catalog = catalog
        self._totals = totals
        self._effects = effects

    def look(self, at: Glance) -> Seen:
        """Calls side by side, whose order is that of chance."""
        seen = Seen(None, None, {}, {}, {}, {})
        calls: list[Callable[[], Seen]] = [
            lambda: Seen(self._catalog.live(), None, {}, {}, {}, {}),
            lambda: Seen(None, self._catalog.calendar(), {}, {}, {}, {}),
            *(partial(self._revision, month) for month in at.months),
            *(partial(self._window, window) for window in at.windows),
            *(partial(self._tallies, at, spec) for spec in at.begun),
        ]
        if at.unbegun:
            calls.append(lambda: Seen(None, None, {}, {}, self._catalog.specs(at.unbegun), {}))
        for some in self._effects.together(calls, CALLS_AT_ONCE):
            seen = Seen(
                some.pointer or seen.pointer,
                some.calendar or seen.calendar,
                {**seen.revisions, **some.revisions},
                {**seen.windows, **some.windows},
                {**seen.specs, **some.specs},
                {**seen.tallies, **some.tallies},
            )
        return seen

    def _revision(self, month: str) -> Seen:
        return Seen(None, None, {month: self._totals.revision(month)}, {}, {}, {})

    def _window(self, window: str) -> Seen:
        state = self._catalog.window(window)
        return Seen(None, None, {}, {window: state} if state else {}, {}, {})

    def _tallies(self, at: Glance, spec: Spec) -> Seen:
        return Seen(None, None, {}, {}, {}, {spec.window: self._store.tallies(spec, at.keys)})
