"""`tallyroll load --dry-run` says what a load would do, and changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tallyroll.model.windows import window_id
from tests.cli.command_line import CommandLine, lines
from tests.harness.pipeline import HOUR, NOW

pytestmark = pytest.mark.usefixtures("here")

OLD = NOW - NOW % HOUR - 20 * HOUR


def history(folder: Path) -> None:
    """Thirty events of three past hours, two of now, and two bad lines."""
    at = [OLD, OLD + HOUR, OLD + 5 * HOUR]
    events: list[dict[str, Any]] = [{"key": "k", "ts": ts + n} for ts in at for n in range(10)]
    now = [{"key": "k", "ts": NOW}, {"key": "k", "ts": NOW, "id": "e"}]
    (folder / "e.jsonl").write_bytes(lines(*events, *now, "bad", {"key": "k"}))


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def windows(cli: CommandLine) -> list[str]:
    return [each["window"] for each in cli.run("--json", "windows", "list").json]


def test_a_dry_run_sends_opens_and_writes_nothing(cli: CommandLine, here: Path) -> None:
    history(here)
    before = windows(cli)
    answer = cli.run("load", "e.jsonl", "--dry-run", "--open-windows", "--rate", "1")
    assert answer.status == 1  # two bad lines
    assert answer.row("events", "to", "be", "sent", "32")
    assert answer.row("messages", "5")
    assert answer.row("sources", "read", "1")
    assert answer.row("rejected:", "not-json", "1")
    needed = ", ".join(map(window_id, (OLD, OLD + HOUR, OLD + 5 * HOUR)))
    assert f"3 past windows would be opened: {needed}" in answer.err
    assert "e.jsonl, line 33: not-json" in answer.err
    assert "bad.jsonl" not in answer.err
    assert cli.producer.tried == []
    assert windows(cli) == before
    assert files(here) == ["e.jsonl"]
    assert cli.pipeline.effects.slept == []


def test_it_tells_which_events_no_window_takes(cli: CommandLine, here: Path) -> None:
    history(here)
    answer = cli.run("--json", "load", "e.jsonl", "--dry-run")
    (report,) = answer.json
    assert (report["dry_run"], report["events"]) == (True, 2)
    assert report["refused"] == {"events": 30, "messages": 3}
    assert "opens them, as --open-windows does; then load again" in answer.err
    assert "bad_file" not in report


def test_it_says_of_a_load_that_is_under_way_what_is_left(cli: CommandLine, here: Path) -> None:
    (here / "a.jsonl").write_bytes(lines(*[{"key": "k", "ts": NOW}] * 3, "bad"))
    (here / "b.jsonl").write_bytes(lines({"key": "k", "ts": NOW, "id": "e"}))
    cli.producer.refuses = lambda body: "busy" if '"e"' in body else None
    assert cli.run("load", "a.jsonl", "b.jsonl").status == 1
    cli.producer.refuses = lambda body: None
    kept = {name: (here / name).read_bytes() for name in files(here)}
    cli.producer.tried.clear()
    answer = cli.run("--json", "load", "a.jsonl", "b.jsonl", "--dry-run")
    assert "going on after 4 lines at the checkpoint" in answer.err
    assert (answer.json[0]["events_before"], answer.json[0]["events"]) == (3, 1)
    assert cli.producer.tried == []
    assert {name: (here / name).read_bytes() for name in files(here)} == kept
    assert cli.run("load", "a.jsonl", "b.jsonl").status == 1
    cli.drain()
    assert cli.run("--json", "count", "k").json[0]["events"] == 4
    assert json.loads(next(here.glob("*.bad.jsonl")).read_text())["line"] == 4


def test_the_messages_are_those_of_the_load(cli: CommandLine, here: Path) -> None:
    events = [{"key": f"k{n % 7}", "ts": NOW - n * 1_000} for n in range(900)]
    (here / "e.jsonl").write_bytes(lines(*events))
    dry = cli.run("--json", "load", "e.jsonl", "--dry-run").json[0]
    done = cli.run("--json", "load", "e.jsonl").json[0]
    assert dry == {**done, "dry_run": True}


def test_it_does_not_wait(cli: CommandLine, here: Path) -> None:
    history(here)
    answer = cli.run("load", "e.jsonl", "--dry-run", "--wait")
    assert answer.status == 2
    assert "--dry-run sends nothing that --wait could wait for" in answer.err
