"""Taking a pipeline's window tables down: by way of their archives, or unproven, by force.

The stack makes the permanent tables only; window tables outlive it. Either way can be interrupted
and begun again: it goes on from what stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tallyroll.errors import Missing, Refused, StateConflict, StoreError, Throttled, Unknown
from tallyroll.lifecycle.cleanup import Cleanup
from tallyroll.lifecycle.roller import Roller
from tallyroll.lifecycle.state_machine import freeze
from tallyroll.limits import TS_MS_MAX
from tallyroll.model.states import Moment, Status, Window
from tallyroll.model.windows import WindowId
from tallyroll.operations.doctor.checkup import Checkup
from tallyroll.operations.doctor.tables import DELETING, of_pattern
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.paging import listed_tallies
from tallyroll.ports.store import Store, TableStatus
from tallyroll.ports.tables import TableCard, TableListing
from tallyroll.resources import TAG_PIPELINE
from tallyroll.settings import Settings

RUN_MS = 60_000  # of roller and cleanup, between two looks
POLL_MS = 2_000
STUCK_MS = 40 * 60_000  # longer than an attempt at an archive is given before the next
DELETE_WITHIN_MS = 15 * 60_000
LOOKS = 3
_USABLE = (TableStatus.ACTIVE, TableStatus.UPDATING)
_ARCHIVED = (Status.PROVEN, Status.DROPPING, Status.DROPPED)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is: the windows that are left, and what went wrong in the last runs."""

    left: tuple[Window, ...]
    problems: tuple[str, ...] = ()


