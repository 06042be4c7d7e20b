"""Fates: what becomes of a message of a batch, or of its record."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tallyroll.model.records import Record
from tallyroll.model.windows import WindowId
from tallyroll.reasons import Reason


class Disposition(StrEnum):
    """The kinds of fates."""

    COUNTED = "counted"
    DUPLICATE = "duplicate"
    RETRACTED = "retracted"  # its event: it was a retraction
    UNCOMPARED = "uncompared"  # a record of its identity is stored, its content is not known yet
    REJECTED = "rejected"
    HANDED_BACK = "handed-back"
    SHUT_OUT = "shut-out"  # the gate was shut or missing: the window's state decides


STORED = (Disposition.COUNTED, Disposition.DUPLICATE, Disposition.RETRACTED)
"""What a message asks for is stored."""

FINAL = (*STORED, Disposition.REJECTED)
"""The message need not come again."""


@dataclass(frozen=True, slots=True)
class Fate:
    """The result for a record or its message; `digest` is that of the stored record, if known.

    Of a message that is handed back, `due` is when (ms) the write rate may have room for it, and
    `waits` whether it waits for its window. A `hopeless` one can never count: it comes again only
    because the dead-letter queue did not take it.
    """

    kind: Disposition
    digest: bytes | None = None
    reason: Reason | None = None
    detail: str = ""
    due: int | None = None
    waits: bool = False
    hopeless: bool = False


def handed_back(detail: str, *, waits: bool = False, due: int | None = None) -> Fate:
    """To come again."""
    return Fate(Disposition.HANDED_BACK, detail=detail, waits=waits, due=due)


def rejected(reason: Reason, detail: str, *, waits: bool = False) -> Fate:
    """To go to the dead-letter queue."""
    return Fate(Disposition.REJECTED, reason=reason, detail=detail, waits=waits)


def beside_stored(record: Record, digest: bytes | None, window: WindowId = "") -> Fate:
    """The fate of a record whose identity is stored already, with this digest (None: unknown), in
    this window, if that may be another one.
    """
    if digest is None:
        return Fate(Disposition.UNCOMPARED)
    if digest == record.digest:
        return Fate(Disposition.DUPLICATE, digest)
    detail = f"id {record.id!r} of key {record.key!r} is stored already with another content"
    if window:
        detail += f", in window {window}"
    return Fate(Disposition.REJECTED, digest, Reason.ID_CONFLICT, detail)
