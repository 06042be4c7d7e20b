"""A redrive of many letters: what it tells meanwhile, and what an interrupt does."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence

import pytest

from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.reasons import Reason
from tests.cli.command_line import CommandLine
from tests.harness.pipeline import NOW, WINDOW
from tests.harness.redriving import drain, records, reject


def test_an_interrupted_redrive_tells_what_it_did(
    mixed: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10, 160):
        reject(
            mixed.pipeline,
            json.dumps({"key": "k", "id": f"e{number}", "ts": NOW}),
            Reason.CRASHES_WRITER,
        )
    resend, times = mixed.dead_letters.resend, iter(range(9))

    def interrupted(resends: list[object]) -> object:
        if next(times):
            raise KeyboardInterrupt
        return resend(resends)  # type: ignore[arg-type]

    with monkeypatch.context() as held:
        held.setattr(mixed.dead_letters, "resend", interrupted)
        answer = mixed.run("dlq", "redrive", "--yes")
    assert answer.status == 130
    assert answer.row("redriven", "too-late", WINDOW, "2")
    assert answer.row("redriven", "crashes-writer", WINDOW, "96")
    assert mixed.dead_letters.count().in_flight == 0
    assert mixed.run("dlq", "redrive", "--yes").status == 1
    drain(mixed.pipeline)
    assert len(records(mixed.pipeline)) == 153
    assert mixed.pipeline.reasons() == ["not-json"]


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupt_lets_a_batch_end_and_a_second_one_does_not(
    mixed: CommandLine, monkeypatch: pytest.MonkeyPatch, times: int, stop: signal.Signals
) -> None:
    for number in range(10, 160):
        body = json.dumps({"key": "k", "id": f"e{number}", "ts": NOW})
        reject(mixed.pipeline, body, Reason.CRASHES_WRITER)
    resend, before = mixed.dead_letters.resend, signal.getsignal(signal.SIGINT)

    def interrupted(resends: list[object]) -> object:
        for _ in range(times):
            signal.raise_signal(stop)
        return resend(resends)  # type: ignore[arg-type]

    with monkeypatch.context() as held:
        held.setattr(mixed.dead_letters, "resend", interrupted)
        answer = mixed.run("dlq", "redrive", "--yes")
    assert answer.status == 130
    assert len(mixed.pipeline.queue) == (99 if times == 1 else 0)
    assert answer.row("redriven", "crashes-writer", WINDOW, "96") is (times == 1)
    assert mixed.dead_letters.count().in_flight == 0, "what stays is given back"
    assert signal.getsignal(signal.SIGINT) is before
    assert mixed.run("dlq", "redrive", "--yes").status == 1
    drain(mixed.pipeline)
    assert len(records(mixed.pipeline)) == 153


def test_only_what_stays_is_held_and_given_back(
    mixed: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []
    give_back = mixed.dead_letters.give_back

    def noted(letters: Sequence[ReceivedLetter]) -> None:
        given.extend(letter.why for letter in letters)
        give_back(letters)

    monkeypatch.setattr(mixed.dead_letters, "give_back", noted)
    assert mixed.run("dlq", "redrive", "--yes").status == 1
    assert given == ["not-json"]
