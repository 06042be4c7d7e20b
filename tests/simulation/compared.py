"""Which functions' steps are compared with the model's: all that change what counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.model_steps import Steps, Unmapped
from tests.simulation.operator_steps import OperatorSteps
from tests.simulation.proof_steps import ProofSteps
from tests.simulation.retraction_steps import RetractingSteps
from tests.simulation.watching import watched
from tests.simulation.window_steps import WindowSteps

if TYPE_CHECKING:
    from tests.simulation.pipeline import System

REDRIVE = "redrive"


def steps_of(system: System, function: str, clock_ms: int = 0) -> Steps:
    """What looks at the steps of a function, whose clock is `clock_ms` ahead."""
    if system.modelled and function == "writer":
        return RetractingSteps(system)
    if system.modelled and function == REDRIVE:
        return OperatorSteps(system, clock_ms)
    return Unmapped(system)


def watch_windows(system: System, patch: pytest.MonkeyPatch) -> None:
    """Look at each change of a window, and at each proof, until the patch is undone."""
    if system.modelled:
        looks = WindowSteps(system)
        watched(patch, system.catalog, looks, "advance")
        watched(patch, system.store, looks, "make_table", "shut_gate", "drop_table")
        watched(patch, system.totals, looks, "put")
        watched(patch, system.catalog, ProofSteps(system), "authorize")
