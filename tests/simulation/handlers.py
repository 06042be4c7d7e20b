"""The production handlers in a simulation: their use cases are those of the sandbox they run in."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from functions.cleanup import handler as cleanup_function
from functions.compactor import handler as compactor_function
from functions.dropper import handler as dropper_function
from functions.roller import handler as roller_function
from functions.writer import handler as writer_function
from tallyroll import limits
from tallyroll.settings import Settings
from tests.simulation.compared import watch_windows
from tests.simulation.gauges import Publisher
from tests.simulation.identity_rules import shorten_days
from tests.simulation.marking import watch
from tests.simulation.plans import small_layout
from tests.simulation.short_months import shorten_months
from tests.simulation.small import SMALL

if TYPE_CHECKING:
    from tests.simulation.pipeline import System

SHARD_COST_MAX = 3  # so little traffic makes a key hot
FUNCTIONS: dict[str, Any] = {
    "writer": writer_function,
    "roller": roller_function,
    "cleanup": cleanup_function,
    "dropper": dropper_function,
    "compactor": compactor_function,
}


@contextmanager
def functions_of(system: System) -> Iterator[None]:
    """The handlers' cached factories give the simulated use cases meanwhile, and what they publish
    is gauged.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Settings, "layout", property(small_layout))
        for name, function in FUNCTIONS.items():
            patch.setattr(function, "use_case", system.platform.use_case)
            patch.setattr(function, "metrics", Publisher(system, name))
        patch.setenv("TALLYROLL_NAME", system.base.name)
        disabled = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(disabled)


@contextmanager
def handlers_of(system: System) -> Iterator[None]:
    """The same, with limits as small as the settings of a short simulation."""
    with functions_of(system), pytest.MonkeyPatch.context() as patch:
        watch(system, patch)
        watch_windows(system, patch)
        patch.setattr(limits, "IN_FLIGHT_MAX", system.queue.rules.in_flight_max)
        for module, name, number in SMALL:
            patch.setattr(module, name, number)
        metering = replace(system.metered.metering_of(""), shard_cost_max=SHARD_COST_MAX)
        patch.setattr(system.metered, "metering_of", staticmethod(lambda _: metering))
        if system.plan.months:
            shorten_months(patch)
        shorten_days(patch, system.plan.identities, system.day_seconds)
        if system.plan.with_fuse:
            patch.setattr(limits, "RECEIVES_ALONE", 6)
            patch.setattr(limits, "RECEIVES_GIVEN_UP", 9)
            system.queue._max_receives = 12
        yield
