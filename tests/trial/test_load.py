"""The events of a trial, and what they have to count to."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tallyroll.model.events import Packet, decode
from trial.load import DUPLICATES, HOT, PACKED, Load, SendingError, Truth, send

LOAD = Load(singles=120, keys=7, packets=3, packet=40, seconds=0.0)


class Queue:
    """Takes messages, after it has refused the first `refused` entries."""

    def __init__(self, refused: int = 0) -> None:
        self.bodies: list[str] = []
        self.refused = refused

    def send_message_batch(self, *, QueueUrl: str, Entries: list[Any]) -> dict[str, Any]:  # noqa: N803
        assert QueueUrl == "url"
        failed = []
        for entry in Entries:
            if self.refused:
                self.refused -= 1
                failed.append({"Id": entry["Id"], "Code": "Busy"})
            else:
                self.bodies.append(entry["MessageBody"])
        return {"Failed": failed} if failed else {}


def counted(bodies: list[str]) -> Counter[str]:
    """What these bodies count to, each identity once."""
    found = Counter[str]()
    for text in set(bodies):
        body = json.loads(text)
        found[body["key"]] += len(body["events"]) if "events" in body else 1
    return found


def test_a_truth_is_what_the_messages_count_to() -> None:
    queue, truth = Queue(), Truth()

    send(LOAD, truth, queue, "url")

    assert len(queue.bodies) == truth.messages == LOAD.messages
    assert counted(queue.bodies) == truth.events
    assert sum(truth.events.values()) == LOAD.events
    assert truth.events[HOT] == 120
    assert truth.events[PACKED] == 3 * 40
    assert len(truth.events) == 7 + 2
    assert 0 < truth.since <= truth.until
    assert len(queue.bodies) - len(set(queue.bodies)) == 2 * (120 // DUPLICATES)


def test_the_writer_reads_every_message() -> None:
    bodies = list(LOAD.bodies(lambda: 1_795_163_400_000, Truth()))

    kinds = Counter(type(decode(body)) for body in bodies)
    assert kinds[Packet] == 3
    assert kinds.total() == LOAD.messages


@pytest.mark.parametrize(("singles", "packets"), [(0, 5), (5, 0), (3, 7), (7, 3)])
def test_any_mix_is_sent_whole(singles: int, packets: int) -> None:
    load = Load(singles=singles, packets=packets, packet=2, seconds=0.0)
    truth = Truth()

    assert len(list(load.bodies(lambda: 1, truth))) == load.messages
    assert sum(truth.events.values()) == load.events


def test_what_sqs_does_not_take_is_sent_again() -> None:
    queue, truth = Queue(refused=8), Truth()

    send(LOAD, truth, queue, "url")

    assert counted(queue.bodies) == truth.events


def test_what_sqs_never_takes_ends_the_trial() -> None:
    with pytest.raises(SendingError, match=r"did not take \d+ messages: .*Busy"):
        send(LOAD, Truth(), Queue(refused=10_000), "url")
