"""The roller creates windows ahead of time, opens them, and closes and seals them when they end."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from secrets import token_hex
from typing import Any

from tallyroll.errors import StateConflict, StoreError, UsageError
from tallyroll.lifecycle.draining import Draining
from tallyroll.lifecycle.freezing import forget_ended, put_spec
from tallyroll.lifecycle.overdue import stuck_ms
from tallyroll.lifecycle.rollups import RollUps
from tallyroll.lifecycle.runner import DEADLINE_RESERVE_MS, Rolled, carry_out, turn
from tallyroll.lifecycle.sealing import Sealing, seal
from tallyroll.lifecycle.state_machine import ROLLER_STEPS, Step, WindowFacts, to_make
from tallyroll.lifecycle.warming import Warming
from tallyroll.limits import LISTING_BUCKETS, TS_MS_MAX
from tallyroll.model.foreign.mappings import founded_with
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar, LivePointer, Moment, Status, Window
from tallyroll.model.windows import (
    Grid,
    Span,
    WindowId,
    iso,
    length_of,
    store_of,
    table_name,
    text_of_length,
)
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.live_windows import list_live
from tallyroll.ports.queue import Queue
from tallyroll.ports.store import Store
from tallyroll.ports.table_listing import TableLoads
from tallyroll.ports.totals import Totals
from tallyroll.resources import TAG_PIPELINE
from tallyroll.settings import Settings

_log = logging.getLogger(__name__)
PEAKS_LOOKED_BACK_MS = 2 * 86_400_000
SECRET_BYTES = 32  # of the keys of HMAC-SHA256, as RFC 2104 recommends


@dataclass(eq=False)
class Roller:
    """Creates, opens, closes and seals windows; one per process. Without `loads` it warms none."""

    settings: Settings
    store: Store
    catalog: Catalog
    totals: Totals
    queue: Queue
    effects: Effects
    loads: TableLoads | None = None
    _draining: Draining = field(init=False)
    _current: Spec | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.settings.check_store(transactional=self.store.transactional)
        self._draining = Draining(self.settings, self.catalog, self.queue, self.effects)

    def run(self, time_left_ms: int, *, make: bool = True) -> Rolled:
        """Do the due steps, creation first, within `time_left_ms`. Without `make`, create no
        windows.

        Raises StoreError if the calendar or the windows cannot be read.
        """
        rolled = Rolled()
        now = self.effects.now()
        deadline = now + time_left_ms - DEADLINE_RESERVE_MS
        calendar = self._founded(now)
        if not calendar.secret:  # of an earlier release
            with turn(lambda: "the secret of cursors", rolled):
                self.catalog.put_secret(token_hex(SECRET_BYTES))
        pointer = self.catalog.live()
        windows = list_live(self.catalog, pointer, 0, TS_MS_MAX + 1)
        if make:
            self._keep_mapping(calendar, rolled)
        if pointer and make:
            calendar = self._extended(calendar, pointer, windows, rolled)
        if make:
            since = pointer.since if pointer else calendar.genesis
            known = [window.id for window in windows]
            missing = to_make(calendar, known, since, now, self.settings)
            windows += self._make(missing, calendar, rolled)
        windows.sort(key=_urgency)
        opened = [window for window in windows if window.status is Status.OPEN]
        closable = [window for window in opened if now > window.accepts_until]
        drained = self._draining.drained_windows(closable, now, rolled)
        lived = [
            carry_out(
                window,
                ROLLER_STEPS,
                partial(self._facts, drained),
                partial(self._perform, calendar, deadline),
                self.effects,
                self.settings,
                deadline,
                rolled,
            )
            for window in windows
        ]
        if pointer:
            self._move_live(calendar, pointer, lived, now)
        self._roll_up(lived, deadline, rolled)
        if self.loads:  # last, since it changes states that were read before
            Warming(self.settings, self.store, self.catalog, self.loads, self.effects).run(
                lived, rolled
            )
        current = calendar.grid.at(self.effects.now()).id
        rolled.states.update(window.status for window in lived)
        rolled.stuck_ms = stuck_ms(lived, {Status.CLOSING}, self.effects.now(), self.settings)
        rolled.next_missing = not any(
            window.id == current and window.status is Status.OPEN for window in lived
        )
        if rolled.steps[Step.OPEN] and not rolled.next_missing:  # else one may not be made yet
            with turn(lambda: "wishes that ended", rolled):
                forget_ended(self.catalog, lived, self.effects.now())
        self._tell_shards(current, rolled)
        return rolled

    def _tell_shards(self, current: WindowId, rolled: Rolled) -> None:
        """Report how many shards keys have now; if that cannot be read, the next run reports it."""
        if self._current is None or self._current.window != current:
            with suppress(StoreError):
                self._current = self.catalog.specs([current]).get(current)
        if self._current and self._current.window == current:
            hot = self._current.hot
            rolled.hot_keys = len(hot)
            rolled.shards = max([self._current.shards, *hot.values()])

    def _founded(self, now: int) -> Calendar:
        """The calendar. The first run creates it, with the current window as genesis."""
        calendar = self.catalog.calendar()
        if calendar is None:
            grid = Grid.of(self.settings.window_length)
            mappings = founded_with(self.settings.mapping_text)
            secret = token_hex(SECRET_BYTES)
            founded = Calendar(grid, grid.at(now).start, mappings, secret)
            calendar = self.catalog.found(founded)
        return calendar

    def _keep_mapping(self, calendar: Calendar, rolled: Rolled) -> None:
        """Append the mapping in the settings to the calendar's, if it is another than the last.

        If another run has changed them, or a writer has settled further, since they were read,
        nothing is appended, and the next run does it.
        """
        text = self.settings.mapping_text
        if text == calendar.mappings.latest:
            return
        try:
            self.catalog.append_mapping(calendar.mappings, text)
        except (StoreError, UsageError) as error:
            rolled.problems.append(f"the mapping is not changed: {error}")

    def _extended(
        self,
        calendar: Calendar,
        pointer: LivePointer,
        windows: Sequence[Window],
        rolled: Rolled,
    ) -> Calendar:
        """The calendar, extended by the length in the settings for windows that do not exist yet.
        A length to which there is no way from the last one is a problem, and that one stays.

        If another run has created windows or changed the calendar since they were read, it is not
        extended, and the catalog refuses windows that this run would create by an old calendar.
        """
        configured = self.settings.window_length
        if not windows or calendar.grid.lengths[-1][1] == length_of(configured):
            return calendar
        made_until = max(calendar.genesis, *(window.end for window in windows))
        try:
            grid = calendar.grid.with_length(configured, made_until)
        except UsageError as error:
            rolled.problems.append(f"the length of windows is not changed: {error}")
            return calendar
        extended = replace(calendar, grid=grid)
        if not self.catalog.extend(calendar, extended, pointer):
            return calendar
        since, length = grid.lengths[-1]
        _log.info("windows of %s from %s on", text_of_length(length), iso(since))
        return extended

    def _make(self, spans: Sequence[Span], calendar: Calendar, rolled: Rolled) -> list[Window]:
        made = []
        for span in spans:
            window = Window(
                id=span.id,
                table=table_name(self.settings.name, span.id, self.settings.store),
                start=span.start,
                end=span.end,
                times={Status.CREATING: self.effects.now()},
            )
            try:
                if self.catalog.create(window, calendar):
                    made.append(window)
            except StateConflict:
                break  # another run has changed the calendar: the next run uses that
            except StoreError as error:
                # Leave no gap: windows before the first existing one are not searched for.
                rolled.problems.append(f"window {window.id} (not created): {error}")
                break
        return made

    def _move_live(
        self, calendar: Calendar, pointer: LivePointer, lived: Sequence[Window], now: int
    ) -> None:
        """Move the live pointer to the windows that are not dropped, unless a window is missing,
        which the next run must still find.
        """
        known = [window.id for window in lived]
        if to_make(calendar, known, pointer.since, now, self.settings):
            return
        if moved := pointer.moved_by(lived, calendar.genesis):
            self.catalog.move_live(pointer, moved)

    def _facts(self, drained: Collection[WindowId], window: Window) -> WindowFacts:
        if window.status is Status.CREATING:
            table = self.store.describe_table(window.table)
            return WindowFacts(table=table.status if table else None)
        return WindowFacts(drained=window.id in drained)

    def _perform(self, calendar: Calendar, deadline: int, step: Step, window: Window) -> Window:
        match step:
            case Step.MAKE_TABLE:
                self.store.make_table(window.table, self._tags, self._peak(window, calendar))
                return window
            case Step.CHECK_TABLE:
                self.store.check_table(window.table, self._tags)
                return self._noted(window, Moment.CHECKED)
            case Step.RECOVER:
                self.store.recover_table(window.table)
                return self._noted(window, Moment.RECOVERABLE)
            case Step.COOL:
                self.store.reduce_capacity(window.table)
                return self._noted(window, Moment.COOLED)
            case Step.OPEN:
                return self._open(window, calendar)
            case Step.CLOSE:
                return self._advance(window, Status.CLOSING)
            case Step.SHUT:
                self._shut(window)
                return self._noted(window, Moment.SHUT)
            case _:
                assert step is Step.SEAL, step
                return self._seal(window, deadline)

    def _open(self, window: Window, calendar: Calendar) -> Window:
        """Freeze the spec, open the gates, and then advance the state."""
        now = self.effects.now()
        spec = put_spec(window, calendar, self.catalog, self.store, self.settings, now)
        self.store.open_gates(spec)
        return self._advance(
            window,
            Status.OPEN,
            accept_from=spec.accept_from,
            accept_until=spec.accept_until,
            shards=spec.shards,
        )

    @property
    def _tags(self) -> dict[str, str]:
        return {TAG_PIPELINE: self.settings.name}

    def _peak(self, window: Window, calendar: Calendar) -> int:
        """The peak of the last two days' windows, which the new table should sustain, and always of
        the last that can be sealed; of those in its store if there are any, since each charges in
        its own way.
        """
        if not self.settings.follows_peaks:
            return 0
        since = window.start
        for _ in range(self.settings.ahead_windows + 2):  # to the second before the current one
            since = calendar.grid.at(max(0, since - 1)).start
        since = min(since, window.start - PEAKS_LOOKED_BACK_MS)
        lately = self.catalog.windows(since, window.start)
        alike = [each for each in lately if store_of(each.table) == store_of(window.table)]
        return max((each.peak or 0 for each in alike or lately), default=0)

    def _shut(self, window: Window) -> None:
        self.store.shut_gates(self._spec(window))

    def _seal(self, window: Window, deadline: int) -> Window:
        """Continue the window's sealing until `deadline` (ms), by at least one slice."""
        spec, begun = self._spec(window), Sealing.parse(window.sealing)
        for sealing in seal(spec, self.store, self.totals, self.effects, begun):
            if sealing.done:
                return self._advance(
                    window,
                    Status.SEALED,
                    keys=sealing.keys,
                    events=sealing.events,
                    amount=sealing.amount,
                    peak=sealing.peak(spec, self.store.metering_of(spec.table)),
                    listed=LISTING_BUCKETS,
                    sealing=None,
                )
            window = self._noted(replace(window, sealing=sealing.text()), Moment.PROGRESSED)
            if self.effects.now() >= deadline:
                break
        return window

    def _roll_up(self, windows: Sequence[Window], deadline: int, rolled: Rolled) -> None:
        if not self.settings.rollups:
            return
        try:
            RollUps(self.catalog, self.totals, self.effects).run(windows, deadline, rolled)
        except StoreError as error:
            rolled.problems.append(f"what is to be rolled up is not known: {error}")

    def _spec(self, window: Window) -> Spec:
        return self.catalog.specs([window.id])[window.id]

    def _advance(self, window: Window, status: Status, **changes: Any) -> Window:
        return self._noted(replace(window, status=status, **changes), status)

    def _noted(self, window: Window, moment: str) -> Window:
        times = {**window.times, moment: self.effects.now()}
        return self.catalog.advance(replace(window, times=times))


def _urgency(window: Window) -> tuple[bool, bool, int]:
    """Sort key: creation first, then regular windows before past ones, then the oldest first."""
    return window.status is not Status.CREATING, window.accept_from is not None, window.start
