"""Payloads in chunks on every engine: written with their record, read back, and never alone."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from tallyroll.ingest.fates import Disposition, Fate
from tallyroll.ingest.transactions import plan, run
from tallyroll.limits import QUEUE_MESSAGE_BYTES_MAX
from tallyroll.model.events import Event
from tallyroll.model.formats.payloads import Chunk, PayloadLayout
from tallyroll.model.formats.references import Mark
from tallyroll.model.items import Content
from tallyroll.model.messages import Message
from tallyroll.model.records import Record, record_of
from tallyroll.model.specs import Spec
from tallyroll.model.stored import StoredEvent, stored, whole
from tallyroll.ports.store import Answer, Verdict
from tallyroll.reasons import Reason
from tests.contract.engines import START, Engine, commit, counted, record
from tests.harness.payloads import NOISE, noise

MINUTE_MS = 60_000
SMALL = PayloadLayout(compress_over=10**7, chunk_over=24_576)


def large(
    spec: Spec, record_id: str, *keys: str, text: str = NOISE, layout: PayloadLayout = SMALL
) -> Record:
    first, *others = keys
    event = Event(first, record_id, START, 10**6, json.dumps(text), tuple(others))
    return record_of(event, Message("m", "", START, 1, "r"), spec, None, layout)


def fates(engine: Engine, spec: Spec, *records: Record) -> list[Fate]:
    commits = plan(spec, records, engine.store.metering_of(spec.table))
    done = run(engine.store, commits, engine.effects, engine.effects.now() + MINUTE_MS, 1)
    return [done.fates[spec.window, each.key, each.id] for each in records]


def held(engine: Engine, spec: Spec) -> list[Content]:
    pages = engine.store.scan(spec.table, 0, 1)
    return [engine.store.codec.parse(item) for page in pages for item in page]


def chunks_in(engine: Engine, spec: Spec) -> set[Chunk]:
    return {item for item in held(engine, spec) if isinstance(item, Chunk)}


def payload(engine: Engine, spec: Spec, key: str, record_id: str) -> str | None:
    found = engine.store.record(spec, key, record_id)
    assert found
    event = stored(whole(found, lambda *named: engine.store.chunks(spec, *named)))
    assert isinstance(event, StoredEvent)
    return event.payload


def test_a_payload_in_chunks_is_read_back_under_each_of_its_keys(engine: Engine) -> None:
    spec = engine.opened()
    event = large(spec, "é#1", "a", "b.7", "ç")
    assert [fate.kind for fate in fates(engine, spec, event)] == [Disposition.COUNTED]
    assert chunks_in(engine, spec) == set(event.chunks)
    assert {payload(engine, spec, key, "é#1") for key in ("a", "b.7", "ç")} == {json.dumps(NOISE)}
    assert engine.store.chunks(spec, "a", "é#2", 9) == []


def test_the_largest_message_is_one_transaction(engine: Engine) -> None:
    spec = engine.opened()
    text = noise(QUEUE_MESSAGE_BYTES_MAX - 100)
    event = large(spec, "1", "a", text=text)
    assert len(event.chunks) > 80
    assert [fate.kind for fate in fates(engine, spec, event)] == [Disposition.COUNTED]
    assert payload(engine, spec, "a", "1") == json.dumps(text)


@pytest.mark.common
def test_a_duplicate_and_a_conflict_leave_the_chunks_that_are_there(engine: Engine) -> None:
    spec = engine.opened()
    event, other = large(spec, "1", "a"), large(spec, "2", "a")
    counted(engine.store, spec, event)
    conflicting = large(spec, "1", "a", text=noise(300_000, 2))
    inline = large(spec, "1", "a", layout=PayloadLayout(10**6, 10**6))
    told = fates(engine, spec, conflicting, other)
    assert [fate.reason for fate in told] == [Reason.ID_CONFLICT, None]
    assert [fate.kind for fate in fates(engine, spec, inline)] == [Disposition.DUPLICATE]
    assert chunks_in(engine, spec) == {*event.chunks, *other.chunks}
    assert payload(engine, spec, "a", "1") == json.dumps(NOISE)


@pytest.mark.common
def test_an_inline_record_of_the_same_event_gets_no_chunks(engine: Engine) -> None:
    spec = engine.opened()
    counted(engine.store, spec, large(spec, "1", "a", layout=PayloadLayout(10**6, 10**6)))
    assert [f.kind for f in fates(engine, spec, large(spec, "1", "a"))] == [Disposition.DUPLICATE]
    assert chunks_in(engine, spec) == set()


def test_a_key_of_an_event_that_is_stored_already_keeps_all_its_chunks_out(engine: Engine) -> None:
    spec = engine.opened()
    counted(engine.store, spec, record(spec, "b", "1", digest=b"o" * 17))
    [fate] = fates(engine, spec, large(spec, "1", "a", "b"))
    assert fate.reason is Reason.ID_CONFLICT
    assert chunks_in(engine, spec) == set()


@pytest.mark.common
def test_a_shut_gate_keeps_chunks_out(engine: Engine) -> None:
    spec = engine.opened()
    engine.store.shut_gates(spec)
    assert commit(engine.store, spec, large(spec, "1", "a")).verdict is Verdict.GATE_SHUT
    assert chunks_in(engine, spec) == set()


@pytest.mark.common
def test_chunks_are_neither_records_nor_tallies(engine: Engine) -> None:
    spec = engine.opened(replace(engine.spec(), shards=1))
    counted(engine.store, spec, large(spec, "1", "a"), record(spec, "a", "2"))
    page = engine.store.records(spec, "a", 1, "", 100)
    assert ([each.id for each in page.records], page.more) == (["1", "2"], False)
    assert engine.store.tallies(spec, ["a"])["a"].n == 2
    found = Counter(type(item).__name__ for item in held(engine, spec))
    assert found["Record"] == 2
    assert found["Chunk"] == 9


@pytest.mark.common
def test_the_object_of_a_reference_is_marked_with_its_record_alone(engine: Engine) -> None:
    spec = engine.opened()
    keys = [f"payloads/p/2026-11-20/{number}" for number in range(130)]
    first, second = (
        replace(record(spec, "a", str(number)), attachments=(Mark(keys[number]),))
        for number in range(2)
    )
    assert engine.catalog.marked(keys) == set()
    counted(engine.store, spec, first)
    again = replace(first, attachments=(Mark(keys[2]),))
    assert [fate.kind for fate in fates(engine, spec, again)] == [Disposition.DUPLICATE]
    assert engine.catalog.marked(keys) == {keys[0]}
    assert [fate.kind for fate in fates(engine, spec, second)] == [Disposition.COUNTED]
    assert engine.catalog.marked([*keys, *keys]) == set(keys[:2])


def test_events_that_refer_to_one_object_are_counted_in_one_commit(engine: Engine) -> None:
    spec = engine.opened()
    mark = Mark("payloads/p/2026-11-20/shared")
    events = [replace(record(spec, "a", str(at)), attachments=(mark,)) for at in range(3)]
    counted(engine.store, spec, *events[:2])
    assert engine.catalog.marked([mark.key]) == {mark.key}
    outcome = commit(engine.store, spec, *events)
    answers = [one.answer for one in outcome.records]
    assert answers == [Answer.DUPLICATE, Answer.DUPLICATE, Answer.FINE]


def test_a_stray_chunk_is_replaced_with_its_record(engine: Engine) -> None:
    """None is ever left; were there one, its event would still count."""
    spec = engine.opened()
    event = large(spec, "1", "a")
    stray = replace(event.chunks[0], data=b"stray")
    counted(engine.store, spec, replace(record(spec, "x", "x"), attachments=(stray,)))
    assert [fate.kind for fate in fates(engine, spec, event)] == [Disposition.COUNTED]
    assert payload(engine, spec, "a", "1") == json.dumps(NOISE)