class Undertaker:
    """Carries all windows through closing, sealing, export, proof and drop, without waiting for
    their time: nobody sends any more.

    Nothing is dropped unproven, and every step is that of roller and cleanup. A window that takes
    events is closed at once; one that was never opened is closed without having been open, so that
    its table, too, is sealed, proven and dropped.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        catalog: Catalog,
        effects: Effects,
        roller: Roller,
        cleanup: Cleanup,
    ) -> None:
        """`roller` and `cleanup` have the settings that `hurried` gives."""
        self._settings = settings
        self._store = store
        self._catalog = catalog
        self._effects = effects
        self._roller = roller
        self._cleanup = cleanup

    def run(self, timeout_ms: int, told: Callable[[Progress], None]) -> Progress:
        """Go on until no window is left, for at most `timeout_ms`, or until nothing has changed for
        40 minutes. `told` hears of every look. Raises StoreError if nothing can be read.
        """
        now = self._effects.now()
        deadline, changed, seen = now + timeout_ms, now, ""
        problems: tuple[str, ...] = ()
        while True:
            progress = Progress(self._left(), problems)
            told(progress)
            now = self._effects.now()
            stand = repr([(window.id, window.version) for window in progress.left])
            if stand != seen:
                changed = now
            elif progress.left:
                self._effects.sleep(min(POLL_MS, max(1, deadline - now)))
            if not progress.left or now >= min(deadline, changed + STUCK_MS):
                return progress
            seen, problems = stand, self._go_on(progress.left)

    def _left(self) -> tuple[Window, ...]:
        found = self._catalog.windows(0, TS_MS_MAX + 1)
        return tuple(window for window in found if window.status is not Status.DROPPED)

    def _go_on(self, windows: Sequence[Window]) -> tuple[str, ...]:
        problems = []
        pointer = self._catalog.live()
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
        rolled = self._roller.run(RUN_MS, make=False)
        cleaned = self._cleanup.run(RUN_MS, TS_MS_MAX + 1)
        return (*problems, *rolled.problems, *cleaned.problems)

    def _close(self, window: Window) -> None:
        """Bring a window to closing, from where gates are shut, also those that never opened."""
        times = {**window.times, Status.CLOSING: self._effects.now()}
        closing = replace(window, status=Status.CLOSING, times=times)
        if window.status is Status.OPEN:
            self._catalog.advance(closing)
        if window.status is not Status.CREATING:
            return
        facts, tags = self._store.describe_table(window.table), {TAG_PIPELINE: self._settings.name}
        if facts is None:
            self._store.make_table(window.table, tags)
        elif facts.status in _USABLE:
            if Moment.CHECKED not in window.times:
                self._store.check_table(window.table, tags)
            spec = self._catalog.put_spec(freeze(window, self._settings))
            self._catalog.advance(
                replace(
                    closing,
                    accept_from=spec.accept_from,
                    accept_until=spec.accept_until,
                    shards=spec.shards,
                )
            )


def hurried(settings: Settings) -> Settings:
    """The settings with which all that is sealed is exported at once."""
    return replace(settings, retention_ms=0)


@dataclass(frozen=True, slots=True)
class Loss:
    """A table that will be deleted, and what goes with it: `events` None if that is not known;
    `archived` if its archive is proven, so that nothing goes.
    """

    table: str
    window: WindowId
    state: str
    events: int | None
    items: int
    archived: bool


@dataclass(slots=True)
class Inventory:
    """The tables that are this pipeline's to delete, and those of its pattern that are not, with
    the reason.
    """

    losses: list[Loss] = field(default_factory=list)
    spared: dict[str, str] = field(default_factory=dict)


def inventory(case: Checkup) -> Inventory:
    """What a deletion by force would lose. Raises StoreError.

    A table is this pipeline's if its name is the pipeline's and a window's id and nothing else, and
    by its tag; where the engine knows no tags or it has none, if the catalog names it.
    """
    found = Inventory()
    for window_id, table in of_pattern(case).items():
        card = case.tables.card(table)
        if card is None or card.status == DELETING:
            continue
        window = case.windows.get(window_id)
        why = _foreign(case.tables.tags(card), case.settings.name, window, table)
        if why:
            found.spared[table] = why
        else:
            found.losses.append(_loss(case, card, window_id, window))
    return found


def _foreign(
    tags: Mapping[str, str] | None, pipeline: str, window: Window | None, table: str
) -> str:
    tag = (tags or {}).get(TAG_PIPELINE)
    if tag is not None:
        return "" if tag == pipeline else f"its tag {TAG_PIPELINE} is {tag!r}"
    if window and window.table == table:
        return ""
    return f"it has no tag {TAG_PIPELINE}, and the catalog does not name it"


def _loss(case: Checkup, card: TableCard, window_id: WindowId, window: Window | None) -> Loss:
    return Loss(
        table=card.name,
        window=window_id,
        state=window.status if window else "unknown",
        events=_events(case, window) if window else None,
        items=card.items,
        archived=window is not None and window.status in _ARCHIVED,
    )


def _events(case: Checkup, window: Window) -> int | None:
    """How many events a window has: sealed, or by its tallies."""
    if window.status.sealed:
        return window.events
    spec = case.catalog.specs([window.id]).get(window.id)
    if spec is None:
        return 0  # its gates were never opened
    try:
        listed = (listed_tallies(case.store, spec, number) for number in range(1, spec.buckets + 1))
        return sum(tally.n for bucket in listed for tally in bucket)
    except Missing:
        return None


@dataclass(slots=True)
class Deleted:
    """What became of tables: gone, refused (with the reason), or still going when time was up."""

    gone: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)


def delete(
    store: Store,
    listing: TableListing,
    effects: Effects,
    tables: Sequence[str],
    told: Callable[[Deleted], None],
) -> Deleted:
    """Delete tables, lifting their protection first, and wait until they are gone, for at most a
    quarter of an hour without any going. A table whose deletion is refused gets its protection
    back. Raises StoreError if the service does not answer.
    """
    done, bare = Deleted(left=list(tables)), list[str]()
    last = effects.now()
    while (done.left or bare) and effects.now() < last + DELETE_WITHIN_MS:
        for table in list(done.left):
            try:
                store.drop_table(table)
                gone = listing.card(table) is None
            except Throttled:
                continue  # it is being changed: again later
            except Refused as error:
                done.refused[table] = f"{error.code}: {error}"
                done.left.remove(table)
                bare.append(table)  # its protection may have been lifted before
                continue
            if gone:
                done.gone.append(table)
                done.left.remove(table)
                last = effects.now()
            told(done)
        bare = [table for table in bare if not _protected(listing, table)]
        if done.left or bare:
            effects.sleep(POLL_MS)
    return done


def _protected(listing: TableListing, table: str) -> bool:
    """Put a table's protection back; False if that is to be tried again."""
    try:
        listing.protect(table)
    except (Throttled, Unknown):
        return False
    except StoreError:
        return True  # refused, too: it cannot be helped here
    return True


def waits(backlogs: Iterator[bool], effects: Effects) -> bool:
    """Whether a queue holds messages, by three looks at whether it is empty: counts are rough."""
    for number, empty in zip(range(LOOKS), backlogs, strict=False):
        if not empty:
            return True
        if number < LOOKS - 1:
            effects.sleep(POLL_MS)
    return False
