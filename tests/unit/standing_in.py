"""A client that stands in for boto3's of SQS, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError

URL = "https://sqs.eu-west-1.amazonaws.com/123456789012/votes"
Answer = Callable[[list[dict[str, Any]]], dict[str, Any]]


class StandIn:
    """A client that answers its first requests as told, and takes all others."""

    def __init__(self, *answers: Answer | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[list[dict[str, Any]]] = []

    def send_message_batch(self, **request: Any) -> dict[str, Any]:
        assert request["QueueUrl"] == URL
        entries = request["Entries"]
        self.requests.append(entries)
        answer = self.answers.pop(0) if self.answers else taken
        if isinstance(answer, Exception):
            raise answer
        return answer(entries)

    @property
    def bodies(self) -> list[str]:
        return [entry["MessageBody"] for request in self.requests for entry in request]


def taken(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"Successful": [{"Id": entry["Id"]} for entry in entries]}


def failing(code: str, *, by_sender: bool) -> Answer:
    def answer(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
        first, *others = entries
        failed = {"Id": first["Id"], "Code": code, "Message": "why", "SenderFault": by_sender}
        return {**taken(others), "Failed": [failed]}

    return answer


def client_error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "why"}}, "SendMessageBatch")


def lost_reply() -> ReadTimeoutError:
    return ReadTimeoutError(endpoint_url=URL)
