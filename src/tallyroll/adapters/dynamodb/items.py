"""The items of a window table as DynamoDB JSON, which is also the format of archives.

record  pk {key}.{shard}  sk e#{record id}           ts, n, v, h, data, fmt, g, m, l, s
chunk   pk {key}.{shard}  sk c#{record id}#{number}  data
tally   pk ~t.{bucket}    sk t#{key}.{stripe}        n, v, u, m0..m59, rn, rv
gate    pk ~g.{number}    sk g#                      open

A tombstone is on the shard of its record, and outside the range of records and chunks:

event   pk {key}.{shard}  sk r#{record id}           ts, n, v, h, m, s, by, why
packed  pk {key}.{shard}  sk p#{record id}#{index}   ts, n, v, h, m, s, by, why

In the table of identities, which outlives the windows:

identity  pk {hash of scope, key and id}  w, k, h, expires
"""

from __future__ import annotations

import json
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring
from typing import Any

from tallyroll.errors import Refused
from tallyroll.limits import SERIES_SLOTS
from tallyroll.model.amounts import format_amount, read_amount
from tallyroll.model.formats.payloads import Chunk
from tallyroll.model.ids import EXPIRES, IdentityItem
from tallyroll.model.items import Content, Gate, StoredItem
from tallyroll.model.records import Record
from tallyroll.model.retractions import Tombstone
from tallyroll.model.specs import Spec
from tallyroll.model.tallies import Tally
from tallyroll.model.windows import WindowId

Item = dict[str, dict[str, Any]]
"""One item as DynamoDB JSON, the archive's format: {"pk": {"S": ...}, "n": {"N": "1"}, ...}."""

Key = dict[str, dict[str, str]]
"""The primary key of an item, in the same form."""

RECORD = "e#"  # begins the sort keys of records
RECORDS_END = "e$"  # sorts directly after all sort keys of records
CHUNK = "c#"  # begins the sort keys of chunks
TOMBSTONE = "r#"  # begins the sort keys of tombstones
TOMBSTONE_PACKED = "p#"  # begins those of events in packets
MARKS = "~payloads."  # begins the partition keys of marks of uploaded objects, in the catalog
GATE = "~g."  # begins the partition keys of gates
TALLY = "t#"  # begins the sort keys of tallies
SLOT_NAMES = tuple(f"m{slot}" for slot in range(SERIES_SLOTS))  # of a tally's sixtieths
SLOTS = {name: slot for slot, name in enumerate(SLOT_NAMES)}
_quoted = encode_basestring
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def record_key(key: str, shard: int, record_id: str) -> Key:
    """The primary key of a record."""
    return {"pk": {"S": f"{key}.{shard}"}, "sk": {"S": RECORD + record_id}}


def tally_key(spec: Spec, key: str, stripe: int) -> Key:
    """The primary key of one stripe, 1..spec.stripes_of(key), of a key's tally."""
    return {"pk": {"S": f"~t.{spec.bucket(key, stripe)}"}, "sk": {"S": f"{TALLY}{key}.{stripe}"}}


def gate_key(number: int) -> Key:
    """The primary key of a gate, 1..spec.gates."""
    return {"pk": {"S": f"{GATE}{number}"}, "sk": {"S": "g#"}}


def record_item(record: Record, binary: Callable[[bytes], bytes | str] = bytes) -> Item:
    """The item that stores a record; binary attributes are `bytes`, as boto3 takes them, or what
    `binary` makes of them.
    """
    item: Item = {
        "pk": {"S": f"{record.key}.{record.shard}"},
        "sk": {"S": RECORD + record.id},
        "ts": {"N": str(record.ts)},
        "n": {"N": str(record.n)},
        "v": {"N": format_amount(record.amount)},
        "h": {"B": binary(record.digest)},
    }
    if record.data is not None:
        item["data"] = {"B": binary(record.data)}
    if record.format is not None:
        item["fmt"] = {"S": record.format}
    if record.keys:
        least_of_all = len(record.keys) > 1
        item["g"] = {"SS": list(record.keys)} if least_of_all else {"S": record.keys[0]}
    if record.slot is not None:
        item["m"] = {"N": str(record.slot)}
    if record.plain:
        item["l"] = {"BOOL": True}
    if record.stripe is not None:
        item["s"] = {"N": str(record.stripe)}
    return item


def chunk_key(spec: Spec, key: str, record_id: str, number: int) -> Key:
    """The primary key of a record's chunk."""
    shard = spec.chunk_shard(key, record_id, number)
    return {"pk": {"S": f"{key}.{shard}"}, "sk": {"S": f"{CHUNK}{record_id}#{number:04d}"}}


def chunk_item(chunk: Chunk) -> Item:
    """The item that stores a chunk."""
    return {
        "pk": {"S": f"{chunk.key}.{chunk.shard}"},
        "sk": {"S": CHUNK + chunk.name},
        "data": {"B": chunk.data},
    }


