"""One event to several counters, through the writer: they never disagree."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.adapters.dynamodb.items import parse_item
from tallyroll.adapters.memory import MemoryStore
from tallyroll.archive.recount import Recount
from tallyroll.errors import Missing, SettingsError, Unknown
from tallyroll.ingest.writer import BatchReport
from tallyroll.limits import COPIES_BYTES_MAX, EVENT_KEYS_MAX, MAPPED_AHEAD_MS
from tallyroll.model.foreign.mapping import mapper_of
from tallyroll.model.formats.payloads import Chunk
from tallyroll.model.messages import Message
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.model.stored import StoredEvent, stored, whole
from tallyroll.ports.store import Answer, Element, Outcome, Verdict
from tallyroll.reasons import Reason
from tests.harness.payloads import NOISE, noise
from tests.harness.pipeline import (
    HOUR,
    NOW,
    SMALL,
    START,
    TIME_LEFT,
    WINDOW,
    Pipeline,
    opened,
    record_with,
)
from tests.harness.redriving import seal
from tests.unit.ingest.test_transactions import Least

FANNED = replace(
    SMALL,
    mapping={
        "keys": ["candidate:{candidate}", "state:{state}", "hour:{%H}"],
        "id": "ballot",
        "ts": "at",
        "value": "weight",
        "payload": "@",
    },
)
COUNTERS = ("candidate:ann", "hour:08", "state:ca")


def vote(ballot: str = "b1", **fields: Any) -> dict[str, Any]:
    return {"candidate": "ann", "state": "ca", "ballot": ballot, "at": NOW, "weight": 2, **fields}


def write(pipeline: Pipeline, *messages: Message) -> BatchReport:
    return pipeline.writer().write(messages, TIME_LEFT)


def tallies(pipeline: Pipeline, *keys: str) -> list[int]:
    return [pipeline.tally(key)[0] for key in keys or COUNTERS]


@pytest.fixture
def pipeline() -> Pipeline:
    return opened(FANNED)


def test_an_event_counts_once_under_each_key(pipeline: Pipeline) -> None:
    report = pipeline.write(vote("b1"), vote("b2", state="tx"), vote("b1"))
    assert (report.events, report.duplicates, report.failures) == (2, 1, [])
    assert tallies(pipeline) == [2, 2, 1]
    assert tallies(pipeline, "state:tx") == [1]
    assert pipeline.tally("candidate:ann")[1] == 4_000_000
    [(_, records, increments)] = pipeline.store.commits
    assert (len(records), len(increments)) == (6, 4)
    assert report.cost.total == 2 * (6 + 4 + 1), "two units for each action, the gate's among them"


def test_each_record_is_found_by_the_events_id_and_keeps_the_payload(pipeline: Pipeline) -> None:
    pipeline.write(vote())
    found = [pipeline.store.record(pipeline.spec(), key, "b1") for key in COUNTERS]
    assert [record.ts for record in found if record] == [NOW] * 3
    assert [json.loads(record.data or b"") for record in found if record] == [vote()] * 3
    assert len({record.digest for record in found if record}) == 1
    reader = pipeline.reader()
    for key in COUNTERS:
        assert reader.count(key, START, START + HOUR, TIME_LEFT).events == 1
        assert reader.event(key, "b1", WINDOW, None).key == key


def test_a_redelivery_is_a_duplicate_of_all(pipeline: Pipeline) -> None:
    message = pipeline.message(vote())
    assert write(pipeline, message).events == 1
    assert write(pipeline, replace(message, receives=2)).duplicates == 1
    assert tallies(pipeline) == [1, 1, 1]


def test_a_lost_reply_counts_once(pipeline: Pipeline) -> None:
    commit = MemoryStore.commit

    def lost(store: MemoryStore, *request: Any) -> Outcome:
        commit(store, *request)
        return Outcome(Verdict.UNKNOWN)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryStore, "commit", lost)
        assert pipeline.writer().write([pipeline.message(vote())], 100).failures
    assert tallies(pipeline) == [1, 1, 1]
    assert pipeline.write(vote()).duplicates == 1
    assert tallies(pipeline) == [1, 1, 1]


def test_another_content_of_an_id_is_rejected_if_it_shares_a_key(pipeline: Pipeline) -> None:
    """None of its keys counts it, also not the one that is new."""
    report = pipeline.write(vote("b1"))
    report = pipeline.write(vote("b1", state="tx"), vote("b2"))
    assert (report.events, report.rejected) == (1, {Reason.ID_CONFLICT: 1})
    assert tallies(pipeline, *COUNTERS, "state:tx") == [2, 2, 2, 0]


def test_the_same_in_one_batch(pipeline: Pipeline) -> None:
    first, second = pipeline.message(vote()), pipeline.message(vote(candidate="bob"))
    report = write(pipeline, first, second)
    assert (report.events, report.failures) == (1, [second.id])
    assert write(pipeline, second).rejected == {Reason.ID_CONFLICT: 1}
    assert tallies(pipeline, *COUNTERS, "candidate:bob") == [1, 1, 1, 0]


def test_an_event_beside_one_that_is_rejected_is_not_judged_by_its_record(
    pipeline: Pipeline,
) -> None:
    """The first of the batch shares a key with a stored event, and another with the second."""
    own = {"v": 1, "key": "candidate:ann", "id": "b1", "ts": NOW}
    other = {"v": 1, "key": "state:ca", "id": "b1", "ts": NOW}
    assert pipeline.write(own).events == 1
    first, second = pipeline.message(vote()), pipeline.message(other)
    report = write(pipeline, first, second)
    assert (report.rejected, report.failures) == ({Reason.ID_CONFLICT: 1}, [second.id])
    assert write(pipeline, second).events == 1


def test_an_event_of_one_key_and_a_group_share_a_batch(pipeline: Pipeline) -> None:
    other = {"v": 1, "key": "state:ca", "id": "b1", "ts": NOW}
    report = pipeline.write(other, vote(), vote("b2"), {"v": 1, "key": "state:ca"})
    assert (report.events, len(report.failures)) == (3, 1)
    assert tallies(pipeline) == [1, 1, 3]


def test_the_largest_fan_out_with_many_events(pipeline: Pipeline) -> None:
    keys = [f"{number}:{{candidate}}" for number in range(EVENT_KEYS_MAX)]
    pipeline = opened(replace(SMALL, mapping={"keys": keys, "id": "ballot"}))
    votes = [vote(f"b{number}", candidate=f"c{number % 7}") for number in range(20)]
    assert pipeline.write(*votes).events == 20
    assert sum(tallies(pipeline, *(f"5:c{n}" for n in range(7)))) == 20
    assert pipeline.write(*votes).duplicates == 20


def test_any_of_an_events_keys_may_be_hot(pipeline: Pipeline) -> None:
    pipeline.effects.chance = Least()  # it draws what notes a key
    pipeline.write(*(vote(f"b{number}", candidate=f"c{number}") for number in range(4)))
    assert pipeline.catalog.hot(WINDOW) == ["hour:08", "state:ca"]


def test_a_payload_of_many_keys_is_stored_once(pipeline: Pipeline) -> None:
    keys = [f"{number:02}" for number in range(12)]
    pipeline = opened(replace(SMALL, mapping={"keys": keys, "id": "id", "payload": "x"}))
    large = {"id": "e1", "x": NOISE}
    assert pipeline.write(large).events == 1
    assert pipeline.write(large, {**large, "x": "other"}).duplicates == 1
    assert pipeline.reasons() == [Reason.ID_CONFLICT]
    spec = pipeline.spec()
    found = [parse_item(item) for item in pipeline.store.items(spec.table).values()]
    chunks = [item for item in found if isinstance(item, Chunk)]
    assert {chunk.key for chunk in chunks} == {"00"}
    recount = Recount()
    for item in found:
        recount.add(item)
    declared, chunked = recount.declared["00"], recount.chunks["00"]
    assert set(recount.declared) == {"00"}
    assert declared == (chunked[0], chunked[1] % 2**128), "else its window could never be proven"
    for key in keys:
        assert pipeline.tally(key)[0] == 1
        record = pipeline.store.record(spec, key, "e1")
        assert record
        found_event = stored(whole(record, lambda *_: chunks))
        assert isinstance(found_event, StoredEvent)
        assert found_event.payload == json.dumps(NOISE)


def test_copies_of_a_payload_are_bounded(pipeline: Pipeline) -> None:
    """Also one that is stored inline elsewhere is stored once, if its copies take over 1 MiB."""
    keys = [f"{number:02}" for number in range(EVENT_KEYS_MAX)]
    pipeline = opened(replace(SMALL, mapping={"keys": keys, "id": "id", "payload": "x"}))
    assert 40_000 < COPIES_BYTES_MAX // EVENT_KEYS_MAX < 64_000 * 6 // 8
    few, many = noise(40_000), noise(64_000)
    assert pipeline.write({"id": "e1", "x": few}, {"id": "e2", "x": many}).events == 2
    records = [pipeline.store.record(pipeline.spec(), "07", name) for name in ("e1", "e2")]
    assert [record and record.in_chunks for record in records] == [False, True]


def test_packets_and_own_events_are_never_fanned_out(pipeline: Pipeline) -> None:
    packet = {"v": 1, "id": "p", "key": "k", "t0": NOW, "events": [[0], [1]]}
    assert pipeline.write(packet, {"v": 1, "key": "k", "ts": NOW}).events == 3
    assert tallies(pipeline, "k", *COUNTERS) == [3, 0, 0, 0]


def test_what_no_template_reads_is_rejected_as_a_whole(pipeline: Pipeline) -> None:
    bad = vote()
    del bad["state"]
    assert pipeline.write(bad, vote(state=7)).rejected == {Reason.MAPPING_FAILED: 2}
    assert tallies(pipeline) == [0, 0, 0]
    details = [letter.detail for letter in pipeline.queue.dead_letters]
    assert "there is no 'state'" in details[0]
    assert "finds 7, which is no text" in details[1]


# --- behind a shut gate, and what a store leaves open


def test_a_duplicate_is_known_behind_a_shut_gate(pipeline: Pipeline) -> None:
    counted, new = pipeline.message(vote("b1")), pipeline.message(vote("b2"))
    write(pipeline, counted)
    seal(pipeline, WINDOW)
    report = write(pipeline, counted, new)
    assert (report.duplicates, report.rejected) == (1, {Reason.WINDOW_SEALED: 1})


@pytest.mark.parametrize("key", COUNTERS)
def test_any_stored_record_tells_behind_a_shut_gate(pipeline: Pipeline, key: str) -> None:
    record = record_with("b1", key, shard=pipeline.spec().shard(key, "b1"))
    pipeline.store.commit(pipeline.spec(), [record], [])
    seal(pipeline, WINDOW)
    assert pipeline.write(vote()).rejected == {Reason.ID_CONFLICT: 1}


def test_a_duplicate_whose_content_the_store_did_not_say_is_looked_up(pipeline: Pipeline) -> None:
    pipeline.write(vote())
    fine = Element(Answer.FINE)
    answers = (fine, Element(Answer.DUPLICATE), fine)
    pipeline.store.script = [Outcome(Verdict.CANCELLED, answers, (fine,) * 3)]
    assert pipeline.write(vote()).duplicates == 1


def test_a_lookup_that_fails_hands_back(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(_spec: Spec, key: str, _id: str) -> Record | None:
        if key == COUNTERS[1]:
            raise Unknown("no answer")
        return None

    seal(pipeline, WINDOW)
    monkeypatch.setattr(pipeline.store, "record", lost)
    assert len(pipeline.write(vote()).failures) == 1


def test_a_table_that_is_gone_is_unverified(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> Record | None:
        raise Missing("no table")

    seal(pipeline, WINDOW)
    monkeypatch.setattr(pipeline.store, "record", gone)
    assert len(pipeline.write(vote()).failures) == 1


# --- deployments


def test_a_redelivery_keeps_its_counters_through_deployments(pipeline: Pipeline) -> None:
    message = pipeline.message(vote())
    assert write(pipeline, message).events == 1
    wider = {**FANNED.mapping, "keys": ["candidate:{candidate}", "date:{%Y-%m-%d}"]}
    pipeline.settings = replace(FANNED, mapping=wider)
    pipeline.roller().run(TIME_LEFT)
    pipeline.effects.pass_by(MAPPED_AHEAD_MS + SMALL.cache_calendar_ms)
    assert write(pipeline, message).duplicates == 1
    report = pipeline.write(vote("b2"), vote())
    assert (report.events, report.rejected) == (1, {Reason.ID_CONFLICT: 1})
    assert tallies(pipeline, *COUNTERS, "date:2026-11-20") == [2, 1, 1, 1]


def test_a_version_that_knows_no_templates_hands_their_messages_back(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows the field `keys` as little as any other of a later version: after a rollback the
    messages wait for the next upgrade, and none is rejected or counted in part.
    """
    mapper_of.cache_clear()
    monkeypatch.setattr("tallyroll.model.foreign.mapping.KEYS", "not known yet")
    report = pipeline.write(vote())
    assert (len(report.failures), report.rejected) == (1, {})
    mapper_of.cache_clear()


def test_a_store_without_transactions_refuses_the_setting(pipeline: Pipeline) -> None:
    class Plain(type(pipeline.store)):  # type: ignore[misc]
        transactional = False

    pipeline.store = Plain(pipeline.effects, pipeline.catalog)
    for use_case in (pipeline.writer, pipeline.roller):
        with pytest.raises(SettingsError, match=r"keys: windows in Keyspaces have no transactions"):
            use_case()
    pipeline.settings = replace(SMALL, mapping={"key": "candidate"})
    pipeline.writer()
    pipeline.roller()
    pipeline.settings = replace(SMALL, retraction="operator")
    for use_case in (pipeline.writer, pipeline.roller):
        with pytest.raises(SettingsError, match="operator: windows in Keyspaces have no"):
            use_case()
