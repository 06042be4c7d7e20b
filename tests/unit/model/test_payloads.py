from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tallyroll.adapters.dynamodb.items import chunk_item, record_item
from tallyroll.errors import Refused, Throttled
from tallyroll.limits import (
    CHUNK_BYTES_MIN,
    EVENT_KEYS_MAX,
    INLINE_BYTES_MAX,
    ITEM_BYTES_MAX,
    TRANSACTION_ACTIONS_MAX,
)
from tallyroll.model.events import Event, Packet
from tallyroll.model.formats.payloads import (
    CHUNKED,
    LAYOUT,
    Chunk,
    PayloadLayout,
    inflated,
    manifest_in,
)
from tallyroll.model.items import sized
from tallyroll.model.messages import Message
from tallyroll.model.records import Record, record_of
from tallyroll.model.stored import StoredEvent, StoredPacket, stored, whole
from tests.harness.item_sizes import item_bytes
from tests.harness.payloads import noise
from tests.harness.pipeline import NOW, spec_of

SPEC = spec_of(shards=16)
MESSAGE = Message("m1", "{}", NOW, 1, "r1")


def record_for(
    payload: str, layout: PayloadLayout = LAYOUT, others: tuple[str, ...] = ()
) -> Record:
    text = json.dumps(payload)
    event = Event("k", "e1", NOW, 10**6, text, others)
    return sized(record_of(event, MESSAGE, SPEC, None, layout))


def payload_of(record: Record, chunks: Sequence[Chunk] | None = None) -> str | None:
    kept = record.chunks if chunks is None else chunks
    found = stored(whole(replace(record, attachments=()), lambda *_: kept))
    assert isinstance(found, StoredEvent)
    return found.payload


def test_small_payloads_are_stored_as_they_always_were() -> None:
    record = record_for("x" * (LAYOUT.compress_over - 2))
    assert (record.format, record.data) == ("json", json.dumps("x" * 4_094).encode())
    assert set(record_item(record)) == {"pk", "sk", "ts", "n", "v", "h", "data", "fmt", "m"}


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("x" * 4_095, "json+zlib"),
        (noise(4_000), "json"),
        (noise(4_200), "json"),  # it would save less than a write unit
        (noise(8_000), "json+zlib"),
        (noise(84_000), "json+zlib"),
        (noise(90_000), "chunks1:json+zlib"),
        (noise(1_000_000), "chunks1:json+zlib"),
        ("x" * 1_000_000, "json+zlib"),
    ],
)
def test_a_payload_is_stored_by_its_size_and_read_back(text: str, form: str) -> None:
    record = record_for(text)
    assert record.format == form
    assert payload_of(record) == json.dumps(text)
    assert record.weight == (len(json.dumps(text)) if record.chunks else len(record.data or b""))


def test_no_threshold_decides_whether_an_event_is_a_duplicate() -> None:
    text = noise(100_000)
    layouts = [
        PayloadLayout(10**6, 10**6),
        PayloadLayout(1_024, 10**6),
        PayloadLayout(10**6, 24_576),
        LAYOUT,
    ]
    records = [record_for(text, layout) for layout in layouts]
    assert len({record.format for record in records}) == 4
    assert len({(record.digest, record.shard, record.id) for record in records}) == 1
    assert {payload_of(record) for record in records} == {json.dumps(text)}


def test_chunks_lie_on_the_shards_after_the_record() -> None:
    record = record_for(noise(300_000))
    shards = [chunk.shard for chunk in record.chunks]
    assert len(shards) == 18
    assert shards[:15] == [(record.shard + number) % 16 + 1 for number in range(15)]
    assert record.shard not in shards[:15]
    sizes = [len(chunk.data) for chunk in record.chunks]
    assert CHUNK_BYTES_MIN <= min(sizes) <= max(sizes) <= min(sizes) + 1


@pytest.mark.parametrize("others", [0, 1, EVENT_KEYS_MAX - 1])
def test_the_largest_event_is_one_transaction(others: int) -> None:
    keys = tuple(f"k{number:02}" for number in range(others))
    record = record_for(noise(1_048_000), PayloadLayout(10**7, 24_576, CHUNK_BYTES_MIN), keys)
    actions = 1 + 2 * (1 + others) + len(record.chunks)
    assert actions <= TRANSACTION_ACTIONS_MAX
    assert payload_of(record) == json.dumps(noise(1_048_000))
    assert [(each.chunks, each.data) for each in record.others] == [((), record.data)] * others


