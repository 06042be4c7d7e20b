"""The permanent table of windows in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tallyroll.errors import StateConflict
from tallyroll.limits import HOT_NOTES_MAX
from tallyroll.model.foreign.mappings import Mappings
from tallyroll.model.ids import Identity
from tallyroll.model.periods import PeriodName, PeriodState, periods_at
from tallyroll.model.retractions import Authorization, RetractionTarget
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar, LivePointer, Window, Wish, Wishes
from tallyroll.model.windows import WindowId
from tallyroll.ports.catalog import Claim
from tallyroll.ports.rate import RateLine, Turn
from tallyroll.ports.writer_notes import Heartbeat, Reception


class MemoryCatalog:
    """Specs, states, the calendar, the live pointer, straggler notes, the redrive ledger,
    lines of the write rate.
    """

    def __init__(self) -> None:
        self._calendar: Calendar | None = None
        self._specs: dict[WindowId, Spec] = {}
        self._windows: dict[WindowId, Window] = {}
        self._live: LivePointer | None = None
        self._stragglers: dict[WindowId, int] = {}
        self._hot: dict[WindowId, list[str]] = {}
        self._throttled: dict[WindowId, set[str]] = {}
        self._periods: dict[PeriodName, PeriodState] = {}
        self._unrolled: set[PeriodName] = set()
        self._claims: dict[Identity, Claim] = {}
        self._receptions: dict[str, Reception] = {}
        self._heartbeat = Heartbeat()
        self._lines: dict[RateLine, int] = {}
        self._authorized: dict[RetractionTarget, Authorization] = {}
        self._wishes = Wishes()
        self.marks: set[str] = set()

    def calendar(self) -> Calendar | None:
        return self._calendar

    def found(self, calendar: Calendar) -> Calendar:
        if self._calendar is None:
            self._calendar = calendar
        return self._calendar

    def put_secret(self, secret: str) -> None:
        if self._calendar and not self._calendar.secret:
            self._calendar = replace(self._calendar, secret=secret)

    def append_mapping(self, read: Mappings, text: str) -> None:
        appended = read.with_latest(text)
        if self._calendar and self._calendar.mappings == read:
            self._calendar = replace(self._calendar, mappings=appended)

    def settle_mappings(self, until: int) -> Calendar | None:
        if self._calendar and self._calendar.mappings.until < until:
            settled = replace(self._calendar.mappings, until=until)
            self._calendar = replace(self._calendar, mappings=settled)
        return self._calendar

    def extend(self, read: Calendar, extended: Calendar, live: LivePointer) -> bool:
        if self._calendar != read or self._live != live:
            return False
        kept = self._calendar
        self._calendar = replace(extended, mappings=kept.mappings, secret=kept.secret)
        self._live = replace(live, version=live.version + 1)
        return True

    def mark(self, key: str) -> None:
        self.marks.add(key)

    def marked(self, keys: Sequence[str]) -> set[str]:
        return self.marks.intersection(keys)

    def specs(self, windows: Sequence[WindowId]) -> dict[WindowId, Spec]:
        return {window: self._specs[window] for window in windows if window in self._specs}

    def put_spec(self, spec: Spec, wishes: int | None = None) -> Spec:
        if spec.window not in self._specs and wishes not in (None, self._wishes.version):
            raise StateConflict(f"wishes: version {wishes}, stored {self._wishes.version}")
        return self._specs.setdefault(spec.window, spec)

    def wishes(self) -> Wishes:
        return self._wishes

    def put_wishes(self, read: Wishes, wanted: Mapping[str, Wish]) -> Wishes:
        if read.version != self._wishes.version:
            raise StateConflict(f"wishes: version {read.version}, stored {self._wishes.version}")
        self._wishes = Wishes(dict(wanted), read.version + 1)
        return self._wishes

    def window(self, window: WindowId) -> Window | None:
        return self._windows.get(window)

    def windows(self, since: int, until: int) -> list[Window]:
        found = [window for window in self._windows.values() if since <= window.start < until]
        return sorted(found, key=lambda window: window.start)

    def windows_with_specs(
        self, since: int, until: int
    ) -> tuple[list[Window], dict[WindowId, Spec]]:
        found = self.windows(since, until)
        return found, self.specs([window.id for window in found])

    def create(self, window: Window, calendar: Calendar | None = None) -> bool:
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
        return [self._periods[name] for name in sorted(self._periods) if first <= name <= last]

    def unrolled(self) -> list[PeriodName]:
        return sorted(self._unrolled)

    def advance_period(self, state: PeriodState, *, settled: bool = False) -> PeriodState:
        stored = self._periods.get(state.name)
        if stored is None or (stored.epoch, stored.version) != (state.epoch, state.version):
            raise StateConflict(f"{state.name}: {state}, stored {stored}")
        changed = replace(state, version=state.version + 1)
        self._periods[state.name] = changed
        if settled:
            self._unrolled.discard(state.name)
        return changed

    def advance(self, window: Window) -> Window:
        stored = self._windows.get(window.id)
        if stored is None or stored.version != window.version:
            version = stored.version if stored else "none"
            raise StateConflict(f"window {window.id}: version {window.version}, stored {version}")
        changed = replace(window, version=window.version + 1)
        self._windows[window.id] = changed
        return changed

    def live(self) -> LivePointer | None:
        return self._live

    def move_live(self, read: LivePointer, moved: LivePointer) -> None:
        if self._live == read:
            self._live = replace(moved, version=read.version + 1)

    def note_straggler(self, window: WindowId, at: int) -> None:
        self._stragglers[window] = max(at, self._stragglers.get(window, at))

    def note_hot(
        self, window: WindowId, keys: Sequence[str], throttled: Sequence[str] = ()
    ) -> None:
        noted = self._hot.setdefault(window, [])
        if len(noted) < HOT_NOTES_MAX:
            noted += [key for key in dict.fromkeys(keys) if key not in noted]
            self._throttled.setdefault(window, set()).update(throttled)

    def throttled(self, window: WindowId) -> list[str]:
        return sorted(self._throttled.get(window, ()))

    def hot(self, window: WindowId) -> list[str]:
        return sorted(self._hot.get(window, ()))

    def stragglers(self, windows: Sequence[WindowId]) -> dict[WindowId, int]:
        noted = self._stragglers
        return {window: noted[window] for window in windows if window in noted}

    def claims(self, identities: Sequence[Identity]) -> Mapping[Identity, Claim]:
        return {one: self._claims[one] for one in identities if one in self._claims}

    def claim(self, identity: Identity, wanted: Claim) -> Claim:
        return self._claims.setdefault(identity, wanted)

    def move(self, identity: Identity, read: Claim, wanted: Claim) -> Claim:
        if self._claims[identity] == read:
            self._claims[identity] = wanted
        return self._claims[identity]

    def authorizations(
        self, targets: Sequence[RetractionTarget]
    ) -> Mapping[RetractionTarget, Authorization]:
        return {one: self._authorized[one] for one in targets if one in self._authorized}

    def authorize(self, authorization: Authorization) -> None:
        self._authorized[authorization.target] = authorization

    def note_received(self, reception: Reception) -> None:
        self._receptions[reception.id] = reception

    def clear_received(self, reception: Reception) -> None:
        self._receptions.pop(reception.id, None)

    def receptions(self, since: int, until: int, most: int) -> list[Reception]:
        found = [each for each in self._receptions.values() if since <= each.at < until]
        return sorted(found, key=lambda each: (each.at, each.id))[-most:]

    def beat(self, at: int, *, finished: bool) -> None:
        known = self._heartbeat
        done = max(at, known.finished or 0) if finished else known.finished
        self._heartbeat = Heartbeat(max(at, known.at or 0), done)

    def heartbeat(self) -> Heartbeat:
        return self._heartbeat

    def take_turn(self, turn: Turn) -> int:
        start = turn.start_after(self._lines.get(turn.line))
        if start <= turn.latest:
            self._lines[turn.line] = start + turn.span
        return start
