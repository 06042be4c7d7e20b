"""Cleanup exports sealed windows after their retention, proves the archives, and then tags the
tables, which allows the dropper to delete them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tallyroll.archive.corrections import copy_corrections
from tallyroll.archive.layout import find_summary, prefix_of
from tallyroll.archive.native_export import begin, time_to_export
from tallyroll.archive.proof import check_place, notes, prove
from tallyroll.archive.scan_export import export, segments_for
from tallyroll.errors import Missing, ProofMismatch, Refused, StateConflict, StoreError
from tallyroll.lifecycle.later_corrections import LaterCorrections
from tallyroll.lifecycle.overdue import ARCHIVED, stuck_ms
from tallyroll.lifecycle.proven import confirm, facts_of_drop
from tallyroll.lifecycle.runner import DEADLINE_RESERVE_MS, Rolled, carry_out
from tallyroll.lifecycle.state_machine import CLEANUP_STEPS, Step, WindowFacts
from tallyroll.lifecycle.sweeping import EVERY_MS, SweepProgress, sweep
from tallyroll.model.states import Moment, Status, Window
from tallyroll.model.windows import iso
from tallyroll.ports.bucket import ArchiveBucket, ticket_of
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.exports import ExportStatus, PointInTime
from tallyroll.ports.live_windows import list_live
from tallyroll.ports.store import Store
from tallyroll.ports.totals import Totals
from tallyroll.resources import TAG_PROVEN
from tallyroll.settings import NATIVE, SCAN, Settings


@dataclass(eq=False)
class Cleanup:
    """Takes sealed windows as far as the dropper may delete their tables."""

    settings: Settings
    store: Store
    catalog: Catalog
    totals: Totals
    bucket: ArchiveBucket
    effects: Effects
    exports: PointInTime | None = None
    _swept_at: int = field(default=0, init=False)
    _sweep: SweepProgress | None = field(default=None, init=False)

    def run(self, time_left_ms: int, until: int | None = None) -> Rolled:
        """Do the due steps of windows that start before `until` (ms, by default now), the oldest
        first, within `time_left_ms`.

        Raises StoreError if the windows cannot be listed.
        """
        rolled = Rolled()
        deadline = self.effects.now() + time_left_ms - DEADLINE_RESERVE_MS
        pointer = self.catalog.live()
        before = self.effects.now() if until is None else until
        windows = []
        for window in list_live(self.catalog, pointer, 0, before):
            hold = _Hold(deadline + DEADLINE_RESERVE_MS)
            lived = carry_out(
                window,
                CLEANUP_STEPS,
                partial(self._facts, hold),
                partial(self._perform, hold),
                self.effects,
                self.settings,
                deadline,
                rolled,
            )
            rolled.states[lived.status] += 1
            windows.append(lived)
        self._sweep_uploads(deadline, rolled)
        if self.settings.retracts:
            ports = self.catalog, self.totals, self.bucket, self.effects
            LaterCorrections(self.settings, *ports).copy(deadline, rolled)
        rolled.stuck_ms = stuck_ms(windows, ARCHIVED, self.effects.now(), self.settings)
        return rolled

    def _sweep_uploads(self, deadline: int, rolled: Rolled) -> None:
        """Once a day, delete uploaded payloads that nothing references."""
        now = self.effects.now()
        if now < self._swept_at + EVERY_MS or now >= deadline:
            return
        ports = (self.bucket, self.catalog, self.effects)
        swept = sweep(self.settings.name, *ports, deadline, self._sweep)
        self._sweep = swept.left
        if swept.error:
            rolled.problems.append(f"uploaded payloads are not swept: {swept.error}")
        elif swept.left is None:
            self._swept_at = now

    def _facts(self, hold: _Hold, window: Window) -> WindowFacts:
        if window.status is Status.DROPPING:
            return facts_of_drop(window, self.store)
        if window.status is not Status.EXPORTING:
            return WindowFacts()
        mine = hold.version == window.version
        if not mine and self.effects.now() < window.attempt.busy_until:
            return WindowFacts()
        hold.noted = notes(self.bucket, window)
        return WindowFacts(exported=self._is_exported(window), held=mine, noted=hold.noted)

    def _is_exported(self, window: Window) -> bool:
        prefix = window.attempt.archive
        return find_summary(prefix, self.bucket.list(f"{prefix}/AWSDynamoDB/")) is not None

    def _perform(self, hold: _Hold, step: Step, window: Window) -> Window:
        match step:
            case Step.EXPORT:
                return self._begin(hold, window)
            case Step.COPY:
                return self._attempt(hold, window, self._copy)
            case Step.PROVE:
                return self._attempt(hold, window, self._prove)
            case Step.DROP:
                self._tag_proven(window)
                return self._advance(window, Status.DROPPING, problem="")
            case _:
                assert step is Step.TAG, step
                self._tag_proven(window)
                return window

    def _tag_proven(self, window: Window) -> None:
        """Check the archive's proof itself, not only the state, and copy the corrections that the
        window has by now, unless nobody may retract any more; note that Parquet is to be made of
        it, if the settings ask for some; then tag the table as proven.
        """
        confirm(window, self.settings, self.bucket, self.catalog)
        if self.settings.retracts:
            copy_corrections(window, self.totals, self.bucket)
        if self.settings.compacts:
            self.bucket.put(ticket_of(self.settings.name, window.id), b"")
        with suppress(Missing):  # somebody else deleted the table; its archive is proven
            self.store.tag_table(window.table, {TAG_PROVEN: window.attempt.id})

    def _begin(self, hold: _Hold, window: Window) -> Window:
        """Begin an attempt under its own prefix, so that no attempt overwrites another one."""
        now = self.effects.now()
        chosen = self.effects.chance.getrandbits(48)
        attempt = f"{iso(now)[:19].replace('-', '').replace(':', '')}Z-{chosen:012x}"
        native_at = None
        if self.settings.exporter == NATIVE and self.exports:
            native_at = time_to_export(window, self.exports)
        least = self.settings.export_segments
        segments = segments_for(window, self.settings.stripes_min, least)
        window = self._advance(
            window,
            Status.EXPORTING,
            tried=now,
            id=attempt,
            number=window.attempt.number + 1,
            archive=prefix_of(self.settings.name, window.id, attempt),
            problem="",
            exporter=SCAN if native_at is None else NATIVE,
            segments=segments if native_at is None else 0,
            export_at=now if native_at is None else native_at,
            export_arn="",
            noted=0,
            busy_until=hold.until,
        )
        return hold.taken(window)

    def _attempt(
        self, hold: _Hold, window: Window, work: Callable[[Window, int], Window]
    ) -> Window:
        """Work on the current attempt, alone. A mismatch, or what is missing, ends the attempt."""
        if hold.version != window.version:
            now, progressed = self.effects.now(), hold.noted > window.attempt.noted
            tried = now if progressed else window.times.get(Moment.TRIED, now)
            window = self._advance(
                window, window.status, tried=tried, noted=hold.noted, busy_until=hold.until
            )
            hold.taken(window)
        try:
            check_place(window, self.settings.name)
            return hold.taken(work(window, hold.until - DEADLINE_RESERVE_MS))
        except ProofMismatch as mismatch:
            self._give_up(window, str(mismatch))
            raise
        except Missing as missing:
            self._give_up(window, f"gone: {missing}")
            raise
        except StoreError:
            with suppress(StateConflict, StoreError):  # so that the next run need not wait
                since = window.times.get(Moment.TRIED)
                self._advance(window, window.status, tried=since, busy_until=0)
            raise

    def _give_up(self, window: Window, problem: str) -> Window:
        now = self.effects.now()
        return self._advance(window, window.status, tried=now, problem=problem, busy_until=0)

    def _copy(self, window: Window, deadline: int) -> Window:
        """Continue the export of the current attempt."""
        if window.attempt.exporter == NATIVE:
            return self._copy_natively(window)
        done = export(window, self.store, self.bucket, self.effects, deadline)
        if isinstance(done.error, Missing | ProofMismatch):
            raise done.error
        tried = None if done.segments or done.whole else window.times.get(Moment.TRIED)
        busy_until = window.attempt.busy_until if done.whole else 0  # for its proof
        window = self._advance(window, window.status, tried=tried, busy_until=busy_until)
        if done.error:
            raise done.error
        return window

    def _copy_natively(self, window: Window) -> Window:
        """Let DynamoDB export the table, or check the export's state."""
        assert self.exports
        arn = window.attempt.export_arn
        if not arn:
            try:
                arn = begin(window, self.exports, self.bucket.name, self.effects.now()) or ""
            except Refused as refused:
                self._give_up(window, f"DynamoDB does not export it: {refused}")
                raise
            return self._advance(window, window.status, export_arn=arn, busy_until=0)
        state = self.exports.state(arn)
        if state.status is ExportStatus.FAILED:
            problem = f"{arn} failed: {state.problem}"
            self._give_up(window, problem)
            raise Refused(problem, state.problem)
        if state.status is ExportStatus.COMPLETED and not self._is_exported(window):
            # DynamoDB writes the summary before it reports completion, so somebody deleted it.
            raise ProofMismatch([f"{arn} is completed, and its summary is not there"])
        return self._advance(window, window.status, busy_until=0)

    def _prove(self, window: Window, deadline: int) -> Window:
        spec = self.catalog.specs([window.id])[window.id]
        ports = (self.store.codec, self.bucket, self.totals, self.effects)
        items = prove(window, spec, *ports, deadline)
        if items is None:
            progressed = notes(self.bucket, window) > window.attempt.noted
            tried = None if progressed else window.times.get(Moment.TRIED)
            return self._advance(window, window.status, tried=tried, busy_until=0)
        return self._advance(window, Status.PROVEN, items=items, busy_until=0)

    def _advance(
        self, window: Window, status: Status, tried: int | None = None, **changes: Any
    ) -> Window:
        """Write the window's next state, with changes of its attempt. `tried` is when (ms) the
        first run took the attempt on since its last progress, if any.
        """
        times = {name: at for name, at in window.times.items() if name != Moment.TRIED}
        if status is not window.status or "id" in changes:
            times[status] = self.effects.now()
        if tried is not None:
            times[Moment.TRIED] = tried
        attempt = replace(window.attempt, **changes)
        return self.catalog.advance(replace(window, status=status, times=times, attempt=attempt))


@dataclass
class _Hold:
    """This run's hold on a window's attempt, until `until` (ms).

    The run has it while the window's state has the `version` that the run wrote. `noted` is how
    many notes of progress the run found.
    """

    until: int
    noted: int = 0
    version: int | None = None

    def taken(self, window: Window) -> Window:
        """Keep the version of a state that this run wrote."""
        self.version = window.version if window.attempt.busy_until else None
        return window
