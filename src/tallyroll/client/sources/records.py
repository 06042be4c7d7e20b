"""One line or row of a source, whatever its format."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple

from tallyroll.errors import TallyrollError
from tallyroll.model.amounts import JsonFloat

OP = "Op"
"""The first column of a file of AWS DMS: what happened to the row. Source: AWS DMS User Guide,
"Using Amazon S3 as a target for AWS Database Migration Service"."""


class Change(StrEnum):
    """What happened to a row that was not inserted."""

    UPDATE = "update"
    DELETE = "delete"


_OPS = {"U": Change.UPDATE, "D": Change.DELETE}


class BadRecord(TallyrollError):
    """A line or row that is not counted; `reason` is for machines, `detail` for people."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class Changed(BadRecord):
    """A row that was updated or deleted: a count of events cannot take one back."""

    def __init__(self, change: Change) -> None:
        super().__init__(change, f"the row was {change}d: only inserted rows are events")
        self.change = change


class SourceRecord(NamedTuple):
    """One record: its number in the source, from 1, and what it holds.

    `raw` is its text, if it has any and is not too long. `fields` are its columns; None if `raw` is
    JSON that nobody has read yet; or why it has none.
    """

    number: int
    raw: bytes | None
    fields: dict[str, Any] | BadRecord | None = None

    @property
    def text(self) -> str | None:
        """The record for people: its text, or its columns as JSON."""
        if self.raw is not None:
            return self.raw.decode(errors="replace").rstrip("\r\n")
        if isinstance(self.fields, dict):
            return json.dumps(plain(self.fields))
        return None


def inserted(fields: dict[str, Any]) -> dict[str, Any] | BadRecord:
    """The columns of an inserted row, without that of DMS; or why it is none."""
    if next(iter(fields), None) != OP:
        return fields
    op = fields.pop(OP)
    if op == "I":
        return fields
    if op in _OPS:
        return Changed(_OPS[op])
    return BadRecord("bad-op", f"{OP} {op!r}: must be I, U or D")


def plain(value: Any) -> Any:
    """A value of a column as JSON has it: times as ISO 8601, bytes in base64."""
    if isinstance(value, JsonFloat):
        return float(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    return str(value)


def utc(instant: datetime) -> datetime:
    """The instant in UTC, which a time without a zone is taken to be in."""
    return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
