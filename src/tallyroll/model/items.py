"""The items of a window table as DynamoDB JSON, which is also the format of archives.

record  pk {key}.{shard}  sk e#{record id}       ts, n, v, h, data, fmt
tally   pk ~t.{bucket}    sk t#{key}.{stripe}    n, v, u, m0..m59
gate    pk ~g.{number}    sk g#                  open
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

from tallyroll.limits import SERIES_SLOTS
from tallyroll.model.amounts import format_amount, read_amount
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.model.tallies import Tally

Item = dict[str, dict[str, Any]]
"""One item as DynamoDB JSON, the archive's format: {"pk": {"S": ...}, "n": {"N": "1"}, ...}."""

Key = dict[str, dict[str, str]]
"""The primary key of an item, in the same form."""

RECORD = "e#"  # begins the sort keys of records
RECORDS_END = "e$"  # sorts directly after all sort keys of records
TALLY = "t#"  # begins the sort keys of tallies
NUMBER_BYTES_MAX = 21
NUMBERS_KEPT = 4_096  # a record's size is computed when it is placed, planned and committed
SLOT_NAMES = tuple(f"m{slot}" for slot in range(SERIES_SLOTS))
SLOTS = {name: slot for slot, name in enumerate(SLOT_NAMES)}


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate of a window."""

    number: int
    open: bool


def record_key(key: str, shard: int, record_id: str) -> Key:
    """The primary key of a record."""
    return {"pk": {"S": f"{key}.{shard}"}, "sk": {"S": RECORD + record_id}}


def tally_key(spec: Spec, key: str, stripe: int) -> Key:
    """The primary key of one stripe, 1..spec.stripes_of(key), of a key's tally."""
    return {"pk": {"S": f"~t.{spec.bucket(key, stripe)}"}, "sk": {"S": f"{TALLY}{key}.{stripe}"}}


def gate_key(number: int) -> Key:
    """The primary key of a gate, 1..spec.gates."""
    return {"pk": {"S": f"~g.{number}"}, "sk": {"S": "g#"}}


def record_item(record: Record) -> Item:
    """The item that stores a record; binary attributes are `bytes`, as boto3 takes them."""
    item: Item = {
        **record_key(record.key, record.shard, record.id),
        "ts": {"N": str(record.ts)},
        "n": {"N": str(record.n)},
        "v": {"N": format_amount(record.amount)},
        "h": {"B": record.digest},
    }
    if record.data is not None:
        item["data"] = {"B": record.data}
    if record.format is not None:
        item["fmt"] = {"S": record.format}
    return item


def weighed(record: Record) -> Record:
    """The record with the size of its item in bytes."""
    return record if record.size else replace(record, size=item_bytes(record_item(record)))


def gate_item(number: int) -> Item:
    """The item of an open gate."""
    return {**gate_key(number), "open": {"BOOL": True}}


def slot_name(slot: int) -> str:
    """The attribute of a tally that counts the events of one sixtieth of the window, 0..59."""
    return SLOT_NAMES[slot]


def parse_item(item: Any) -> Record | Tally | Gate:
    """The content of an item of a window table. Raises ValueError for an item of another form.

    A tally is that of one stripe. A record has no series. Binaries may be bytes or base64 text.
    """
    if not isinstance(item, Mapping):
        raise ValueError(f"{item!r} is no item")  # noqa: TRY004  (read from an archive)
    try:
        pk, sk = item["pk"]["S"], item["sk"]["S"]
        if pk.startswith("~g."):
            return Gate(int(pk[3:]), item["open"]["BOOL"])
        if pk.startswith("~t.") and sk.startswith(TALLY):
            return _tally(sk.removeprefix(TALLY).rpartition(".")[0], item)
        key, dot, shard = pk.rpartition(".")
        if dot and sk.startswith(RECORD):
            return _record(key, sk.removeprefix(RECORD), int(shard), item)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise ValueError(f"item {shown_key(item)} is malformed: {error!r}") from None
    raise ValueError(f"item {shown_key(item)} is neither a record, a tally nor a gate")


def _record(key: str, record_id: str, shard: int, item: Mapping[str, Mapping[str, Any]]) -> Record:
    data, form = item.get("data"), item.get("fmt")
    return Record(
        key=key,
        id=record_id,
        shard=shard,
        ts=int(item["ts"]["N"]),
        n=int(item["n"]["N"]),
        amount=read_amount(item["v"]["N"]),
        digest=_binary(item["h"]["B"]),
        data=None if data is None else _binary(data["B"]),
        format=None if form is None else form["S"],
    )


def _tally(key: str, item: Mapping[str, Mapping[str, Any]]) -> Tally:
    counted = ((SLOTS[name], int(value["N"])) for name, value in item.items() if name in SLOTS)
    return Tally(
        key=key,
        n=int(item["n"]["N"]),
        amount=read_amount(item["v"]["N"]),
        series=tuple(sorted(counted)),
        cost=int(item["u"]["N"]) if "u" in item else 0,
    )


def _binary(value: bytes | str) -> bytes:
    return base64.b64decode(value, validate=True) if isinstance(value, str) else bytes(value)


def shown_key(item: Mapping[str, Mapping[str, Any]]) -> str:
    """An item's primary key, for error messages."""
    return f"{item.get('pk')}/{item.get('sk')}"


def jsonable(item: Item) -> dict[str, dict[str, Any]]:
    """The item with its binaries as base64 text, as exports have it."""
    return {
        name: {"B": base64.b64encode(value["B"]).decode()} if "B" in value else value
        for name, value in item.items()
    }


def item_bytes(item: Mapping[str, Mapping[str, Any]]) -> int:
    """The size of an item that DynamoDB meters: names plus values, in bytes.

    Source: DynamoDB Developer Guide, "DynamoDB item sizes and formats": strings take their UTF-8
    bytes, numbers about one byte per two significant digits and one more, binaries their raw bytes,
    null and booleans one byte.
    """
    size = 0
    for name, value in item.items():
        ((kind, content),) = value.items()
        size += _text_bytes(name)
        if kind == "S":
            size += _text_bytes(content)
        elif kind == "N":
            size += _number_bytes(content)
        else:
            size += len(content) if kind == "B" else 1
    return size


def _text_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


@lru_cache(NUMBERS_KEPT)
def _number_bytes(text: str) -> int:
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
