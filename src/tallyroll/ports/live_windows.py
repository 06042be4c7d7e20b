"""Finding the windows that are not dropped by the catalog's live pointer, and its repair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tallyroll.model.states import LivePointer, Status, Window, joined
from tallyroll.model.windows import Span
from tallyroll.ports.catalog import Catalog

COVER_TRIES = 5  # the roller moves the pointer once a minute


def list_live(
    catalog: Catalog, pointer: LivePointer | None, since: int, until: int
) -> list[Window]:
    """The windows that start in [since, until) ms, ascending: all that are not dropped, and some
    that are. Takes one listing for each span of the pointer, which must be read before.
    """
    spans = pointer.spans(since, until) if pointer else []
    return [window for span in spans for window in catalog.windows(span.start, span.end)]


def cover(catalog: Catalog, windows: Sequence[Window]) -> None:
    """Repair a catalog whose live pointer does not cover some windows that are not dropped."""
    for _ in range(COVER_TRIES):
        pointer = catalog.live()
        passed = [
            Span(window.start, window.end)
            for window in windows
            if pointer and window.status is not Status.DROPPED and not pointer.covers(window.start)
        ]
        if pointer is None or not passed:
            return
        catalog.move_live(pointer, replace(pointer, opened=joined([*pointer.opened, *passed])))
