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
from tallyroll.model.formats.json_texts import canonical, spaced
from tallyroll.model.formats.payloads import (
    CHUNKED,
    FORMAT_DEFLATED,
    FORMAT_JSON,
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
from tallyroll.model.stored import StoredEvent, check_held, events_of, packed_events, whole
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
    record: Record,
    item: StoredItem,
    codec: ItemCodec,
    chunks_of: ChunksOf | None = None,
    *,
    usual: bool = False,
) -> Converted:
    """The rows of a record, and what else its item and those of its chunks hold. `chunks_of` gives
    the chunks of a key and a record id. `usual` says that the item is known to be the record's.
    Raises ValueError if the record cannot be unpacked.
    """
    if record.in_chunks:
        return _converted(record, item, codec, chunks_of)
    rows, t0 = _rows(record)
    more, same = None, True
    if record.format != FORMAT_JSON or record.keys or record.plain:
        own = _more(record, record, (), t0)
        more = canonical(own) if own else None
        try:
            same = _data(rows, record.format, own) == record.data
        except ValueError:
            same = False
    rest = Rest(len(rows), record.format, record.slot, record.stripe, more)
    if same and (usual or codec.item_of(record).attributes == item.attributes):
        return Converted(rows, rest)
    return Converted(rows, Rest(len(rows), items=_text([item])))


def _converted(
    record: Record, item: StoredItem, codec: ItemCodec, chunks_of: ChunksOf | None
) -> Converted:
    """The same for a record with its data in chunks."""
    chunks: list[Chunk] = []

    def kept(key: str, record_id: str, count: int) -> list[Chunk]:
        chunks.extend(chunks_of(key, record_id, count) if chunks_of else ())
        return chunks

    try:
        content = whole(record, kept)
    except Refused as error:
        raise ValueError(str(error)) from None
    rows, t0 = _rows(content)
    more = _more(content, record, chunks, t0)
    rest = Rest(len(rows), record.format, record.slot, record.stripe, canonical(more))
    ordered = sorted(chunks, key=lambda each: each.number)
    items = [item, *(codec.item_of(chunk) for chunk in ordered)]
    own = items[:1] if _lies_elsewhere(record) else items
    try:
        same = [each.attributes for each in restored(rows, rest, codec)] == [
            each.attributes for each in own
        ]
    except ValueError:
        same = False
    return Converted(rows, rest if same else Rest(len(rows), items=_text(items)))


def _lies_elsewhere(record: Record) -> bool:
    """Whether the data of a record is in chunks under another of its event's keys."""
    manifest = manifest_in(record.data, record.format)
    return manifest is not None and manifest.key != record.key


def alone(item: StoredItem) -> Rest:
    """What holds an item that is no record's and no chunk's."""
    return Rest(0, items=_text([item]))


def restored(rows: Sequence[EventRow], rest: Rest, codec: ItemCodec) -> list[StoredItem]:
    """The items that `rows` and `rest` were made of: that of a record, then those of its chunks.

    Raises ValueError if they do not belong together, or if this Python's zlib compresses otherwise
    than that by which they were stored.
    """
    if rest.items is not None:
        items = held(rest)
        first = codec.parse(items[0]) if len(items) > 1 else None
        return items[:1] if isinstance(first, Record) and _lies_elsewhere(first) else items
    return [codec.item_of(each) for each in contents(rows, rest)]


def held(rest: Rest) -> list[StoredItem]:
    """The items that are held whole: also the chunks of a record whose data lies under another key,
    by which its rows can be compared. These are restored with that key's record.
    """
    return [
        StoredItem(each["pk"]["S"], each["sk"]["S"], each)
        for each in json.loads(rest.items or "[]")
    ]


def contents(rows: Sequence[EventRow], rest: Rest) -> list[Record | Chunk]:
    """The record that `rows` and `rest` were made of, then its chunks, where `rest` has no items.
    Raises ValueError as `restored` does.
    """
    _check(rows, rest)
    more: dict[str, Any] = json.loads(rest.more) if rest.more else {}
    form = _form(rest.format)
    data = _data(rows, form, more)
    record = _record(rows, rest, more, data)
    if "parts" not in more or data is None:
        return [record]
    first = rows[0]
    chunks = _chunks(first.record, data, more)
    expanded = len(data) if form == FORMAT_PACKET else len((first.payload or "").encode())
    total = summed(chunk.digest for chunk in chunks)
    manifest = ChunkManifest(more["of"], len(chunks), len(data), expanded, total)
    whole_record = replace(record, data=manifest.encode())
    return [whole_record, *(chunks if more["of"] == first.key else ())]


