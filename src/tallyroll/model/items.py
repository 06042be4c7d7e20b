"""Items of window tables: records, chunks, tombstones, stripes of tallies, and gates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

from tallyroll.model.amounts import format_amount
from tallyroll.model.formats.payloads import Chunk
from tallyroll.model.records import Record
from tallyroll.model.retractions import Tombstone
from tallyroll.model.tallies import Tally

NUMBER_BYTES_MAX = 21
STRIPE_BYTES_MAX = 3  # of its number, at most 10,000
NUMBERS_KEPT = 4_096


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate of a window."""

    number: int
    open: bool


Content = Record | Chunk | Tally | Gate | Tombstone
"""What an item of a window table holds. A tally is that of one stripe; a record has no series."""


@dataclass(frozen=True, slots=True)
class StoredItem:
    """One item as its store has it: its primary key, and all attributes in the store's own form.

    Archives, comparisons and restored tables keep attributes that the model does not know.
    """

    pk: str
    sk: str
    attributes: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.pk}/{self.sk}"


def sized(record: Record) -> Record:
    """The record, once its size is computed from its other fields; so the others of its group."""
    if not record.size:
        # A cache of what the other fields say, which no comparison sees. A copy for it would take
        # as long as computing it, once for each message.
        object.__setattr__(record, "size", _record_bytes(record))
    for other in record.others:
        sized(other)
    return record


def _record_bytes(record: Record) -> int:
    """The bytes of a record's item, names of attributes included; up to one more than it has, since
    its stripe is chosen later.
    """
    size = len("pk.ske#tsnvh") + len(record.digest)
    size += text_bytes(record.key) + len(str(record.shard)) + text_bytes(record.id)
    size += _count_bytes(record.ts) + _count_bytes(record.n)
    size += number_bytes(format_amount(record.amount))
    if record.data is not None:
        size += len("data") + len(record.data)
    if record.format is not None:
        size += len("fmt") + text_bytes(record.format)
    if record.keys:
        size += len("g") + sum(map(text_bytes, record.keys))
    if record.slot is not None:
        size += len("m") + number_bytes(str(record.slot))
    if record.plain:
        size += len("l") + 1
    if record.series or record.stripe is not None:  # stored soon, or with it
        size += len("s") + STRIPE_BYTES_MAX
    return size


def tombstone_bytes(tombstone: Tombstone) -> int:
    """The bytes of a tombstone's item, names of attributes included."""
    size = len("pk.skr#tsnvhmsbywhy") + len(tombstone.digest)
    size += text_bytes(tombstone.key) + len(str(tombstone.shard)) + text_bytes(tombstone.id)
    if tombstone.index is not None:
        size += len("#") + len(str(tombstone.index))
    size += number_bytes(format_amount(tombstone.amount))
    for number in (tombstone.ts, tombstone.n, tombstone.slot, tombstone.stripe):
        size += number_bytes(str(number))
    return size + text_bytes(tombstone.by) + text_bytes(tombstone.why)


def text_bytes(text: str) -> int:
    """The bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def _count_bytes(number: int) -> int:
    """`number_bytes` of a whole number of 1 or more with at most 38 digits; times are all
    different, so that a cache would not help.
    """
    digits = str(number)
    zeros = len(digits) - len(digits.rstrip("0"))
    return 1 + (len(digits) + 1) // 2 - zeros // 2


@lru_cache(NUMBERS_KEPT)
def number_bytes(text: str) -> int:
    """The bytes of a number, as measured on DynamoDB Local.

    One byte, one for each pair of digits, and one for a minus sign; at most 21. Pairs are counted
    from the decimal point, without leading and trailing zeros.
    """
    plain = format(Decimal(text), "f") if "E" in text else text
    whole, _, fraction = plain.lstrip("-").partition(".")
    whole, fraction = whole.lstrip("0"), fraction.rstrip("0")
    if not whole and not fraction:
        return 1
    lowest = -len(fraction) if fraction else len(whole) - len(whole.rstrip("0"))
    highest = len(whole) if whole else len(fraction.lstrip("0")) - len(fraction)
    pairs = (highest + 1) // 2 - lowest // 2
    return min(NUMBER_BYTES_MAX, 1 + pairs + plain.startswith("-"))
