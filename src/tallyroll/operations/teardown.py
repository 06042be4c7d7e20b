"""Removes a pipeline's window tables: after archiving them, or by force without a proof.

The stack makes only the permanent tables; window tables outlive it. Both ways may be interrupted
and repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tallyroll.errors import Missing, Refused, StateConflict, StoreError, Throttled, Unknown
from tallyroll.lifecycle.cleanup import Cleanup
from tallyroll.lifecycle.dropper import Dropper
from tallyroll.lifecycle.health import HOUR_MS
from tallyroll.lifecycle.roller import Roller
from tallyroll.lifecycle.state_machine import freeze
from tallyroll.limits import TS_MS_MAX
from tallyroll.model.states import Moment, Status, Window
from tallyroll.model.windows import DYNAMODB, WindowId, store_of
from tallyroll.operations.doctor import keyspaces_checks
from tallyroll.operations.doctor.checkup import Checkup
from tallyroll.operations.doctor.table_checks import DELETING, foreign, of_pattern
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.paging import listed_tallies
from tallyroll.ports.queue import Backlogged
from tallyroll.ports.store import Store
from tallyroll.ports.table_listing import TableListing, TableStatus
from tallyroll.resources import TAG_PIPELINE
from tallyroll.settings import Settings

RUN_MS = 60_000  # of roller, cleanup and dropper, between two reads of the windows
POLL_MS = 2_000
STUCK_MS = 40 * 60_000  # longer than an attempt at an archive may take
DELETE_WITHIN_MS = 15 * 60_000
LOOKS = 3
_USABLE = (TableStatus.ACTIVE, TableStatus.UPDATING)
_ARCHIVED = (Status.PROVEN, Status.DROPPING, Status.DROPPED)


@dataclass(frozen=True, slots=True)
class TeardownProgress:
    """The windows that are left, and the problems of the last runs."""

    left: tuple[Window, ...]
    problems: tuple[str, ...] = ()


@dataclass(eq=False)
class Teardown:
    """Closes, seals, exports, proves and drops all windows without waiting for their time, once
    nobody sends events any more.

    Nothing is dropped unproven; roller, cleanup and dropper make every other step. A window that
    takes events is closed at once. A window that never opened is closed too, so that its table is
    sealed, proven and dropped like the others. The functions' use cases must have these settings,
    in which `retention_ms` is 0.
    """

    settings: Settings
    store: Store
    catalog: Catalog
    effects: Effects
    roller: Roller
    cleanup: Cleanup
    dropper: Dropper

    def run(
        self,
        timeout_ms: int,
        on_progress: Callable[[TeardownProgress], None],
        without: Container[WindowId] = (),
    ) -> TeardownProgress:
        """Work until no window is left, for at most `timeout_ms`, or until nothing has changed for
        40 minutes. Windows in `without` are left as they are. Calls `on_progress` after each read.
        Raises StoreError if the windows cannot be read.
        """
        now = self.effects.now()
        deadline, changed, last = now + timeout_ms, now, ""
        problems: tuple[str, ...] = ()
        while True:
            left = tuple(window for window in self._left() if window.id not in without)
            progress = TeardownProgress(left, problems)
            on_progress(progress)
            now = self.effects.now()
            versions = repr([(window.id, window.version) for window in progress.left])
            if versions != last:
                changed = now
            else:
                self.effects.sleep(min(POLL_MS, max(1, deadline - now)))
            if not progress.left or now >= min(deadline, changed + STUCK_MS):
                return progress
            last, problems = versions, self._go_on(progress.left)

    def _left(self) -> tuple[Window, ...]:
        found = self.catalog.windows(0, TS_MS_MAX + 1)
        return tuple(window for window in found if window.status is not Status.DROPPED)

    def _go_on(self, windows: Sequence[Window]) -> tuple[str, ...]:
        problems = []
        pointer = self.catalog.live()
        for window in windows:
            if pointer and not pointer.covers(window.start):
                problems.append(
                    f"window {window.id}: passed by the live pointer (tallyroll doctor)"
                )
            try:
                self._close(window)
            except StateConflict:
                continue  # another run was faster
            except StoreError as error:
                problems.append(f"window {window.id} ({window.status}): {error}")
        rolled = self.roller.run(RUN_MS, make=False)
        cleaned = self.cleanup.run(RUN_MS, TS_MS_MAX + 1)
        dropped = self.dropper.run(RUN_MS, TS_MS_MAX + 1)
        return (*problems, *rolled.problems, *cleaned.problems, *dropped.problems)

    def _close(self, window: Window) -> None:
        """Move an open or unopened window to `closing`, in which the roller shuts its gates."""
        times = {**window.times, Status.CLOSING: self.effects.now()}
        closing = replace(window, status=Status.CLOSING, times=times)
        if window.status is Status.OPEN:
            self.catalog.advance(closing)
        if window.status is not Status.CREATING:
            return
        facts, tags = self.store.describe_table(window.table), {TAG_PIPELINE: self.settings.name}
        if facts is None:
            self.store.make_table(window.table, tags)
        elif facts.status in _USABLE:
            if Moment.CHECKED not in window.times:
                self.store.check_table(window.table, tags)
            calendar = self.catalog.calendar()
            genesis = calendar.genesis if calendar else 0
            spec = self.catalog.put_spec(freeze(window, self.settings, genesis=genesis))
            self.catalog.advance(
                replace(
                    closing,
                    accept_from=spec.accept_from,
                    accept_until=spec.accept_until,
                    shards=spec.shards,
                )
            )


def without_table(case: Checkup, windows: Sequence[Window]) -> Mapping[WindowId, str]:
    """Which of these windows cannot be archived, and why: their tables are gone, or another hand
    made them. Raises StoreError.
    """

    def look(window: Window) -> str:
        if window.status in _ARCHIVED:
            return ""
        if keyspaces_checks.in_keyspaces(window):
            return keyspaces_checks.without_table(case, window)
        card = case.tables.card(window.table)
        if card is None or card.status == DELETING:
            made = window.status is not Status.CREATING  # else it is made, and dropped
            return f"its table {window.table} is gone" if made else ""
        declared = case.resources.window_table(window.id)
        why = foreign(card, case.tables.tags(card), declared, window)
        return why and f"another hand made its table {window.table}: {why}"

    found = zip(windows, case.each(windows, look), strict=True)
    return {window.id: why for window, why in found if why}


@dataclass(frozen=True, slots=True)
class Loss:
    """A table to delete, and what is lost with it: `events`, None if not known; nothing if
    `archived`, since its archive is proven.
    """

    table: str
    window: WindowId
    state: str
    events: int | None
    archived: bool


@dataclass(slots=True)
class Inventory:
    """The tables that belong to this pipeline, and others of its pattern, with the reason."""

    losses: list[Loss] = field(default_factory=list)
    spared: dict[str, str] = field(default_factory=dict)


def inventory(case: Checkup) -> Inventory:
    """What a deletion by force would lose. Raises StoreError.

    A table belongs to this pipeline if its name is made of the pipeline's name and a window id, and
    its tag names the pipeline. Without a tag, the catalog must name the table.
    """
    found = Inventory()
    for window_id, table in of_pattern(case).items():
        card = case.tables.card(table)
        if card is None or card.status == DELETING:
            continue
        window = case.windows.get(window_id)
        tags = case.tables.tags(card)
        tag = (tags or {}).get(TAG_PIPELINE)
        declared = case.resources.window_table(window_id)
        why = foreign(card, tags, declared, window or Window(window_id, table, 0, 0))
        if tag not in (None, case.settings.name):
            found.spared[table] = f"its tag {TAG_PIPELINE} is {tag!r}"
        elif tag is None and not (window and window.table == table):
            found.spared[table] = f"it has no tag {TAG_PIPELINE}, and the catalog does not name it"
        elif why:
            found.spared[table] = f"another hand made it: {why}"
        else:
            found.losses.append(_loss(case, table, window_id, window))
    for window in case.windows.values():
        if not keyspaces_checks.in_keyspaces(window) or window.status is Status.DROPPED:
            continue
        if case.store.describe_table(window.table) is None:
            continue
        if why := keyspaces_checks.without_table(case, window):
            found.spared[window.table] = why
        else:
            found.losses.append(_loss(case, window.table, window.id, window))
    return found


def _loss(case: Checkup, table: str, window_id: WindowId, window: Window | None) -> Loss:
    if window is None:
        return Loss(table, window_id, "unknown", None, archived=False)
    archived = window.status in _ARCHIVED
    return Loss(table, window_id, window.status, _events(case, window), archived)


def _events(case: Checkup, window: Window) -> int | None:
    """The number of a window's events, by its sealed state or its tallies; None if not known."""
    if window.status.sealed:
        return window.events
    spec = case.catalog.specs([window.id]).get(window.id)
    if spec is None:
        return 0  # its gates were never opened
    try:
        listed = (listed_tallies(case.store, spec, number) for number in range(1, spec.buckets + 1))
        return sum(tally.n for bucket in listed for tally in bucket)
    except (Missing, Throttled):  # in Keyspaces it has no tallies before it is closed
        return None


