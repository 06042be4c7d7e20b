"""What the writer takes back, of which events, and for whom."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tallyroll.model.items import tombstone_bytes
from tallyroll.model.retractions import Authorization, Tombstone
from tallyroll.model.specs import Spec
from tallyroll.ports.store import Answer, Element, Outcome, Verdict
from tallyroll.reasons import Reason
from tests.harness.pipeline import (
    MINUTE,
    NOW,
    SMALL,
    TIME_LEFT,
    WINDOW,
    Pipeline,
    hour,
    opened,
)
from tests.harness.retracting import EVENT, QUEUE, retracted, retraction, stone, write


@pytest.fixture
def pipeline() -> Pipeline:
    return opened(QUEUE)


# --- live


def test_an_event_is_taken_back_once_however_often_that_is_asked(pipeline: Pipeline) -> None:
    pipeline.write(EVENT, {**EVENT, "id": "e2"})
    report = pipeline.write(retraction())
    assert (report.retracted, report.duplicates, report.failures) == (1, 0, [])
    for ask in (retraction(), retraction(window=WINDOW, by="bob")):
        report = pipeline.write(ask)
        assert (report.retracted, report.duplicates) == (0, 1)
    assert pipeline.tally("k") == (1, 2_500_000)
    assert retracted(pipeline) == (1, 2_500_000)
    gone = stone(pipeline)
    assert (gone.by, gone.why, gone.ts, gone.n, gone.slot) == ("ann", "a test", NOW, 1, 30)


def test_it_is_taken_from_the_stripe_that_counts_it(pipeline: Pipeline) -> None:
    events = [{**EVENT, "id": f"e{number}"} for number in range(8)]
    for event in events:
        pipeline.write(event)
    for event in events:
        pipeline.write(retraction(id=event["id"]))
        record = pipeline.store.record(pipeline.spec(), "k", str(event["id"]))
        assert record
        assert stone(pipeline, "k", event["id"], None).stripe == record.stripe


def test_its_id_stays_taken(pipeline: Pipeline) -> None:
    pipeline.write(EVENT)
    pipeline.write(retraction())
    assert pipeline.write(EVENT).duplicates == 1
    assert pipeline.write({**EVENT, "value": 7}).rejected == {Reason.ID_CONFLICT: 1}
    assert pipeline.tally("k") == (0, 0)


def test_its_units_are_those_of_tombstone_tally_and_gate(pipeline: Pipeline) -> None:
    pipeline.write(EVENT)
    report = pipeline.write(retraction())
    assert (report.cost.total, report.cost.requests) == (6, 1)
    large = retraction(id="e" * 400, by="b" * 256, why="w" * 256)
    pipeline.write({**EVENT, "id": "e" * 400})
    report = pipeline.write(large)
    assert tombstone_bytes(stone(pipeline, "k", "e" * 400, None)) < 1_024
    assert report.cost.total == 6


def test_an_event_and_its_retraction_in_one_batch(pipeline: Pipeline) -> None:
    report = pipeline.write(retraction(), EVENT, retraction(by="bob"))
    assert (report.single_events, report.retracted, report.duplicates) == (1, 1, 1)
    assert pipeline.tally("k") == (0, 0)
    assert stone(pipeline).by == "ann"


def test_a_writer_remembers_what_it_retracted(pipeline: Pipeline) -> None:
    pipeline.write(EVENT)
    writer, message = pipeline.writer(), pipeline.message(retraction())
    assert writer.write([message], TIME_LEFT).retracted == 1
    pipeline.store.tombstones = pipeline.store.record = None  # type: ignore[method-assign,assignment]
    assert writer.write([replace(message, receives=2)], TIME_LEFT).duplicates == 1


def test_an_unknown_outcome_is_asked_again(pipeline: Pipeline) -> None:
    pipeline.write(EVENT)
    contended = Outcome(Verdict.CANCELLED, (Element(Answer.CONTENDED),), (Element(Answer.FINE),))
    script(pipeline, Outcome(Verdict.UNKNOWN), contended, None)
    assert pipeline.write(retraction()).retracted == 1
    script(pipeline, Outcome(Verdict.UNKNOWN), None)  # the first of them was carried out
    assert pipeline.write(retraction()).duplicates == 1
    assert pipeline.tally("k") == (0, 0)


def test_what_stays_contended_is_handed_back_in_time(pipeline: Pipeline) -> None:
    pipeline.write(EVENT)
    script(pipeline, *[Outcome(Verdict.THROTTLED)] * 200)
    report = pipeline.write(retraction())
    assert (len(report.failures), report.retracted) == (1, 0)
    script(pipeline, Outcome(Verdict.INVALID, detail="too many digits"))
    assert pipeline.write(retraction()).rejected == {Reason.REFUSED_BY_STORE: 1}


def script(pipeline: Pipeline, *outcomes: Outcome | None) -> None:
    """Answer the next retractions like this; None lets one through."""
    left, carry_out = list(outcomes), type(pipeline.store).retract

    def retract(spec: Spec, tombstones: Sequence[Tombstone]) -> Outcome:
        answer = left.pop(0) if left else None
        return answer or carry_out(pipeline.store, spec, tombstones)

    pipeline.store.retract = retract  # type: ignore[method-assign]


def test_one_damaged_event_does_not_hold_the_others(pipeline: Pipeline) -> None:
    packet = {"v": 1, "key": "k", "id": "p", "t0": NOW, "events": [[0, 1], [5, 2]]}
    pipeline.write(EVENT, packet)
    items = pipeline.store.items(pipeline.spec().table)
    [name] = [name for name in items if name[1] == "e#p"]
    items[name]["data"] = {"B": b"damaged"}
    report = pipeline.write(retraction(id="p", index=0), retraction())
    assert (report.retracted, len(report.failures)) == (1, 1)


# --- what is read of the event


def test_what_is_taken_back_is_what_is_stored(pipeline: Pipeline) -> None:
    """By the packet's entry, whatever else the message says."""
    entries = [[0, 1], [MINUTE, 20.25, {"x": 1}], [5, -3]]
    packet = {"v": 1, "key": "k", "id": "p", "t0": NOW, "events": entries}
    pipeline.write(packet)
    report = pipeline.write(retraction(id="p", index=1), retraction(id="p", index=2))
    assert report.retracted == 2
    assert pipeline.tally("k") == (1, 1_000_000)
    assert retracted(pipeline) == (2, 17_250_000)
    gone = stone(pipeline, "k", "p", 1)
    assert (gone.ts, gone.slot, gone.n, gone.amount) == (NOW + MINUTE, 31, 1, 20_250_000)
    series = pipeline.store.tallies(pipeline.spec(), ["k"])["k"].series
    assert {slot: events for slot, events in series if events} == {30: 1}
    assert pipeline.write(retraction(id="p", index=1)).duplicates == 1


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"id": "p"}, Reason.BAD_RETRACTION),
        ({"id": "p", "index": 2}, Reason.NOTHING_TO_RETRACT),
        ({"id": "e1", "index": 0}, Reason.NOTHING_TO_RETRACT),
    ],
)
def test_an_index_is_that_of_an_event_in_a_packet(
    pipeline: Pipeline, fields: dict[str, Any], reason: Reason
) -> None:
    packet = {"v": 1, "key": "k", "id": "p", "t0": NOW, "events": [[0], [1]]}
    pipeline.write(EVENT, packet)
    assert pipeline.write(retraction(**fields)).rejected == {reason: 1}
    assert pipeline.tally("k")[0] == 3


