"""The items of an archive as rows of events, with what a restore needs besides; and back.

A record gives a row an event, and one `Rest`. All other items give a `Rest` alone, which holds
them whole. What cannot be made again bit for bit is held whole, too, beside its rows.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, NamedTuple

from tallyroll.errors import Refused
from tallyroll.model.amounts import format_amount
from tallyroll.model.formats.json_texts import canonical
from tallyroll.model.formats.payloads import (
    CHUNKED,
    FORMAT_DEFLATED,
    FORMAT_PACKET,
    LOGS,
    Chunk,
    ChunkManifest,
    manifest_in,
    summed,
)
from tallyroll.model.formats.references import FORMAT_REFERENCE, Reference
from tallyroll.model.items import StoredItem
from tallyroll.model.records import Record
from tallyroll.model.stored import StoredEvent, events_of, whole
from tallyroll.ports.store import ItemCodec

_SUM_BYTES = 8
_ID_BYTES = 16  # of a message, in a leaf
_DIGEST_BYTES = 16
_DIGESTS = 1 << 8 * _DIGEST_BYTES


class EventRow(NamedTuple):
    """One event of a record: `ts` in ms, `value` in millionths, `payload` JSON text.

    An event of a packet has the packet's id in `packet` and its place there in `place`. An uploaded
    payload has its reference, JSON text, in `payload_ref`.
    """

    key: str
    record: str
    place: int | None
    ts: int
    value: int
    payload: str | None
    payload_ref: str | None
    shard: int
    digest: bytes

    @property
    def id(self) -> str:
        """The event's id, as `tallyroll archive read` prints it."""
        return self.record if self.place is None else f"{self.record}:{self.place}"


class Rest(NamedTuple):
    """What a restore needs besides the `rows` of one record: its format, slot and stripe, `more` as
    JSON text; or `items`, the items themselves, as JSON text.
    """

    rows: int
    format: str | None = None
    slot: int | None = None
    stripe: int | None = None
    more: str | None = None
    items: str | None = None


class Converted(NamedTuple):
    """What one record becomes."""

    rows: list[EventRow]
    rest: Rest


ChunksOf = Callable[[str, str, int], Iterable[Chunk]]


def converted(
    record: Record, item: StoredItem, codec: ItemCodec, chunks_of: ChunksOf | None = None
) -> Converted:
    """The rows of a record, and what else its item and those of its chunks hold. `chunks_of` gives
    the chunks of a key and a record id. Raises ValueError if the record cannot be unpacked.
    """
    chunks: list[Chunk] = []

    def kept(key: str, record_id: str, count: int) -> list[Chunk]:
        chunks.extend(chunks_of(key, record_id, count) if chunks_of else ())
        return chunks

    try:
        content = whole(record, kept)
    except Refused as error:
        raise ValueError(str(error)) from None
    rows = [_row(content, event) for event in events_of(content)]
    more = _more(content, record, chunks)
    rest = Rest(len(rows), record.format, record.slot, record.stripe, more)
    items = [item]
    manifest = manifest_in(record.data, record.format)
    if manifest and manifest.key == record.key:
        items += [codec.item_of(chunk) for chunk in sorted(chunks, key=lambda each: each.number)]
    try:
        same = [each.attributes for each in restored(rows, rest, codec)] == [
            each.attributes for each in items
        ]
    except ValueError:
        same = False
    return Converted(rows, rest if same else Rest(len(rows), items=_text(items)))


def alone(item: StoredItem) -> Rest:
    """What holds an item that is no record's and no chunk's."""
    return Rest(0, items=_text([item]))


def restored(rows: Sequence[EventRow], rest: Rest, codec: ItemCodec) -> list[StoredItem]:
    """The items that `rows` and `rest` were made of: that of a record, then those of its chunks.

    Raises ValueError if they do not belong together, or if this Python's zlib compresses otherwise
    than that by which they were stored.
    """
    if rest.items is not None:
        held = json.loads(rest.items)
        return [StoredItem(each["pk"]["S"], each["sk"]["S"], each) for each in held]
    first = rows[0]
    if any(row[:2] != first[:2] or row.shard != first.shard for row in rows):
        raise ValueError(f"rows of several records where one has {rest.rows}")
    more: dict[str, Any] = json.loads(rest.more) if rest.more else {}
    form = rest.format.removeprefix(CHUNKED) if rest.format else None
    data = _data(rows, form, more)
    record = Record(
        key=first.key,
        id=first.record,
        shard=first.shard,
        ts=first.ts,
        n=len(rows),
        amount=sum(row.value for row in rows),
        digest=first.digest,
        data=data,
        format=rest.format,
        keys=tuple(more.get("keys", ())),
        slot=rest.slot,
        plain="plain" in more,
        stripe=rest.stripe,
    )
    if "parts" not in more or data is None:
        return [codec.item_of(record)]
    chunks = _chunks(first.record, data, more)
    expanded = len(data) if form == FORMAT_PACKET else len((first.payload or "").encode())
    total = summed(chunk.digest for chunk in chunks)
    manifest = ChunkManifest(more["of"], len(chunks), len(data), expanded, total)
    items = [codec.item_of(replace(record, data=manifest.encode()))]
    if more["of"] == first.key:
        items += map(codec.item_of, chunks)
    return items


