"""A file that is sent again unchanged counts once; any other file is a new one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tallyroll.client.jsonlines import Source
from tests.cli.desk import Desk, lines
from tests.harness.pipeline import MINUTE, NOW

EVENTS: list[dict[str, Any]] = [
    {"key": f"k{n % 3}", "ts": NOW - n * 20_000, "value": n} for n in range(60)
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    written = tmp_path / "events.jsonl"
    written.write_bytes(lines(*EVENTS))
    return written


def events(desk: Desk, *keys: str) -> int:
    return sum(count["events"] for count in desk.run("--json", "count", *keys).json)


@pytest.mark.parametrize("options", [(), ("--no-pack",)])
def test_the_same_bytes_sent_twice_count_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, file: Path, options: tuple[str, ...]
) -> None:
    assert desk.run("send", *options, str(file)).status == 0
    first = list(desk.producer.bodies)
    desk.pipeline.effects.pass_by(7_000)
    # Neither the time nor the chunks in which lines are read may matter.
    monkeypatch.setattr("tallyroll.cli.send.CHUNK_LINES", 7)
    answer = desk.run("send", *options, "--limit-rate", "100", str(file))
    assert sorted(desk.producer.bodies[len(first) :]) == sorted(first)
    assert "sent again unchanged and with the same options they count once" in answer.err
    desk.drain()
    assert events(desk, "k0", "k1", "k2") == 60
    assert desk.pipeline.reasons() == []


def test_packets_are_cut_by_minute(desk: Desk, file: Path) -> None:
    desk.run("send", str(file))
    packets = [json.loads(body) for body in desk.producer.bodies]
    assert all(packet["t0"] % MINUTE == 0 for packet in packets)
    assert all(0 <= dt < MINUTE for packet in packets for dt, *_ in packet["events"])
    assert len(packets) == len({(packet["key"], packet["t0"]) for packet in packets})


def test_a_file_that_was_appended_to_is_a_new_one(desk: Desk, file: Path) -> None:
    desk.run("send", str(file))
    with file.open("ab") as more:
        more.write(lines({"key": "k0", "ts": NOW}))
    desk.run("send", str(file))
    ids = [json.loads(body)["id"] for body in desk.producer.bodies]
    assert len(set(ids)) == len(ids)
    desk.drain()
    assert events(desk, "k0", "k1", "k2") == 121  # all anew, as the help says: never in part


def test_events_with_ids_count_once_in_any_file(desk: Desk, file: Path) -> None:
    own = [{**event, "id": f"e{n}"} for n, event in enumerate(EVENTS)]
    for number in (50, 60):
        file.write_bytes(lines(*own[:number]))
        answer = desk.run("send", str(file))
        assert (answer.status, answer.err) == (0, "")
    desk.drain()
    assert events(desk, "k0", "k1", "k2") == 60


def test_packing_or_not_is_another_way_to_send(desk: Desk, file: Path) -> None:
    desk.run("send", str(file))
    desk.run("send", "--no-pack", str(file))
    desk.drain()
    assert events(desk, "k0", "k1", "k2") == 120
    assert desk.pipeline.reasons() == []


def test_an_event_without_id_and_time_is_told_and_counts_again(desk: Desk, file: Path) -> None:
    file.write_bytes(lines({"key": "k0"}, {"key": "k0", "ts": NOW}))
    answer = desk.run("send", str(file))
    assert "1 event has neither an id nor a time: sent again they count again" in answer.err
    desk.pipeline.effects.pass_by(1_000)
    desk.run("send", str(file))
    desk.drain()
    assert events(desk, "k0") == 3
    assert desk.pipeline.reasons() == []


def test_an_interrupted_file_is_sent_again_and_counts_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, file: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr("tallyroll.cli.send.CHUNK_LINES", 10)
    file.write_bytes(lines(*EVENTS[:35], {"key": "k0", "ts": NOW, "id": "stop"}, *EVENTS[35:]))
    unsent = tmp_path / "unsent.jsonl"

    def refuses(body: str) -> None:
        if "stop" in body:
            raise KeyboardInterrupt

    desk.producer.refuses = refuses
    answer = desk.run("send", "--unsent", str(unsent), str(file))
    assert answer.status == 130
    assert f"send {file} again, with the same options: what was sent counts once" in answer.err

    desk.producer.refuses = lambda body: None
    assert desk.run("send", str(unsent)).status == 0
    assert desk.run("send", str(file)).status == 0
    desk.drain()
    assert events(desk, "k0", "k1", "k2") == 61
    assert desk.pipeline.reasons() == []


def test_a_file_that_changes_while_it_is_sent_is_told(desk: Desk, file: Path) -> None:
    def refuses(body: str) -> None:
        with file.open("ab") as more:
            more.write(lines({"key": "k0", "ts": NOW}))

    desk.producer.refuses = refuses
    answer = desk.run("send", str(file))
    assert "changed while it was read: sent again, events without ids count again" in answer.err


def test_events_of_stdin_are_packed_by_window_if_it_is_made(desk: Desk) -> None:
    recent = [{"key": "k", "ts": NOW - n * MINUTE} for n in range(30)]
    ahead = [{"key": "k", "ts": NOW + n * MINUTE} for n in range(1, 5)]
    answer = desk.run("--json", "send", stdin=lines(*recent, *ahead))
    packets = [json.loads(body) for body in desk.producer.bodies]
    assert [len(packet["events"]) for packet in packets] == [30, 1, 1, 1, 1]
    saved = answer.json[0]["packed"]
    assert saved["units_each"] < 0.5
    assert saved["units_each_alone"] > 2
    desk.drain()
    assert events(desk, "k") == 34


def test_what_packing_saved_is_shown(desk: Desk, file: Path) -> None:
    assert "packed" not in desk.run("send", str(file)).out  # of each key one event a minute
    file.write_bytes(lines(*[{"key": "k", "ts": NOW - n * 1_000} for n in range(60)]))
    answer = desk.run("send", str(file))
    assert answer.row("events", "packed", "60")
    assert answer.row("in", "packets", "2")
    assert answer.row("write", "units", "each,", "about", "0.133")
    assert answer.row("if", "sent", "singly,", "about", "2.067")


def test_what_a_disk_does_not_give_is_sent_again(
    desk: Desk, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_bytes(lines(*({"key": "k0", "ts": NOW - n} for n in range(4_000))))
    counted = Source._counted

    def failing(source: Source, most: int) -> bytes:
        if source.position > 60_000:
            raise OSError(5, "Input/output error")
        return counted(source, most)

    with monkeypatch.context() as patched:
        patched.setattr(Source, "_counted", failing)
        answer = desk.run("send", str(file))
        assert answer.status == 1
        assert "the input is broken" in answer.err
        assert f"send {file} again, with the same options" in answer.err
    desk.drain()
    assert desk.run("send", str(file)).status == 0
    desk.drain()
    assert desk.pipeline.reasons() == []
    assert events(desk, "k0") == 4_000
