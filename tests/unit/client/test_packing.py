from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tallyroll.client.checkpoint import FIRST_SEGMENT
from tallyroll.client.jsonlines import LineSource, UnreadableInput
from tallyroll.client.packing import FIRST_LIMITS, PACKET_EVENTS_MAX, Packer, PacketLimits, pack
from tallyroll.limits import PACKET_BYTES_MAX
from tallyroll.model.events import Event, Packet, decode, event_body
from tallyroll.model.formats.references import Reference
from tests.harness.pipeline import MINUTE, NOW, SECOND


def ids() -> Iterator[str]:
    return (f'"packet" {number}' for number in count(1))


def packed(*events: Event, **limits: int) -> list[Event | Packet]:
    numbered = ids()
    bodies = list(pack(events, lambda: next(numbered), **limits))
    assert all(len(body.encode()) <= PACKET_BYTES_MAX for body in bodies)
    return [decode(body) for body in bodies]


def event(ts: int = NOW, key: str = "k", amount: int = 10**6, payload: str | None = None) -> Event:
    return Event(key, None, ts, amount, payload)


def test_the_writer_reads_what_was_packed() -> None:
    events = [
        event(),
        event(NOW + 1, amount=-500_000),
        event(NOW + 2, payload='{"a":"ü"}'),
        event(NOW + 3, amount=0, payload="[]"),
    ]
    (packet,) = packed(*events)
    assert isinstance(packet, Packet)
    assert (packet.key, packet.id, packet.t0) == ("k", '"packet" 1', NOW)
    assert [event(NOW + dt, "k", amount, payload) for dt, amount, payload in packet.entries] == [
        *events
    ]


def test_an_event_with_an_uploaded_payload_goes_alone() -> None:
    """A packed event has no place for a reference, which would be lost."""
    reference = Reference("archive", "payloads/votes/2026-11-20/x", 7, "0" * 64)
    referring = replace(event(), reference=reference)
    single, packet = packed(referring, event(NOW + 1))
    assert single == replace(referring, id='"packet" 1')
    assert len(_packet(packet).entries) == 1


def test_a_packet_has_one_key_and_one_minute() -> None:
    packets = packed(
        event(NOW - 1), event(NOW), event(NOW, "l"), event(NOW + MINUTE - 1), event(NOW + MINUTE)
    )
    found = [(packet.key, packet.t0, len(packet.entries)) for packet in map(_packet, packets)]
    assert found == [("k", NOW - MINUTE, 1), ("k", NOW, 2), ("l", NOW, 1), ("k", NOW + MINUTE, 1)]


def test_packets_for_shorter_windows() -> None:
    packets = packed(event(NOW), event(NOW + 999), event(NOW + SECOND), span_ms=SECOND)
    assert [_packet(packet).t0 for packet in packets] == [NOW, NOW + SECOND]


def test_a_full_packet_goes_at_once() -> None:
    numbered = ids()
    bodies = pack((event(NOW + n) for n in range(PACKET_EVENTS_MAX + 1)), lambda: next(numbered))
    sizes = [len(_packet(decode(body)).entries) for body in bodies]
    assert sizes == [PACKET_EVENTS_MAX, 1]


def test_packets_stay_below_the_size_that_the_writer_takes() -> None:
    payload = '"' + "ü" * 50_000 + '"'
    sizes = [len(_packet(found).entries) for found in packed(*[event(payload=payload)] * 5)]
    assert sizes == [2, 2, 1]


def test_an_event_too_large_to_be_packed_goes_alone_under_an_id_of_its_own() -> None:
    payload = '"' + "x" * PACKET_BYTES_MAX + '"'
    numbered = ids()
    bodies = list(pack([event(), event(payload=payload)], lambda: next(numbered)))
    large, packet = map(decode, bodies)
    assert large == Event("k", '"packet" 1', NOW, 10**6, payload)
    assert isinstance(packet, Packet)


