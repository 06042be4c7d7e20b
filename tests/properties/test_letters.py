"""Every dead letter fits into the queue, whatever a producer sent and the writer says of it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.aws.cloudwatch import QueueMetrics
from tallyroll.adapters.aws.lambda_events import sqs_messages
from tallyroll.adapters.aws.sqs import SqsQueue
from tallyroll.adapters.memory import MemoryBucket
from tallyroll.limits import QUEUE_MESSAGE_BYTES_MAX, TS_MS_MAX
from tallyroll.model.dead_letters import attributes_of, letter_of, redrive_of
from tallyroll.model.messages import Message, RedriveMark, Rejection
from tallyroll.model.windows import is_window_id, window_id
from tallyroll.reasons import Reason
from tests.contract.engines import SteadyEffects
from tests.harness.pipeline import NOW, WINDOW

ATTRIBUTES_MAX = 10  # of one message [Amazon SQS Developer Guide, "Message metadata"]
OURS = ["reason", "detail", "message-id", "sent", "window", "target", "body"]
LEGAL = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+")

texts = st.text(st.characters(codec=None), max_size=30)
huge = st.builds(
    lambda text, length: text * (length // len(text)),
    texts.filter(bool),
    st.sampled_from([600, 5_000, 262_144, QUEUE_MESSAGE_BYTES_MAX]),
)
hostile = st.one_of(texts, huge, st.just(WINDOW), st.integers(0, 10**20).map(str), st.none())
window_ids = st.integers(0, TS_MS_MAX).map(window_id)


class StrictSqs:
    """An SQS client that takes what SQS takes, and fails the test for anything else.

    Source: Amazon SQS API Reference, SendMessageBatch and SendMessage; MessageAttributeValue.
    """

    def __init__(self) -> None:
        self.taken: list[tuple[str, dict[str, str]]] = []

    def send_message_batch(self, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        assert 1 <= len(Entries) <= 10
        size = 0
        for entry in Entries:
            attributes = {
                name: value["StringValue"] for name, value in entry["MessageAttributes"].items()
            }
            assert len(attributes) <= ATTRIBUTES_MAX
            for text in (entry["MessageBody"], *attributes.values()):
                assert LEGAL.fullmatch(text), ascii(text[:100])
                size += len(text.encode())
            size += sum(len(name) + len("String") for name in attributes)
            self.taken.append((entry["MessageBody"], attributes))
        assert size <= QUEUE_MESSAGE_BYTES_MAX
        return {"Successful": [{"Id": entry["Id"]} for entry in Entries]}


def reject(rejections: list[Rejection]) -> list[tuple[str, dict[str, str]]]:
    """The letters that the queue takes: their bodies and attributes."""
    client, effects = StrictSqs(), SteadyEffects()
    queue = SqsQueue(
        Caller(client, effects),
        effects,
        queue_url="events",
        dead_letters_url="dead",
        bucket=MemoryBucket("archive"),
        metrics=QueueMetrics(Caller(None, effects), effects, queue="events", period_ms=60_000),
    )
    assert queue.reject(rejections) == [True] * len(rejections)
    assert len(client.taken) == len(rejections)
    return client.taken


def message(body: str, attributes: dict[str, str | None]) -> Message:
    """A message as Lambda hands it to the writer; None stands for a binary attribute."""
    told = {
        f"tallyroll-{name}": {"dataType": "Binary", "binaryValue": "AAE="}
        if text is None
        else {"dataType": "String", "stringValue": text}
        for name, text in attributes.items()
    }
    record = {
        "messageId": "19dd0b57-b21e-4ac1-bd88-01bbb068cb78",
        "receiptHandle": "r",
        "body": body,
        "attributes": {"SentTimestamp": str(NOW), "ApproximateReceiveCount": "1"},
        "messageAttributes": told,
    }
    (received,) = sqs_messages({"Records": [record]})
    return received


messages = st.builds(
    message, st.one_of(texts, huge), st.dictionaries(st.sampled_from(OURS), hostile)
)
redriven = st.builds(
    lambda body, target, first_id, sent: message(
        body, {"target": target, "message-id": first_id, "sent": sent}
    ),
    st.one_of(texts, huge),
    st.one_of(window_ids, hostile),
    st.one_of(st.from_regex(r"[!-~]{1,100}", fullmatch=True), hostile),
    st.one_of(st.integers(0, TS_MS_MAX).map(str), hostile),
)
rejections = st.builds(
    Rejection,
    st.one_of(messages, redriven),
    st.sampled_from(Reason),
    st.one_of(texts, huge),
    st.none() | window_ids,
)


@given(st.lists(rejections, min_size=1, max_size=4))
def test_every_letter_is_one_that_the_queue_takes(rejections: list[Rejection]) -> None:
    letters = reject(rejections)
    for (body, attributes), rejection in zip(letters, rejections, strict=True):
        letter = letter_of(
            id_="dead",
            receipt="r",
            receives=1,
            arrived=NOW,
            body=body,
            attributes=attributes,
            moved=False,
        )
        received = rejection.message
        assert letter.first_id == received.first_id
        assert letter.first_sent == received.first_sent
        assert letter.target == (received.redrive.target if received.redrive else None)
        assert letter.window == rejection.window
        assert (letter.pointer is None) == (body == received.body)


@pytest.mark.parametrize("name", ["target", "message-id", "sent"])
@pytest.mark.parametrize("text", ["t" * QUEUE_MESSAGE_BYTES_MAX, "\x00", "\ud800", "\uffff"])
def test_a_hostile_attribute_reaches_no_letter(name: str, text: str) -> None:
    """Random attributes seldom have their form but for one of them."""
    told: dict[str, str | None] = {"target": WINDOW, "message-id": "first", "sent": str(NOW)}
    received = message("{}", told | {name: text})
    ((body, attributes),) = reject([Rejection(received, Reason.BAD_KEY, "no good", WINDOW)])
    assert body == "{}"
    assert text not in attributes.values()
    assert "tallyroll-target" not in attributes


@given(st.one_of(messages, redriven))
def test_only_a_window_id_redrives(received: Message) -> None:
    if received.redrive:
        assert is_window_id(received.redrive.target)
        assert len(received.redrive.target.encode()) == len(WINDOW)


@given(st.dictionaries(st.sampled_from(OURS).map("tallyroll-{}".format), texts | window_ids))
def test_what_a_letter_says_of_its_message_has_its_form(attributes: dict[str, str]) -> None:
    letter = letter_of(
        id_="dead",
        receipt="r",
        receives=1,
        arrived=NOW,
        body="",
        attributes=attributes,
        moved=False,
    )
    redrive = RedriveMark(WINDOW, letter.first_id, letter.first_sent)
    told = attributes_of(redrive)
    assert all(LEGAL.fullmatch(text) and len(text) <= 100 for text in told.values())
    assert all(window is None or is_window_id(window) for window in (letter.window, letter.target))


@pytest.mark.parametrize("target", ["", "t" * QUEUE_MESSAGE_BYTES_MAX, WINDOW + "0", "\x00"])
def test_a_letter_whose_target_is_no_window_is_of_a_message_that_is_new(target: str) -> None:
    attributes = {
        "tallyroll-reason": "bad-key",
        "tallyroll-target": target,
        "tallyroll-message-id": "chosen",
        "tallyroll-sent": "1700000000000",
    }
    letter = letter_of(
        id_="dead",
        receipt="r",
        receives=1,
        arrived=NOW,
        body="",
        attributes=attributes,
        moved=False,
    )
    assert (letter.first_id, letter.first_sent, letter.target) == ("dead", NOW, None)
    del attributes["tallyroll-target"]
    letter = letter_of(
        id_="dead",
        receipt="r",
        receives=1,
        arrived=NOW,
        body="",
        attributes=attributes,
        moved=False,
    )
    assert (letter.first_id, letter.first_sent) == ("chosen", 1_700_000_000_000)


@pytest.mark.parametrize(
    ("first_id", "taken"),
    [
        ("!~", True),
        ("i" * 100, True),
        ("i" * 101, False),
        ("", False),
        ("a b", False),
        ("\x7f", False),
    ],
)
def test_an_id_is_of_visible_characters(first_id: str, *, taken: bool) -> None:
    attributes = attributes_of(RedriveMark(WINDOW, first_id, NOW))
    assert (redrive_of(attributes) is not None) is taken


@pytest.mark.parametrize(("sent", "taken"), [(TS_MS_MAX, True), (TS_MS_MAX + 1, False)])
def test_a_time_after_the_year_9999_is_nobodys(sent: int, *, taken: bool) -> None:
    """No window id can name it."""
    letter = letter_of(
        id_="dead",
        receipt="r",
        receives=1,
        arrived=NOW,
        body="",
        attributes={
            "tallyroll-reason": "bad-key",
            "tallyroll-message-id": "first",
            "tallyroll-sent": str(sent),
        },
        moved=False,
    )
    assert (letter.first_id == "first") is taken


def test_a_pointer_is_far_smaller_than_a_message_may_be() -> None:
    told: dict[str, str | None] = {"target": WINDOW, "message-id": "i" * 100, "sent": "1" * 12}
    received = message("x" * QUEUE_MESSAGE_BYTES_MAX, told)
    assert received.redrive
    ((body, attributes),) = reject([Rejection(received, Reason.BAD_KEY, "😀" * 9_999, WINDOW)])
    assert json.loads(body)["bytes"] == QUEUE_MESSAGE_BYTES_MAX
    sizes = [len(text.encode()) for pair in attributes.items() for text in pair]
    assert sum(sizes) + len(body) < 4_096
