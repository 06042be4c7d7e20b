from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.adapters.dynamodb.items import (
    Item,
    gate_item,
    jsonable,
    parse_item,
    record_item,
    tally_key,
    tombstone_item,
)
from tallyroll.model.items import Gate, sized, tombstone_bytes
from tallyroll.model.records import Record
from tallyroll.model.retractions import Tombstone
from tallyroll.model.tallies import Tally
from tests.harness.item_sizes import item_bytes
from tests.harness.pipeline import record_with, spec_of

RECORD = record_with("e.1#2", "a.7", n=3, amount=-2_500_000, data=b'{"a":1}', format="json")


def test_a_record_is_read_back_without_its_series() -> None:
    assert parse_item(record_item(RECORD)) == replace(RECORD, series=())
    bare = record_with()
    assert parse_item(record_item(bare)) == replace(bare, series=())


def test_what_a_retraction_needs_is_read_back() -> None:
    least = record_with(key="a", keys=("a", "b", "ü"), slot=30, stripe=14)
    for record in (least, replace(least, key="b", keys=("a",), slot=0)):
        found = parse_item(record_item(record))
        assert isinstance(found, Record)
        assert found == replace(record, series=())
        assert found.stripe == 14


def test_a_record_that_an_earlier_release_stored_has_none_of_it() -> None:
    item = record_item(RECORD)
    assert not item.keys() & {"g", "m", "s"}
    found = parse_item(item)
    assert isinstance(found, Record)
    assert (found.keys, found.slot, found.stripe) == ((), None, None)


@pytest.mark.parametrize("stripe", [1, 9_999, 10_000])
@pytest.mark.parametrize("changes", [{}, {"keys": ("k", "é.1")}, {"keys": ("a",)}, {"slot": 30}])
def test_a_record_is_sized_before_its_stripe_is_known(changes: dict[str, Any], stripe: int) -> None:
    record = record_with("e.1#2", n=3, data=b'{"a":1}', format="json", **changes)
    stored = item_bytes(record_item(replace(record, stripe=stripe)))
    assert stored <= sized(record).size <= stored + 1


def test_a_record_is_read_back_from_an_archive() -> None:
    line = json.dumps(jsonable(record_item(RECORD)))
    assert parse_item(json.loads(line)) == replace(RECORD, series=())


def test_a_stripe_of_a_tally() -> None:
    key = tally_key(spec_of(), "a.7", 3)
    item = {**key, "n": {"N": "3"}, "v": {"N": "1.5"}, "m0": {"N": "1"}, "m59": {"N": "2"}}
    assert parse_item(item) == Tally("a.7", 3, 1_500_000, ((0, 1), (59, 2)))


def test_a_gate() -> None:
    assert parse_item(gate_item(7)) == Gate(7, open=True)


@pytest.mark.parametrize(
    "item",
    [
        {},
        {"pk": {"S": "a.1"}},
        {"pk": {"S": "a"}, "sk": {"S": "e#1"}},
        {"pk": {"S": "a.x"}, "sk": {"S": "e#1"}},
        {"pk": {"S": "a.1"}, "sk": {"S": "x#1"}},
        {"pk": {"S": "~t.1"}, "sk": {"S": "t#a.1"}},
        {"pk": {"S": "~t.1"}, "sk": {"S": "t#a.1"}, "n": {"N": "1"}, "v": {"N": "x"}},
        {"pk": {"S": "~g.1"}, "sk": {"S": "g#"}},
        {**jsonable(record_item(RECORD)), "h": {"B": "no base64!"}},
        {"pk": "a.1", "sk": "e#1"},
    ],
)
def test_what_is_none_of_our_items(item: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="item "):
        parse_item(item)


def test_metered_bytes() -> None:
    item: Item = {"pk": {"S": "ü"}, "n": {"N": "-1200"}, "b": {"B": b"123"}, "o": {"BOOL": True}}
    assert item_bytes(item) == (2 + 2) + (1 + 3) + (1 + 3) + (1 + 1)
    assert item_bytes({"ts": {"N": "1795163400007"}}) == 2 + 8


@pytest.mark.parametrize("index", [None, 0, 120])
def test_a_tombstone_takes_the_bytes_that_are_reckoned(index: int | None) -> None:
    gone = Tombstone("k", "é", 12, 1_795_163_400_007, 1, -15, b"d" * 17, 7, 0, "ann", "ü", index)
    item = tombstone_item(gone)
    assert tombstone_bytes(gone) == item_bytes(item)
    assert parse_item(item) == gone
    assert parse_item(jsonable(item)) == gone