def rows_of(items: Sequence[StoredItem], codec: ItemCodec) -> list[EventRow]:
    """The rows that the items of one record should have. Raises ValueError for other items."""
    contents = [codec.parse(item) for item in items]
    record = contents[0]
    if not isinstance(record, Record):
        raise ValueError(f"no record, but {items[0]}")  # noqa: TRY004 (what was read is wrong)
    chunks = [each for each in contents if isinstance(each, Chunk)]
    return converted(record, items[0], codec, lambda *_: chunks).rows


def item_digest(item: StoredItem) -> int:
    """A digest of all that an item holds, in any order of its attributes, below 2^128."""
    text = json.dumps(item.attributes, sort_keys=True, ensure_ascii=False)
    return int.from_bytes(blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest(), "big")


def event_digest(key: str, record: str, index: int | None) -> int:
    """A digest of the name of an event, below 2^128."""
    text = json.dumps([key, record, index])
    return int.from_bytes(blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest(), "big")


def added(total: int, digest: int) -> int:
    """The sum of digests modulo 2^128."""
    return (total + digest) % _DIGESTS


def _row(record: Record, event: StoredEvent) -> EventRow:
    reference = canonical(event.reference.fields) if event.reference else None
    return EventRow(
        record.key,
        record.id,
        event.index,
        event.ts,
        event.amount,
        event.payload,
        reference,
        record.shard,
        record.digest,
    )


def _more(content: Record, record: Record, chunks: Sequence[Chunk]) -> str | None:
    """What neither rows nor the other columns say of a record whose data is `content`'s."""
    more: dict[str, Any] = {}
    if record.keys:
        more["keys"] = list(record.keys)
    if record.plain:
        more["plain"] = True
    data = content.data or b""
    if content.logged:
        ids, data = data[: _ID_BYTES * content.n], data[_ID_BYTES * content.n :]
        more["t0"], entries = json.loads(zlib.decompress(data))
        more["ids"] = base64.b64encode(ids).decode()
        more["sent"] = [entry[-1] for entry in entries]
    if content.format == FORMAT_PACKET:
        more["t0"] = json.loads(zlib.decompress(data))[0]
    if content.logged or content.format in (FORMAT_PACKET, FORMAT_DEFLATED):
        more["sum"] = _sum(data)
    if manifest := manifest_in(record.data, record.format):
        ordered = sorted(chunks, key=lambda each: each.number)
        more["of"] = manifest.key
        more["parts"] = [[each.shard, len(each.data)] for each in ordered]
    return canonical(more) if more else None


def _data(rows: Sequence[EventRow], form: str | None, more: dict[str, Any]) -> bytes | None:
    """The data of a record, before it is divided into chunks."""
    first = rows[0]
    if form == FORMAT_PACKET:
        t0 = more["t0"]
        entries = [[row.ts - t0, format_amount(row.value), row.payload] for row in rows]
        return _deflated(canonical([t0, entries]).encode(), more["sum"])
    if form in LOGS:
        t0 = more["t0"]
        logged = [
            [row.ts - t0, format_amount(row.value), row.payload, sent]
            for row, sent in zip(rows, more["sent"], strict=True)
        ]
        text = canonical([t0, logged]).encode()
        return base64.b64decode(more["ids"]) + _deflated(text, more["sum"])
    if form == FORMAT_REFERENCE and first.payload_ref is not None:
        of = json.loads(first.payload_ref)
        return Reference(of["bucket"], of["key"], of["bytes"], of["sha256"]).encode()
    if first.payload is None:
        return None
    text = first.payload.encode()
    return _deflated(text, more["sum"]) if form == FORMAT_DEFLATED else text


def _deflated(text: bytes, wanted: str) -> bytes:
    data = zlib.compress(text)
    if _sum(data) != wanted:
        raise ValueError(
            f"compressed by zlib {zlib.ZLIB_RUNTIME_VERSION} it is not what was stored: the rows"
            " have changed, or another zlib compressed it"
        )
    return data


def _chunks(record_id: str, data: bytes, more: dict[str, Any]) -> list[Chunk]:
    chunks, at = [], 0
    for number, (shard, size) in enumerate(more["parts"]):
        chunks.append(Chunk(more["of"], record_id, number, shard, data[at : at + size]))
        at += size
    return chunks


def _sum(data: bytes) -> str:
    return blake2b(data, digest_size=_SUM_BYTES).hexdigest()


def _text(items: Sequence[StoredItem]) -> str:
    return json.dumps(
        [each.attributes for each in items], ensure_ascii=False, separators=(",", ":")
    )
