"""The in-memory totals, bucket and exports, every change of which the oracle sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tallyroll.adapters.memory import MemoryBucket, MemoryTotals
from tallyroll.model.totals import Correction, Corrections, Total
from tallyroll.model.windows import WindowId
from tallyroll.ports.exports import ExportState, ExportStatus
from tallyroll.ports.store import Answer, Element
from tests.harness.native_exports import MemoryExports
from tests.simulation.stale import TOTALS_READS, TOTALS_STATE, PastLens
from tests.simulation.world import SimEffects

if TYPE_CHECKING:
    from tests.simulation.pipeline import System


class SimTotals(MemoryTotals):
    """The totals, watched by the oracle."""

    def __init__(self, system: System) -> None:
        super().__init__()
        self._system = system
        self._lens = PastLens(system.world, TOTALS_STATE, TOTALS_READS)

    def seen(self, verb: str) -> MemoryTotals:
        """The totals as a read by this verb may see them now."""
        return self._lens.seen(self, verb)

    def correct(self, corrections: Sequence[Correction]) -> list[Element]:
        answers = super().correct(corrections)
        for made, element in zip(corrections, answers, strict=True):
            if element.answer is Answer.FINE:
                self._system.oracle.retractions.on_corrected(made)
        return answers

    def corrections_made(
        self,
    ) -> tuple[Mapping[tuple[str, WindowId], Corrections], Sequence[Correction]]:
        """The sums of corrections by key, and by window or period; and all corrections."""
        return self._corrected, [*self._corrections.values()]

    def put(self, totals: Sequence[Total]) -> None:
        super().put(totals)
        for total in self.listed():
            self._system.oracle.on_total(total)


class SimBucket(MemoryBucket):
    """The bucket, watched by the oracle."""

    def __init__(self, system: System) -> None:
        super().__init__("simulated-archive")
        self._system = system

    def put(self, key: str, body: bytes) -> None:
        before = self._objects.get(key)
        self._system.oracle.archives.on_put(key, body, before)
        super().put(key, body)


class SimExports(MemoryExports):
    """DynamoDB's own exports; they fail, or come out short, as the weather has it."""

    def __init__(self, system: System) -> None:
        super().__init__(
            SimEffects(system.world),
            system.store,
            system.bucket,
            taking_ms=int(system.world.random.random() * 60_000),
        )
        self._system = system

    def start(self, table: str, bucket: str, prefix: str, at: int, token: str) -> str:
        """Begin an export; of a moment before the gates were shut it shows them open."""
        known, world = token in self.exports, self._system.world
        arn = super().start(table, bucket, prefix, at, token)
        export = self.exports[token]
        if at < self._system.store.shut_at.get(table, 0):
            opened = {"open": {"BOOL": True}}
            export.items = [
                replace(item, attributes={**item.attributes, **opened})
                if "open" in item.attributes
                else item
                for item in export.items
            ]
        if not known and world.roll(world.weather.mangled):
            if world.random.random() < 0.3:
                export.state = ExportState(ExportStatus.FAILED, "simulated")
            else:
                export.items = export.items[: int(world.random.random() * len(export.items))]
        return arn
