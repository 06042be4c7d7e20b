"""`tallyroll dlq`: what it lists, shows and redrives, and what it says of the rest."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from unittest.mock import Mock, patch

import pytest
from moto import mock_aws

from tallyroll.adapters.aws import client
from tallyroll.adapters.aws.create_requests import queue_attributes, table_request
from tallyroll.adapters.aws.sqs_dead_letters import SqsDeadLetters
from tallyroll.adapters.memory import MemoryDeadLetters
from tallyroll.cli import dlq, main
from tallyroll.cli.dlq import receiving, redriving
from tallyroll.errors import Missing
from tallyroll.operations.dead_letter_scan import HIDDEN_SECONDS
from tallyroll.operations.redrive import Redriver
from tallyroll.ports.dead_letters import Resend
from tallyroll.reasons import Reason
from tallyroll.resources import declare
from tallyroll.settings import Settings
from tests.cli.command_line import Answer, CommandLine, run
from tests.harness.pipeline import MINUTE, WINDOW, hour
from tests.harness.redriving import LATE, drain, records, reject, seal, send
from tests.harness.retracting import retraction

# --- list


def test_letters_are_counted_by_reason_and_window(mixed: CommandLine) -> None:
    answer = mixed.run("dlq", "list")
    assert answer.status == 0
    assert answer.err == ""
    at, expires = "2026-11-20T08:30:00.000Z", "2026-12-04T08:30:00.000Z"
    short = ("11-20", "08:30", "12-04")
    assert answer.row("too-late", hour(6), "2", *short)
    assert answer.row("not-json", "1", *short)
    assert answer.row("undelivered", "1", *short)
    assert mixed.run("dlq", "list", "--json").json == [
        {"reason": "not-json", "window": None, "count": 1, "oldest": at, "expires": expires},
        {"reason": "too-late", "window": hour(6), "count": 2, "oldest": at, "expires": expires},
        {"reason": "undelivered", "window": None, "count": 1, "oldest": at, "expires": expires},
    ]


def test_a_list_of_letters_fits_into_80_columns(mixed: CommandLine) -> None:
    (letter,) = mixed.dead_letters.peek(1, 0)
    wide = replace(letter, window=hour(6), reason=max(Reason, key=len))

    def scan_through(_: object, count: Callable[..., None], *__: object) -> Mock:
        count(Mock(), [wide] * 23_456)
        return Mock(missed=0)

    with patch.object(dlq, "scan_through", scan_through):
        lines = mixed.run("dlq", "list").out.splitlines()
    assert "23,456" in lines[2].split()
    assert max(map(len, lines)) <= 80


def test_no_letters(cli: CommandLine) -> None:
    answer = cli.run("dlq", "list")
    assert (answer.status, answer.out, answer.err) == (0, "", "tallyroll: no dead letters\n")
    answer = cli.run("dlq", "redrive", "--yes")
    assert (answer.status, answer.err) == (0, "tallyroll: no such dead letters\n")


@pytest.mark.parametrize("command", ["list", "redrive"])
def test_what_was_not_seen_is_said(mixed: CommandLine, command: str) -> None:
    more = ["--yes"] if command == "redrive" else []
    held = mixed.dead_letters.peek(1, HIDDEN_SECONDS)
    answer = mixed.run("dlq", command, *more, "--limit", "2")
    assert answer.status == 1
    assert "saw 2 of about 4 dead letters" in answer.err
    assert mixed.dead_letters.peek(1, 1) != held


def test_a_list_that_is_interrupted_gives_all_back(
    mixed: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(receiving, "number_of", interrupt)
    assert mixed.run("dlq", "list").status == 130
    assert mixed.dead_letters.count().visible == 4


# --- show


def test_a_letter_is_shown_by_either_id(mixed: CommandLine) -> None:
    letter = mixed.pipeline.queue.dead_letters[0]
    for name in (letter.id, letter.message.id):
        answer = mixed.run("dlq", "show", name)
        assert answer.status == 0
        assert letter.message.body in answer.out
        assert answer.row("reason", "too-late")
        assert answer.row("window", hour(6))
        assert answer.row("message", letter.message.id)
    (told,) = mixed.run("--json", "dlq", "show", letter.id).json
    assert told["body"] == letter.message.body
    assert told["dead_since"] == "2026-11-20T08:30:00.000Z"
    assert mixed.dead_letters.count().visible == 4


def test_letters_are_found_by_a_text(mixed: CommandLine) -> None:
    every = mixed.run("--json", "dlq", "show", "--reason", "not-json").json
    found = mixed.run("--json", "dlq", "find", every[0]["message"]).json
    assert [one["letter"] for one in found] == [every[0]["letter"]]
    none = mixed.run("dlq", "find", "a text that no letter has")
    assert (none.status, "no such dead letter" in none.err) == (1, True)


def test_letters_are_shown_by_reason(mixed: CommandLine) -> None:
    answer = mixed.run("--json", "dlq", "show", "--reason", "too-late", "--reason", "undelivered")
    assert [told["reason"] for told in answer.json] == ["too-late", "too-late", "undelivered"]
    answer = mixed.run("--json", "dlq", "show", "--reason", "too-late", "-n", "1")
    assert len(answer.json) == 1


def test_a_letter_that_is_not_there(mixed: CommandLine) -> None:
    answer = mixed.run("dlq", "show", "nobody")
    assert (answer.status, answer.out) == (3, "")
    assert "there is no such dead letter" in answer.err
    assert mixed.run("dlq", "show").status == 2
    answer = mixed.run("dlq", "show", mixed.pipeline.queue.dead_letters[0].id, "nobody")
    assert answer.status == 1
    assert "there is no dead letter nobody" in answer.err


def test_a_body_does_not_move_the_terminal(cli: CommandLine) -> None:
    reject(cli.pipeline, "red \x1b[31m\ttab ü \x07\u202e", Reason.NOT_JSON)
    answer = cli.run("dlq", "show", "--reason", "not-json")
    assert "red \\x1b[31m\ttab ü \\x07\\u202e\n" in answer.out


def test_a_body_that_is_gone_is_said(mixed: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_: object) -> str:
        raise Missing("there is no object rejected/1", "NoSuchKey")

    monkeypatch.setattr(mixed.dead_letters, "body", gone)
    (told,) = mixed.run("--json", "dlq", "show", "--reason", "not-json").json
    assert (told["body"], told["problem"]) == ("", "there is no object rejected/1")


# --- redrive


def test_what_can_count_is_redriven_and_the_rest_is_left(mixed: CommandLine) -> None:
    answer = mixed.run("dlq", "redrive", "--yes")
    assert answer.status == 1
    assert answer.row("redriven", "too-late", WINDOW, "2")
    assert answer.row("redriven", "undelivered", WINDOW, "1")
    assert answer.row("left", "not-json", "1", "not-json")
    assert "left: " in answer.err
    assert "it would only come back: " in answer.err
    drain(mixed.pipeline)
    assert sorted(records(mixed.pipeline)) == [(WINDOW, f"e{n}") for n in (1, 2, 3)]
    assert mixed.pipeline.reasons() == ["not-json"]
    assert mixed.dead_letters.count().visible == 1


def test_only_what_was_asked_for(mixed: CommandLine) -> None:
    letter = mixed.pipeline.queue.dead_letters[1]
    answer = mixed.run("dlq", "redrive", "--message", letter.id, "--yes", "--json")
    assert (answer.status, answer.err) == (0, "")
    assert answer.json == [
        {
            "letter": letter.id,
            "message": letter.message.id,
            "reason": "too-late",
            "course": "redriven",
            "window": WINDOW,
            "why": None,
            "detail": None,
        }
    ]
    answer = mixed.run("dlq", "redrive", "--message", letter.id, "--message", "x", "--yes")
    assert answer.status == 1
    assert "tallyroll: there is no dead letter x\n" in answer.err
    answer = mixed.run("dlq", "redrive", "--reason", "too-late", "--to", hour(7), "--yes")
    assert answer.status == 0
    drain(mixed.pipeline)
    assert sorted(records(mixed.pipeline)) == [(hour(7), "e1"), (WINDOW, "e2")]
    assert len(mixed.pipeline.queue.dead_letters) == 2


def test_a_dry_run_says_it_all_and_does_nothing(mixed: CommandLine) -> None:
    answer = mixed.run("dlq", "redrive", "--dry-run", "--reason", "too-late")
    assert answer.status == 0
    assert answer.row("would", "be", "redriven", "too-late", WINDOW, "2")
    assert len(mixed.run("dlq", "redrive", "--dry-run", "--json").json) == 4
    assert len(mixed.pipeline.queue) == 0
    assert mixed.dead_letters.count().visible == 4


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--to", "yesterday"], "window 'yesterday': an id looks like"),
        (["--to", hour(6)], f"window {hour(6)} is sealed and takes no events: give one of"),
        (["--yes", "--dry-run"], "Mutually exclusive"),
        (["--reason", "to-late"], "known are"),
        (["--limit", "0"], "a whole number, 1 to"),
        (["--jobs", "0"], "give a whole number, 1 to 10"),
        (["--jobs", "11"], "give a whole number, 1 to 10"),
        ([], "nobody can be asked here: give --yes, or --dry-run"),
    ],
)
def test_wrong_use(mixed: CommandLine, argv: list[str], says: str) -> None:
    answer = mixed.run("dlq", "redrive", *argv)
    assert answer.status == 2
    assert says in answer.err
    assert len(mixed.pipeline.queue) == 0


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("said", "status", "redriven"), [("y\n", 0, 2), ("\n", 1, 0), ("", 1, 0)])
def test_somebody_who_watches_is_asked(
    mixed: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    said: str,
    status: int,
    redriven: int,
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(said))
    assert main.main(["dlq", "redrive", "--reason", "too-late"]) == status
    told = capsys.readouterr()
    assert "Redrive 2 dead letters? [y/N] " in told.err
    assert "would be redriven" in told.out
    assert len(mixed.pipeline.queue) == redriven


def test_nothing_to_ask_about(mixed: CommandLine) -> None:
    answer = mixed.run("dlq", "redrive", "--reason", "not-json")
    assert answer.status == 1
    assert answer.row("left", "not-json", "1", "not-json")


def test_what_comes_back_at_once_is_not_redriven_for_ever(
    mixed: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    redrive = Redriver.redrive

    def and_write(redriver: Redriver, letters: list[object]) -> object:
        decisions = redrive(redriver, letters)  # type: ignore[arg-type]
        seal(mixed.pipeline, WINDOW) if mixed.pipeline.state().status == "open" else None
        drain(mixed.pipeline)
        return decisions

    monkeypatch.setattr(Redriver, "redrive", and_write)
    answer = mixed.run(
        "dlq", "redrive", "--reason", "too-late", "--reason", "window-sealed", "--yes"
    )
    assert answer.status == 1
    assert answer.row("left", "window-sealed", WINDOW, "2", "came", "back")
    assert "it was redriven just now and came back: window" in answer.err


def test_all_letters_are_sent_after_a_look_at_some(
    mixed: CommandLine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(redriving, "LOOKED_AT", 2)
    answer = mixed.run("dlq", "redrive", "--dry-run")
    assert answer.status == 1
    assert "saw 2 of about 4 dead letters" in answer.err
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert main.main(["dlq", "redrive"]) == 1
    told = capsys.readouterr().err
    assert "Redrive 2 dead letters, and what can be redriven of some 2 more? [y/N]" in told
    drain(mixed.pipeline)
    assert len(records(mixed.pipeline)) == 3


def test_a_limit_holds_for_what_is_sent(mixed: CommandLine) -> None:
    assert mixed.run("dlq", "redrive", "--yes", "--limit", "1").status == 1
    assert len(mixed.pipeline.queue) == 1


def test_retractions_go_after_all_events(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the first letters, of an event that is in the last batch: its claim comes first."""
    pipeline = cli.pipeline
    pipeline.settings = replace(pipeline.settings, retraction="queue")  # the writer's alone
    body = retraction(key="k", id="e149", ts=LATE)
    reject(pipeline, body, Reason.NOTHING_TO_RETRACT)
    for number in range(150):
        send(pipeline, id=f"e{number}", ts=LATE)
    drain(pipeline)
    seal(pipeline, hour(6))
    sent: list[str] = []
    resend = MemoryDeadLetters.resend

    def heard(letters: MemoryDeadLetters, resends: list[Resend]) -> list[str]:
        sent.extend(each.body for each in resends)
        return resend(letters, resends)

    monkeypatch.setattr(MemoryDeadLetters, "resend", heard)
    assert cli.run("dlq", "redrive", "--dry-run").row(
        *["would", "be", "redriven", "nothing-to-retract"], hour(6), "1"
    )
    answer = cli.run("dlq", "redrive", "--yes")
    assert answer.status == 0
    assert (len(sent), sent.index(body)) == (151, 150)
    for _ in range(2):
        drain(pipeline)
        pipeline.effects.pass_by(30 * MINUTE)
    assert pipeline.tally("k")[0] == 149
    assert pipeline.queue.dead_letters == []


