from __future__ import annotations

from collections.abc import Sequence

from tallyroll.adapters.memory import MemoryCatalog
from tallyroll.limits import SPECS_CACHED_MAX
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar
from tallyroll.model.windows import Grid, WindowId
from tallyroll.ports.catalog_cache import CachedCatalog
from tests.harness.pipeline import SECOND, START, StillEffects, hour, spec_of


class NotingCatalog(MemoryCatalog):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[WindowId]] = []
        self.calendars_asked = 0

    def specs(self, windows: Sequence[WindowId]) -> dict[WindowId, Spec]:
        self.asked.append(list(windows))
        return super().specs(windows)

    def calendar(self) -> Calendar | None:
        self.calendars_asked += 1
        return super().calendar()


def made() -> tuple[NotingCatalog, StillEffects, CachedCatalog]:
    catalog, effects = NotingCatalog(), StillEffects()
    return catalog, effects, CachedCatalog(catalog, effects, 60 * SECOND)


def test_a_spec_is_asked_for_once() -> None:
    catalog, effects, cached = made()
    spec = catalog.put_spec(spec_of())
    for _ in range(3):
        assert cached.specs([spec.window]) == {spec.window: spec}
        effects.pass_by(10**9)
    assert catalog.asked == [[spec.window]]


def test_absence_is_believed_for_five_seconds() -> None:
    catalog, effects, cached = made()
    window = hour(8)
    assert cached.specs([window]) == {}
    catalog.put_spec(spec_of(window))
    effects.pass_by(5 * SECOND - 1)
    assert cached.specs([window, hour(9)]) == {}
    effects.pass_by(1)
    assert list(cached.specs([window])) == [window]
    assert catalog.asked == [[window], [hour(9)], [window]]


def test_a_clock_set_back_ends_belief_in_absence() -> None:
    catalog, effects, cached = made()
    assert cached.specs([hour(8)]) == {}
    effects.pass_by(-60 * SECOND)
    assert cached.specs([hour(8)]) == {}
    assert len(catalog.asked) == 2


def test_the_least_recently_used_specs_go_first() -> None:
    catalog, _, cached = made()
    windows = [hour(number) for number in range(SPECS_CACHED_MAX + 1)]
    for window in windows:
        catalog.put_spec(spec_of(window))
    for first in range(0, SPECS_CACHED_MAX, 100):
        cached.specs(windows[first : first + 100])
    cached.specs(windows[:1])
    cached.specs(windows[-1:])
    catalog.asked.clear()
    assert len(cached.specs([windows[0], windows[1], windows[-1]])) == 3
    assert catalog.asked == [[windows[1]]]


def test_the_calendar_is_asked_for_again_when_it_is_old_or_forgotten() -> None:
    catalog, effects, cached = made()
    assert cached.calendar() is None
    calendar = catalog.found(Calendar(Grid.of(3600), START))
    assert cached.calendar() == calendar
    assert catalog.calendars_asked == 2
    effects.pass_by(60 * SECOND - 1)
    cached.calendar()
    assert catalog.calendars_asked == 2
    effects.pass_by(1)
    cached.calendar()
    cached.forget_calendar()
    cached.calendar()
    assert catalog.calendars_asked == 4
