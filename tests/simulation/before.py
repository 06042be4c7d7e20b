"""Functions of other releases, beside those of this one for a while: as a rolling update leaves
them, or a way back.

The release before knows no stripes of their own, and no logs: its writer hands back what is of such
a window, its reader asks for as many stripes as there may ever be, its roller freezes neither them
nor a wish nor a log. Here it is this code behind a catalog that shows specs as that release reads
them. The other one knows stripes, and adds no hints to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tallyroll.model.specs import LOGS_RULE, STRIPES_RULE, Spec
from tallyroll.model.states import Window, Wishes
from tallyroll.model.windows import WindowId
from tallyroll.settings import Settings
from tallyroll.settings.common import STRIPES_OF_SHARDS
from tests.simulation.plans import START_MS

if TYPE_CHECKING:
    from tests.simulation.pipeline import System

RULE, UNKNOWN = f"+{STRIPES_RULE}", "+unknown"
NOW, BEFORE, WITHOUT_HINTS = range(3)
RELEASES = ("this release", "the release before", "a release without hints")


class CatalogOfBefore:
    """The catalog as the release before has it; its writer does `not_place` by a rule it does not
    know.
    """

    def __init__(self, catalog: Any, *, not_place: bool) -> None:
        self._catalog = catalog
        self._rules = {RULE: UNKNOWN, f"+{LOGS_RULE}": UNKNOWN} if not_place else {RULE: ""}

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._catalog, verb)

    def specs(self, windows: Sequence[WindowId]) -> Mapping[WindowId, Spec]:
        """The specs, whose suffix it does not know."""
        return self._all_read(self._catalog.specs(windows))

    def windows_with_specs(
        self, since: int, until: int
    ) -> tuple[list[Window], Mapping[WindowId, Spec]]:
        """The same beside the states."""
        windows, found = self._catalog.windows_with_specs(since, until)
        return windows, self._all_read(found)

    def put_spec(self, spec: Spec, wishes: int | None = None) -> Spec:
        """Freeze a spec, whatever is wished."""
        return self._read(self._catalog.put_spec(replace(spec, why={}), None))

    def wishes(self) -> Wishes:
        """It reads none."""
        return Wishes()

    def _all_read(self, found: Mapping[WindowId, Spec]) -> dict[WindowId, Spec]:
        return {window: self._read(spec) for window, spec in found.items()}

    def _read(self, spec: Spec) -> Spec:
        suffix = spec.suffix
        for rule, read in self._rules.items():
            suffix = suffix.replace(rule, read)
        return spec if suffix == spec.suffix else replace(spec, suffix=suffix)


def settings_of_before(settings: Settings) -> Settings:
    """Those by which the release before freezes what this one would."""
    return replace(settings, stripes_rule=STRIPES_OF_SHARDS, logs={})


def of_other(
    release: int, name: str, settings: Settings, ports: Any, asked: dict[str, Any]
) -> Settings:
    """Let a function be of another release, with its settings: whatever it asks."""
    ports["store"].become(before=release == BEFORE)
    if release != BEFORE:
        return settings
    asked["catalog"] = CatalogOfBefore(asked["catalog"], not_place=name == "writer")
    return settings_of_before(settings)


def release_of(system: System) -> int:
    """The release of a sandbox that starts now, in a seed with others."""
    if not is_spell(system):
        return NOW
    return (NOW, BEFORE, BEFORE, WITHOUT_HINTS)[int(system.world.current.aside.random() * 4)]


def is_spell(system: System) -> bool:
    """Whether other releases run now, in a seed that has them."""
    plan = system.plan.heat
    return plan.before_from <= system.world.now - START_MS < plan.before_until