def test_twenty_are_told_one_by_one(cli: CommandLine) -> None:
    for number in range(23):
        reject(cli.pipeline, f"body {number}", Reason.NOT_JSON)
    answer = cli.run("dlq", "redrive", "--yes")
    assert answer.status == 1
    assert answer.err.count("left: ") == 20
    assert "... and 3 more are left (--json tells all)" in answer.err


# --- which queues


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The queues and permanent tables of the pipeline `votes` in moto; the dead letters' URL."""
    client._session.cache_clear()
    defaults = SqsDeadLetters.__init__.__kwdefaults__
    assert defaults
    monkeypatch.setitem(defaults, "wait_seconds", 0)
    with mock_aws():
        declared = declare(Settings(name="votes"))
        sqs = client.make_client("sqs")
        urls = [
            sqs.create_queue(QueueName=queue.name, Attributes=queue_attributes(queue))["QueueUrl"]
            for queue in (declared.queue, declared.dead_letters)
        ]
        for table in (declared.catalog, declared.totals):
            client.make_client("dynamodb").create_table(**table_request(table))
        yield urls[1]
    client._session.cache_clear()


def test_queues_are_found_by_name(
    deployed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(12):
        client.make_client("sqs").send_message(QueueUrl=deployed, MessageBody=f"body {number}")

    def told(*argv: str) -> Answer:
        return run(monkeypatch, capsys, "--name", "votes", "--json", "dlq", *argv)

    (group,) = told("list").json
    assert (group["reason"], group["count"]) == ("undelivered", 12)
    (shown,) = told("show", "--reason", "undelivered", "-n", "1").json
    assert shown["body"].startswith("body ")
    left = told("redrive", "--yes")
    assert left.status == 1
    assert {letter["why"] for letter in left.json} == {"no calendar"}
    assert len(left.json) == 12
    assert told("list").json == [group], "nothing is lost"
    missing = run(monkeypatch, capsys, "--name", "others", "dlq", "list")
    assert missing.status == 3
    assert "Is --name right?" in missing.err


def test_queues_of_another_name_are_not_touched(
    mixed: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = mixed.run("--name", "votes", "dlq", "list")
    assert answer.status == 2
    assert "TALLYROLL_QUEUE_URL is" in answer.err
    monkeypatch.setenv("TALLYROLL_DEAD_LETTERS_URL", "https://sqs/1/others")
    assert "TALLYROLL_DEAD_LETTERS_URL leads to" in mixed.run("dlq", "list").err
