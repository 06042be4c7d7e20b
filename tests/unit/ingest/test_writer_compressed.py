"""Compressed packets in a batch: they count as packets do, and many large ones are divided."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tallyroll import limits
from tallyroll.ingest import placement
from tallyroll.limits import PACKET_BYTES_MAX
from tallyroll.model import events
from tallyroll.model.events import Envelope
from tallyroll.model.foreign.reading import read
from tallyroll.model.formats import compression
from tallyroll.model.formats.compression import compressed
from tests.harness.pipeline import NOW, TIME_LEFT, opened


def packet(packet_id: str, events: int = 3, payload: str = "x") -> str:
    entries = [[number, 1, payload] for number in range(events)]
    return json.dumps({"v": 1, "id": packet_id, "key": "k", "t0": NOW, "events": entries})


def test_a_packet_counts_once_whether_it_comes_compressed_or_not() -> None:
    pipeline = opened()
    report = pipeline.write(compressed(packet("p")), packet("p"), compressed(packet("q")))
    assert (report.packed_events, report.duplicates) == (6, 1)
    assert pipeline.write(packet("q")).duplicates == 1
    assert pipeline.tally("k") == (6, 6_000_000)


def test_a_packet_may_be_larger_than_its_body() -> None:
    pipeline = opened()
    text = packet("p", 2_000, "the same text again " * 10)
    assert len(text) > PACKET_BYTES_MAX > len(compressed(text))
    assert pipeline.write(compressed(text)).packed_events == 2_000
    assert pipeline.write(text).rejected == {"packet-too-large": 1}


def test_what_expands_to_too_much_at_once_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EXPANDED_BATCH_BYTES_MAX", 250)
    pipeline = opened()
    bodies = [compressed(packet(f"p{number}")) for number in range(5)]
    report = pipeline.write(*bodies, packet("plain"))
    assert len(packet("p0")) < 250 / 2
    assert (report.packed_events, len(report.failures)) == (9, 3)
    assert {seconds for _, seconds in pipeline.queue.delays} == {5}
    assert pipeline.write(*bodies[2:]).packed_events == 6
    assert pipeline.write(bodies[4]).packed_events == 3
    assert pipeline.tally("k")[0] == 18


def test_one_packet_is_always_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EXPANDED_BATCH_BYTES_MAX", 10)
    pipeline = opened()
    bodies = [compressed(packet(f"p{number}")) for number in range(3)]
    assert [pipeline.write(*bodies[at:]).packed_events for at in range(3)] == [3, 3, 3]


def test_each_batch_has_the_whole_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a writer that lives long enough would hand back every compressed packet."""
    monkeypatch.setattr(limits, "EXPANDED_BATCH_BYTES_MAX", 250)
    pipeline = opened()
    writer = pipeline.writer()
    for number in range(5):
        message = pipeline.message(compressed(packet(f"p{number}")))
        assert writer.write([message], TIME_LEFT).packed_events == 3


BOMB = compressed("[" + "1," * 500_000 + "1]")  # 1 MB of JSON in 1.4 KB, and no packet


def test_nothing_more_is_expanded_beyond_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of packets nor of what turns out to be none; healthy messages count beside them."""
    monkeypatch.setattr(limits, "EXPANDED_BATCH_BYTES_MAX", 3 * limits.EXPANDED_BYTES_MAX)
    expansions: list[object] = []

    def expanded(stream: object) -> str:
        expansions.append(stream)
        return compression.expanded(stream)

    monkeypatch.setattr(events, "expanded", expanded)
    pipeline = opened()
    escaped = BOMB.replace("zlib", "\\u007alib")
    healthy = json.dumps({"key": "k", "payload": {"zlib": 1}})
    report = pipeline.write(*[BOMB, escaped] * 10, healthy)
    assert len(expansions) == 3
    assert (report.single_events, len(report.failures)) == (1, 17)
    assert report.rejected == {"not-an-object": 3}


def test_reading_ends_in_time_for_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the time is for reading: what was read by then counts, the rest comes again."""
    pipeline = opened()
    bodies = [json.dumps({"key": "k", "id": f"e{number}"}) for number in range(10)]

    def reading(body: str, *others: Any) -> Envelope:
        pipeline.effects.pass_by(6_000)
        return read(body, *others)

    monkeypatch.setattr(placement, "read", reading)
    messages = [pipeline.message(body) for body in bodies]
    report = pipeline.writer().write(messages, 60_000)
    assert (report.single_events, len(report.failures)) == (4, 6)
    assert pipeline.tally("k")[0] == 4


def test_what_is_wrong_with_it_is_a_reason() -> None:
    pipeline = opened()
    pipeline.write('{"v":2,"zlib":"eJw="}', compressed(packet("p").replace('"k"', '"~"')))
    assert pipeline.reasons() == ["bad-compression", "bad-key"]
    assert pipeline.queue.dead_letters[0].message.body == '{"v":2,"zlib":"eJw="}'


def test_bodies_that_are_rejected_leave_the_room_to_compressed_ones() -> None:
    """JSON with escapes may be a compressed packet, until it is read."""
    bad = [json.dumps({"key": "k", "id": f"\u00e9{n}", "value": "zw\u00f6lf"}) for n in range(40)]
    report = opened().write(*bad, compressed(packet("p")))
    assert (report.packed_events, report.rejected.total(), report.failures) == (3, 40, [])
