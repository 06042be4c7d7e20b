"""`tallyroll load --open-windows`: the past windows that events need are opened, and seal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tallyroll.cli import screen
from tallyroll.model.states import Status
from tallyroll.model.windows import window_id
from tallyroll.operations import backfill
from tests.cli.command_line import CommandLine, lines
from tests.harness.pipeline import HOUR, MINUTE, NOW, hour

pytestmark = pytest.mark.usefixtures("here")

OLD = NOW - NOW % HOUR - 20 * HOUR


@pytest.fixture
def rolled(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """A command line whose roller runs while the command sleeps."""
    effects = cli.pipeline.effects
    sleep = effects.sleep

    def rolling(ms: float) -> None:
        sleep(ms)
        cli.pipeline.roller().run(60_000)

    monkeypatch.setattr(effects, "sleep", rolling)
    return cli


def history(folder: Path) -> None:
    """Events of two hours that lie apart, of a third with a gap, of today, and of tomorrow."""
    at = [OLD, OLD + HOUR, OLD + 5 * HOUR]
    events: list[dict[str, Any]] = [{"key": "k", "ts": ts + n} for ts in at for n in range(10)]
    (folder / "e.jsonl").write_bytes(lines(*events, {"key": "k", "ts": NOW}, "bad", {"key": "k"}))


def test_the_windows_that_are_needed_are_opened_and_seal(rolled: CommandLine, here: Path) -> None:
    history(here)
    answer = rolled.run("--json", "load", "e.jsonl", "--open-windows", "--accept-for", "1h")
    assert answer.status == 1  # two bad lines
    assert "3 past windows open: each seals by itself" in answer.err
    assert answer.json[0]["events"] == 31
    assert answer.json[0]["refused"] == {"events": 0, "messages": 0}
    needed = [window_id(OLD), window_id(OLD + HOUR), window_id(OLD + 5 * HOUR)]
    listed = rolled.run("--json", "windows", "list", "--state", "open").json
    past = [window["window"] for window in listed if window["window"] < hour(6)]
    assert past == needed
    rolled.drain()
    whole = rolled.run("--json", "count", "k", "--since", needed[0], "--until", hour(8)).json
    assert whole[0]["events"] == 30
    rolled.pipeline.effects.pass_by(HOUR + 2 * MINUTE)
    roller = rolled.pipeline.roller()
    for _ in range(4):
        roller.run(60_000)
    assert {rolled.pipeline.state(each).status for each in needed} == {Status.SEALED}

    again = rolled.run("load", "e.jsonl", "--open-windows")
    assert again.status == 1
    assert "windows that take no more events" in again.err


def test_progress_is_shown_from_the_first_window_on(
    rolled: CommandLine, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While they are created, and while the roller makes them."""
    monkeypatch.setattr(screen, "FIRST_LINE_S", 0)
    monkeypatch.setattr(screen, "NEXT_LINE_S", 0)
    history(here)
    told = rolled.run("load", "e.jsonl", "--open-windows").err.splitlines()
    for number in (1, 2, 3):
        assert [line for line in told if f"creating: {number} of 3 windows" in line], told
    assert [
        line for line in told if "opening: 0 of 3 windows, the roller runs every 60 s" in line
    ], told
    assert [line for line in told if "opening: 3 of 3 windows" in line], told


def test_the_time_left_follows_what_the_queue_has_taken(
    cli: CommandLine, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two small files are read at once; the queue takes their events 80 at a time."""
    seen: list[tuple[int, int | None, int | None]] = []

    def pace(_took: float, completed: int, total: int | None, counted: int | None) -> str:
        seen.append((completed, total, counted))
        return ""

    monkeypatch.setattr(screen, "pace", pace)
    rows = [{"id": f"id-{n:03}", "key": "k", "ts": NOW} for n in range(800)]
    text = lines(*rows)
    for name, part in (("a.jsonl", text[: len(text) // 2]), ("b.jsonl", text[len(text) // 2 :])):
        (here / name).write_bytes(part)
    assert cli.run("load", "a.jsonl", "b.jsonl").status == 0
    each = len(text) // 800
    loading = [(done, counted) for done, total, counted in seen if total == len(text)]
    assert {counted for _, counted in loading} >= {80, 160, 400, 480, 800}
    for done, counted in loading:
        assert counted is not None
        assert abs(done - each * counted) < each


def test_without_it_the_windows_are_named_and_the_checkpoint_waits(
    rolled: CommandLine, here: Path
) -> None:
    history(here)
    answer = rolled.run("load", "e.jsonl")
    assert answer.status == 1
    assert answer.row("events", "that", "no", "window", "takes", "30")
    assert "opens them, as --open-windows does; then load again" in answer.err
    assert rolled.run("load", "e.jsonl", "--open-windows").status == 1
    rolled.drain()
    since = window_id(OLD)
    counted = rolled.run("--json", "count", "k", "--since", since, "--until", hour(9)).json
    assert counted[0]["events"] == 31


def test_windows_that_do_not_open_end_the_load(cli: CommandLine, here: Path) -> None:
    history(here)
    answer = cli.run("load", "e.jsonl", "--open-windows", "--timeout", "10s")
    assert answer.status == 1
    assert "nothing was loaded" in answer.err
    assert "does the roller run?" in answer.err
    assert cli.producer.tried == []


def test_too_many_windows_are_refused_before_any_is_made(
    cli: CommandLine, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "WINDOWS_PER_CALL_MAX", 2)
    history(here)
    answer = cli.run("load", "e.jsonl", "--open-windows")
    assert answer.status == 2
    assert "the events need 3 past windows" in answer.err
    assert "load them in parts of at most 2" in answer.err
    made = cli.run("--json", "windows", "list", "--state", "creating").json
    assert [window for window in made if window["window"] < hour(6)] == []


def test_events_that_need_no_past_window_open_none(cli: CommandLine, here: Path) -> None:
    (here / "e.jsonl").write_bytes(lines({"key": "k", "ts": NOW}))
    answer = cli.run("load", "e.jsonl", "--open-windows")
    assert (answer.status, answer.err) == (0, "")


def test_times_without_a_zone_are_told_once(cli: CommandLine, here: Path) -> None:
    (here / "e.csv").write_text("key,ts\nk,2026-11-20 08:15:00\nk,2026-11-20 08:16:00\n")
    answer = cli.run("load", "e.csv", "--open-windows")
    assert "2 lines had a time without a zone" in answer.err
