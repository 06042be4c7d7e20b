"""An embedded AWS, on moto alone, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from local.aws.embedded import Embedded, scaled_settings


@pytest.fixture(scope="session")
def aws(made_up_aws: None) -> Iterator[Embedded]:
    """Shared by the tests of a process: use queues of your own."""
    with Embedded(scaled_settings("local-tests", 60), engine="moto") as embedded:
        yield embedded


@pytest.fixture
def make_queue(aws: Embedded) -> Callable[..., str]:
    """Makes a queue with the attributes given by keyword; its URL."""

    def make(**attributes: str) -> str:
        reply = aws.client("sqs").create_queue(QueueName=f"q-{uuid4()}", Attributes=attributes)
        url: str = reply["QueueUrl"]
        return url

    return make


@pytest.fixture
def send(aws: Embedded) -> Callable[..., list[str]]:
    """Sends bodies to a queue; the message ids, in order."""
    sqs: Any = aws.client("sqs")

    def send_all(url: str, bodies: list[str]) -> list[str]:
        ids: list[str] = []
        for at in range(0, len(bodies), 10):
            entries = [
                {"Id": str(number), "MessageBody": body}
                for number, body in enumerate(bodies[at : at + 10])
            ]
            reply = sqs.send_message_batch(QueueUrl=url, Entries=entries)
            ids += [sent["MessageId"] for sent in reply["Successful"]]
        return ids

    return send_all