def test_the_largest_inline_payload_fits_into_an_item() -> None:
    layout = PayloadLayout(10**7, INLINE_BYTES_MAX)
    event = Event("k" * 512, "i" * 512, NOW, 10**6, json.dumps(noise(INLINE_BYTES_MAX - 2)))
    record = sized(record_of(event, MESSAGE, SPEC, None, layout))
    assert record.format == "json"
    assert record.size <= ITEM_BYTES_MAX


def test_the_size_of_a_chunk_is_that_of_its_item() -> None:
    for key in ("k", "küche"):
        chunk = Chunk(key, "ä1", 12, 7, b"x" * 999)
        assert chunk.size == item_bytes(chunk_item(chunk))


def test_a_large_packet_is_stored_in_chunks() -> None:
    entries = tuple((number, 10**6, json.dumps(noise(200, number))) for number in range(900))
    packet = Packet("k", "p1", NOW, entries)
    record = record_of(packet, MESSAGE, SPEC)
    assert record.format == "chunks1:packet1+zlib"
    assert (record.packed, record.n) == (True, 900)
    found = stored(whole(replace(record, attachments=()), lambda *_: record.chunks))
    assert isinstance(found, StoredPacket)
    assert [event.payload for event in found.events] == [payload for _, _, payload in entries]


def test_missing_and_changed_chunks_are_an_error() -> None:
    record = record_for(noise(150_000))
    first, second, *rest = record.chunks
    what = "the payload of event 'e1' of key 'k' is damaged: "
    for chunks, why in (
        ([second, *rest], "chunk 0 of 9 is missing"),
        ([], "chunk 0 of 9 is missing"),
        ([replace(first, data=first.data[:-1]), second, *rest], "not those that were written"),
        ([replace(first, data=b"\0" * len(first.data)), second, *rest], "not those that were"),
        (
            [replace(first, number=1), replace(second, number=0), *rest],
            "its 9 chunks are not those that were written",
        ),
    ):
        with pytest.raises(Refused, match=what + ".*" + why) as refused:
            payload_of(record, chunks)
        assert refused.value.code == "DamagedPayload"


@pytest.mark.parametrize(
    "data", [None, b"", b"{}", b"\xff", b"\xff[]", b"\xff[1,2,3,4,5]", b"\xff7"]
)
def test_a_damaged_manifest_is_an_error(data: bytes | None) -> None:
    record = replace(record_for(noise(100_000)), data=data)
    assert record.weight == len(data or b"")
    with pytest.raises(ValueError, match="manifest of its chunks is damaged"):
        manifest_in(record.data, record.format)
    with pytest.raises(Refused, match="manifest of its chunks is damaged"):
        payload_of(record)


def test_what_fails_while_chunks_are_read_passes() -> None:
    def fails(*_: object) -> Sequence[Chunk]:
        raise Throttled("too many")

    with pytest.raises(Throttled):
        whole(record_for(noise(100_000)), fails)


def test_damaged_and_unknown_data_are_an_error() -> None:
    plain = record_for("x")
    for data, form in ((b"x", "json+zlib"), (b"\xff", "json"), (b"{}", "json+brotli")):
        with pytest.raises(Refused, match="the payload of event 'e1' of key 'k' is damaged"):
            stored(replace(plain, data=data, format=form))
    with pytest.raises(ValueError, match="unknown to this release"):
        inflated(b"", CHUNKED)


def test_the_release_before_shows_no_manifest_as_a_payload() -> None:
    """It takes the data of every format but that of packets for the text of the payload."""
    for text in ("x" * 5_000, noise(100_000)):
        data = record_for(text).data
        assert data
        with pytest.raises(UnicodeDecodeError):
            data.decode()
    packed = record_of(
        Packet("k", "p1", NOW, ((0, 10**6, json.dumps(noise(200_000))),)), MESSAGE, SPEC
    )
    assert packed.chunks
    assert packed.data
    with pytest.raises(UnicodeDecodeError):
        packed.data.decode()
    with pytest.raises(zlib.error):
        zlib.decompress(packed.data)
