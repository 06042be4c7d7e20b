"""Who takes part besides where a seed heats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.heat_rules import WISHERS
from tests.simulation.listings import Lister
from tests.simulation.wishers import Wishers

if TYPE_CHECKING:
    from tests.simulation.pipeline import System
    from tests.simulation.world import Group


def heat_up(system: System, life: Group) -> None:
    """Start them, after all others, whose chance they must not shift."""
    world, plan = system.world, system.plan.heat
    if plan.wishes:
        wishers = Wishers(system)
        for _ in range(WISHERS):
            world.spawn("wisher", wishers.live, life)
    world.spawn("lister", Lister(system).live, life)
    if plan.has_before:
        world.spawn("update", lambda: _update(system), life)


def _update(system: System) -> None:
    """Let other releases begin, beside what runs."""
    world = system.world
    world.pause(system.plan.heat.before_from + 1)
    world.note("another release is deployed beside this one")
    system.platform.retire(0.7)
