"""The permanent table of windows in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tallyroll.errors import StateConflict
from tallyroll.limits import HOT_NOTES_MAX
from tallyroll.model.ids import Identity
from tallyroll.model.periods import PeriodName, PeriodState, periods_at
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar, LivePointer, Window
from tallyroll.model.windows import WindowId
from tallyroll.ports.catalog import Claim
from tallyroll.ports.writer_notes import Heartbeat, Reception


class MemoryLedger:
    """Claims in memory."""

    def __init__(self) -> None:
        super().__init__()
        self._claims: dict[Identity, Claim] = {}

    def claims(self, identities: Sequence[Identity]) -> Mapping[Identity, Claim]:
        """The claims of these identities that stand."""
        return {one: self._claims[one] for one in identities if one in self._claims}

    def claim(self, identity: Identity, wanted: Claim) -> Claim:
        """Put a claim if the identity has none; give the one that stands."""
        return self._claims.setdefault(identity, wanted)

    def move(self, identity: Identity, read: Claim, wanted: Claim) -> Claim:
        """Put a claim in the place of `read`, if that still stands; give the one that stands."""
        if self._claims[identity] == read:
            self._claims[identity] = wanted
        return self._claims[identity]


class MemoryWriterNotes:
    """Writers' notes in memory."""

    def __init__(self) -> None:
        super().__init__()
        self._receptions: dict[str, Reception] = {}
        self._heartbeat = Heartbeat()

    def note_received(self, reception: Reception) -> None:
        """Put a note, in the place of one with its id."""
        self._receptions[reception.id] = reception

    def clear_received(self, reception: Reception) -> None:
        """Take a note back."""
        self._receptions.pop(reception.id, None)

    def receptions(self, since: int, until: int, most: int) -> list[Reception]:
        """The notes put at [since, until) ms that were not taken back, ascending: the newest."""
        found = [each for each in self._receptions.values() if since <= each.at < until]
        return sorted(found, key=lambda each: (each.at, each.id))[-most:]

    def beat(self, at: int, *, finished: bool) -> None:
        """Note a heartbeat; later times stand."""
        known = self._heartbeat
        done = max(at, known.finished or 0) if finished else known.finished
        self._heartbeat = Heartbeat(max(at, known.at or 0), done)

    def heartbeat(self) -> Heartbeat:
        """The last heartbeat of all writers."""
        return self._heartbeat


