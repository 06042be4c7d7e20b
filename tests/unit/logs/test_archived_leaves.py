"""The proof of an archive refuses leaves that no writer can have put where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyroll import limits
from tallyroll.adapters.dynamodb.items import jsonable, record_item
from tallyroll.archive import proof
from tallyroll.logs.entries import LogEntry, SlotName, entries_in, leaf_record, slot_of
from tallyroll.logs.proving import ROW_BYTES, misplaced, row_of, strange
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tests.harness.archives import Archived, sealed_and_exported
from tests.harness.pipeline import record_with
from tests.unit.archive.test_recount import archived, findings, rewrite
from tests.unit.logs.test_logged_keys import BODIES, LOGGED, numbered, stored

__all__ = ["numbered"]
Leaves = Callable[[Spec, SlotName, Sequence[LogEntry]], list[Record]]


def at(*positions: int, end: int | None = None) -> Leaves:
    """The entries in leaves at these positions."""

    def leaves(spec: Spec, slot: SlotName, some: Sequence[LogEntry]) -> list[Record]:
        cuts = [*range(len(positions)), len(some)]
        return [
            leaf_record(spec, slot, position, some[first:last], ends=position == end)
            for position, (first, last) in zip(positions, pairwise(cuts), strict=True)
        ]

    return leaves


def in_another_slot(spec: Spec, slot: SlotName, some: Sequence[LogEntry]) -> list[Record]:
    earlier = SlotName(slot.key, slot.number - 1)
    return [
        leaf_record(spec, slot, 0, some[:4], ends=False),
        leaf_record(spec, earlier, 0, some[4:], ends=False),
    ]


def of_no_slot(spec: Spec, slot: SlotName, some: Sequence[LogEntry]) -> list[Record]:
    """Two ids would be of one slot."""
    leaf = leaf_record(spec, slot, 0, some, ends=False)
    group, place, position = leaf.id.removeprefix("~log.").split(".")
    name = f"~log.{int(group) - 1:013d}.{int(place) + 5:02d}.{position}"
    return [replace(leaf, id=name, size=0)]


CASES: dict[str, tuple[Leaves, list[str]]] = {
    "whole": (at(0, 1, 2), []),
    "ended": (at(0, 1, 2, end=2), []),
    "a gap": (at(0, 2), ["02' of the log of key 'k': no leaf is directly below it in its slot"]),
    "no first": (at(1, 2), ["01' of the log of key 'k': no leaf is directly below it in its slot"]),
    "after an end": (at(0, 1, end=0), ["01' of the log of key 'k': it is above the end"]),
    "after an end and a gap": (at(0, 3, end=0), ["03' of the log of key 'k': it is above the end"]),
    "outside its slot": (in_another_slot, [" ms, outside its slot"]),
    "of no slot": (of_no_slot, ["its window has no such log"]),
}


def damaged(leaves: Leaves) -> Archived:
    """An archive with other leaves than those of the table; each is in a file of its own."""
    pipeline, window = sealed_and_exported(BODIES, settings=LOGGED)
    (leaf,) = stored(pipeline)
    some = entries_in(leaf)
    put = leaves(pipeline.spec(), slot_of(pipeline.spec(), "k", some[0].sent), some)
    others = [item for item in archived(pipeline) if not item["sk"]["S"].startswith("e#")]
    rewrite(pipeline, window, others, *([jsonable(record_item(each))] for each in put))
    return Archived(pipeline, window)


@pytest.mark.usefixtures("numbered")
@pytest.mark.parametrize(("leaves", "wrong"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_proof_names_what_cannot_be(
    leaves: Leaves, wrong: list[str], partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if partitions > 1:
        monkeypatch.setattr(proof, "PARTITION_ITEMS", 2)
        monkeypatch.setattr(proof, "DIGESTS_HELD", 1)
        monkeypatch.setattr(proof, "NOTE_EVERY_MS", 0)
    scene = damaged(leaves)
    found = findings(scene.pipeline, scene.window)
    assert len(found) == len(wrong)
    assert all(text in each for text, each in zip(wrong, found, strict=True))
    assert all(".json.gz line 1: " in each for each in found)
    by_spec = leaves in (in_another_slot, of_no_slot)
    assert scene.findings() == ([] if by_spec else found)


@pytest.mark.usefixtures("numbered")
def test_no_leaf_is_behind_the_last_position() -> None:
    pipeline, _ = sealed_and_exported(BODIES, settings=LOGGED)
    (leaf,) = stored(pipeline)
    positions = range(limits.LOG_POSITIONS - 1, limits.LOG_POSITIONS + 1)
    found = [replace(leaf, id=f"{leaf.id[:-2]}{at}", size=0) for at in positions]
    last, behind = (strange(pipeline.spec(), each) for each in found)
    assert (last, (behind or "").partition(": ")[2]) == (None, "its window has no such log")


PLACES = st.sets(st.tuples(st.integers(0, 3), st.integers(0, 6), st.booleans()), max_size=12)


@given(PLACES)
def test_what_is_misplaced_is_above_a_gap_or_an_end(places: set[tuple[int, int, bool]]) -> None:
    rows = sorted(bytes([slot] * (ROW_BYTES - 2)) + bytes([at, ends]) for slot, at, ends in places)
    wrong = set()
    for slot, position, _ in places:
        below = {at: ends for of, at, ends in sorted(places) if of == slot and at < position}
        if any(below.values()) or (position and position - 1 not in below):
            wrong.add((slot, position))
    assert {(each[0], each[-3]) for each in misplaced(rows)} == wrong


def test_a_row_is_of_a_leaf_alone() -> None:
    leaf = record_with("~log.0000000000000.00.31", format="log1e+zlib")
    row = row_of(leaf)
    assert row
    assert (len(row), row[-2:]) == (ROW_BYTES, bytes([31, True]))
    assert row_of(replace(leaf, id="~log.1")) is None
    assert row_of(replace(leaf, format=None)) is None
    assert row_of(replace(leaf, key="l"))[:-2] != row[:-2]  # type: ignore[index]