def tombstone_key(key: str, shard: int, record_id: str, index: int | None) -> Key:
    """The primary key of a tombstone of a record's event."""
    packed = index is not None
    sk = f"{TOMBSTONE_PACKED}{record_id}#{index}" if packed else TOMBSTONE + record_id
    return {"pk": {"S": f"{key}.{shard}"}, "sk": {"S": sk}}


def tombstone_place(sk: str) -> tuple[str, int | None]:
    """The record's id and the index in the sort key of a tombstone."""
    if sk.startswith(TOMBSTONE):
        return sk.removeprefix(TOMBSTONE), None
    record_id, _, index = sk.removeprefix(TOMBSTONE_PACKED).rpartition("#")
    return record_id, int(index)


def tombstone_item(tombstone: Tombstone) -> Item:
    """The item that stores a tombstone."""
    return {
        **tombstone_key(tombstone.key, tombstone.shard, tombstone.id, tombstone.index),
        "ts": {"N": str(tombstone.ts)},
        "n": {"N": str(tombstone.n)},
        "v": {"N": format_amount(tombstone.amount)},
        "h": {"B": tombstone.digest},
        "m": {"N": str(tombstone.slot)},
        "s": {"N": str(tombstone.stripe)},
        "by": {"S": tombstone.by},
        "why": {"S": tombstone.why},
    }


def mark_key(key: str) -> Key:
    """The primary key, in the catalog, of the mark of an uploaded object with this key; the whole
    item.
    """
    day = key.split("/")[2]
    return {"pk": {"S": f"{MARKS}{day}"}, "sk": {"S": key}}


def identity_key(name: str) -> Key:
    """The primary key of an identity, in the table of identities."""
    return {"pk": {"S": name}}


def identity_item(identity: IdentityItem) -> Item:
    """The item of an identity."""
    return {
        **identity_key(identity.name),
        "w": {"S": identity.window},
        "k": {"S": identity.key},
        "h": {"B": identity.digest},
        EXPIRES: {"N": str(identity.expires)},
    }


def parse_identity(item: Mapping[str, Any]) -> IdentityItem:
    """The identity in its item."""
    return IdentityItem(
        name=item["pk"]["S"],
        window=item["w"]["S"],
        key=item["k"]["S"],
        digest=binary_of(item["h"]["B"]),
        expires=int(item[EXPIRES]["N"]),
    )


def window_of(item: Mapping[str, Any]) -> WindowId:
    """The window in the item of an identity; empty for any other item."""
    window: WindowId = item.get("w", {}).get("S", "")
    return window


def gate_item(number: int) -> Item:
    """The item of an open gate."""
    return {**gate_key(number), "open": {"BOOL": True}}


def parse_item(item: Mapping[str, Any]) -> Content:
    """What an item of a window table holds. Raises ValueError for an item of another form.

    Binaries may be bytes or base64 text.
    """
    try:
        pk, sk = item["pk"]["S"], item["sk"]["S"]
        if pk.startswith(GATE):
            return Gate(int(pk.removeprefix(GATE)), item["open"]["BOOL"])
        if pk.startswith("~t.") and sk.startswith(TALLY):
            return _tally(sk.removeprefix(TALLY).rpartition(".")[0], item)
        key, dot, shard = pk.rpartition(".")
        if dot and sk.startswith(RECORD):
            return _record(key, sk.removeprefix(RECORD), int(shard), item)
        if dot and sk.startswith(CHUNK):
            record_id, _, number = sk.removeprefix(CHUNK).rpartition("#")
            return Chunk(key, record_id, int(number), int(shard), binary_of(item["data"]["B"]))
        if dot and sk.startswith((TOMBSTONE, TOMBSTONE_PACKED)):
            return _tombstone(key, *tombstone_place(sk), int(shard), item)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise ValueError(f"item {shown_key(item)} is malformed: {error!r}") from None
    kinds = "neither a record, a chunk, a tombstone, a tally nor a gate"
    raise ValueError(f"item {shown_key(item)} is {kinds}")


def _record(key: str, record_id: str, shard: int, item: Mapping[str, Mapping[str, Any]]) -> Record:
    data, form, group = item.get("data"), item.get("fmt"), item.get("g", {})
    return Record(
        key=key,
        id=record_id,
        shard=shard,
        ts=int(item["ts"]["N"]),
        n=int(item["n"]["N"]),
        amount=read_amount(item["v"]["N"]),
        digest=binary_of(item["h"]["B"]),
        data=None if data is None else binary_of(data["B"]),
        format=None if form is None else form["S"],
        keys=tuple(sorted(group["SS"])) if "SS" in group else tuple(group.values()),
        slot=_number(item, "m"),
        plain="l" in item,
        stripe=_number(item, "s"),
    )


def _number(item: Mapping[str, Mapping[str, Any]], name: str) -> int | None:
    """A whole number that releases before it did not store."""
    return int(item[name]["N"]) if name in item else None


