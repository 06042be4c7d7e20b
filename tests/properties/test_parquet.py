"""A law of archives as Parquet: rows and rest give every item back, bit for bit."""

from __future__ import annotations

from itertools import count
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tallyroll.adapters.dynamodb.items import CODEC, parse_item
from tallyroll.archive.parquet.rows import alone, converted, held, restored, rows_of
from tallyroll.client.packing import pack
from tallyroll.model.events import Event, decode, event_body
from tallyroll.model.formats.json_texts import spaced
from tallyroll.model.formats.payloads import Chunk, PayloadLayout
from tallyroll.model.items import StoredItem
from tallyroll.model.messages import Message
from tallyroll.model.records import Record, all_records, record_of
from tests.harness.pipeline import NOW, spec_of
from tests.properties.strategies import any_event, packable_events

SMALL = PayloadLayout(compress_over=8, chunk_over=20, chunk_bytes=7)
# What another release may have stored: an attribute of its own, or a number in another form.
OTHERWISE: list[dict[str, Any]] = [
    {},
    {"new": {"S": "of a later release"}},
    {"n": {"N": "01"}},
    {"m": {"N": "7"}},
    {"s": {"N": "3"}},
]
layouts = st.sampled_from([PayloadLayout(), SMALL])


def record_by(body: str, number: int, layout: PayloadLayout) -> Record:
    message = Message(f"m{number}", body, NOW, 1, "")
    return record_of(decode(body), message, spec_of(), layout=layout)


@given(
    st.lists(any_event, max_size=4),
    st.lists(packable_events, max_size=12),
    st.lists(st.sampled_from(["a", "b", "ä.2"]), max_size=3, unique=True),
    layouts,
    st.sampled_from(OTHERWISE),
)
def test_every_item_comes_back(
    singles: list[Event],
    packed: list[Event],
    keys: list[str],
    layout: PayloadLayout,
    otherwise: dict[str, Any],
) -> None:
    packed = [event for event in packed if event.ts is not None and event.ts in spec_of().span]
    numbers = count()
    bodies = [event_body(event) for event in singles]
    bodies += pack(packed, lambda: f"p{next(numbers)}")
    records = [record_by(body, number, layout) for number, body in enumerate(bodies)]
    if singles and len(keys) > 1:
        records[0] = with_keys(records[0], sorted(keys))
    for record in records:
        chunks = list(record.chunks)
        for each in all_records([record]):
            item = CODEC.item_of(each)
            # Another number of events would be another packet.
            changed = {k: v for k, v in otherwise.items() if k != "n" or each.n == 1}
            item = StoredItem(item.pk, item.sk, {**item.attributes, **changed})
            stored = parse_item(item.attributes)
            assert isinstance(stored, Record)
            assert CODEC.spelled(stored, item) in (None, spaced(item.attributes))
            made = converted(stored, item, CODEC, lambda key, *_, some=chunks: of(some, key))
            if CODEC.spelled(stored, item) and not stored.in_chunks:
                assert converted(stored, item, CODEC, usual=True) == made
            own = [CODEC.item_of(chunk) for chunk in chunks if chunk.key == each.key]
            found = restored(*made, CODEC)
            assert found == [item, *own]
            assert [CODEC.encode(one) for one in found[1:]] == [*map(CODEC.encode, own)]
            assert (made.rest.items is None) == (changed.keys().isdisjoint({"new", "n"}))
            if made.rest.items is not None:
                assert rows_of(held(made.rest), CODEC) == made.rows, (
                    "also without the manifest's key"
                )
            elif own or not chunks:
                assert rows_of(found, CODEC) == made.rows
            assert len(made.rows) == each.n
            assert sum(row.value for row in made.rows) == each.amount


def of(chunks: list[Chunk], key: str) -> list[Chunk]:
    return [chunk for chunk in chunks if chunk.key == key]


def with_keys(record: Record, keys: list[str]) -> Record:
    """The record as that of an event of several keys, of which the least has its chunks."""
    payload = str([*range(0, 4_000, 97)])
    event = Event(keys[0], record.id, record.ts, record.amount, payload, (*keys[1:],))
    found = record_of(event, Message("m", "", NOW, 1, ""), spec_of(), layout=SMALL)
    assert found.chunks
    assert found.others
    return found


@given(any_event)
def test_any_other_item_is_held_whole(event: Event) -> None:
    item = CODEC.item_of(record_by(event_body(event), 1, SMALL))
    assert restored([], alone(item), CODEC) == [item]