class MemoryCatalog(MemoryLedger, MemoryWriterNotes):
    """Specs, states, the calendar, the live pointer, straggler notes, the redrive ledger."""

    def __init__(self) -> None:
        super().__init__()
        self._calendar: Calendar | None = None
        self._specs: dict[WindowId, Spec] = {}
        self._windows: dict[WindowId, Window] = {}
        self._live: LivePointer | None = None
        self._stragglers: dict[WindowId, int] = {}
        self._hot: dict[WindowId, list[str]] = {}
        self._periods: dict[PeriodName, PeriodState] = {}
        self._unrolled: set[PeriodName] = set()

    def calendar(self) -> Calendar | None:
        """The calendar, or None before the pipeline's first roll."""
        return self._calendar

    def found(self, calendar: Calendar) -> Calendar:
        """Put the calendar if there is none; give the one that stands."""
        if self._calendar is None:
            self._calendar = calendar
        return self._calendar

    def extend(self, read: Calendar, extended: Calendar, live: LivePointer) -> bool:
        """Replace the calendar, if neither it nor the live pointer has changed since it was read.

        Whoever holds the pointer as it was can move it no more: it has a new version.
        """
        if self._calendar != read or self._live != live:
            return False
        self._calendar = extended
        self._live = replace(live, version=live.version + 1)
        return True

    def specs(self, windows: Sequence[WindowId]) -> dict[WindowId, Spec]:
        """The specs, of at most 100 windows, that exist."""
        if len(windows) > 100:
            raise AssertionError(f"{len(windows)} specs asked for at once")
        return {window: self._specs[window] for window in windows if window in self._specs}

    def put_spec(self, spec: Spec) -> Spec:
        """Put the spec if the window has none; give the one that stands."""
        return self._specs.setdefault(spec.window, spec)

    def window(self, window: WindowId) -> Window | None:
        """A window's state."""
        return self._windows.get(window)

    def windows(self, since: int, until: int) -> list[Window]:
        """The states of the windows that start in [since, until), ascending."""
        found = [window for window in self._windows.values() if since <= window.start < until]
        return sorted(found, key=lambda window: window.start)

    def create(self, window: Window, calendar: Calendar | None = None) -> bool:
        """Put a first state if the window has none; False if it has.

        The live pointer covers it from now on. Its version grows even where it did before, so that
        nobody who read it before this window was there can move it past.
        The sums of its day and month stand no more. Raises StateConflict unless `calendar`, where
        given, still stands.
        """
        if calendar and calendar != self._calendar:
            raise StateConflict("the calendar has changed since it was read")
        if window.id in self._windows:
            return False
        self._windows[window.id] = window
        live = self._live or LivePointer(window.start, 0)
        self._live = live.with_created(window)
        for period in periods_at(window.start):
            state = self._periods.get(period.name, PeriodState(period.name, 0))
            self._periods[period.name] = replace(state, epoch=state.epoch + 1)
            self._unrolled.add(period.name)
        return True

    def periods(self, first: PeriodName, last: PeriodName) -> list[PeriodState]:
        """What is known of the days, or of the months, from `first` to `last`, ascending."""
        return [self._periods[name] for name in sorted(self._periods) if first <= name <= last]

    def unrolled(self) -> list[PeriodName]:
        """The days and months that were not settled since a window was created in them."""
        return sorted(self._unrolled)

    def advance_period(self, state: PeriodState, *, settled: bool = False) -> PeriodState:
        """Write a period's state if its stored epoch and version are still those of `state`.

        Raises StateConflict otherwise.
        """
        stored = self._periods.get(state.name)
        if stored is None or (stored.epoch, stored.version) != (state.epoch, state.version):
            raise StateConflict(f"{state.name}: {state}, stored {stored}")
        changed = replace(state, version=state.version + 1)
        self._periods[state.name] = changed
        if settled:
            self._unrolled.discard(state.name)
        return changed

    def advance(self, window: Window) -> Window:
        """Write a changed state if the stored version is still `window.version`; give the new one.

        Raises StateConflict otherwise.
        """
        stored = self._windows.get(window.id)
        if stored is None or stored.version != window.version:
            version = stored.version if stored else "none"
            raise StateConflict(f"window {window.id}: version {window.version}, stored {version}")
        changed = replace(window, version=window.version + 1)
        self._windows[window.id] = changed
        return changed

    def live(self) -> LivePointer | None:
        """The pointer to the windows that are not dropped."""
        return self._live

    def move_live(self, read: LivePointer, moved: LivePointer) -> None:
        """Move the pointer if it is still as it was read; else do nothing."""
        if self._live == read:
            self._live = replace(moved, version=read.version + 1)

    def note_straggler(self, window: WindowId, at: int) -> None:
        """Note that messages of the window are about until `at`, unless a later note stands."""
        self._stragglers[window] = max(at, self._stragglers.get(window, at))

    def note_hot(self, window: WindowId, keys: Sequence[str]) -> None:
        """Note keys that may need more shards, while fewer than 500 are noted."""
        noted = self._hot.setdefault(window, [])
        if len(noted) < HOT_NOTES_MAX:
            noted += [key for key in dict.fromkeys(keys) if key not in noted]

    def hot(self, window: WindowId) -> list[str]:
        """The keys that were noted in a window, ascending."""
        return sorted(self._hot.get(window, ()))

    def stragglers(self, windows: Sequence[WindowId]) -> dict[WindowId, int]:
        """The latest note, in ms, of each of these windows that has one."""
        noted = self._stragglers
        return {window: noted[window] for window in windows if window in noted}
