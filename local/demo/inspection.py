"""What the demo reads of a running pipeline: counts as a user would, states and archives as an
operator would.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from local.aws.embedded import Embedded
from local.demo.report import Sum
from local.runtime.pool import Function
from tallyroll.archive.inventory import named
from tallyroll.archive.verification import ArchiveReading
from tallyroll.model.amounts import read_amount
from tallyroll.model.states import Status, Window
from tallyroll.pipeline import Pipeline

HORIZON_MS = 10**15  # beyond every window that a pipeline makes
RECEIVE_MAX = 10
OPEN_TIMEOUT_S = 30.0
COMPLETE_TIMEOUT_S = 60.0
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter: why it was rejected, and the message's body."""

    reason: str
    body: str


class IncompleteCount(RuntimeError):
    """A count lacks a window that could not be read, or is being closed on Cassandra."""


class Inspection:
    """Looks at the pipeline of an entered `Embedded`; `aggregator` answers the counts."""

    def __init__(self, aws: Embedded, adapters: Pipeline, aggregator: Function) -> None:
        self._settings = aws.settings
        self._sqs = aws.client("sqs")
        self._adapters = adapters
        self._aggregator = aggregator

    def count(self, keys: Iterable[str], *, consistent: bool = False) -> dict[str, Sum]:
        """Each key's events and sum over all time, asked of the aggregator by HTTP API events.

        Raises IncompleteCount, and RuntimeError for another answer.
        """
        counts = {}
        for key in keys:
            response = self._aggregator.invoke(_request(key, consistent=consistent))
            answer = json.loads(response["body"])
            if response["statusCode"] != 200:
                raise RuntimeError(f"count of {key!r}: {answer}")
            if not answer["complete"]:
                raise IncompleteCount(f"count of {key!r}: {answer}")
            counts[key] = Sum(answer["events"], read_amount(answer["sum"]))
        return counts

    def final_count(self, keys: Sequence[str]) -> dict[str, Sum]:
        """The consistent count, asked for again while some later window is being closed. Raises
        RuntimeError.
        """
        until = time.monotonic() + COMPLETE_TIMEOUT_S
        while True:
            try:
                return self.count(keys, consistent=True)
            except IncompleteCount:
                if time.monotonic() >= until:
                    raise
                time.sleep(POLL_S)

    def windows(self) -> list[Window]:
        """All windows, ascending."""
        return self._adapters.catalog.windows(0, HORIZON_MS)

    def await_open(self, wanted: Sequence[str] = ()) -> None:
        """Wait until these windows, or the current one if none is named, are open. Raises
        RuntimeError.
        """
        until = time.monotonic() + OPEN_TIMEOUT_S
        while time.monotonic() < until:
            now = self._adapters.effects.now()
            windows = self.windows()
            opened = {window.id for window in windows if window.status is Status.OPEN}
            current = {window.id for window in windows if window.start <= now < window.end}
            if opened and opened >= (set(wanted) or current) and opened & current:
                return
            time.sleep(POLL_S)
        raise RuntimeError(f"no window was opened within {OPEN_TIMEOUT_S:g} s")

    def dead_letters(self) -> list[Letter]:
        """The dead letters, each message once; takes them from the queue."""
        letters: dict[str, Letter] = {}
        while True:
            reply = self._sqs.receive_message(
                QueueUrl=self._settings.dead_letters_url,
                MaxNumberOfMessages=RECEIVE_MAX,
                MessageAttributeNames=["All"],
            )
            messages = reply.get("Messages", [])
            for message in messages:
                attributes = message.get("MessageAttributes", {})
                named = {name: value["StringValue"] for name, value in attributes.items()}
                original = named.get("tallyroll-message-id", message["MessageId"])
                reason = named.get("tallyroll-reason", "undelivered")
                letters[original] = Letter(reason, message["Body"])
            if not messages:
                return list(letters.values())
            self._sqs.delete_message_batch(
                QueueUrl=self._settings.dead_letters_url,
                Entries=[
                    {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
                    for number, message in enumerate(messages)
                ],
            )

    def verify(self, windows: Iterable[Window]) -> dict[str, bool]:
        """Whether each dropped window's archive, read again from the bucket, agrees with its proof
        and its totals; by window.
        """
        made = self._adapters
        verified = {}
        for window in windows:
            prefix = window.attempt.archive
            if prefix and window.status in (Status.DROPPING, Status.DROPPED):
                archive = named(made.bucket, made.effects, self._settings.name, prefix)
                reading = ArchiveReading(made.bucket, archive, made.codec, made.totals)
                verified[window.id] = archive.proven and not reading.verified().findings.count
        return verified


def _request(key: str, *, consistent: bool) -> dict[str, Any]:
    """An HTTP API event, payload format 2.0, of GET /v1/counters."""
    parameters = {"key": key, "consistent": "true" if consistent else "false"}
    return {
        "version": "2.0",
        "routeKey": "GET /v1/counters",
        "rawPath": "/v1/counters",
        "rawQueryString": urlencode(parameters),
        "headers": {},
        "queryStringParameters": parameters,
        "requestContext": {
            "http": {"method": "GET", "path": "/v1/counters", "protocol": "HTTP/1.1"},
            "stage": "$default",
        },
        "isBase64Encoded": False,
    }
