"""All frames of a Zstandard file are read, wherever its bytes are cut."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyroll.errors import UsageError
from tallyroll.model.formats import zstandard_frames
from tallyroll.model.formats.zstandard_frames import (
    MODULE,
    PART_BYTES_MAX,
    DamagedZstandard,
    expanded,
)

zstd: Any = import_module(MODULE)
contents = st.lists(st.binary(max_size=40), min_size=1, max_size=5)


def packed(contents: Iterable[bytes]) -> bytes:
    return b"".join(zstd.compress(content) for content in contents)


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    bounds = [0, *sorted(places), len(data)]
    return [data[first:last] for first, last in pairwise(bounds)]


@given(contents, st.lists(st.integers(0, 200), max_size=4))
def test_all_frames_are_read(contents: list[bytes], places: list[int]) -> None:
    data = packed(contents)
    assert b"".join(expanded(cut(data, (min(at, len(data)) for at in places)))) == b"".join(
        contents
    )


@given(contents, st.integers(1, 8))
def test_a_cut_end_is_found(contents: list[bytes], missing: int) -> None:
    with pytest.raises(DamagedZstandard, match="truncated in frame"):
        list(expanded([packed([*contents, b"the last"])[:-missing]]))


def test_garbage_is_found_after_what_stands_before_it() -> None:
    found: list[bytes] = []
    with pytest.raises(DamagedZstandard, match="in frame 2"):
        found.extend(expanded([packed([b"good"]) + b"junk junk"]))
    assert found == [b"good"]


def test_what_shrank_a_thousandfold_is_read_in_parts() -> None:
    parts = list(expanded([packed([bytes(5 * PART_BYTES_MAX)])]))
    assert sum(map(len, parts)) == 5 * PART_BYTES_MAX
    assert max(map(len, parts)) <= PART_BYTES_MAX


def test_a_python_without_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zstandard_frames, "MODULE", "no_such_package.zstd")
    with pytest.raises(UsageError, match=r"pip install 'tallyroll\[load\]'"):
        list(expanded([b"x"]))