def test_a_literal_id_is_not_that_of_a_packed_event(pipeline: Pipeline) -> None:
    packet = {"v": 1, "key": "k", "id": "p", "t0": NOW, "events": [[0], [1]]}
    pipeline.write({**EVENT, "id": "p:1"}, packet)
    assert pipeline.write(retraction(id="p:1"), retraction(id="p", index=1)).retracted == 2
    assert pipeline.tally("k")[0] == 1


def test_a_packet_in_chunks(pipeline: Pipeline) -> None:
    pipeline.settings = replace(QUEUE, chunk_over_bytes=24_576, chunk_bytes=12_288)
    random = Random(1)
    entries = [[n, n, random.randbytes(40).hex()] for n in range(900)]
    pipeline.write({"v": 1, "key": "k", "id": "p", "t0": NOW, "events": entries})
    record = pipeline.store.record(pipeline.spec(), "k", "p")
    assert record
    assert record.in_chunks
    assert pipeline.write(retraction(id="p", index=899)).retracted == 1
    assert retracted(pipeline) == (1, 899_000_000)


# --- events of several keys

FANNED = {"keys": ["{a}", "{b}"], "id": "name"}


@pytest.fixture
def fanned() -> Pipeline:
    return opened(replace(QUEUE, mapping=FANNED))


