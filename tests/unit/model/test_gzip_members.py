"""All members of a gzip file are read, wherever its bytes are cut."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Iterable, Iterator
from itertools import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyroll.model.formats import gzip_members
from tallyroll.model.formats.gzip_members import PART_BYTES_MAX, unzipped

MIB = 1024 * 1024
contents = st.lists(st.binary(max_size=40), min_size=1, max_size=5)


def zipped(contents: Iterable[bytes]) -> bytes:
    return b"".join(gzip.compress(content, mtime=0) for content in contents)


def cut(data: bytes, places: Iterable[int]) -> Iterator[bytes]:
    first = 0
    for place in sorted(places):
        yield data[first:place]
        first = place
    yield data[first:]


def read_until_error(chunks: Iterable[bytes]) -> tuple[bytes, str]:
    """What is read before the error, and the error."""
    found = b""
    try:
        for part in unzipped(chunks):
            found += part
    except (EOFError, zlib.error) as error:
        return found, str(error)
    pytest.fail("no error")


@given(contents, st.lists(st.integers(0, 400), max_size=8), st.integers(0, 5))
def test_the_contents_follow_one_another(
    contents: list[bytes], places: list[int], padding: int
) -> None:
    chunks = cut(zipped(contents) + bytes(padding), places)
    assert b"".join(unzipped(chunks)) == b"".join(contents)


@pytest.mark.parametrize("contents", [[b""], [b"abc"], [b"a" * 50, b"", b"b" * 50], [b"", b""]])
def test_every_chunk_boundary(contents: list[bytes]) -> None:
    data = zipped(contents)
    for place in range(len(data) + 1):
        assert b"".join(unzipped(cut(data, [place]))) == b"".join(contents)
    assert b"".join(unzipped(bytes([byte]) for byte in data)) == b"".join(contents)


@given(contents, st.data())
def test_a_file_that_ends_within_a_member_is_truncated(
    contents: list[bytes], data: st.DataObject
) -> None:
    whole, last = zipped(contents), zipped(contents[-1:])
    kept = data.draw(st.integers(1, len(last) - 1))
    found, error = read_until_error([whole[: len(whole) - len(last) + kept]])
    assert error == f"part {len(contents)} of the gzip data is truncated"
    assert found.startswith(b"".join(contents[:-1]))
    assert b"".join(contents).startswith(found)


@pytest.mark.parametrize("chunks", [[], [b""], [b"", b""]])
def test_a_file_without_a_member_is_truncated(chunks: list[bytes]) -> None:
    assert read_until_error(chunks) == (b"", "part 1 of the gzip data is truncated")


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("garbage", [b"x", b"\x00x", b"\x00\x00\x1f\x8b", b"\n", b"\x8b\x1f"])
def test_garbage_after_the_last_member_is_named(members: int, garbage: bytes) -> None:
    data = zipped(repeat(b"abc", members)) + garbage
    shown = garbage.lstrip(b"\x00")
    for chunks in ([data], [data[:-1], data[-1:]]):
        found, error = read_until_error(chunks)
        assert found == b"abc" * members
        assert error.startswith(
            f"after part {members} of the gzip data comes other data: {shown[:1]!r}"[:-1]
        )


def test_a_member_after_padding_is_garbage_as_gzip_has_it() -> None:
    found, error = read_until_error([zipped([b"a"]), bytes(10), zipped([b"b"])])
    assert found == b"a"
    assert error.startswith("after part 1 of the gzip data comes other data: b'\\x1f\\x8b")


@pytest.mark.parametrize("at", [1, 2, -8, -1])
def test_a_damaged_member_is_named(at: int) -> None:
    second = bytearray(zipped([b"second"]))
    second[at] ^= 0xFF
    _, error = read_until_error([zipped([b"first"]), bytes(second)])
    assert error.startswith("part 2 of the gzip data is damaged: ")


def test_a_member_that_unpacks_a_thousandfold_is_held_in_parts() -> None:
    data = zipped([b"\0" * (64 * MIB)])
    tracemalloc.start()
    try:
        sizes = list(map(len, unzipped([data])))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(sizes) == 64 * MIB
    assert max(sizes) == PART_BYTES_MAX
    assert peak < 4 * MIB


def test_many_small_members_are_copied_a_bounded_number_of_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """zlib copies what a member leaves; the bytes copied must grow as the file does."""

    copied: list[int] = []

    class Counting:
        def __init__(self, wbits: int) -> None:
            self._real = zlib.decompressobj(wbits)

        def __getattr__(self, name: str) -> object:
            return getattr(self._real, name)

        def decompress(self, data: bytes, length: int) -> bytes:
            part = self._real.decompress(data, length)
            copied.append(len(self._real.unused_data) + len(self._real.unconsumed_tail))
            return part

    monkeypatch.setattr(gzip_members, "decompressobj", Counting)
    work = []
    for members in (5_000, 20_000):
        copied.clear()
        assert b"".join(unzipped([zipped([b""]) * members])) == b""
        work.append(sum(copied))
    assert 0 < work[1] < 4.5 * work[0]
