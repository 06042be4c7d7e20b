"""A batch reply may name an entry neither as done nor as failed: nothing may take it for done."""

from __future__ import annotations

from typing import Any

import pytest

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.aws.cloudwatch import QueueMetrics
from tallyroll.adapters.aws.sqs import EntryError, SqsPoster, SqsQueue, SqsSender, send_batch
from tallyroll.adapters.aws.sqs import Letter as Sent
from tallyroll.adapters.aws.sqs_dead_letters import SqsDeadLetters
from tallyroll.adapters.memory import MemoryBucket
from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.model.messages import Message, RedriveMark, Rejection
from tallyroll.ports.dead_letters import Resend
from tallyroll.ports.queue import Post
from tallyroll.reasons import Reason
from tests.contract.engines import SteadyEffects

SENT = 1_700_000_000_000
WINDOW = "20261120T080000Z"


class _Taciturn:
    """An SQS client whose replies name only the entries of these ids, all of them as done; without
    ids, the reply has neither list.
    """

    def __init__(self, *named: str) -> None:
        self._named = named

    def _done(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        done = [{"Id": entry["Id"]} for entry in entries if entry["Id"] in self._named]
        return {"Successful": done} if done else {}

    def send_message_batch(self, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        return self._done(Entries)

    def delete_message_batch(self, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        return self._done(Entries)


NAMED = pytest.mark.parametrize("named", [("0", "2"), ()], ids=["one-unnamed", "no-lists"])


def _caller(named: tuple[str, ...]) -> Caller:
    return Caller(_Taciturn(*named), SteadyEffects())


def _dead_letters(named: tuple[str, ...]) -> SqsDeadLetters:
    return SqsDeadLetters(
        _caller(named),
        SteadyEffects(),
        queue_url="events",
        dead_letters_url="dead",
        bucket=MemoryBucket("archive"),
    )


@NAMED
def test_it_was_not_sent_and_not_for_its_content(named: tuple[str, ...]) -> None:
    failed = send_batch(_caller(named), "events", [Sent("body", {})] * 3)
    unnamed = [place for place in range(3) if str(place) not in named]
    assert failed == dict.fromkeys(unnamed, EntryError())
    assert not any(error.sender_fault for error in failed.values())


@NAMED
def test_it_may_have_been_taken(named: tuple[str, ...]) -> None:
    answers = SqsPoster(_caller(named), "events").post([Post("body")] * 3)
    assert [answer is None for answer in answers] == [str(place) in named for place in range(3)]
    assert all(answer.unknown and not answer.final for answer in answers if answer)


@NAMED
def test_the_producer_names_its_body(named: tuple[str, ...]) -> None:
    failures = SqsSender(_caller(named), SteadyEffects(), "events").send(["a", "b", "c"])
    unnamed = [place for place in range(3) if str(place) not in named]
    assert [(failure.index, failure.body) for failure in failures] == [
        (place, "abc"[place]) for place in unnamed
    ]


@NAMED
def test_its_rejection_does_not_stand_in_the_dead_letter_queue(named: tuple[str, ...]) -> None:
    """The message is handed back: an acknowledged one would be nowhere."""
    effects = SteadyEffects()
    queue = SqsQueue(
        _caller(named),
        effects,
        queue_url="events",
        dead_letters_url="dead",
        bucket=MemoryBucket(),
        metrics=QueueMetrics(Caller(None, effects), effects, queue="events", period_ms=60_000),
    )
    rejections = [
        Rejection(Message(f"m-{n}", "body", SENT, 1, "r"), Reason.BAD_KEY, "no good", WINDOW)
        for n in range(3)
    ]
    assert queue.reject(rejections) == [str(place) in named for place in range(3)]


@NAMED
def test_its_dead_letter_was_not_sent_again_and_stays(named: tuple[str, ...]) -> None:
    resends = [Resend("body", RedriveMark(WINDOW, "m-0", SENT))] * 3
    resent = _dead_letters(named).resend(resends)
    assert [bool(why) for why in resent] == [str(place) not in named for place in range(3)]
    letter = ReceivedLetter("dead-1", "r", 1, SENT, "body", None, "", None, "dead-1", SENT)
    gone = _dead_letters(named).delete([letter] * 3)
    assert gone == [str(place) in named for place in range(3)]
