"""`tallyroll retract --wait` waits until an event is taken back, or for its letter."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import Unknown
from tallyroll.model.retractions import Retraction
from tallyroll.model.windows import Grid
from tests.cli.command_line import CommandLine
from tests.cli.test_retract import ASK, EVENT, OPERATOR, PACKET, retracting
from tests.cli.test_send_wait import work_while_asleep
from tests.harness.pipeline import HOUR, MINUTE, NOW, SMALL, TIME_LEFT, WINDOW, hour, opened
from tests.harness.retracting import retracted


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """See `retracting`."""
    return retracting(monkeypatch, capsys)


def work(cli: CommandLine) -> None:
    """A writer's next batch; what it hands back comes again."""
    messages = cli.pipeline.queue.receive()
    report = cli.pipeline.writer().write(messages, TIME_LEFT)
    for message in messages:
        if message.id not in report.failures:
            cli.pipeline.queue.delete(message.receipt)


@pytest.fixture
def working(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The same with a writer that works whenever the command sleeps."""
    work_while_asleep(cli, monkeypatch, lambda: work(cli))
    return cli


def test_it_waits_for_its_effect(working: CommandLine) -> None:
    answer = working.run("--json", *ASK, "--wait")
    assert (answer.status, answer.err) == (0, "")
    assert (answer.json[0]["result"], answer.json[0]["by"]) == ("retracted", "ann")
    assert retracted(working.pipeline) == (1, 2_500_000)


def test_it_waits_for_the_event_too(working: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    later = {**EVENT, "id": "later"}
    work_while_asleep(
        working,
        monkeypatch,
        lambda: (
            working.pipeline.effects.now() > NOW + MINUTE
            and working.pipeline.queue.send(json.dumps(later))
        ),
    )
    argv = ("retract", "k", "later", "--window", WINDOW, "--wait", "--timeout", "30m")
    (said,) = working.run("--json", *argv).json
    assert (said["result"], retracted(working.pipeline)) == ("retracted", (1, 2_500_000))


def test_a_rejection_is_told(working: CommandLine) -> None:
    working.pipeline.settings = SMALL  # the deployment's setting is not the writer's yet
    answer = working.run("--json", *ASK, "--wait")
    assert (answer.status, answer.json[0]["result"]) == (1, "rejected")
    assert "rejected, retraction-off: " in answer.err
    assert working.dead_letters.count().visible == 1


def once(done: Callable[[], object], then: Callable[[], object]) -> Callable[[], object]:
    """A call that does `done` the first time, and then `then`."""
    calls = iter([done])

    def call() -> None:
        next(calls, then)()

    return call


def test_a_packet_that_comes_without_the_event(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    come = once(lambda: cli.pipeline.write({**PACKET, "id": "p2"}), lambda: work(cli))
    work_while_asleep(cli, monkeypatch, come)
    answer = cli.run("--json", "retract", "k", "p2:9", *ASK[3:], "--wait", "--timeout", "9h")
    assert (answer.status, answer.json[0]["result"]) == (1, "rejected")
    assert "nothing-to-retract: " in answer.err


def test_an_event_of_a_packet_that_somebody_else_retracted(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names an event with the id of that packed event, which there is not."""
    cli.pipeline.settings = replace(OPERATOR, retraction="queue")
    there = json.loads(Retraction.of("k", "p2", index=1, window=WINDOW, by="bob").body)
    come = once(lambda: cli.pipeline.write({**PACKET, "id": "p2"}, there), lambda: work(cli))
    work_while_asleep(cli, monkeypatch, come)
    answer = cli.run("--json", "retract", "k", "p2:1", *ASK[3:], "--wait", "--timeout", "9h")
    assert retracted(cli.pipeline) == (1, 4_000_000)
    assert (answer.status, answer.json[0]["result"]) == (1, "rejected")
    assert "nothing-to-retract: " in answer.err
    told = cli.run("retract", "k", "p3:1", *ASK[3:]).err
    assert "for an event of a packet that is not there yet: p3 --index 1" in told


def test_an_event_that_came_with_another_time_and_was_retracted_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = CommandLine(opened(replace(OPERATOR, identity="key")), monkeypatch, capsys)
    cli.deployment.there = {"TALLYROLL_RETRACTION": "operator"}
    cli.pipeline.settings = replace(cli.pipeline.settings, retraction="queue")
    there = json.loads(Retraction.of("k", "e1", window=WINDOW, by="bob").body)
    come = once(lambda: cli.pipeline.write(EVENT, there), lambda: work(cli))
    work_while_asleep(cli, monkeypatch, come)
    argv = ("retract", "k", "e1", "--window", hour(7), *ASK[5:], "--wait", "--timeout", "9h")
    answer = cli.run("--json", *argv)
    assert retracted(cli.pipeline) == (1, 2_500_000)
    assert (answer.status, answer.json[0]["result"]) == (1, "rejected")
    assert f"nothing-to-retract: window {hour(7)}" in answer.err


def test_a_new_length_of_windows_that_moves_its_window_away(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.pipeline.effects.pass_by(150 * MINUTE - 1000)  # a roller that is late
    calendar = cli.pipeline.catalog.calendar()
    assert calendar
    longer = replace(calendar, grid=Grid.of(2 * HOUR))
    change = once(lambda: setattr(cli.pipeline.catalog, "_calendar", longer), lambda: work(cli))
    work_while_asleep(cli, monkeypatch, change)
    argv = ("retract", "k", "later", "--window", hour(11), *ASK[5:], "--wait")
    answer = cli.run("--json", *argv)
    assert (answer.status, answer.json[0]["result"]) == (1, "rejected")
    assert f"there is no window {hour(11)}" in answer.err


def test_a_letter_of_an_earlier_run_is_not_this_ones(
    working: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    working.pipeline.settings = SMALL
    assert working.run(*ASK, "--wait").status == 1
    working.pipeline.effects.pass_by(MINUTE)
    working.pipeline.settings = OPERATOR
    held: list[bool] = []

    def idle() -> None:
        """Nobody works, until the dead letters were looked through."""
        held.append(True)
        if working.pipeline.effects.now() > NOW + 3 * MINUTE:
            work(working)

    monkeypatch.undo()
    monkeypatch.setenv("TALLYROLL_QUEUE_URL", "https://sqs.us-east-1.amazonaws.com/1/e")
    monkeypatch.setenv("TALLYROLL_DEAD_LETTERS_URL", "https://sqs.us-east-1.amazonaws.com/1/d")
    again = CommandLine(working.pipeline, monkeypatch, working._streams)
    again.deployment.there = {"TALLYROLL_RETRACTION": "operator"}
    work_while_asleep(again, monkeypatch, idle)
    answer = again.run("--json", *ASK, "--wait")
    assert (answer.status, answer.json[0]["result"]) == (0, "retracted")


def test_the_time_runs_out(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> Any:
        raise Unknown("GetItem: no answer")

    monkeypatch.setattr(cli.pipeline.store, "tombstones", lambda *_: {})
    work_while_asleep(
        cli, monkeypatch, lambda: monkeypatch.setattr(cli.pipeline.store, "tombstones", lost)
    )
    answer = cli.run("--json", *ASK, "--wait", "--timeout", "90s")
    assert (answer.status, answer.json[0]["result"]) == (1, "sent")
    assert "not carried out yet, nor found among the dead letters" in answer.err
    assert 90_000 <= cli.pipeline.effects.now() - NOW < 91_000


def test_the_time_runs_out_for_an_event_that_is_not_there(working: CommandLine) -> None:
    answer = working.run("retract", "k", "later", *ASK[3:], "--wait", "--timeout", "90s")
    assert (answer.status, "doctor" in answer.err) == (1, False)
    assert f"the event is not in {WINDOW} yet: its retraction waits for it" in answer.err
