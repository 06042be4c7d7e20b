"""Compressed bodies: what one may hold, and what is rejected unexpanded."""

from __future__ import annotations

import json
import tracemalloc
import zlib
from base64 import b64decode, b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyroll.errors import Rejected
from tallyroll.limits import EXPANDED_BYTES_MAX
from tallyroll.model.events import Packet, decode, digest
from tallyroll.model.foreign.mappings import Mappings
from tallyroll.model.foreign.reading import read
from tallyroll.model.formats.compression import Compressor, compressed
from tallyroll.reasons import Reason
from tests.harness.pipeline import NOW

PACKET = json.dumps({"v": 1, "id": "p", "key": "k", "t0": NOW, "events": [[0], [5, 2.5, "é"]]})


def wrapped(data: bytes) -> str:
    return json.dumps({"v": 2, "zlib": b64encode(data).decode()})


def rejection(body: str) -> tuple[Reason, str]:
    with pytest.raises(Rejected) as caught:
        decode(body)
    return caught.value.reason, caught.value.detail


def test_a_compressed_packet_is_the_packet() -> None:
    plain, shrunk = decode(PACKET), decode(compressed(PACKET))
    assert shrunk == plain
    assert digest(shrunk) == digest(plain)
    assert isinstance(shrunk, Packet)
    assert shrunk.expanded == len(PACKET)


def test_any_zlib_stream_of_any_level_is_read() -> None:
    for level in range(10):
        assert decode(wrapped(zlib.compress(PACKET.encode(), level))) == decode(PACKET)


@given(st.lists(st.text(max_size=50), max_size=6), st.text(max_size=50))
def test_a_text_that_is_compressed_in_parts_is_the_whole_text(parts: list[str], rest: str) -> None:
    parts = [part.encode(errors="replace").decode() for part in parts]
    rest = rest.encode(errors="replace").decode()
    compressor = Compressor()
    for part in parts:
        compressor.add(part)
    told = compressor.size
    body = compressor.body(rest)
    assert zlib.decompress(b64decode(json.loads(body)["zlib"])).decode() == "".join(parts) + rest
    assert len(body) <= told + 4 + (len(rest.encode()) + 16) * 4 // 3
    assert compressor.characters == len("".join(parts)) + len(rest)
    assert compressor.raw == len(("".join(parts) + rest).encode())


def test_the_size_so_far_is_that_of_a_body_that_ends_here() -> None:
    compressor = Compressor()
    compressor.add(PACKET * 100)
    size = compressor.size
    assert 0 <= len(compressor.body("")) - size <= 4


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ('{"v":2,"zlib":7}', "zlib must be a text in base64"),
        ('{"v":2,"zlib":"*"}', "zlib is not base64"),
        (wrapped(b"nonsense"), "zlib is no zlib stream: Error -3"),
        (wrapped(zlib.compress(PACKET.encode())[:-1]), "zlib is not one whole zlib stream"),
        (wrapped(zlib.compress(PACKET.encode()) + b"x"), "zlib is not one whole zlib stream"),
        (wrapped(zlib.compress(b"\xff")), "zlib holds no UTF-8"),
        (wrapped(zlib.compress(b" \n")), "zlib holds nothing"),
        (compressed('{"key":"k"}'), "only packets can be compressed"),
    ],
)
def test_what_is_no_compressed_packet_is_rejected(body: str, detail: str) -> None:
    reason, told = rejection(body)
    assert reason is Reason.BAD_COMPRESSION
    assert told.startswith(detail)


def test_what_is_compressed_twice_is_of_no_known_version() -> None:
    assert rejection(compressed(compressed(PACKET)))[0] is Reason.UNKNOWN_VERSION


def test_what_is_wrong_with_the_packet_is_told_as_of_any_other() -> None:
    assert rejection(compressed(PACKET.replace('"k"', '"~k"')))[0] is Reason.BAD_KEY


def test_a_bomb_is_not_expanded() -> None:
    bomb = wrapped(zlib.compress(b" " * 64 * 1024 * 1024, 9))
    tracemalloc.start()
    try:
        reason, told = rejection(bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (reason, told) == (
        Reason.BAD_COMPRESSION,
        f"zlib expands to more than {EXPANDED_BYTES_MAX} bytes",
    )
    assert peak < 4 * EXPANDED_BYTES_MAX


def test_the_largest_text_is_read() -> None:
    padded = PACKET + " " * (EXPANDED_BYTES_MAX - len(PACKET))
    assert decode(compressed(padded)) == decode(PACKET)
    assert rejection(compressed(padded + " "))[0] is Reason.BAD_COMPRESSION


@pytest.mark.parametrize("fields", [{"key": "detail.id"}, {"keys": ["{detail.id}"]}])
def test_no_mapping_applies_to_it(fields: Any) -> None:
    mappings = Mappings().with_latest(json.dumps(fields))
    assert read(compressed(PACKET), mappings, NOW) == decode(PACKET)


def test_a_message_with_other_fields_is_not_compressed() -> None:
    body = compressed(PACKET)[:-1] + ',"key":"k"}'
    assert rejection(body)[0] is Reason.UNKNOWN_VERSION
