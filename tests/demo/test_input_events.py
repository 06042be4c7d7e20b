from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.demo.input_events import InputEvents, KeyTruth
from tallyroll.errors import UsageError
from tallyroll.model.events import Event, Packet, decode
from tallyroll.model.windows import Grid
from tallyroll.reasons import Reason

NOW = 1_795_161_600_000
DAY = 86_400_000
SKEW = 300_000


@pytest.fixture
def events() -> Iterator[InputEvents]:
    events = InputEvents()
    yield events
    events.close()


def read(events: InputEvents, path: Path, *lines: object) -> int:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts), encoding="utf-8")
    return list(events.read(str(path), NOW, SKEW))[-1]


def test_truth_counts_distinct_events(events: InputEvents, tmp_path: Path) -> None:
    same = {"id": "x", "key": "a", "ts": NOW - DAY, "value": 2}
    later = {**same, "ts": NOW - 3 * DAY}
    assert read(events, tmp_path / "f", same, same, later, {"key": "a"}, {"key": "b"}) == 5
    seconds = events.window_seconds(NOW)
    assert events.settle(seconds, NOW) == 1
    assert events.truth() == {"a": KeyTruth(3, 5_000_000), "b": KeyTruth(1, 1_000_000)}
    assert not events.bad.reasons


def test_bad_lines_are_named_and_left_out(events: InputEvents, tmp_path: Path) -> None:
    lines = (
        {"key": "good"},
        "no JSON",
        {"key": ""},
        {"key": "k", "ts": NOW + SKEW + 1},
        {"v": 1, "id": "p", "key": "k", "t0": NOW, "events": [[0]]},
        {"id": "twice", "key": "k", "ts": NOW, "value": 1},
        {"id": "twice", "key": "k", "ts": NOW, "value": 2},
    )
    read(events, tmp_path / "f", *lines)
    events.settle(3600, NOW)
    assert [(bad.number, bad.reason) for bad in events.bad.first] == [
        (2, Reason.NOT_JSON),
        (3, Reason.BAD_KEY),
        (4, Reason.TOO_FAR_AHEAD),
        (5, Reason.BAD_PACKET),
        (7, Reason.ID_CONFLICT),
    ]
    assert "line 6" in events.bad.first[-1].detail
    assert '"id":"twice"' in events.bad.first[-1].shown
    assert '"value":2' in events.bad.first[-1].shown
    assert events.truth().keys() == {"good", "k"}


@pytest.mark.parametrize(
    ("days", "seconds"),
    [(0.5, 3_600), (4, 3_600), (5, 10_800), (90, 86_400), (6 * 365, 28 * 86_400)],
)
def test_the_window_length_keeps_to_a_hundred_windows(
    events: InputEvents, tmp_path: Path, days: float, seconds: int
) -> None:
    first = NOW - round(days * DAY)
    read(events, tmp_path / "f", {"key": "a", "ts": first}, {"key": "a", "ts": NOW})
    assert events.window_seconds(NOW) == seconds
    grid = Grid.of(seconds)
    assert len(list(grid.over(grid.at(first).start, NOW + 1))) <= 100
    assert events.spans(grid) == sorted({grid.at(first), grid.at(NOW)})


def test_a_span_beyond_a_hundred_windows_is_refused(events: InputEvents, tmp_path: Path) -> None:
    read(events, tmp_path / "f", {"key": "a", "ts": 10**11}, {"key": "a", "ts": NOW})
    assert events.window_seconds(NOW) == 364 * 86_400
    events._table.execute("UPDATE event SET at = at + ? WHERE line = 2", (100 * 366 * DAY,))
    with pytest.raises(UsageError, match="more than 100 windows"):
        events.window_seconds(NOW)


def test_bodies_carry_every_event_once(events: InputEvents, tmp_path: Path) -> None:
    lines = [{"id": f"e{n}", "key": "a", "ts": NOW, "payload": {"n": n}} for n in range(5)]
    read(events, tmp_path / "f", *lines, *({"key": "b", "value": n} for n in range(7)))
    envelopes = [decode(body) for body in events.bodies(lambda: NOW, lambda: "packet")]
    singles = [envelope for envelope in envelopes if isinstance(envelope, Event)]
    packets = [envelope for envelope in envelopes if isinstance(envelope, Packet)]
    assert [(single.id, single.payload) for single in singles] == [
        (f"e{n}", f'{{"n":{n}}}') for n in range(5)
    ]
    assert [amount for packet in packets for _, amount, _ in packet.entries] == [
        n * 1_000_000 for n in range(7)
    ]


def test_gzip_is_recognized(events: InputEvents, tmp_path: Path) -> None:
    path = tmp_path / "f.any"
    path.write_bytes(gzip.compress(b'{"key":"a"}\n' * 2500))
    assert list(events.read(str(path), NOW, SKEW)) == [1000, 2000, 2500]


def test_an_absent_file_is_named(events: InputEvents, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="absent"):
        list(events.read(str(tmp_path / "absent"), NOW, SKEW))
