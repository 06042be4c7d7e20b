"""The windows that live: found by the catalog's pointer, and put back where it has passed them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tallyroll.model.states import LivePointer, Status, Window, joined
from tallyroll.model.windows import Span
from tallyroll.ports.catalog import Catalog

COVER_TRIES = 5  # against a roller that moves the pointer once a minute


def list_live(
    catalog: Catalog, pointer: LivePointer | None, since: int, until: int
) -> list[Window]:
    """All windows that start in [since, until) ms and are not dropped, among others, ascending; in
    as many listings as the pointer, which is to be read before, has spans. Raises StoreError.
    """
    spans = pointer.spans(since, until) if pointer else []
    return [window for span in spans for window in catalog.windows(span.start, span.end)]


def cover(catalog: Catalog, windows: Sequence[Window]) -> None:
    """Have the live pointer cover these windows, unless they are dropped: so that a catalog which
    lost sight of them is mended. Raises StoreError.
    """
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