@pytest.mark.parametrize("key", ["x", "y"])
def test_an_event_of_several_keys_is_taken_from_all(fanned: Pipeline, key: str) -> None:
    assert fanned.write({"a": "y", "b": "x", "name": "e1"}).single_events == 1
    assert fanned.write(retraction(key=key)).retracted == 1
    assert [fanned.tally(each) for each in "xy"] == [(0, 0)] * 2
    assert [retracted(fanned, each) for each in "xy"] == [(1, 1_000_000)] * 2
    for other in "xy":
        assert fanned.write(retraction(key=other)).duplicates == 1


def test_keys_of_another_event_lead_to_none(pipeline: Pipeline) -> None:
    """The least of the keys that a message names may be that of another event of the same id."""
    packet = {"v": 1, "id": "p", "t0": NOW, "events": [[0, 1], [5, 2]]}
    pipeline.write(
        *({**EVENT, "key": key} for key in "ab"), *({**packet, "key": key} for key in "ab")
    )
    bodies = (
        retraction(key="b", keys=["a", "b"]),
        retraction(key="b", keys=["a", "b"], id="p", index=1),
    )
    assert pipeline.write(*bodies).rejected == {Reason.BAD_RETRACTION: 2}
    assert retracted(pipeline, "a") == retracted(pipeline, "b") == (0, 0)


def test_two_retractions_by_two_keys_are_one(fanned: Pipeline) -> None:
    fanned.write({"a": "y", "b": "x", "name": "e1"})
    report = fanned.write(retraction(key="y"), retraction(key="x", keys=["x", "y"]))
    assert (report.retracted, report.duplicates) == (1, 1)


def forget(pipeline: Pipeline, *names: str) -> None:
    """Leave the records as an earlier release stored them."""
    for (_, sk), item in pipeline.store.items(pipeline.spec().table).items():
        if sk.startswith("e#"):
            for name in names or ("g", "m", "s"):
                item.pop(name, None)


@pytest.mark.parametrize("given", [(), ("id",), ("ts",), ("id", "ts")])
def test_an_event_of_several_keys_of_an_earlier_release_needs_them_all(
    given: Sequence[str],
) -> None:
    """Whether its id and its time were given is not stored, but is in its digest."""
    mapping: dict[str, Any] = {"keys": FANNED["keys"], **{name: name for name in given}}
    fanned = opened(replace(QUEUE, mapping=mapping))
    message = fanned.message({"a": "y", "b": "x", "id": "e1", "ts": NOW})
    assert write(fanned, message).single_events == 1
    forget(fanned)
    name = "e1" if "id" in given else message.id
    for keys in ([], ["x"], ["x", "y", "z"], ["x", "z"]):
        report = fanned.write(retraction(key="x", keys=keys, id=name))
        assert report.rejected == {Reason.BAD_RETRACTION: 1}
    assert [fanned.tally(each)[0] for each in "xy"] == [1, 1]
    assert fanned.write(retraction(key="y", keys=["x", "y"], id=name)).retracted == 1
    assert [fanned.tally(each)[0] for each in "xy"] == [0, 0]


def test_an_event_of_an_earlier_release_is_taken_from_any_stripe(pipeline: Pipeline) -> None:
    pipeline.write(EVENT, {**EVENT, "id": "e2", "payload": {"x": [1]}})
    forget(pipeline)
    assert pipeline.write(retraction(), retraction(id="e2")).retracted == 2
    assert pipeline.tally("k") == (0, 0)
    assert stone(pipeline).slot == 30


