"""Ids of records: their identity, and UUIDv7, which are ordered by time."""

from __future__ import annotations

import re

from tallyroll.model.sharding import Chance
from tallyroll.model.windows import WindowId

_UUID7 = re.compile(
    r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE
)

Identity = tuple[WindowId, str, str]
"""The identity of a record: its window, its key, its id."""


def uuid7(now: int, chance: Chance) -> str:
    """A UUIDv7 (RFC 9562) of the time `now` in ms: 48 bits of time, 74 random bits."""
    low = 0b10 << 62 | chance.getrandbits(62)
    text = f"{now << 80 | 7 << 76 | chance.getrandbits(12) << 64 | low:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def uuid7_time(record_id: str) -> int | None:
    """The time, in ms, in a UUIDv7 (RFC 9562: its first 48 bits); None for any other id."""
    match = _UUID7.fullmatch(record_id)
    return int(match[1] + match[2], 16) if match else None