def _tombstone(
    key: str, record_id: str, index: int | None, shard: int, item: Mapping[str, Mapping[str, Any]]
) -> Tombstone:
    return Tombstone(
        key=key,
        id=record_id,
        shard=shard,
        ts=int(item["ts"]["N"]),
        n=int(item["n"]["N"]),
        amount=read_amount(item["v"]["N"]),
        digest=binary_of(item["h"]["B"]),
        stripe=int(item["s"]["N"]),
        slot=int(item["m"]["N"]),
        by=item["by"]["S"],
        why=item["why"]["S"],
        index=index,
    )


def _tally(key: str, item: Mapping[str, Mapping[str, Any]]) -> Tally:
    counted = ((SLOTS[name], int(value["N"])) for name, value in item.items() if name in SLOTS)
    return Tally(
        key=key,
        n=int(item["n"]["N"]),
        amount=read_amount(item["v"]["N"]),
        series=tuple(sorted(counted)),
        cost=_number(item, "u") or 0,
        retracted=(_number(item, "rn") or 0, read_amount(item["rv"]["N"]) if "rv" in item else 0),
        blocks=frozenset(map(int, item["b"]["NS"])) if "b" in item else frozenset(),
        covered=_number(item, "hn") or 0,
        raised=_number(item, "w") or 0,
    )


def binary_of(value: bytes | str) -> bytes:
    """The bytes of a binary attribute, which may be in base64."""
    return a2b_base64(value, strict_mode=True) if isinstance(value, str) else bytes(value)


def text_of(binary: bytes) -> str:
    """A binary attribute in base64, as exports have it."""
    return b2a_base64(binary, newline=False).decode()


def shown_key(item: Mapping[str, Mapping[str, Any]]) -> str:
    """An item's primary key, for error messages."""
    return f"{item.get('pk')}/{item.get('sk')}"


class DynamoItemCodec:
    """Items in DynamoDB JSON with base64 binaries, in the lines of DynamoDB's native exports."""

    def encode(self, item: StoredItem) -> bytes:
        return (_ENCODER.encode({"Item": item.attributes}) + "\n").encode()

    def decode(self, line: bytes) -> StoredItem:
        try:
            item = json.loads(line)["Item"]
            return StoredItem(item["pk"]["S"], item["sk"]["S"], item)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            why = str(error) if isinstance(error, ValueError) else f"no item ({error!r})"
            raise ValueError(f"unreadable: {why}") from None

    def parse(self, item: StoredItem) -> Content:
        return parse_item(item.attributes)

    def item_of(self, content: Record | Chunk) -> StoredItem:
        if not isinstance(content, Record):
            return stored_item(chunk_item(content))
        item = record_item(content, text_of)
        return StoredItem(item["pk"]["S"], item["sk"]["S"], item)

    def spelled(self, record: Record, item: StoredItem) -> str | None:
        form = record.format
        if record.data is None or form is None or record.keys or record.plain:
            return None
        pk, sk = f"{record.key}.{record.shard}", RECORD + record.id
        ts, n, v = str(record.ts), str(record.n), format_amount(record.amount)
        m, s = str(record.slot), str(record.stripe)  # "None" is no number that an item has
        h, data = text_of(record.digest), text_of(record.data)
        if item.attributes != {
            "pk": {"S": pk},
            "sk": {"S": sk},
            "ts": {"N": ts},
            "n": {"N": n},
            "v": {"N": v},
            "h": {"B": h},
            "data": {"B": data},
            "fmt": {"S": form},
            "m": {"N": m},
            "s": {"N": s},
        }:
            return None
        return (
            f'{{"data": {{"B": "{data}"}}, "fmt": {{"S": {_quoted(form)}}}, "h": {{"B": "{h}"}},'
            f' "m": {{"N": "{m}"}}, "n": {{"N": "{n}"}}, "pk": {{"S": {_quoted(pk)}}},'
            f' "s": {{"N": "{s}"}}, "sk": {{"S": {_quoted(sk)}}}, "ts": {{"N": "{ts}"}},'
            f' "v": {{"N": "{v}"}}}}'
        )


CODEC = DynamoItemCodec()


def stored_item(item: Item) -> StoredItem:
    """An item that DynamoDB returned."""
    return StoredItem(item["pk"]["S"], item["sk"]["S"], jsonable(item))


def jsonable(item: Item) -> dict[str, dict[str, Any]]:
    """The item with its binaries as base64 text, as exports have it."""
    return {
        name: {"B": text_of(value["B"])} if "B" in value else value for name, value in item.items()
    }


def record_in(item: Item) -> Record:
    """The record in an item. Raises Refused if it is something else."""
    found = parse_item(item)
    if not isinstance(found, Record):
        raise Refused(f"item {shown_key(item)} is not a record", "NotARecord")
    return found


def stripe_in(item: Item) -> Tally:
    """The tally of a stripe in an item. Raises Refused if it is something else."""
    found = parse_item(item)
    if not isinstance(found, Tally):
        raise Refused(f"item {shown_key(item)} is not a tally", "NotATally")
    return found
