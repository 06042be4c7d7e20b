"""What is known of tables and functions; functions need only the first few classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from tallyroll.model.windows import WindowId, is_window_id


class TableStatus(StrEnum):
    """The status of a window table, as its store reports it."""

    CREATING = "creating"
    ACTIVE = "active"
    UPDATING = "updating"
    DELETING = "deleting"


@dataclass(frozen=True, slots=True)
class TableFacts:
    """The state of a window table.

    `warm` is how many write units a second it takes at once, None if the store does not tell;
    `warming` is whether more are being prepared. A `provisioned` one takes what it was given.
    """

    status: TableStatus
    protected: bool
    warm: int | None = None
    warming: bool = False
    provisioned: bool = False


@dataclass(frozen=True, slots=True)
class TableLoad:
    """What was asked of a table lately: the write `units` a second in its busiest minute, how many
    writes were `throttled`, and how many of these at a limit that was `given`: the account's quota,
    a set maximum, or provisioned capacity. 0 is also what is not known yet.
    """

    units: float = 0.0
    throttled: int = 0
    given: int = 0


class TableLoads(Protocol):
    """How much is asked of tables."""

    def table_load(self, table: str, since: int) -> TableLoad:
        """What was asked of a table since then (ms). Raises StoreError."""


@dataclass(frozen=True, slots=True)
class TableCard:
    """The description of a table.

    `status` is the store's word, in capitals; `keys` are name, type and role (`pk S HASH`); `items`
    and `size` (bytes) are some hours old. `kms_key` is the ARN of the key that a customer manages,
    "" if the store's own key encrypts the table.
    """

    name: str
    status: str
    protected: bool
    keys: tuple[str, ...]
    items: int
    size: int
    arn: str = ""
    kms_key: str = ""


class TableListing(Protocol):
    """The tables of an account and Region."""

    def names(self) -> Iterator[str]:
        """The names of all tables, also those of other owners."""

    def card(self, table: str) -> TableCard | None:
        """A table's description, or None if it does not exist."""

    def tags(self, card: TableCard) -> Mapping[str, str] | None:
        """A table's tags; None if the store has no tags. Raises Missing."""

    def recovery(self, card: TableCard) -> bool | None:
        """Whether point-in-time recovery is on; None if the store has none. Raises Missing."""

    def expires_by(self, card: TableCard) -> str | None:
        """The attribute with the time (s) at which the store deletes an item; "" if it deletes
        none, None if the store has no such thing. Raises Missing.
        """

    def protect(self, table: str) -> None:
        """Switch deletion protection on. Raises Missing; Throttled while the table changes."""


class Deployment(Protocol):
    """A pipeline's deployed functions."""

    def environment(self, pipeline: str) -> Mapping[str, str] | None:
        """The environment variables of the pipeline's roller; None if it is not deployed."""


def window_of(table: str, prefix: str) -> WindowId | None:
    """The window of a table named `prefix` plus a window id; None for any other name.

    So a table of the pipeline `votes-eu` does not belong to the pipeline `votes`.
    """
    window = table.removeprefix(prefix)
    return window if table.startswith(prefix) and is_window_id(window) else None
