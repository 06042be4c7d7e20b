"""Finds out whether an event is counted in a window, may yet be counted, or never will be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

from tallyroll.errors import Missing, StoreError
from tallyroll.logs.entries import entry_of
from tallyroll.logs.reading import stored_in_logs
from tallyroll.model.events import Envelope
from tallyroll.model.messages import Message
from tallyroll.model.records import Record, RecordName, record_of
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status, Window, takes
from tallyroll.model.windows import Span, WindowId
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Store

WINDOWS_AT_ONCE = 10
SLOTS_AT_ONCE = 10


class EventStatus(StrEnum):
    """The status of an event in a window."""

    NEVER = "never"  # there is no such window
    CREATING = "creating"
    TAKES = "takes"  # not counted; the window takes events
    CLOSING = "closing"  # not counted; the window takes none, but a copy on its way may count
    ABSENT = "absent"  # not counted, and never will be
    UNVERIFIED = "unverified"  # the window's table is dropped
    COUNTED = "counted"
    CONFLICT = "conflict"  # a record with its id has another content
    DISPLACED = "displaced"  # never will be: an event of another window has its id


@dataclass(frozen=True, slots=True)
class Sought:
    """An event that is looked for in one `window`. `home` is the window of its time, `names` are
    those of its records, one per key. With its `message` and `envelope` it is found in logs, too.
    """

    window: WindowId
    home: Span
    names: Sequence[RecordName]
    digest: bytes
    message: Message | None = None
    envelope: Envelope | None = None


@dataclass(frozen=True, slots=True)
class Sight:
    """What was read of one window for an event: its state, the records, then its state again.

    `missing` is set if the table does not exist. `after` is read only if not all records were
    found.
    """

    before: Window | None
    found: Mapping[RecordName, Record] = field(default_factory=dict)
    missing: Missing | None = None
    after: Window | None = None


class Whereabouts:
    """Looks events up in live windows, strongly consistently."""

    def __init__(self, store: Store, catalog: Catalog, effects: Effects) -> None:
        self._store = store
        self._catalog = catalog
        self._effects = effects
        self._specs: dict[WindowId, Spec] = {}

    def places(self, events: Sequence[Sought]) -> list[EventStatus | StoreError]:
        """The status of each event in its `window`, or the error that prevented reading it.

        A window's state is read before the records: only if the window was sealed then, a missing
        record will never be written. It is read again after them: only if the window is not being
        dropped then, its table was complete. Windows are read concurrently.
        """
        sought: dict[WindowId, list[Sought]] = {}
        for event in events:
            sought.setdefault(event.window, []).append(event)
        jobs = [partial(self._see, window, some) for window, some in sought.items()]
        seen = self._effects.together(jobs, WINDOWS_AT_ONCE)
        sights = {window: iter(some) for window, some in zip(sought, seen, strict=True)}
        return [self.judge(event, next(sights[event.window])) for event in events]

    def _see(self, window: WindowId, events: Sequence[Sought]) -> list[Sight | StoreError]:
        """What was read for each of these events of one window."""
        names = [*dict.fromkeys(name for event in events for name in event.names)]
        try:
            before = self._catalog.window(window)
            if before is None or before.status is Status.CREATING:
                return [Sight(before)] * len(events)
            found: Mapping[RecordName, Record] = {}
            logged: list[Record | StoreError | None] = [None] * len(events)
            missing: Missing | None = None
            try:
                spec = self.spec(window)
                found = self._store.lookup(spec, names)
                logged = self._logged(spec, events)
            except Missing as error:
                missing = error
            after = self._catalog.window(window) if len(found) < len(names) else None
        except StoreError as error:
            return [error] * len(events)
        return [
            known
            if isinstance(known, StoreError)
            else Sight(before, {(known.key, known.id): known} if known else found, missing, after)
            for known in logged
        ]

    def _logged(self, spec: Spec, events: Sequence[Sought]) -> list[Record | StoreError | None]:
        """For each event its record, if it is in a log of its own window; or why that cannot be
        read. Raises Missing.
        """
        found: list[Record | StoreError | None] = [None] * len(events)
        sought = {
            number: (record_of(event.envelope, event.message, spec), entry)
            for number, event in (enumerate(events) if spec.logs else ())
            if event.envelope and event.message and spec.window == event.home.id
            if (entry := entry_of(event.envelope, event.message, spec))
        }
        if not sought:
            return found
        asked = [*sought.values()]
        answers = stored_in_logs(self._store, spec, asked, self._effects, SLOTS_AT_ONCE)
        for number, answer in zip(sought, answers, strict=True):
            if isinstance(answer, Missing):
                raise answer
            found[number] = answer
        return found

    def judge(self, event: Sought, sight: Sight | StoreError) -> EventStatus | StoreError:
        """The status of an event, by what was read of its window. All its records are stored or
        none, so one tells of all.
        """
        if isinstance(sight, StoreError):
            return sight
        before, after = sight.before, sight.after
        if before is None:
            return EventStatus.NEVER
        if before.status is Status.CREATING:
            return EventStatus.CREATING
        if stored := [found for name in event.names if (found := sight.found.get(name))]:
            if any(record.digest == event.digest for record in stored):
                return EventStatus.COUNTED
            foreign = all(record.ts not in event.home for record in stored)
            displaced = before.status.sealed and foreign
            return EventStatus.DISPLACED if displaced else EventStatus.CONFLICT
        if after is None or after.status in (Status.DROPPING, Status.DROPPED):
            return EventStatus.UNVERIFIED
        if sight.missing:
            return sight.missing
        if before.status.sealed:
            return EventStatus.ABSENT
        return EventStatus.TAKES if takes(before, self._effects.now()) else EventStatus.CLOSING

    def spec(self, window: WindowId) -> Spec:
        """A window's spec. Raises Missing."""
        found = self.specs([window])
        if window not in found:
            raise Missing(f"window {window} has no spec", "NoSpec")
        return found[window]

    def specs(self, windows: Sequence[WindowId]) -> Mapping[WindowId, Spec]:
        """The specs of those of these windows that have one."""
        if unknown := [window for window in windows if window not in self._specs]:
            self._specs.update(self._catalog.specs(unknown))
        return {window: self._specs[window] for window in windows if window in self._specs}
