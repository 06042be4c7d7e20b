"""Laws that hold for whatever producers send."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import count, pairwise

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tallyroll.adapters.dynamodb.actions import RecordPut
from tallyroll.adapters.dynamodb.items import jsonable, parse_item, record_item
from tallyroll.adapters.dynamodb.throughput import METERING
from tallyroll.client.packing import pack
from tallyroll.ingest.transactions import plan
from tallyroll.limits import (
    PACKET_BYTES_MAX,
    SHARDS_MAX,
    TRANSACTION_ACTIONS_MAX,
    TRANSACTION_BYTES_MAX,
)
from tallyroll.model.amounts import JsonFloat, format_amount, parse_amount, read_amount
from tallyroll.model.events import Event, Packet, decode, digest, event_body
from tallyroll.model.formats.json_texts import canonical
from tallyroll.model.items import sized
from tallyroll.model.messages import Message
from tallyroll.model.records import Record, increments_of, record_of
from tallyroll.model.sharding import STRATEGIES
from tallyroll.model.specs import strategy
from tallyroll.model.windows import Grid, iso, parse_instant, window_id, window_start
from tests.harness.item_sizes import item_bytes
from tests.harness.pipeline import NOW, spec_of
from tests.properties import strategies as some
from tests.tiers import examples

laws = settings(max_examples=examples(60))


# --- windows


@laws
@given(some.grids(), some.instants)
def test_every_instant_lies_in_exactly_one_window(grid: Grid, instant: int) -> None:
    span = grid.at(instant)
    assert instant in span
    assert grid.at(span.start) == span == grid.at(span.end - 1)
    assert grid.after(span).start == span.end
    assert span.start == 0 or grid.at(span.start - 1).end == span.start


@laws
@given(some.grids(), some.instants, st.integers(1, 20))
def test_windows_follow_each_other_without_gap(grid: Grid, instant: int, number: int) -> None:
    first = span = grid.at(instant)
    for _ in range(number):
        span = grid.after(span)
    found = list(grid.over(first.start, span.end))
    assert len(found) == number + 1
    assert all(one.end == other.start for one, other in pairwise(found))
    assert (found[0], found[-1]) == (first, span)


@laws
@given(some.grids(), some.lengths, some.instants)
def test_another_length_leaves_the_windows_that_are_made(
    grid: Grid, window_seconds: int, made_until: int
) -> None:
    made_until = grid.at(made_until).end
    assume(some.leads_to(grid, window_seconds, made_until))
    longer = grid.with_length(window_seconds, made_until)
    since, length = longer.lengths[-1]
    assert longer.lengths[:-1] == grid.lengths
    assert since >= made_until
    assert length == window_seconds * 1000
    assert longer.at(since - 1) == grid.at(since - 1)
    assert longer.at(since - 1).end == since == longer.at(since).start


@laws
@given(some.instants)
def test_ids_and_texts_name_instants(instant: int) -> None:
    assert window_start(window_id(instant)) == instant // 1000 * 1000
    assert parse_instant(iso(instant)) == instant


@laws
@given(some.instants, some.instants)
def test_ids_sort_as_times_do(one: int, other: int) -> None:
    assert (window_id(one) < window_id(other)) == (one // 1000 < other // 1000)


# --- amounts


@laws
@given(some.amounts)
def test_amounts_survive_their_text(amount: int) -> None:
    text = format_amount(amount)
    assert read_amount(text) == amount
    assert parse_amount(json.loads(text, parse_float=JsonFloat)) == amount


@laws
@given(st.lists(some.amounts, max_size=50))
def test_amounts_add_exactly(amounts: list[int]) -> None:
    total = 0
    for amount in amounts:
        total = read_amount(format_amount(total + amount))
    assert total == sum(amounts)


# --- suffixes


@laws
@given(some.ids, st.integers(1, 10_000), st.sampled_from(sorted(STRATEGIES)))
def test_a_suffix_is_in_range_and_stable(record_id: str, shards: int, name: str) -> None:
    shard = strategy(name)(record_id, shards)
    assert 1 <= shard <= shards
    assert strategy(name)("".join(record_id), shards) == shard


@laws
@given(some.any_event, st.integers(1, 99))
def test_a_redelivery_makes_the_same_record(event: Event, receives: int) -> None:
    message = Message("m1", event_body(event), NOW, 1, "r1")
    again = replace(message, receives=receives, receipt="r2")
    spec = spec_of(start=0, end=2**60)
    assert record_of(decode(again.body), again, spec) == record_of(event, message, spec)


# --- plan


@laws
@given(st.lists(some.records, max_size=300, unique_by=lambda record: (record.key, record.id)))
def test_plans_respect_all_limits_and_lose_nothing(records: list[Record]) -> None:
    commits = plan(spec_of(), records, METERING)
    planned = [record for commit in commits for record in commit.records]
    assert Counter(planned) == Counter(records)
    for commit in commits:
        assert commit.records
        actions = 1 + len(commit.records) + len(commit.increments)
        assert actions <= TRANSACTION_ACTIONS_MAX
        sizes = [item_bytes(record_item(record)) for record in commit.records]
        assert sum(sizes) + 1_024 * actions <= TRANSACTION_BYTES_MAX
        assert len({increment.key for increment in commit.increments}) == len(commit.increments)


@laws
@given(st.lists(some.records, max_size=60, unique_by=lambda record: (record.key, record.id)))
def test_increments_add_up_to_the_records(records: list[Record]) -> None:
    for parts in (
        increments_of(records),
        *(c.increments for c in plan(spec_of(), records, METERING)),
    ):
        assert all(sum(n for _, n in part.series) > 0 for part in parts)
    planned = [part for commit in plan(spec_of(), records, METERING) for part in commit.increments]
    for counted in (increments_of(records), planned):
        assert sum(part.n for part in counted) == sum(record.n for record in records)
        assert sum(part.amount for part in counted) == sum(record.amount for record in records)


@laws
@given(some.records, st.integers(1, SHARDS_MAX))
def test_records_survive_their_items(record: Record, stripe: int) -> None:
    stored = replace(record, series=())
    item = record_item(replace(record, stripe=stripe))
    assert 0 <= sized(record).size - item_bytes(item) <= 1
    assert parse_item(record_item(record)) == stored
    assert parse_item(json.loads(json.dumps(jsonable(record_item(record))))) == stored


@laws
@given(some.records)
def test_the_put_of_a_record_writes_itself_as_other_actions_are_written(record: Record) -> None:
    put = RecordPut("votes-20261120T080000Z", record)
    action = {**put["Put"], "Item": jsonable(record_item(record))}
    assert put.json() == json.dumps({"Put": action})


# --- packing


@laws
@given(st.lists(some.packable_events, max_size=60), st.integers(1, 20))
def test_packing_keeps_every_event(events: list[Event], events_max: int) -> None:
    numbers = count(1)
    bodies = list(pack(events, lambda: f"p{next(numbers)}", events_max=events_max))
    packets = [decode(body) for body in bodies]
    unpacked: list[Event] = []
    for body, packet in zip(bodies, packets, strict=True):
        assert isinstance(packet, Packet)
        assert len(body.encode()) <= PACKET_BYTES_MAX
        assert len(packet.entries) <= events_max
        unpacked += [
            Event(packet.key, None, packet.t0 + dt, amount, payload)
            for dt, amount, payload in packet.entries
        ]
    assert Counter(unpacked) == Counter(events)
    assert len({packet.id for packet in packets}) == len(packets)


@laws
@given(some.any_event)
def test_an_events_body_says_the_event(event: Event) -> None:
    assert decode(event_body(event)) == event


# --- digests


@laws
@given(some.any_event, some.any_event)
def test_digests_agree_if_and_only_if_contents_do(one: Event, other: Event) -> None:
    assert (digest(one) == digest(other)) == (one == other)
    assert digest(decode(event_body(one))) == digest(one)


@laws
@given(some.any_event, st.sampled_from(["key", "id", "ts", "amount", "payload"]), st.data())
def test_any_change_of_content_changes_the_digest(
    event: Event, name: str, data: st.DataObject
) -> None:
    other = getattr(data.draw(some.any_event), name)
    changed = replace(event, **{name: other})
    assert (digest(changed) == digest(event)) == (changed == event)


@laws
@given(some.json_values)
def test_the_canonical_text_does_not_depend_on_how_it_was_written(value: object) -> None:
    loose = json.dumps(value, indent=2, ensure_ascii=True)
    assert canonical(json.loads(loose, parse_float=JsonFloat)) == canonical(value)
