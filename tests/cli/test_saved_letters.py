"""`tallyroll dlq save` and `dlq delete`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tallyroll.cli import main, screen
from tallyroll.errors import Missing
from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.reasons import Reason
from tests.cli.command_line import CommandLine
from tests.cli.test_dead_letters import Terminal
from tests.harness.pipeline import hour
from tests.harness.redriving import reject


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def saved(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_all_letters_are_saved_and_stay(mixed: CommandLine, directory: Path) -> None:
    answer = mixed.run("dlq", "save", "letters.jsonl")
    assert (answer.status, answer.err) == (0, "")
    assert answer.out == "4 dead letters saved to letters.jsonl\n"
    letters = {letter["letter"]: letter for letter in saved(directory / "letters.jsonl")}
    first = mixed.pipeline.queue.dead_letters[0]
    assert len(letters) == 4
    assert letters[first.id] == {
        "letter": first.id,
        "message": first.message.id,
        "reason": "too-late",
        "detail": first.detail,
        "window": hour(6),
        "sent": "2026-11-20T08:30:00.000Z",
        "dead_since": "2026-11-20T08:30:00.000Z",
        "expires": "2026-12-04T08:30:00.000Z",
        "looked_at": "1",
        "body": first.message.body,
    }
    assert mixed.dead_letters.count().visible == 4


def test_letters_of_a_reason_are_saved(mixed: CommandLine, directory: Path) -> None:
    argv = ("dlq", "save", "a", "--reason", "too-late", "--reason", "not-json", "--json")
    assert mixed.run(*argv).json == [{"file": "a", "saved": 3, "unread": 0}]
    assert {letter["reason"] for letter in saved(directory / "a")} == {"too-late", "not-json"}


def test_more_letters_are_saved_than_a_list_looks_at(
    cli: CommandLine, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallyroll.cli.dlq.receiving.LOOKED_AT", 100)
    for number in range(250):
        reject(cli.pipeline, f"body {number} \ud800\n", Reason.NOT_JSON)
    assert cli.run("dlq", "save", "a").status == 0
    bodies = {letter["body"] for letter in saved(directory / "a")}
    assert bodies == {f"body {number} \ud800\n" for number in range(250)}


def test_a_file_that_exists_is_not_overwritten(mixed: CommandLine, directory: Path) -> None:
    (directory / "a").write_text("mine")
    for argv in (("save", "a"), ("delete", "--reason", "not-json", "--yes", "--save", "a")):
        answer = mixed.run("dlq", *argv)
        assert (answer.status, answer.err) == (2, "tallyroll: 'a': File exists\n")
    assert (directory / "a").read_text() == "mine"
    assert mixed.run("dlq", "save", "nowhere/a").status == 2
    assert mixed.dead_letters.count().visible == 4


def test_letters_are_saved_before_they_are_deleted(
    mixed: CommandLine, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = mixed.dead_letters.delete

    def checked(letters: Sequence[ReceivedLetter]) -> list[bool]:
        on_disk = {letter["letter"] for letter in saved(directory / "a")}
        assert {letter.id for letter in letters} <= on_disk
        return delete(letters)

    monkeypatch.setattr(mixed.dead_letters, "delete", checked)
    answer = mixed.run("dlq", "delete", "--reason", "too-late", "--save", "a", "--yes")
    assert (answer.status, answer.err) == (0, "")
    assert answer.out == "2 dead letters saved to a, 2 deleted\n"
    assert len(saved(directory / "a")) == 2
    assert sorted(letter.reason or "" for letter in mixed.pipeline.queue.dead_letters) == [
        "",
        "not-json",
    ]
    assert mixed.dead_letters.count().in_flight == 0, "the others are given back"


def test_a_file_is_named_if_none_is_given(mixed: CommandLine, directory: Path) -> None:
    (told,) = mixed.run("dlq", "delete", "--reason", "not-json", "--yes", "--json").json
    name = "tallyroll-dead-letters-20261120T083000Z.jsonl"
    assert told == {"file": name, "saved": 1, "deleted": 1, "unread": 0}
    assert saved(directory / name)[0]["body"] == "no JSON"


@pytest.mark.parametrize(("said", "status", "left"), [("y\n", 0, 2), ("\n", 1, 4)])
def test_it_is_asked_before(
    mixed: CommandLine,
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    said: str,
    status: int,
    left: int,
) -> None:
    assert mixed.run("dlq", "delete", "--reason", "too-late").status == 2, "nobody can be asked"
    monkeypatch.setattr(sys, "stdin", Terminal(said))
    assert main.main(["dlq", "delete", "--reason", "too-late", "--save", "a"]) == status
    assert "Delete 2 dead letters, saved to a? [y/N] " in capsys.readouterr().err
    assert mixed.dead_letters.count().visible == left
    assert (directory / "a").exists() is (left == 2)


def test_nothing_to_delete(mixed: CommandLine, directory: Path) -> None:
    for more in ([], ["--yes"]):
        assert mixed.run("dlq", "delete", "--reason", "bad-key", *more).status == 0
    assert list(directory.iterdir()) == []
    assert mixed.run("dlq", "delete").status == 2
    assert mixed.run("dlq", "delete", "--reason", "bad-kye").status == 2


def test_a_body_that_cannot_be_read_is_not_deleted(
    mixed: CommandLine, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = mixed.dead_letters.body

    def gone(letter: ReceivedLetter) -> str:
        if letter.why == "not-json":
            raise Missing("there is no object rejected/1", "NoSuchKey")
        return body(letter)

    monkeypatch.setattr(mixed.dead_letters, "body", gone)
    argv = ("--reason", "not-json", "--reason", "too-late")
    answer = mixed.run("dlq", "delete", *argv, "--yes", "--save", "a")
    assert answer.status == 1
    assert "1 body could not be read: there is no object rejected/1" in answer.err
    assert len(saved(directory / "a")) == 2
    assert mixed.dead_letters.count().visible == 2
    answer = mixed.run("dlq", "save", "b", "--reason", "not-json")
    assert answer.status == 1
    (letter,) = saved(directory / "b")
    assert (letter["body"], letter["problem"]) == ("", "there is no object rejected/1")


def test_what_is_not_surely_deleted_is_said(
    mixed: CommandLine, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mixed.dead_letters, "delete", lambda letters: [False] * len(letters))
    answer = mixed.run("dlq", "delete", "--reason", "too-late", "--yes", "--save", "a")
    assert answer.status == 1
    assert "2 letters saved, and not surely deleted: delete them again" in answer.err
    assert mixed.dead_letters.count().visible == 4


def test_an_interrupt_says_what_was_done(
    mixed: CommandLine, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(letters: Sequence[ReceivedLetter]) -> list[bool]:
        raise KeyboardInterrupt

    monkeypatch.setattr(mixed.dead_letters, "delete", interrupt)
    answer = mixed.run("dlq", "delete", "--reason", "too-late", "--yes", "--save", "a")
    assert (answer.status, answer.out) == (130, "2 dead letters saved to a, 0 deleted\n")
    assert mixed.dead_letters.count().visible == 4


def test_progress_off_a_terminal_is_a_line(
    mixed: CommandLine, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "FIRST_LINE_S", 0)
    answer = mixed.run("dlq", "save", "a")
    assert answer.err == "tallyroll: saving: 4 letters\n"


@pytest.mark.parametrize(
    ("took_s", "completed", "total", "counted", "text"),
    [
        (5.0, 0, 10, 0, ""),
        (0.9, 1_200, 5_000, 1_200, ""),
        (1.0, 1_200, 5_000, 1_200, ", 1,200/s, 0:00:03 left"),
        (400.0, 1_000_000, 10_000_000, 1_000_000, ", 2,500/s, 1:00:00 left"),
        (60.0, 30, 20, 30, ", 0/s, 0:00:00 left"),
        (10.0, 500, None, 20, ", 2/s"),
        (10.0, 5, 10, None, ", 0:00:10 left"),
    ],
)
def test_the_pace_of_a_work(
    took_s: float, completed: int, total: int | None, counted: int | None, text: str
) -> None:
    assert screen.pace(took_s, completed, total, counted) == text