def test_a_group_that_is_damaged_is_left_alone(fanned: Pipeline) -> None:
    fanned.write({"a": "y", "b": "x", "name": "e1"})
    items = fanned.store.items(fanned.spec().table)
    [other] = [name for name in items if name[0].startswith("y.") and name[1] == "e#e1"]
    items[other]["h"] = {"B": b"of another content"}
    assert len(fanned.write(retraction(key="x")).failures) == 1
    del items[other]
    assert len(fanned.write(retraction(key="x")).failures) == 1
    assert fanned.tally("x")[0] == 1


# --- who may


def test_nobody_may_by_default() -> None:
    pipeline = opened()
    pipeline.write(EVENT)
    for body in (retraction(), '["tallyroll-retract"]'):
        assert pipeline.write(body).rejected == {Reason.RETRACTION_OFF: 1}
    assert pipeline.tally("k")[0] == 1


@pytest.mark.parametrize("body", ['["tallyroll-retract", 2, {}]', '[ "tallyroll-retract" ]'])
def test_a_malformed_one_is_rejected(pipeline: Pipeline, body: str) -> None:
    assert pipeline.write(body).rejected == {Reason.BAD_RETRACTION: 1}


def test_a_text_that_no_store_can_hold_spoils_no_other_message(pipeline: Pipeline) -> None:
    pipeline.write(EVENT)
    body = retraction(why="").replace('"why":""', '"why":"\\ud800"')
    assert "ud800" in body
    report = pipeline.write(body, retraction())
    assert (report.retracted, report.failures) == (1, [])
    assert report.rejected == {Reason.BAD_RETRACTION: 1}


def test_other_arrays_and_enveloped_ones_are_what_they_were(pipeline: Pipeline) -> None:
    pipeline.write(EVENT)
    notification = {"Type": "Notification", "MessageId": "m", "TopicArn": "t"}
    sns = {**notification, "Message": retraction()}
    report = pipeline.write('["other"]', "[1", json.dumps(sns))
    reasons = {Reason.NOT_AN_OBJECT: 1, Reason.NOT_JSON: 1, Reason.BAD_ENVELOPE: 1}
    assert report.rejected == reasons
    assert pipeline.tally("k")[0] == 1


def test_what_no_operator_authorized_is_rejected() -> None:
    pipeline = opened(replace(SMALL, retraction="operator"))
    pipeline.write(EVENT, {**EVENT, "id": "e2"})
    for target in ((WINDOW, "k", "e2", None), (WINDOW, "k", "e1", 0), (hour(7), "k", "e1", None)):
        pipeline.catalog.authorize(Authorization(target, "op", "why", NOW))
    assert pipeline.write(retraction()).rejected == {Reason.RETRACTION_NOT_AUTHORIZED: 1}
    assert pipeline.tally("k")[0] == 2


def test_what_an_operator_said_counts_and_not_the_message() -> None:
    pipeline = opened(replace(SMALL, retraction="operator"))
    pipeline.write(EVENT)
    writer = pipeline.writer()
    refused = writer.write([pipeline.message(retraction())], TIME_LEFT)
    assert refused.rejected
    pipeline.catalog.authorize(Authorization((WINDOW, "k", "e1", None), "op", "on call", NOW))
    report = writer.write([pipeline.message(retraction(by="mallory"))], TIME_LEFT)
    assert report.retracted == 1, "it is read anew each time"
    assert (stone(pipeline).by, stone(pipeline).why) == ("op", "on call")


def test_the_keys_are_those_that_the_operator_said() -> None:
    pipeline = opened(replace(SMALL, retraction="operator", mapping=FANNED))
    pipeline.write({"a": "y", "b": "x", "name": "e1"})
    forget(pipeline)
    target = (WINDOW, "y", "e1", None)
    pipeline.catalog.authorize(Authorization(target, "op", "", NOW, ("x", "y")))
    assert pipeline.write(retraction(key="y")).retracted == 1
    assert [pipeline.tally(each)[0] for each in "xy"] == [0, 0]
