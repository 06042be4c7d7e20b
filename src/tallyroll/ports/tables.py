"""The seam through which an operator sees tables: which there are, and what is true of one.

No function needs it. As with the other ports, every method may raise StoreError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from tallyroll.errors import UsageError
from tallyroll.model.windows import WindowId, window_start

_WINDOW_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z")


@dataclass(frozen=True, slots=True)
class TableCard:
    """What is true of a table: `status` in the engine's word, in capitals; `keys` as name, type and
    part (`pk S HASH`); `items` and `size` (bytes) of some hours ago.
    """

    name: str
    status: str
    protected: bool
    keys: tuple[str, ...]
    items: int
    size: int
    arn: str = ""


class TableListing(Protocol):
    """The tables of an account and Region."""

    def names(self) -> Iterator[str]:
        """The names of all tables, also of others' than this pipeline's."""
        ...

    def card(self, table: str) -> TableCard | None:
        """A table's card, or None if there is none."""
        ...

    def tags(self, card: TableCard) -> Mapping[str, str] | None:
        """A table's tags; None where the engine knows none. Raises Missing."""
        ...

    def recovery(self, card: TableCard) -> bool | None:
        """Whether point-in-time recovery is on; None where the engine has none. Raises Missing."""
        ...

    def protect(self, table: str) -> None:
        """Put a table's deletion protection back. Raises Missing, Throttled while it changes."""
        ...


def window_of(table: str, prefix: str) -> WindowId | None:
    """The window of a table whose name is `prefix` and a window's id, and nothing else: a table of
    the pipeline `votes-eu` is none of `votes`.
    """
    window = table.removeprefix(prefix)
    if not table.startswith(prefix) or not _WINDOW_ID.fullmatch(window):
        return None
    try:
        window_start(window)
    except UsageError:
        return None
    return window


class Deployment(Protocol):
    """A pipeline's functions. Its methods may raise StoreError."""

    def environment(self, pipeline: str) -> Mapping[str, str] | None:
        """The settings, as environment variables, that the pipeline's roller has; None if it is not
        deployed.
        """
        ...