def test_so_much_memory_is_held_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallyroll.client.packing.OPEN_BYTES_MAX", 1_001 * 668)
    numbered = ids()
    found = pack((event(key=f"k{n:03}") for n in range(1_002)), lambda: next(numbered))
    assert _packet(decode(next(found))).key == "k000"
    assert [_packet(decode(body)).key for body in found] == [f"k{n:03}" for n in range(1, 1_002)]


@pytest.mark.parametrize(
    "event", [Event("k", "own", NOW, 10**6, None), Event("k", None, None, 10**6, None)]
)
def test_only_events_with_a_time_and_without_an_id_are_packed(event: Event) -> None:
    with pytest.raises(ValueError, match="with a time and without an id"):
        packed(event)


@pytest.mark.parametrize(
    "event",
    [
        Event("k", None, None, 10**6, None),
        Event('k"\\', 'id "1"', NOW, -1, '{"a":[1,"ü"]}'),
        Event("k", "1", NOW, 10**24 - 1, "null"),
    ],
)
def test_an_events_body(event: Event) -> None:
    expected = event if event.payload != "null" else Event("k", "1", NOW, 10**24 - 1, None)
    assert decode(event_body(event)) == expected


def _packet(envelope: Event | Packet) -> Packet:
    assert isinstance(envelope, Packet)
    return envelope


def test_the_oldest_packets_are_cut_when_all_take_too_much() -> None:
    events = [event(NOW + n % 50, key=f"k{n * 7 % 31}") for n in range(500)]
    limits = PacketLimits(open_bytes=30_000)
    numbered = ids()
    packer = Packer(lambda: next(numbered), lambda ts: ts // MINUTE * MINUTE, limits)
    cut = [done.body for each in events for done in packer.add(each)]
    assert packer.waiting == 500 - sum(len(_packet(decode(body)).entries) for body in cut)
    rest = [done.body for done in packer.rest()]
    assert (len(cut), len(rest)) == (35, 30)
    assert _packet(decode(cut[0])).key == events[0].key
    assert sum(len(_packet(decode(body)).entries) for body in cut + rest) == 500


@pytest.mark.parametrize(
    ("limits", "cut"),
    [
        (PacketLimits(events=10), [10] * 6),
        (PacketLimits(entries_bytes=110), [24, 22]),  # an entry has 4 bytes, from the tenth on 5
        # A packet takes 600 bytes, 1 of its key, and of each entry 60 and its own.
        (PacketLimits(open_bytes=2_500), [30] * 2),
        (PacketLimits(open_bytes=2_500, entry_bytes=120), [16] * 3),
        (PacketLimits(open_bytes=2_500, packet_bytes=1_600), [14] * 4),
    ],
    ids=["events", "entries_bytes", "open_bytes", "entry_bytes", "packet_bytes"],
)
def test_each_limit_decides_what_a_packet_holds(limits: PacketLimits, cut: list[int]) -> None:
    numbered = ids()
    packer = Packer(lambda: next(numbered), lambda ts: ts // MINUTE * MINUTE, limits)
    first = NOW // MINUTE * MINUTE
    bodies = [done.body for n in range(60) for done in packer.add(event(first + n))]
    assert [len(_packet(decode(body)).entries) for body in bodies] == cut


def test_a_checkpoint_without_limits_has_those_of_the_first_release() -> None:
    """Ids of packets follow from them: another number here would count a load twice."""
    assert FIRST_SEGMENT == 100_000
    assert PacketLimits(1_000, 258_048, 33_554_432, 60, 600) == FIRST_LIMITS
    assert FIRST_LIMITS.way == "1000"


def test_a_file_that_is_gone_when_its_digest_is_made_is_named(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"{}\n")
    with closing(LineSource(str(path))) as source:
        path.unlink()
        with pytest.raises(UnreadableInput, match=r"events\.jsonl: .*No such file"):
            source.digest()
