"""A logged key is a key like any other: written, found, sealed, proven, redriven, read."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import UUID

import pytest

from tallyroll import limits
from tallyroll.adapters.dynamodb.items import CODEC, jsonable, record_item, stored_item
from tallyroll.adapters.memory import MemoryStore
from tallyroll.archive.parquet.rows import converted, restored
from tallyroll.errors import ProofMismatch, SettingsError, Throttled
from tallyroll.ingest import appending
from tallyroll.ingest.cost import LogCounts
from tallyroll.ingest.writer import BatchReport
from tallyroll.logs.entries import entries_in, leaf_record, position_of, slot_of
from tallyroll.logs.reading import read_newer
from tallyroll.model.messages import Message, RedriveMark, Rejection
from tallyroll.model.records import Record
from tallyroll.model.stored import StoredEvent, event_line, events_of
from tallyroll.operations.letter_events import LetterOutcome
from tallyroll.ports.catalog import Claim
from tallyroll.ports.store import Outcome, Verdict
from tallyroll.reasons import Reason
from tallyroll.settings import Settings
from tests.harness.archives import as_archived, sealed_and_exported
from tests.harness.pipeline import (
    NOW,
    SMALL,
    TIME_LEFT,
    WINDOW,
    Pipeline,
    hour,
    opened,
    record_with,
)
from tests.harness.redriving import Operator, seal
from tests.unit.archive.test_recount import archived, rewrite

LOGGED = replace(SMALL, logs={"k": 1_000})


def sent(pipeline: Pipeline, number: int, receives: int = 1, **fields: Any) -> Message:
    message = pipeline.message({"key": "k"} | fields, receives=receives)
    return replace(message, id=str(UUID(int=number, version=4)), sent=NOW - 5)


def write(pipeline: Pipeline, *messages: Message) -> BatchReport:
    return pipeline.writer().write(messages, TIME_LEFT)


def stored(pipeline: Pipeline, window: str = WINDOW) -> list[Record]:
    spec = pipeline.spec(window)
    return [
        record
        for shard in range(1, spec.shards + 1)
        for record in pipeline.store.records(spec, "k", shard, "", 100).records
    ]


def test_a_batch_is_one_item_and_redeliveries_add_nothing() -> None:
    pipeline = opened(LOGGED)
    batch = [sent(pipeline, number, value=number) for number in range(10)]
    assert write(pipeline, *batch).events == 10
    (leaf,) = stored(pipeline)
    assert (leaf.n, leaf.amount) == (10, 45_000_000)
    more = [*batch, sent(pipeline, 10)]
    report = write(pipeline, *(replace(each, receives=2) for each in more))
    assert (report.events, report.duplicates) == (1, 10)
    assert report.logs == LogCounts(leaves=1, entries=1, slots=1)
    assert pipeline.tally("k") == (11, 46_000_000)
    assert [each.n for each in stored(pipeline)] == [10, 1]


@pytest.mark.parametrize("first", [0, 1])
def test_an_event_whose_own_id_is_that_of_a_plain_message_is_another(first: int) -> None:
    pipeline = opened(LOGGED)
    plain = sent(pipeline, 1)
    both = [plain, pipeline.message({"key": "k", "id": plain.id})]
    report = write(pipeline, both[first], both[1 - first])
    assert (report.events, report.failures) == (1, [both[1 - first].id])
    assert write(pipeline, both[1 - first]).events == 1
    assert pipeline.tally("k")[0] == 2


def test_who_loses_a_position_reads_on(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = opened(LOGGED)
    other = [sent(pipeline, 1), sent(pipeline, 2)]

    def late(*given: Any, **more: Any) -> Any:
        found = read_newer(*given, **more)
        if other:
            batch, other[:] = [*other], []
            write(pipeline, *batch)
        return found

    monkeypatch.setattr(appending, "read_newer", late)
    report = write(pipeline, sent(pipeline, 2), sent(pipeline, 3))
    assert (report.events, report.duplicates) == (1, 1)
    assert pipeline.tally("k")[0] == 3


def test_a_writer_reads_of_a_slot_only_what_it_does_not_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = opened(LOGGED)
    writer, others = pipeline.writer(), pipeline.writer()
    writer.write([sent(pipeline, 1)], TIME_LEFT)
    others.write([sent(pipeline, 2)], TIME_LEFT)
    read: list[list[int]] = []

    def noted(*given: Any) -> Any:
        page = MemoryStore.records_eventually(pipeline.store, *given)
        read.append([position_of(leaf) for leaf in page.records])
        return page

    monkeypatch.setattr(pipeline.store, "records_eventually", noted)
    again = replace(sent(pipeline, 2), receives=2)
    report = writer.write([again, sent(pipeline, 3)], TIME_LEFT)
    assert (report.duplicates, report.events, read) == (1, 1, [[1]])


def test_of_many_slots_a_writer_keeps_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "ENTRIES_KEPT", 3 * (appending.SLOT_ENTRIES + 1) + 1)
    pipeline = opened(LOGGED)
    writer = pipeline.writer()
    for number, slot in enumerate((0, 1, 2, 0, 3)):
        writer.write([replace(sent(pipeline, number), sent=NOW - 2_000 * slot)], TIME_LEFT)
    assert writer._appender
    kept = [(NOW // 1_000 - name.number) // 2 for _, name in writer._appender._kept]
    assert kept == [2, 0, 3]


def test_a_writer_that_does_not_know_a_windows_rules_hands_its_messages_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = opened(LOGGED)
    spec = replace(pipeline.spec(), suffix="calculated+unknown+log2")
    monkeypatch.setattr(pipeline.catalog, "specs", lambda _: {WINDOW: spec})
    message = sent(pipeline, 1)
    assert write(pipeline, message).failures == [message.id]
    assert not pipeline.store.commits


def test_an_unknown_outcome_is_repeated_at_the_same_position() -> None:
    pipeline = opened(LOGGED)
    pipeline.store.script = [Outcome(Verdict.UNKNOWN), None]
    assert write(pipeline, sent(pipeline, 1)).events == 1
    assert [commit[1][0].id for commit in pipeline.store.commits[-2:]] == [
        stored(pipeline)[0].id
    ] * 2


def test_a_full_log_leaves_room_in_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOG_POSITIONS", 2)
    monkeypatch.setattr(limits, "LOG_ENTRIES_MAX", 2)
    pipeline = opened(LOGGED)
    batch = [sent(pipeline, number) for number in range(7)]
    assert write(pipeline, *batch).events == 7
    assert sorted(each.n for each in stored(pipeline)) == [1, 1, 1, 2, 2]
    again = write(pipeline, *(replace(each, receives=2) for each in batch))
    assert (again.events, again.duplicates) == (0, 7)
    assert pipeline.tally("k")[0] == 7


def test_what_the_store_refuses_is_rejected_alone() -> None:
    pipeline = opened(LOGGED)
    refused = Outcome(Verdict.INVALID, detail="no")
    pipeline.store.script = [refused, refused, None]
    report = write(pipeline, *(sent(pipeline, number) for number in range(2)))
    assert (report.events, report.rejected) == (1, {Reason.REFUSED_BY_STORE: 1})


def test_one_poison_entry_costs_few_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = opened(LOGGED)
    commit = MemoryStore.commit

    def picky(self: Any, spec: Any, records: Any, increments: Any) -> Outcome:
        if any(each.amount % 10**6 == 7 * 10**5 for each in records):
            return Outcome(Verdict.INVALID, detail="no")
        return commit(self, spec, records, increments)

    monkeypatch.setattr(MemoryStore, "commit", picky)
    batch = [sent(pipeline, number, value=0.7 if number == 30 else 1) for number in range(60)]
    report = write(pipeline, *batch)
    assert (report.events, report.rejected) == (59, {Reason.REFUSED_BY_STORE: 1})
    assert not any(each.plain for each in stored(pipeline))


def test_a_damaged_leaf_holds_up_its_own_slot_alone() -> None:
    pipeline = opened(LOGGED)
    write(pipeline, sent(pipeline, 1))
    items = pipeline.store.items(pipeline.spec().table)
    (name,) = [each for each in items if each[1].startswith("e#")]
    items[name] = {**items[name], "data": {"B": b"damaged"}}
    other = replace(sent(pipeline, 2), sent=NOW - 4_000)
    report = write(pipeline, replace(sent(pipeline, 3)), other)
    assert (report.events, len(report.failures)) == (1, 1)


def test_what_is_known_is_settled_though_another_slot_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = opened(LOGGED)
    writer = pipeline.writer()
    first, other = sent(pipeline, 1), replace(sent(pipeline, 2), sent=NOW - 40_000)
    writer.write([first], TIME_LEFT)

    def throttled(spec: Any, key: str, shard: int, after: str, *given: Any) -> Any:
        if after.endswith("."):  # what precedes an unknown slot
            raise Throttled("try later")
        return MemoryStore.records_eventually(pipeline.store, spec, key, shard, after, *given)

    monkeypatch.setattr(pipeline.store, "records_eventually", throttled)
    again = replace(first, receives=2)
    report = writer.write([again, sent(pipeline, 3), other], TIME_LEFT)
    assert (report.duplicates, report.events, report.failures) == (1, 1, [other.id])


def test_a_letter_of_a_leafs_id_stops_no_redrive() -> None:
    pipeline = opened(LOGGED)
    for body in ({"key": "k", "id": "~log.1", "ts": NOW}, {"key": "k", "id": "good", "ts": NOW}):
        pipeline.queue.send(json.dumps(body))
        (message,) = pipeline.queue.receive()
        pipeline.queue.reject([Rejection(message, Reason.EXPIRING, "late", WINDOW)])
    courses = [each.course for each in Operator(pipeline).redrive()]
    assert courses == [LetterOutcome.REDRIVEN, LetterOutcome.REDRIVEN]


def test_what_is_listed_can_be_sent_again() -> None:
    pipeline = opened(LOGGED)
    write(pipeline, sent(pipeline, 1))
    (event,) = events_of(stored(pipeline)[0])
    assert pipeline.write(event_line("k", event)).events == 1


def test_behind_a_shut_gate_the_log_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = opened(LOGGED)
    first, later = sent(pipeline, 1), sent(pipeline, 2)

    def closed_meanwhile(*given: Any, **more: Any) -> Any:
        found = read_newer(*given, **more)
        monkeypatch.setattr(appending, "read_newer", read_newer)
        write(pipeline, first)
        seal(pipeline, WINDOW)
        return found

    monkeypatch.setattr(appending, "read_newer", closed_meanwhile)
    report = write(pipeline, first, later)
    assert (report.duplicates, report.rejected) == (1, {Reason.WINDOW_SEALED: 1})
    assert pipeline.tally("k")[0] == 1


def redriven(pipeline: Pipeline, *, first_sent: int, claimed: int | None, target: str) -> Message:
    first = str(UUID(int=1, version=4))
    pipeline.catalog.claim((WINDOW, "k", first), Claim(target, NOW, claimed))
    message = pipeline.message({"key": "k", "ts": NOW - 5})
    return replace(message, redrive=RedriveMark(target, first, first_sent))


def test_a_redriven_event_finds_its_own_slot() -> None:
    pipeline = opened(LOGGED)
    write(pipeline, sent(pipeline, 1, ts=NOW - 5))
    report = write(pipeline, redriven(pipeline, first_sent=NOW - 5, claimed=NOW - 5, target=WINDOW))
    assert (report.events, report.duplicates) == (0, 1)


@pytest.mark.parametrize("claimed", [NOW - 6_000, None])
@pytest.mark.parametrize("target", [WINDOW, hour(7)])
def test_a_redriven_event_of_another_time_than_its_claim_is_rejected(
    claimed: int | None, target: str
) -> None:
    pipeline = opened(LOGGED)
    write(pipeline, sent(pipeline, 1, ts=NOW - 5))
    report = write(
        pipeline, redriven(pipeline, first_sent=NOW - 9_000, claimed=claimed, target=target)
    )
    assert report.rejected == {Reason.NOT_CLAIMED: 1}
    assert pipeline.tally("k")[0] == 1


def test_a_redrive_sees_what_is_in_a_log() -> None:
    pipeline = opened(LOGGED)
    body = json.dumps({"key": "k", "ts": NOW - 5})
    message_id = pipeline.queue.send(body)
    (message,) = pipeline.queue.receive()
    assert pipeline.writer().write([message], TIME_LEFT).events == 1
    pipeline.effects.pass_by(40 * 60_000)
    (again,) = pipeline.queue.receive()
    pipeline.queue.reject([Rejection(again, Reason.EXPIRING, "late", WINDOW)])
    seal(pipeline, WINDOW)
    assert again.id == message_id
    assert Operator(pipeline).one().course is LetterOutcome.COUNTED
    assert pipeline.tally("k")[0] == 1


@pytest.fixture
def numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages have ids as SQS gives them."""
    plain, numbers = Pipeline.message, count(1)

    def message(self: Pipeline, body: Any, **more: Any) -> Message:
        return replace(plain(self, body, **more), id=str(UUID(int=next(numbers), version=4)))

    monkeypatch.setattr(Pipeline, "message", message)


