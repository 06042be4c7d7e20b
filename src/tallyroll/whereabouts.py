"""How an event stands to a window: counted there, to be counted, or never more."""

from __future__ import annotations

from enum import StrEnum

from tallyroll.errors import Missing
from tallyroll.ports import Catalog, Effects, Store
from tallyroll.specs import Spec
from tallyroll.states import Status, Window
from tallyroll.windows import Span, WindowId


class Place(StrEnum):
    """How an event stands to a window."""

    NEVER = "never"  # there is no such window
    CREATING = "creating"
    TAKES = "takes"  # not in it, and it takes events
    CLOSING = "closing"  # not in it, and it takes none: but one that is on its way may count yet
    ABSENT = "absent"  # not in it for ever
    UNVERIFIED = "unverified"  # its table is dropped
    COUNTED = "counted"
    CONFLICT = "conflict"  # another content has its id there
    DISPLACED = "displaced"  # for ever, by an event of another window that has its id


class Whereabouts:
    """Looks events up in live windows, strongly consistent."""

    def __init__(self, store: Store, catalog: Catalog, effects: Effects) -> None:
        self._store = store
        self._catalog = catalog
        self._effects = effects
        self._specs: dict[WindowId, Spec] = {}

    def place(
        self, window: WindowId, key: str, record_id: str, content: bytes, *, home: Span
    ) -> Place:
        """How the event of a key, id and digest, which happened in the window `home`, stands to a
        window. Raises StoreError.

        The state is read before the record, for only what a sealed window does not hold will never
        be in it; and after it, for only while a window is not being dropped is its table the one
        that it always had.
        """
        before = self._catalog.window(window)
        if before is None:
            return Place.NEVER
        if before.status is Status.CREATING:
            return Place.CREATING
        missing: Missing | None = None
        stored = None
        try:
            stored = self._store.record(self.spec(window), key, record_id)
        except Missing as error:
            missing = error
        if stored:
            if stored.digest == content:
                return Place.COUNTED
            displaced = before.status.sealed and stored.ts not in home
            return Place.DISPLACED if displaced else Place.CONFLICT
        after = self._catalog.window(window)
        if after is None or after.status in (Status.DROPPING, Status.DROPPED):
            return Place.UNVERIFIED
        if missing:
            raise missing
        if before.status.sealed:
            return Place.ABSENT
        return Place.TAKES if takes(before, self._effects.now()) else Place.CLOSING

    def spec(self, window: WindowId) -> Spec:
        """A window's spec. Raises Missing."""
        if window not in self._specs:
            self._specs.update(self._catalog.specs([window]))
        if window not in self._specs:
            raise Missing(f"window {window} has no spec", "NoSpec")
        return self._specs[window]


def takes(window: Window, now: int) -> bool:
    """Whether what is sent at `now` (ms) counts in the window, which is open."""
    until = window.accept_until
    return window.status is Status.OPEN and (until is None or now <= until)
