"""Packets that a producer compresses: which, how many events they hold, and what SQS charges."""

from __future__ import annotations

import json
from random import Random

import pytest

from tallyroll.client.packing import COMPRESS_FROM, ENTRIES_BYTES_MAX, Packer, queueable, smaller
from tallyroll.limits import EXPANDED_BYTES_MAX, PACKET_BYTES_MAX
from tallyroll.model.events import Event, Packet, decode
from tests.harness.pipeline import NOW
from tests.unit.client.stepped import Bytes, Stepped

RANDOM = Random(7)


@pytest.fixture
def world() -> Stepped:
    return Stepped()


def packets(world: Stepped) -> list[Packet]:
    found = [decode(body) for body in world.poster.bodies]
    assert all(isinstance(packet, Packet) for packet in found)
    return found  # type: ignore[return-value]


def payloads(packet: Packet) -> list[str]:
    return [json.loads(payload or "null") for _, _, payload in packet.entries]


def incompressible(size: int) -> str:
    return "".join(RANDOM.choices([chr(code) for code in range(35, 127) if code != 92], k=size))


def test_small_packets_are_sent_as_they_are(world: Stepped) -> None:
    producer = world.producer(compressed=True)
    for _ in range(100):
        producer.send("k", payload="the same")
    producer.flush()
    [body] = world.poster.bodies
    assert len(body) < COMPRESS_FROM
    assert json.loads(body)["v"] == 1


def test_large_packets_are_compressed_by_choice(world: Stepped) -> None:
    for compress in (False, True):
        producer = world.producer(compressed=compress)
        for number in range(1_000):
            producer.send("k", payload={"device": "phone", "number": number})
        producer.flush()
    plain, shrunk = world.poster.bodies
    assert [json.loads(body)["v"] for body in (plain, shrunk)] == [1, 2]
    assert len(shrunk) < len(plain) / 3
    first, second = packets(world)
    assert payloads(first) == payloads(second)


def test_what_would_not_shrink_is_sent_as_it_is(world: Stepped) -> None:
    producer = world.producer(compressed=True)
    for _ in range(20):
        producer.send("k", payload=incompressible(1_000))
    producer.flush()
    assert json.loads(world.poster.bodies[0])["v"] == 1


def test_a_packet_holds_as_many_events_as_fit_when_they_are_compressed(world: Stepped) -> None:
    producer = world.producer(
        compressed=True, packet_events=100_000, linger_ms=60_000, buffer_bytes=10_000_000
    )
    sent = [f"{number:05d} " + "some text of an event " * 20 for number in range(4_000)]
    for payload in sent:
        producer.send("k", payload=payload)
    producer.flush()
    found = packets(world)
    assert [text for packet in found for text in payloads(packet)] == sent
    assert len(found) == 2, "1.8 MB, of which a packet holds 1 MiB"
    assert found[0].expanded > 0.8 * EXPANDED_BYTES_MAX
    assert all(len(body) < PACKET_BYTES_MAX / 4 for body in world.poster.bodies)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 1.0])
def test_no_body_is_larger_than_a_packet_may_be(world: Stepped, share: float) -> None:
    """Whatever part of the payloads is random, also if only what comes later is."""
    producer = world.producer(
        compressed=True, packet_events=100_000, linger_ms=60_000, buffer_bytes=10_000_000
    )
    sent = []
    for number in range(600):
        noisy = int(3_000 * (share if number > 200 else 0))
        sent.append(incompressible(noisy) + "a" * (3_000 - noisy))
        producer.send("k", payload=sent[-1])
    producer.flush()
    assert [text for packet in packets(world) for text in payloads(packet)] == sent
    assert all(len(body.encode()) <= PACKET_BYTES_MAX for body in world.poster.bodies)


def test_a_large_packet_of_a_spool_is_compressed_by_a_producer_that_does_not(
    world: Stepped,
) -> None:
    journal = Bytes()
    told = {"packet_events": 100_000, "linger_ms": 60_000, "buffer_bytes": 10_000_000}
    producer = world.producer(journal=journal, compressed=True, **told)
    for _ in range(1_000):
        producer.send("k", payload="x" * 500 + "\ufffe")
    later = world.producer(journal=Bytes(journal.data))
    later.flush()
    [packet] = packets(world)
    assert len(packet.entries) == 1_000
    assert packet.expanded > PACKET_BYTES_MAX
    assert payloads(packet)[0] == "x" * 500 + "\ufffe"


@pytest.mark.parametrize("later", [False, True], ids=["sent", "of a spool"])
def test_a_packet_is_measured_in_bytes_not_characters(world: Stepped, *, later: bool) -> None:
    """A text of three bytes to a character has fewer characters than its compressed body has."""
    journal = Bytes()
    told = {"packet_events": 100_000, "linger_ms": 60_000, "buffer_bytes": 10_000_000}
    producer = world.producer(journal=journal, compressed=True, **told)
    letters = [chr(0x4E00 + number) for number in range(300)]
    sent = ["".join(RANDOM.choices(letters, k=300)) for _ in range(380)]
    for payload in sent:
        producer.send("k", payload=payload)
    if later:
        producer = world.producer(journal=Bytes(journal.data))
    producer.flush()
    assert [text for packet in packets(world) for text in payloads(packet)] == sent
    assert all(len(body.encode()) <= PACKET_BYTES_MAX for body in world.poster.bodies)


def test_a_packer_compresses_the_packets_that_it_would_make_anyway() -> None:
    events = [Event.of("k", ts=NOW + number, payload="again " * 50) for number in range(2_000)]

    def bodies(*, compress: bool) -> list[str]:
        ids = iter(f"p{number}" for number in range(10))
        packer = Packer(lambda: next(ids), lambda ts: ts // 60_000 * 60_000, compress=compress)
        made = [packed for event in events for packed in packer.add(event)]
        return [packed.body for packed in (*made, *packer.rest())]

    plain, shrunk = bodies(compress=False), bodies(compress=True)
    assert [decode(body) for body in plain] == [decode(body) for body in shrunk]
    assert sum(map(len, shrunk)) < sum(map(len, plain)) / 10
    assert len(smaller(queueable(plain[0]))) == len(shrunk[0]) < ENTRIES_BYTES_MAX