BODIES = [{"key": "k", "value": number} for number in range(5)]


@pytest.mark.usefixtures("numbered")
def test_a_log_is_proven_and_read_as_packets_are() -> None:
    pipeline, window = sealed_and_exported(BODIES, settings=LOGGED)
    archive = as_archived(pipeline, window)
    events = [each for record in stored(pipeline) for each in events_of(record)]
    assert [each.amount for each in events] == [10**6 * number for number in range(5)]
    found = pipeline.reader().events("k", WINDOW, TIME_LEFT)
    assert [each.id for each in found.found] == [each.id for each in events]
    assert all(isinstance(each, StoredEvent) and each.message for each in found.found)
    one = pipeline.reader().event("k", events[3].id, WINDOW, None)
    assert one.what == events[3]
    assert archive.window.attempt.items


@pytest.mark.parametrize("positions", [1, 32])
def test_rows_of_a_log_are_converted_and_restored(
    positions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOG_POSITIONS", positions)
    monkeypatch.setattr(limits, "LOG_ENTRIES_MAX", 4)
    pipeline = opened(LOGGED)
    write(pipeline, *(sent(pipeline, n, value=n, payload={"n": n}) for n in range(6)))
    found = stored(pipeline)
    assert sum(each.plain for each in found) == (2 if positions == 1 else 0)
    for record in found:
        item = stored_item(record_item(record))
        rows, rest = converted(record, item, CODEC, lambda *_: ())
        assert rest.items is None
        assert [each.attributes for each in restored(rows, rest, CODEC)] == [item.attributes]


@pytest.mark.usefixtures("numbered")
@pytest.mark.parametrize("as_record", [True, False])
def test_an_event_twice_in_an_archive_is_found(*, as_record: bool) -> None:
    pipeline, window = sealed_and_exported(BODIES, settings=LOGGED)
    (leaf,) = stored(pipeline)
    spec, inside = pipeline.spec(), entries_in(leaf)
    name = slot_of(spec, "k", inside[0].sent)
    twice = leaf_record(spec, name, 1, inside[:1], ends=False)
    if as_record:
        first = inside[0]
        twice = record_with(first.message, shard=1, ts=first.ts, amount=first.amount, plain=True)
    rewrite(pipeline, window, [*archived(pipeline), jsonable(record_item(twice))])
    with pytest.raises(ProofMismatch, match=r"the event of message .* occurs more than once"):
        as_archived(pipeline, window)


@pytest.mark.parametrize(
    ("logs", "problem"),
    [
        ({"k": 0}, "from 1 to 100,000"),
        ({"k": 100_001}, "from 1 to 100,000"),
        ({f"k{number}": 1 for number in range(21)}, "at most 20"),
        ({"k" * 400: 1, "l" * 500: 1, "m" * 400: 1}, "takes 1,321 bytes .* at most 1,024"),
        ({"k" * 600: 1}, "has 600 bytes, over 512"),
        ({"~t.1": 1}, "reserved"),
        ("k", "give an object"),
    ],
)
def test_wrong_rates_are_refused(logs: Any, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        Settings(logs=logs)


def test_keyspaces_has_no_logs() -> None:
    settings = replace(LOGGED, store="keyspaces", keyspace="tallyroll")
    with pytest.raises(SettingsError, match=r"LOGS.*windows in Keyspaces have no transactions"):
        settings.check_store(transactional=False)
