"""Events whose windows take none are refused before they are sent, and the way is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tallyroll.errors import StoreError
from tests.cli.command_line import CommandLine, lines
from tests.harness.pipeline import HOUR, MINUTE, NOW, hour
from tests.harness.redriving import drain

EARLY = NOW - 3 * HOUR  # in the window of five o'clock; the pipeline began at six
HISTORY: list[dict[str, Any]] = [
    {"key": "k", "id": "e", "ts": EARLY},
    {"key": "k", "ts": EARLY},
    {"key": "k"},
    {"v": 1, "id": "p", "key": "k", "t0": EARLY - HOUR, "events": [[0], [5]]},
]


def test_a_history_is_refused_and_the_command_that_opens_its_windows_is_named(
    cli: CommandLine,
) -> None:
    answer = cli.run("--json", "send", stdin=lines(*HISTORY))
    assert answer.status == 1
    assert answer.json[0]["refused"] == {"events": 4, "messages": 3}
    assert answer.err == (
        "tallyroll: 4 events happened before the pipeline's first window,"
        " 2026-11-20T06:00:00.000Z, in windows that are not open: not sent; `tallyroll windows open"
        " --since 20261120T040000Z --until 20261120T060000Z --wait` opens them, then send again"
        " (--anyway sends all the same, into the dead letters)\n"
    )
    assert len(cli.producer.bodies) == 1
    cli.drain()
    assert cli.pipeline.reasons() == []


def test_once_the_windows_are_opened_all_is_taken(cli: CommandLine) -> None:
    cli.run("windows", "open", "--since", hour(4), "--until", hour(6))
    assert cli.run("send", stdin=lines(*HISTORY)).status == 0  # it waits for the roller
    for _ in range(2):
        cli.pipeline.roller().run(60_000)
    answer = cli.run("send", stdin=lines({"key": "l", "ts": EARLY}, *HISTORY))
    assert (answer.status, answer.err) == (0, "")
    drain(cli.pipeline)
    assert cli.pipeline.reasons() == []
    assert [count["events"] for count in cli.run("--json", "count", "k", "l").json] == [7, 1]


def test_what_is_refused_is_kept_by_unsent(cli: CommandLine, tmp_path: Path) -> None:
    unsent = tmp_path / "unsent.jsonl"
    answer = cli.run("send", "--unsent", str(unsent), stdin=lines(*HISTORY))
    assert f"`tallyroll send {unsent}` sends again what no window took" in answer.err
    kept = [json.loads(line) for line in unsent.read_text().splitlines()]
    assert [len(each.get("events", "1")) for each in kept] == [1, 2, 1]


def test_anyway_sends_all_the_same(cli: CommandLine) -> None:
    answer = cli.run("send", "--anyway", stdin=lines(*HISTORY))
    assert answer.status == 0
    assert "4 events happened before" in answer.err
    assert "they will be rejected as too-late; `tallyroll windows open" in answer.err
    assert len(cli.producer.bodies) == 4


def test_a_window_that_takes_no_more_is_named_with_the_redrive(cli: CommandLine) -> None:
    answer = cli.run("send", "--key", "k", "--ts", hour(6))
    assert answer.status == 1
    assert answer.err == (
        "tallyroll: 1 event happened in windows that take no more events (20261120T060000Z): not"
        " sent; --anyway sends all the same, into the dead letters; then `tallyroll dlq redrive"
        " --reason too-late` counts them in the current window\n"
    )
    assert cli.producer.tried == []
    anyway = cli.run("send", "--anyway", "--key", "k", "--ts", hour(6))
    assert "it will be rejected as too-late; `tallyroll dlq redrive" in anyway.err


def test_what_lies_too_far_ahead_is_refused(cli: CommandLine) -> None:
    near, far = NOW + 4 * MINUTE, NOW + 6 * MINUTE
    answer = cli.run("send", stdin=lines({"key": "k", "ts": near}, {"key": "k", "ts": far}))
    assert answer.status == 1
    assert "1 event lies more than 300 s ahead of this machine's clock, 2026-11-20T08:30" in (
        answer.err
    )
    assert len(cli.producer.bodies) == 1


def test_without_access_to_specs_the_settings_say_how_far_ahead_an_event_may_lie(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise StoreError("BatchGetItem: AccessDeniedException", "AccessDeniedException")

    near, far = NOW + 6 * MINUTE, NOW + 11 * MINUTE
    stdin = lines({"key": "k", "ts": near}, {"key": "k", "ts": far})
    monkeypatch.setattr(cli.pipeline.catalog, "specs", refuse)
    monkeypatch.setenv("TALLYROLL_SKEW_MS", str(10 * MINUTE))
    answer = cli.run("send", stdin=stdin)
    assert answer.status == 1
    assert "1 event lies more than 600 s ahead of this machine's clock" in answer.err
    assert len(cli.producer.bodies) == 1


def test_a_window_that_the_roller_has_yet_to_make_takes_events(cli: CommandLine) -> None:
    """The roller rests since half past eight; it made windows until eleven."""
    cli.pipeline.effects.pass_by(4 * HOUR)
    answer = cli.run("send", "--key", "k", "--ts", hour(12))
    assert (answer.status, answer.err) == (0, "")
    assert len(cli.producer.bodies) == 1


def test_states_are_read_for_many_windows_at_once_and_again_after_a_while(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[tuple[int, int]] = []
    found = cli.pipeline.catalog.windows

    def windows(since: int, until: int) -> Any:
        reads.append((since, until))
        return found(since, until)

    monkeypatch.setattr(cli.pipeline.catalog, "windows", windows)
    history = [{"key": "k", "id": f"e{n}", "ts": NOW - n * HOUR} for n in range(400)]
    cli.run("send", stdin=lines(*history))
    assert len(reads) <= 2


def test_where_windows_cannot_be_looked_up_it_says_unless(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise StoreError("Query: AccessDeniedException", "AccessDeniedException")

    monkeypatch.setattr(cli.pipeline.catalog, "windows", refuse)
    answer = cli.run("send", "--key", "k", "--ts", hour(5))
    assert answer.status == 0
    assert "1 event happened before the pipeline's first window" in answer.err
    assert (
        "it will be rejected as too-late unless `tallyroll windows open --since 20261120T050000Z"
        " --until 20261120T060000Z --wait` was run"
    ) in answer.err
