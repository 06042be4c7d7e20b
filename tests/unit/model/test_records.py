from __future__ import annotations

import json
import zlib
from dataclasses import replace

import pytest

from tallyroll.errors import Rejected
from tallyroll.limits import PACKET_BYTES_MAX
from tallyroll.model.events import Event, Packet, digest
from tallyroll.model.messages import Message
from tallyroll.model.records import Increment, event_time, increments_of, record_of
from tallyroll.model.windows import Span
from tallyroll.reasons import Reason
from tests.harness.pipeline import HOUR, MINUTE, NOW, START, record_with, spec_of

MESSAGE = Message("m1", "{}", NOW + 7, 1, "r1")
SPEC = spec_of()
PACKET = Packet("k", "p1", NOW, ((5, 10**6, None), (0, -(10**6), '"x"'), (MINUTE, 2 * 10**6, None)))


@pytest.mark.parametrize(
    ("envelope", "time"),
    [
        (Event("k", None, NOW, 1, None), NOW),
        (Event("k", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f", NOW, 1, None), NOW),
        (Event("k", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f", None, 1, None), 0x017F22E279B0),
        (Event("k", "e1", None, 1, None), MESSAGE.sent),
        (Event("k", None, None, 1, None), MESSAGE.sent),
        (PACKET, NOW + 5),
    ],
)
def test_the_time_that_chooses_the_window(envelope: Event | Packet, time: int) -> None:
    assert event_time(envelope, MESSAGE.sent) == time


def test_the_record_of_an_event() -> None:
    event = Event("k", "e1", NOW, 2_500_000, '{"a":1}')
    record = record_of(event, MESSAGE, SPEC)
    assert (record.key, record.id, record.ts, record.n, record.amount) == (
        "k",
        "e1",
        NOW,
        1,
        2_500_000,
    )
    assert record.shard == SPEC.shard("k", "e1")
    assert record.series == ((30, 1),)
    assert (record.data, record.format, record.packed) == (b'{"a":1}', "json", False)
    assert record.digest == digest(event)


def test_an_event_without_an_id_takes_the_messages() -> None:
    record = record_of(Event("k", None, None, 10**6, None), MESSAGE, SPEC)
    assert (record.id, record.ts, record.data, record.format) == ("m1", MESSAGE.sent, None, None)


def test_the_record_of_a_packet() -> None:
    record = record_of(PACKET, MESSAGE, SPEC)
    assert (record.id, record.ts, record.n, record.amount) == ("p1", NOW + 5, 3, 2 * 10**6)
    assert record.series == ((30, 2), (31, 1))
    assert record.packed
    assert record.data
    assert json.loads(zlib.decompress(record.data)) == [
        NOW,
        [[5, "1", None], [0, "-1", '"x"'], [MINUTE, "2", None]],
    ]


@pytest.mark.parametrize("dt", [START - NOW - 1, START + HOUR - NOW])
def test_a_packet_lies_in_one_window(dt: int) -> None:
    packet = Packet("k", "p1", NOW, ((0, 1, None), (dt, 1, None)))
    with pytest.raises(Rejected, match="event 1 of packet 'p1'") as rejected:
        record_of(packet, MESSAGE, SPEC)
    assert rejected.value.reason is Reason.PACKET_MIXED_WINDOWS


def test_a_packet_has_at_most_256_kb() -> None:
    def message(size: int) -> Message:
        return Message("m1", "x" * (size - 2) + "ü", NOW, 1, "r1")

    assert record_of(PACKET, message(PACKET_BYTES_MAX), SPEC).packed
    with pytest.raises(Rejected) as rejected:
        record_of(PACKET, message(PACKET_BYTES_MAX + 1), SPEC)
    assert rejected.value.reason is Reason.PACKET_TOO_LARGE


def test_a_packets_size_can_be_told_of_any_text() -> None:
    message = Message("m1", '{"note": "\ud800"}', NOW, 1, "r1")
    assert record_of(PACKET, message, SPEC).packed


def test_one_increment_a_key() -> None:
    records = [
        record_with("a", "k", amount=5, series=((3, 1),)),
        record_with("b", "l", amount=7, series=((4, 1),)),
        record_with("c", "k", n=3, amount=-6, series=((1, 1), (3, 2)), size=3_073),
    ]
    assert increments_of(records) == (
        Increment("k", 4, -1, ((1, 1), (3, 3))),
        Increment("l", 1, 7, ((4, 1),)),
    )
    assert increments_of([]) == ()


def test_an_event_of_several_keys_has_a_record_for_each() -> None:
    event = Event("a", "e1", NOW, 10**6, None, ("b", "c"))
    spec = spec_of(hot={"b": 1_000})
    record = record_of(event, MESSAGE, spec)
    assert [each.key for each in record.group] == ["a", "b", "c"]
    assert [each.shard for each in record.group] == [spec.shard(key, "e1") for key in "abc"]
    assert record.shard != record.others[0].shard
    alone = record_of(Event("b", "e1", NOW, 10**6, None), MESSAGE, spec)
    assert record.others[0] == replace(alone, digest=record.digest, keys=("a",))
    assert [each.keys for each in record.group] == [("a", "b", "c"), ("a",), ("a",)]
    assert alone.keys == ()


def test_a_record_notes_the_sixtieth_of_its_events_if_they_share_one() -> None:
    event = Event("k", "e1", NOW, 10**6, None)
    assert record_of(event, MESSAGE, SPEC).slot == 30
    assert record_of(PACKET, MESSAGE, SPEC).slot is None
    assert record_of(replace(PACKET, entries=PACKET.entries[:2]), MESSAGE, SPEC).slot == 30
    home = Span(START - HOUR, START)
    redriven = record_of(replace(event, ts=NOW - HOUR), MESSAGE, SPEC, home)
    assert (redriven.slot, SPEC.slot(MESSAGE.sent)) == (30, 30)
