"""Cleanup: exports cold windows, proves the archives whole, and only then drops the tables."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from tallyroll.archive import is_complete, prefix_of
from tallyroll.errors import Missing, ProofMismatch
from tallyroll.exporting import export
from tallyroll.lifecycle import ROLLER_STEPS, Facts, Step
from tallyroll.ports import Bucket, Catalog, Effects, Status, Store, Totals, Window
from tallyroll.proof import prove
from tallyroll.resources import TAG_PROVEN
from tallyroll.settings import Settings
from tallyroll.steps import DEADLINE_RESERVE_MS, Rolled, carry_out
from tallyroll.windows import iso

CLEANUP_STEPS = frozenset(Step) - ROLLER_STEPS


class Cleanup:
    """Carries sealed windows to their end."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        catalog: Catalog,
        totals: Totals,
        bucket: Bucket,
        effects: Effects,
    ) -> None:
        self._settings = settings
        self._store = store
        self._catalog = catalog
        self._totals = totals
        self._bucket = bucket
        self._effects = effects

    def run(self, time_left_ms: int) -> Rolled:
        """Do what is due, the oldest window first, within `time_left_ms`. Raises StoreError if
        nothing can be read.
        """
        rolled = Rolled()
        deadline = self._effects.now() + time_left_ms - DEADLINE_RESERVE_MS
        pointer = self._catalog.live()
        if pointer is None:
            return rolled
        for window in self._catalog.windows(pointer.since, self._effects.now()):
            lived = carry_out(
                window,
                CLEANUP_STEPS,
                self._facts,
                self._perform,
                self._effects,
                self._settings,
                deadline,
                rolled,
            )
            rolled.states[lived.status] += 1
        return rolled

    def _facts(self, window: Window) -> Facts:
        if window.status is Status.DROPPING:
            table = self._store.describe_table(window.table)
            return Facts(table=table.status if table else None)
        if window.status is Status.EXPORTING and window.archive:
            return Facts(exported=is_complete(self._bucket, window.archive))
        return Facts()

    def _perform(self, step: Step, window: Window) -> Window:
        match step:
            case Step.EXPORT:
                return self._export(window)
            case Step.PROVE:
                return self._prove(window)
            case Step.DROP:
                self._tag_proven(window)
                return self._advance(window, Status.DROPPING)
            case Step.DELETE:
                self._tag_proven(window)  # a late roller may have made the table again, untagged
                self._store.drop_table(window.table)
                return window
            case _:
                return self._advance(window, Status.DROPPED)

    def _tag_proven(self, window: Window) -> None:
        with suppress(Missing):  # deleted by another hand, now that nothing is lost with it
            self._store.tag_table(window.table, {TAG_PROVEN: window.attempt or ""})

    def _export(self, window: Window) -> Window:
        """Begin an attempt under a prefix of its own, so that no run ever writes over another's
        archive.
        """
        now = self._effects.now()
        chosen = self._effects.chance.getrandbits(48)
        attempt = f"{iso(now)[:19].replace('-', '').replace(':', '')}Z-{chosen:012x}"
        window = self._advance(
            window,
            Status.EXPORTING,
            attempt=attempt,
            attempts=window.attempts + 1,
            archive=prefix_of(self._settings.name, window.id, attempt),
            problem=None,
        )
        export(window, self._store, self._bucket, self._effects, self._settings.export_segments)
        return window

    def _prove(self, window: Window) -> Window:
        spec = self._catalog.specs([window.id])[window.id]
        try:
            items = prove(window, spec, self._bucket, self._totals, self._effects.now())
        except ProofMismatch as mismatch:
            self._catalog.advance(replace(window, problem=str(mismatch)))
            raise
        return self._advance(window, Status.PROVEN, items=items)

    def _advance(self, window: Window, status: Status, **changes: Any) -> Window:
        times = {**window.times, status: self._effects.now()}
        return self._catalog.advance(replace(window, status=status, times=times, **changes))
