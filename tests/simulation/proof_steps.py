"""What operators note of archived events that they let writers retract, as actions of the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.simulation.abstraction import is_provable
from tests.simulation.model_calls import mark_of
from tests.simulation.retraction_truth import RetractionTruth

if TYPE_CHECKING:
    from tests.simulation.pipeline import System


class ProofSteps:
    """Looks at each item where it is put, at any time, by any caller. One without a proof maps to
    no action: who may retract decides nothing of what is counted.
    """

    def __init__(self, system: System) -> None:
        self._system = system
        self._truth = RetractionTruth(system)

    def authorize(self, authorize: Callable[[Any], None], given: Any) -> None:
        if given.proven:
            self._prove(given)
        authorize(given)

    def _prove(self, given: Any) -> None:
        """Check that a proven archive holds the event, without a tombstone."""
        world = self._system.world
        subject = self._truth.meant_by(given.target, given.keys)
        self._truth.view(subject)  # so that the window of its claim is known
        for window in filter(None, [*subject.windows]):
            view = self._truth.view_of_archives(subject, window)
            if is_provable(view, subject.windows.index(window)):
                self._system.marks.hit(mark_of("prove in archive"))
                return
        world.fail(
            f"model: seed {world.seed}: an operator proves {given}; the model does not allow it in"
            f" {self._truth.view(subject)}"
        )