def whole_of(rows: Sequence[EventRow], rest: Rest, codec: ItemCodec) -> Record:
    """The record that `rows` and `rest` were made of, with its data, but as this Python compresses
    it: equal in what it tells, not bit for bit. Raises ValueError if they do not belong together.
    """
    _check(rows, rest)
    more: dict[str, Any] = json.loads(rest.more) if rest.more else {}
    record = _record(rows, rest, more, None)
    if rest.items is not None:
        one = codec.parse(held(rest)[0])
        if not isinstance(one, Record):
            raise ValueError(f"no record, but {one}")
        if not one.in_chunks:
            return one
        record, more = one, {"t0": 0}
    form = _form(record.format)
    return replace(record, data=_data(rows, form, more, exact=False), format=form)


def _check(rows: Sequence[EventRow], rest: Rest) -> None:
    """Raise ValueError unless the rows are one record's."""
    first = rows[0]
    of = first.key, first.record, first.shard
    if len(rows) > 1 and any((row.key, row.record, row.shard) != of for row in rows):
        raise ValueError(f"rows of several records where one has {rest.rows}")


def _form(form: str | None) -> str | None:
    return form.removeprefix(CHUNKED) if form else None


def _record(
    rows: Sequence[EventRow], rest: Rest, more: dict[str, Any], data: bytes | None
) -> Record:
    first = rows[0]
    return Record(
        key=first.key,
        id=first.record,
        shard=first.shard,
        ts=first.ts,
        n=len(rows),
        amount=first.value if len(rows) == 1 else sum(row.value for row in rows),
        digest=first.digest,
        data=data,
        format=rest.format,
        keys=tuple(more.get("keys", ())),
        slot=rest.slot,
        plain="plain" in more,
        stripe=rest.stripe,
    )


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
    return text_digest(spaced(item.attributes))


def text_digest(text: str) -> int:
    """The same of the attributes' text."""
    return int.from_bytes(blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest(), "big")


def event_digest(key: str, record: str, index: int | None) -> int:
    """A digest of the name of an event, below 2^128."""
    text = json.dumps([key, record, index])
    return int.from_bytes(blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest(), "big")


def added(total: int, digest: int) -> int:
    """The sum of digests modulo 2^128."""
    return (total + digest) % _DIGESTS


def _rows(record: Record) -> tuple[list[EventRow], int | None]:
    """The rows of a record that is whole, and of a packet what it counts its times from (ms)."""
    key, id_, shard, digest = record.key, record.id, record.shard, record.digest
    if record.format == FORMAT_JSON and record.data is not None and record.n == 1:
        try:
            payload = record.data.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"record {id_!r} cannot be unpacked: {error}") from None
        row = EventRow(key, id_, None, record.ts, record.amount, payload, None, shard, digest)
        return [row], None
    if record.format == FORMAT_PACKET:
        try:
            t0, events = packed_events(record)
        except Refused as error:
            raise ValueError(f"record {id_!r} cannot be unpacked: {error}") from None
        check_held(record, len(events), sum(amount for _, amount, _ in events))
        return [
            EventRow(key, id_, index, ts, amount, payload, None, shard, digest)
            for index, (ts, amount, payload) in enumerate(events)
        ], t0
    return [_row(record, event) for event in events_of(record)], None


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


def _more(
    content: Record, record: Record, chunks: Sequence[Chunk], t0: int | None
) -> dict[str, Any]:
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
        more["t0"] = t0
    if content.logged or content.format in (FORMAT_PACKET, FORMAT_DEFLATED):
        more["sum"] = _sum(data)
    if manifest := manifest_in(record.data, record.format):
        ordered = sorted(chunks, key=lambda each: each.number)
        more["of"] = manifest.key
        more["parts"] = [[each.shard, len(each.data)] for each in ordered]
    return more


def _data(
    rows: Sequence[EventRow], form: str | None, more: dict[str, Any], *, exact: bool = True
) -> bytes | None:
    """The data of a record, before it is divided into chunks. `exact` is bit for bit."""
    first, wanted = rows[0], more.get("sum") if exact else None
    if form == FORMAT_PACKET:
        t0 = more["t0"]
        entries = [[row.ts - t0, format_amount(row.value), row.payload] for row in rows]
        return _deflated(canonical([t0, entries]).encode(), wanted)
    if form in LOGS:
        t0 = more["t0"]
        logged = [
            [row.ts - t0, format_amount(row.value), row.payload, sent]
            for row, sent in zip(rows, more["sent"], strict=True)
        ]
        text = canonical([t0, logged]).encode()
        return base64.b64decode(more["ids"]) + _deflated(text, wanted)
    if form == FORMAT_REFERENCE and first.payload_ref is not None:
        of = json.loads(first.payload_ref)
        return Reference(of["bucket"], of["key"], of["bytes"], of["sha256"]).encode()
    if first.payload is None:
        return None
    text = first.payload.encode()
    return _deflated(text, wanted) if form == FORMAT_DEFLATED else text


def _deflated(text: bytes, wanted: str | None) -> bytes:
    if wanted is None:
        return zlib.compress(text, 0)
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