@dataclass(slots=True)
class Deleted:
    """The tables deleted, refused (with the reason), and left when time ran out."""

    gone: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)


def delete(case: Checkup, tables: Sequence[str], on_progress: Callable[[Deleted], None]) -> Deleted:
    """Lift the tables' protection, delete them, and wait until they are gone.

    Stops after 15 minutes in which none was deleted. A table whose deletion is refused gets its
    protection back. Raises StoreError if the service does not answer.
    """
    done, bare = Deleted(left=list(tables)), list[str]()
    last = case.effects.now()
    while (done.left or bare) and case.effects.now() < last + DELETE_WITHIN_MS:
        for table in list(done.left):
            try:
                case.store.drop_table(table)
                gone = case.store.describe_table(table) is None
            except Throttled:
                continue  # the table is changing: try again later
            except Refused as error:
                done.refused[table] = f"{error.code}: {error}"
                done.left.remove(table)
                if store_of(table) == DYNAMODB:  # the other has no protection
                    bare.append(table)  # its protection may have been lifted before
                continue
            if gone:
                done.gone.append(table)
                done.left.remove(table)
                last = case.effects.now()
            on_progress(done)
        bare = [table for table in bare if not _protected(case.tables, table)]
        if done.left or bare:
            case.effects.sleep(POLL_MS)
    return done


def _protected(listing: TableListing, table: str) -> bool:
    """Switch a table's protection on; False if that must be tried again."""
    try:
        listing.protect(table)
    except (Throttled, Unknown):
        return False
    except StoreError:
        return True  # refused: nothing more can be done here
    return True


def waits(queue: Backlogged, effects: Effects) -> bool:
    """Whether a queue holds messages, by three looks, since counts are approximate."""
    for look in range(LOOKS):
        if look:
            effects.sleep(POLL_MS)
        if not queue.backlog(effects.now() + HOUR_MS).empty:  # after now there are no ages
            return True
    return False
