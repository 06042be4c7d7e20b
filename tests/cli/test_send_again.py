"""A file that is sent again unchanged counts once; any other file is a new one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tallyroll.client.jsonlines import LineSource
from tests.cli.command_line import CommandLine, lines
from tests.harness.pipeline import HOUR, MINUTE, NOW, TIME_LEFT

EVENTS: list[dict[str, Any]] = [
    {"key": f"k{n % 3}", "ts": NOW - n * 20_000, "value": n} for n in range(60)
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    written = tmp_path / "events.jsonl"
    written.write_bytes(lines(*EVENTS))
    return written


def events(cli: CommandLine, *keys: str) -> int:
    return sum(count["events"] for count in cli.run("--json", "count", *keys).json)


@pytest.mark.parametrize("options", [(), ("--no-pack",)])
def test_the_same_bytes_sent_twice_count_once(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, file: Path, options: tuple[str, ...]
) -> None:
    assert cli.run("send", *options, str(file)).status == 0
    first = list(cli.producer.bodies)
    cli.pipeline.effects.pass_by(7_000)
    # Neither the time nor the chunks in which lines are read may matter.
    monkeypatch.setattr("tallyroll.cli.send.CHUNK_LINES", 7)
    answer = cli.run("send", *options, "--limit-rate", "100", str(file))
    assert sorted(cli.producer.bodies[len(first) :]) == sorted(first)
    assert "sent again unchanged and with the same options they count once" in answer.err
    cli.drain()
    assert events(cli, "k0", "k1", "k2") == 60
    assert cli.pipeline.reasons() == []


def test_packets_are_cut_by_minute(cli: CommandLine, file: Path) -> None:
    cli.run("send", str(file))
    packets = [json.loads(body) for body in cli.producer.bodies]
    assert all(packet["t0"] % MINUTE == 0 for packet in packets)
    assert all(0 <= dt < MINUTE for packet in packets for dt, *_ in packet["events"])
    assert len(packets) == len({(packet["key"], packet["t0"]) for packet in packets})


def test_a_file_that_was_appended_to_is_a_new_one(cli: CommandLine, file: Path) -> None:
    cli.run("send", str(file))
    with file.open("ab") as more:
        more.write(lines({"key": "k0", "ts": NOW}))
    cli.run("send", str(file))
    ids = [json.loads(body)["id"] for body in cli.producer.bodies]
    assert len(set(ids)) == len(ids)
    cli.drain()
    assert events(cli, "k0", "k1", "k2") == 121  # all anew, as the help says: never in part


def test_events_with_ids_count_once_in_any_file(cli: CommandLine, file: Path) -> None:
    own = [{**event, "id": f"e{n}"} for n, event in enumerate(EVENTS)]
    for number in (50, 60):
        file.write_bytes(lines(*own[:number]))
        answer = cli.run("send", str(file))
        assert (answer.status, answer.err) == (0, "")
    cli.drain()
    assert events(cli, "k0", "k1", "k2") == 60


def test_packing_or_not_is_another_way_to_send(cli: CommandLine, file: Path) -> None:
    cli.run("send", str(file))
    cli.run("send", "--no-pack", str(file))
    cli.drain()
    assert events(cli, "k0", "k1", "k2") == 120
    assert cli.pipeline.reasons() == []


def test_an_event_without_id_and_time_is_told_and_counts_again(
    cli: CommandLine, file: Path
) -> None:
    file.write_bytes(lines({"key": "k0"}, {"key": "k0", "ts": NOW}))
    answer = cli.run("send", str(file))
    assert "1 event has neither an id nor a time: sent again they count again" in answer.err
    cli.pipeline.effects.pass_by(1_000)
    cli.run("send", str(file))
    cli.drain()
    assert events(cli, "k0") == 3
    assert cli.pipeline.reasons() == []


def test_an_interrupted_file_is_sent_again_and_counts_once(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, file: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr("tallyroll.cli.send.CHUNK_LINES", 10)
    file.write_bytes(lines(*EVENTS[:35], {"key": "k0", "ts": NOW, "id": "stop"}, *EVENTS[35:]))
    unsent = tmp_path / "unsent.jsonl"

    def refuses(body: str) -> None:
        if "stop" in body:
            raise KeyboardInterrupt

    cli.producer.refuses = refuses
    answer = cli.run("send", "--unsent", str(unsent), str(file))
    assert answer.status == 130
    assert f"send {file} again, with the same options: what was sent counts once" in answer.err

    cli.producer.refuses = lambda body: None
    assert cli.run("send", str(unsent)).status == 0
    assert cli.run("send", str(file)).status == 0
    cli.drain()
    assert events(cli, "k0", "k1", "k2") == 61
    assert cli.pipeline.reasons() == []


def test_a_file_that_changes_while_it_is_sent_is_told(cli: CommandLine, file: Path) -> None:
    def refuses(body: str) -> None:
        with file.open("ab") as more:
            more.write(lines({"key": "k0", "ts": NOW}))

    cli.producer.refuses = refuses
    answer = cli.run("send", str(file))
    assert "changed while it was read: sent again, events without ids count again" in answer.err


def test_events_of_stdin_are_packed_by_window_if_it_is_made(cli: CommandLine) -> None:
    recent = [{"key": "k", "ts": NOW - n * MINUTE} for n in range(30)]
    ahead = [{"key": "k", "ts": NOW + n * MINUTE} for n in range(1, 5)]
    answer = cli.run("--json", "send", stdin=lines(*recent, *ahead))
    packets = [json.loads(body) for body in cli.producer.bodies]
    assert [len(packet["events"]) for packet in packets] == [30, 1, 1, 1, 1]
    saved = answer.json[0]["packed"]
    assert saved["units_each"] < 0.5
    assert saved["units_each_alone"] > 2
    cli.drain()
    assert events(cli, "k") == 34


def test_what_packing_saved_is_shown(cli: CommandLine, file: Path) -> None:
    assert "packed" not in cli.run("send", str(file)).out  # of each key one event a minute
    file.write_bytes(lines(*[{"key": "k", "ts": NOW - n * 1_000} for n in range(60)]))
    answer = cli.run("send", str(file))
    assert answer.row("events", "packed", "60")
    assert answer.row("in", "packets", "2")
    assert answer.row("write", "units", "each,", "about", "0.133")
    assert answer.row("if", "sent", "singly,", "about", "2.067")


def test_what_a_disk_does_not_give_is_sent_again(
    cli: CommandLine, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_bytes(lines(*({"key": "k0", "ts": NOW - n} for n in range(4_000))))
    counted = LineSource._counted

    def failing(source: LineSource, most: int) -> bytes:
        if source.position > 60_000:
            raise OSError(5, "Input/output error")
        return counted(source, most)

    with monkeypatch.context() as patched:
        patched.setattr(LineSource, "_counted", failing)
        answer = cli.run("send", str(file))
        assert answer.status == 1
        assert "the input is broken" in answer.err
        assert f"send {file} again, with the same options" in answer.err
    cli.drain()
    assert cli.run("send", str(file)).status == 0
    cli.drain()
    assert cli.pipeline.reasons() == []
    assert events(cli, "k0") == 4_000


@pytest.mark.parametrize(("time", "counted"), [((), 2), (("--ts", str(NOW)), 1)])
def test_an_id_counts_once_with_its_time(
    cli: CommandLine, time: tuple[str, ...], counted: int
) -> None:
    """As the help says: without its time the event lies in another window an hour later."""
    for _ in range(2):
        assert cli.run("send", "--key", "k", "--id", "e", *time).status == 0
        cli.drain()
        cli.pipeline.effects.pass_by(HOUR)
        cli.pipeline.roller().run(TIME_LEFT)
    assert events(cli, "k") == counted
