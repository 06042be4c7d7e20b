"""A load that was killed, interrupted or held up goes on at its checkpoint."""

from __future__ import annotations

import gzip
import json
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tallyroll.client import checkpoint, loading
from tallyroll.client.checkpoint import Checkpoint
from tallyroll.client.jsonlines import LineSource
from tallyroll.client.packing import FIRST_LIMITS, PacketLimits
from tallyroll.settings import Settings
from tests.cli.command_line import CommandLine, lines
from tests.harness.pipeline import NOW, opened

KEYS = ("k0", "k1", "k2")


class Killed(BaseException):
    """The process ended here."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loading, "SEGMENT", 10)
    monkeypatch.setattr(loading, "CHUNK_RECORDS", 4)
    return tmp_path


def write_sources(folder: Path) -> None:
    """Two files: packed events, events with ids, and bad lines."""
    first: list[dict[str, Any] | str] = [
        {"key": f"k{n % 3}", "ts": NOW - n * 7_000, "value": n} for n in range(35)
    ]
    first[3:3], first[22:22] = ["bad"], ["worse"]
    own = [{"key": "k0", "ts": NOW, "id": f"e{n}"} for n in range(15)]
    (folder / "a.jsonl").write_bytes(lines(*first))
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(lines(*own, "bad", *own)))


def events(cli: CommandLine) -> int:
    cli.drain()
    return sum(count["events"] for count in cli.run("--json", "count", *KEYS).json)


def bad_lines(folder: Path) -> list[tuple[str, int]]:
    (path,) = folder.glob("*.bad.jsonl")
    told = [json.loads(line) for line in path.read_text().splitlines()]
    return [(each["source"], each["line"]) for each in told]


ALL_BAD = [("a.jsonl", 4), ("a.jsonl", 23), ("b.jsonl.gz", 16)]


def steps(cli: CommandLine, at: Callable[[], object]) -> Callable[[], None]:
    """Call `at` before and after each request, each save and each bad line; gives what ends it."""
    send, save, write = cli.producer.send, Checkpoint.save, loading.BadFile.write

    def around(function: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*arguments: Any) -> Any:
            at()
            result = function(*arguments)
            at()
            return result

        return stepped

    held = pytest.MonkeyPatch()
    held.setattr(cli.producer, "send", around(send))
    held.setattr(Checkpoint, "save", around(save))
    held.setattr(loading.BadFile, "write", around(write))
    return held.undo


def whole_load(cli: CommandLine) -> int:
    """How many steps an undisturbed load has."""
    count = 0

    def at() -> None:
        nonlocal count
        count += 1

    undo = steps(cli, at)
    assert cli.run("load", "a.jsonl", "b.jsonl.gz").status == 1
    undo()
    return count


def test_a_load_killed_at_any_step_goes_on(
    cli: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    here: Path,
) -> None:
    write_sources(here)
    number = whole_load(cli)
    whole = sorted(set(cli.producer.bodies))
    assert number >= 30
    assert events(cli) == 50
    for killed_at in range(1, number + 1):
        for path in here.glob("tallyroll-load-*"):
            path.unlink()
        cli = CommandLine(opened(), monkeypatch, capsys)
        left = killed_at

        def at() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed

        undo = steps(cli, at)
        with suppress(Killed):
            cli.run("load", "a.jsonl", "b.jsonl.gz")
        undo()
        saved = list(here.glob("*.checkpoint.json"))
        answer = cli.run("--json", "load", "a.jsonl", "b.jsonl.gz")
        assert answer.status == 1, killed_at
        assert ("going on after" in answer.err) is bool(saved)
        assert sorted(set(cli.producer.bodies)) == whole, killed_at
        assert bad_lines(here) == ALL_BAD, killed_at
        assert answer.json[0]["rejected"] == {"not-json": 3}
        assert events(cli) == 50, killed_at
        assert cli.pipeline.reasons() == []
        assert list(here.glob("*.checkpoint.json*")) == []


@pytest.mark.parametrize("told", [True, False])
def test_a_load_goes_on_with_the_packets_of_the_release_that_began_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], here: Path, *, told: bool
) -> None:
    """The ids of packets follow from their limits. The first releases did not write them down."""
    write_sources(here)
    first = {"events": 2} if told else asdict(FIRST_LIMITS)

    def run(cli: CommandLine, limits: dict[str, int], segment: int = 10) -> None:
        with monkeypatch.context() as patch, suppress(Killed):
            patch.setattr(checkpoint, "PacketLimits", lambda **of: PacketLimits(**{**limits, **of}))
            patch.setattr(loading, "SEGMENT", segment)
            cli.run("load", "a.jsonl", "b.jsonl.gz")

    undisturbed = CommandLine(opened(), monkeypatch, capsys)
    run(undisturbed, first)
    whole = sorted(set(undisturbed.producer.bodies))

    cli = CommandLine(opened(), monkeypatch, capsys)
    cli.producer.refuses = lambda body: _die() if '"e9"' in body else None
    run(cli, first)
    (path,) = here.glob("*.checkpoint.json")
    saved = json.loads(path.read_text())
    if not told:
        del saved["packets"]
        del saved["segment"]
        monkeypatch.setattr(checkpoint, "FIRST_SEGMENT", 10)
    saved["sources"] = {}  # as if it had been saved before the first packet
    path.write_text(json.dumps(saved))
    cli.producer.refuses = lambda body: None
    run(cli, {"events": 3}, segment=7)
    assert sorted(set(cli.producer.bodies)) == whole
    assert events(cli) == 50


def _die() -> str:
    raise Killed


def test_what_was_loaded_is_not_sent_again(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    write_sources(here)

    def refuses(body: str) -> None:
        if '"e14"' in body:
            raise Killed

    cli.producer.refuses = refuses
    with suppress(Killed):
        cli.run("load", "a.jsonl", "b.jsonl.gz")
    before = len(cli.producer.bodies)
    cli.producer.refuses = lambda body: None
    answer = cli.run("--json", "load", "a.jsonl", "b.jsonl.gz")
    assert answer.json[0]["sources"] == 2
    assert answer.json[0]["events_before"] >= 40
    again = [json.loads(body) for body in cli.producer.bodies[before:]]
    assert all(body["key"] == "k0" and body["id"][0] == "e" for body in again)
    assert len(again) <= 30
    assert events(cli) == 50


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_the_checkpoint(
    cli: CommandLine, here: Path, stop: signal.Signals
) -> None:
    write_sources(here)
    cli.producer.refuses = lambda body: signal.raise_signal(stop) if '"e9"' in body else None
    answer = cli.run("load", "a.jsonl", "b.jsonl.gz")
    assert answer.status == 130
    (checkpoint,) = here.glob("*.checkpoint.json")
    assert f"the same command goes on at the checkpoint {checkpoint.name}" in answer.err
    cli.producer.refuses = lambda body: None
    assert cli.run("load", "a.jsonl", "b.jsonl.gz").status == 1
    assert events(cli) == 50


def test_what_the_queue_did_not_take_holds_the_checkpoint(cli: CommandLine, here: Path) -> None:
    (here / "a.jsonl").write_bytes(
        lines(*({"key": "k0", "ts": NOW, "id": f"e{n}"} for n in range(40)))
    )
    cli.producer.refuses = lambda body: "busy" if '"e15"' in body else None
    answer = cli.run("--json", "load", "a.jsonl")
    assert answer.status == 1
    assert "not sent: line 16: busy" in answer.err
    assert answer.json[0]["events"] == 39
    saved = json.loads(next(here.glob("*.checkpoint.json")).read_text())
    assert saved["sources"]["a.jsonl"]["to"] <= 15
    cli.producer.refuses = lambda body: None
    assert cli.run("load", "a.jsonl").status == 0
    assert events(cli) == 40


def test_a_queue_that_takes_nothing_ends_the_load(cli: CommandLine, here: Path) -> None:
    write_sources(here)
    cli.producer.refuses = lambda body: "AccessDenied"
    answer = cli.run("load", "a.jsonl", "b.jsonl.gz")
    assert answer.status == 3
    assert "nothing was sent: AccessDenied" in answer.err


@pytest.mark.parametrize(
    "change", [lambda content: content + b"\n", lambda content: content.replace(b"k1", b"k2", 1)]
)
def test_a_changed_file_is_refused(
    cli: CommandLine, here: Path, change: Callable[[bytes], bytes]
) -> None:
    write_sources(here)
    cli.producer.refuses = lambda body: "busy" if '"e9"' in body else None
    assert cli.run("load", "a.jsonl", "b.jsonl.gz").status == 1
    cli.producer.tried.clear()
    (here / "a.jsonl").write_bytes(change((here / "a.jsonl").read_bytes()))
    answer = cli.run("load", "a.jsonl", "b.jsonl.gz")
    assert (answer.status, cli.producer.tried) == (2, [])
    assert "a.jsonl changed since it was loaded in part" in answer.err
    assert "remove tallyroll-load-" in answer.err


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--no-pack",), "packet span"),
        (("--ts-unit", "s"), "shape"),
        (("--changes", "skip"), "changes"),
        (("--format", "dynamodb"), "format: None, not 'dynamodb'"),
    ],
)
def test_other_options_are_refused(
    cli: CommandLine, here: Path, options: tuple[str, ...], named: str
) -> None:
    write_sources(here)
    cli.producer.refuses = lambda body: "busy" if '"e9"' in body else None
    assert cli.run("load", "a.jsonl", "b.jsonl.gz").status == 1
    answer = cli.run("load", "a.jsonl", "b.jsonl.gz", *options)
    assert answer.status == 2
    assert f"is of a load with another {named}" in answer.err


def test_what_a_disk_does_not_give_is_read_again(
    cli: CommandLine, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [{"key": f"k{n % 3}", "ts": NOW - n % 60_000, "value": 1} for n in range(4_000)]
    (here / "a.jsonl").write_bytes(lines(*events))
    (here / "b.jsonl").write_bytes(lines({"key": "k0", "ts": NOW}))
    counted = LineSource._counted

    def failing(source: LineSource, most: int) -> bytes:
        if source.position > 60_000:
            raise OSError(5, "Input/output error")
        return counted(source, most)

    with monkeypatch.context() as patched:
        patched.setattr(LineSource, "_counted", failing)
        answer = cli.run("load", "a.jsonl", "b.jsonl")
        assert answer.status == 1
        assert "the input is broken: a.jsonl, after line" in answer.err
    cli.drain()
    assert cli.run("load", "a.jsonl", "b.jsonl").status == 0
    cli.drain()
    assert cli.pipeline.reasons() == []
    found = cli.run("--json", "count", "k0", "k1", "k2").json
    assert sum(count["events"] for count in found) == 4_001


def test_bad_lines_that_were_taken_away_leave_no_hole(cli: CommandLine, here: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (here / name).write_text(f"key,ts,id\nk0,bad,\nk0,{NOW},{name}\n")
    cli.producer.refuses = lambda body: "busy" if "b.csv" in body else None
    assert cli.run("load", "a.csv", "b.csv").status == 1
    next(here.glob("*.bad.jsonl")).unlink()
    cli.producer.refuses = lambda body: None
    assert cli.run("load", "a.csv", "b.csv").status == 1
    (told,) = next(here.glob("*.bad.jsonl")).read_text().splitlines()
    assert json.loads(told)["source"] == "b.csv"


def test_another_queue_has_another_checkpoint(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    write_sources(here)
    cli.producer.refuses = lambda body: "busy" if '"e9"' in body else None
    cli.run("load", "a.jsonl", "b.jsonl.gz")
    monkeypatch.setenv("TALLYROLL_QUEUE_URL", "https://sqs.us-east-1.amazonaws.com/1/other-events")
    cli.run("load", "a.jsonl", "b.jsonl.gz")
    assert len(list(here.glob("*.checkpoint.json"))) == 2


def test_a_file_that_changes_while_it_is_loaded_is_told(cli: CommandLine, here: Path) -> None:
    write_sources(here)

    def refuses(body: str) -> None:
        with (here / "a.jsonl").open("ab") as more:
            more.write(lines({"key": "k0", "ts": NOW}))

    cli.producer.refuses = refuses
    answer = cli.run("load", "a.jsonl")
    assert answer.status == 1
    assert "a.jsonl changed while it was loaded: load it again" in answer.err


def test_a_window_of_another_length_is_refused(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    write_sources(here)
    cli.producer.refuses = lambda body: "busy" if '"e9"' in body else None
    cli.run("load", "a.jsonl", "b.jsonl.gz")
    cli.pipeline = opened(Settings(window_seconds=45))
    answer = cli.run("load", "a.jsonl", "b.jsonl.gz")
    assert answer.status == 2
    assert "another packet span: '60000 ms', not '15000 ms'" in answer.err


def test_named_files_are_used(cli: CommandLine, here: Path) -> None:
    write_sources(here)
    (here / "state").mkdir()
    options = ("--checkpoint", "state/c.json", "--bad", "state/bad.jsonl")
    cli.producer.refuses = lambda body: "busy" if '"e9"' in body else None
    assert cli.run("load", "a.jsonl", "b.jsonl.gz", *options).status == 1
    assert sorted(path.name for path in (here / "state").iterdir()) == ["bad.jsonl", "c.json"]


def test_a_checkpoint_that_is_none_is_named(cli: CommandLine, here: Path) -> None:
    write_sources(here)
    for content, said in (("{}", "is no checkpoint"), ('{"version": 9, "options": {}}', "knows 1")):
        (here / "c.json").write_text(content)
        answer = cli.run("load", "a.jsonl", "--checkpoint", "c.json")
        assert answer.status == 2
        assert said in answer.err
