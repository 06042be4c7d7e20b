"""The aggregator's reads: one exact number per key, from the totals of sealed windows and the
tallies of live ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tallyroll.errors import Missing, StoreError
from tallyroll.limits import SKEW_MS_MAX
from tallyroll.ports import Catalog, Effects, Status, Store, Totals, Window
from tallyroll.settings import Settings
from tallyroll.specs import Spec
from tallyroll.windows import WindowId, window_id

WINDOWS_AT_ONCE = 16
SPECS_PER_READ = 100
DEADLINE_RESERVE_MS = 7_000  # one read that is under way: 1 s to connect and 5 s to answer


@dataclass(frozen=True, slots=True)
class WindowCount:
    """What a key has in one window; `amount` in millionths, `status` that of the window when it was
    read.
    """

    window: WindowId
    events: int
    amount: int
    status: Status


@dataclass(frozen=True, slots=True)
class Count:
    """A key's events and their sum over a range, as of a time (ms); `missing` names the windows
    that could not be read in time, and the numbers are whole only if it is empty.
    """

    key: str
    events: int
    amount: int
    windows: tuple[WindowCount, ...]
    as_of: int
    missing: tuple[WindowId, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every window of the range is in the numbers."""
        return not self.missing


class Aggregator:
    """Counts keys; one per process, for its small cache of hot reads."""

    def __init__(
        self, settings: Settings, store: Store, catalog: Catalog, totals: Totals, effects: Effects
    ) -> None:
        self._settings = settings
        self._store = store
        self._catalog = catalog
        self._totals = totals
        self._effects = effects
        self._specs: dict[WindowId, Spec] = {}
        self._counts: dict[tuple[str, int | None, int | None], Count] = {}

    def count(
        self,
        key: str,
        since: int | None,
        until: int | None,
        time_left_ms: int,
        *,
        consistent: bool = False,
    ) -> Count:
        """Count a key over [since, until) in ms, both on bounds of windows; None leaves that side
        open.

        Strongly consistent; an answer may be as old as the cache keeps it unless `consistent`.
        Raises UsageError for a range off the bounds or backwards, naming the nearest bound.
        """
        now = self._effects.now()
        asked = (key, since, until)
        cached = self._counts.get(asked)
        if cached and not consistent and 0 <= now - cached.as_of < self._settings.cache_live_ms:
            return cached
        calendar = self._catalog.calendar()
        if calendar:
            calendar.grid.check_range(since, until)
        reserve = min(DEADLINE_RESERVE_MS, time_left_ms // 3)
        count = self._read(key, since, until, now, now + time_left_ms - reserve)
        self._remember(asked, count, now)
        return count

    def _remember(self, asked: tuple[str, int | None, int | None], count: Count, now: int) -> None:
        kept = self._settings.cache_live_ms
        self._counts = {
            other: counted for other, counted in self._counts.items() if now - counted.as_of < kept
        }
        if count.complete and kept:
            self._counts[asked] = count

    def _read(
        self, key: str, since: int | None, until: int | None, now: int, deadline: int
    ) -> Count:
        """States first: a window that is sealed after its state was read still has its tallies, and
        one that was sealed before has its totals, so none is left out and none is counted twice.
        """
        live = self._live_windows(since, until, now)
        first, last = (
            window_id(since or 0),
            "99999999T999999Z" if until is None else window_id(until),
        )
        sealed = [
            WindowCount(total.window, total.n, total.amount, Status.SEALED)
            for total in self._totals.of_key(key, first, last)
            if total.window not in live
        ]
        counted, missing = self._tally(key, list(live.values()), deadline)
        windows = sorted([*sealed, *counted], key=lambda count: count.window)
        return Count(
            key=key,
            events=sum(count.events for count in windows),
            amount=sum(count.amount for count in windows),
            windows=tuple(windows),
            as_of=now,
            missing=tuple(missing),
        )

    def _live_windows(
        self, since: int | None, until: int | None, now: int
    ) -> dict[WindowId, Window]:
        pointer = self._catalog.live()
        if pointer is None:
            return {}
        begin = max(pointer.since, since or 0)
        end = now + SKEW_MS_MAX if until is None else until
        return {
            window.id: window
            for window in self._catalog.windows(begin, end)
            if not window.status.sealed
        }

    def _tally(
        self, key: str, windows: Sequence[Window], deadline: int
    ) -> tuple[list[WindowCount], list[WindowId]]:
        """The tallies of live windows, side by side, and the windows that could not be read."""
        unknown = [window.id for window in windows if window.id not in self._specs]
        for first in range(0, len(unknown), SPECS_PER_READ):
            self._specs.update(self._catalog.specs(unknown[first : first + SPECS_PER_READ]))
        begun = [
            window for window in windows if window.id in self._specs
        ]  # else it took in nothing yet
        jobs = [partial(self._tally_window, key, window, deadline) for window in begun]
        answers = self._effects.together(jobs, WINDOWS_AT_ONCE)
        counted = [answer for answer in answers if answer]
        missing = [window.id for window, answer in zip(begun, answers, strict=True) if not answer]
        return counted, missing

    def _tally_window(self, key: str, window: Window, deadline: int) -> WindowCount | None:
        if self._effects.now() >= deadline:
            return None
        try:
            tally = self._store.tallies(self._specs[window.id], [key])[key]
        except Missing:
            return self._total_of(key, window.id)
        except StoreError:
            return None
        return WindowCount(window.id, tally.n, tally.amount, window.status)

    def _total_of(self, key: str, window: WindowId) -> WindowCount | None:
        """What stands for a window whose table went away: its total, if it was sealed since its
        state was read.
        """
        state = self._catalog.window(window)
        if state is None or not state.status.sealed:
            return None
        total = self._totals.of_window(window, [key]).get(key)
        return WindowCount(
            window, total.n if total else 0, total.amount if total else 0, state.status
        )
