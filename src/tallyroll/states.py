"""The catalog's values besides specs: the calendar, states of windows, the live pointer.

Times are ms since the epoch, amounts millionths.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tallyroll.windows import Grid, WindowId


@dataclass(frozen=True, slots=True)
class Calendar:
    """The grid of window lengths, and the start of the pipeline's first window."""

    grid: Grid
    genesis: int


class Status(StrEnum):
    """The states of a window, in their order."""

    CREATING = "creating"
    OPEN = "open"
    CLOSING = "closing"
    SEALED = "sealed"
    EXPORTING = "exporting"
    PROVEN = "proven"
    DROPPING = "dropping"
    DROPPED = "dropped"

    @property
    def sealed(self) -> bool:
        """Whether the window's totals stand."""
        return self not in (Status.CREATING, Status.OPEN, Status.CLOSING)


@dataclass(frozen=True, slots=True)
class Window:
    """A window's state item: `version` guards every change, `times` holds the ms at which each
    state began.

    `accept_from` and `accept_until` stand from opening on, and from the start for a past window
    that was opened on purpose. `shards` is the spec's N. `sealing` is how far its sealing has come;
    `keys`, `events`, `amount` and `peak`, the write units a second in the busiest sixtieth, stand
    from its end on, and `listed`, in how many buckets its totals are listed. `attempt` is the
    current export attempt, one of `attempts`, `archive` its prefix in the bucket, `items` what the
    proof counted there, `problem` why the last was not proven. `exporter` takes that attempt: a
    scan in so many `segments`, or DynamoDB itself, whose export is `export_arn`; `export_at` is the
    time of the table's state that it takes. Until `busy_until` a run works on it, which found
    `noted` notes of progress.
    """

    id: WindowId
    table: str
    start: int
    end: int
    status: Status = Status.CREATING
    version: int = 1
    times: Mapping[str, int] = field(default_factory=dict)
    accept_from: int | None = None
    accept_until: int | None = None
    shards: int | None = None
    keys: int | None = None
    events: int | None = None
    amount: int | None = None
    sealing: str | None = None
    listed: int | None = None
    peak: int | None = None
    attempt: str | None = None
    attempts: int = 0
    archive: str | None = None
    items: int | None = None
    problem: str | None = None
    exporter: str | None = None
    segments: int | None = None
    export_at: int | None = None
    export_arn: str | None = None
    busy_until: int | None = None
    noted: int = 0


@dataclass(frozen=True, slots=True)
class LivePointer:
    """Every window before `since` is dropped; `version` guards the pointer."""

    since: int
    version: int
