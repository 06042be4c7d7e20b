"""Converts the events that invoke the functions to core types, and clears their disk."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlencode

from tallyroll.model.dead_letters import redrive_of
from tallyroll.model.messages import Message


class LambdaContext(Protocol):
    """The part of a Lambda context that the functions use."""

    def get_remaining_time_in_millis(self) -> int:
        """The time left for the invocation, ms."""
        ...


def clear_disk() -> None:
    """Delete what a process of the function left on disk when Lambda ended it, at its timeout as a
    rule: the disk stays, and nobody else uses it. Outside of Lambda nothing is deleted.

    Source: AWS Lambda Developer Guide, "Understanding the Lambda execution environment lifecycle".
    """
    if "AWS_LAMBDA_RUNTIME_API" not in os.environ:
        return
    import shutil  # noqa: PLC0415 (only functions that read Parquet need it)
    import tempfile  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    for folder in Path(tempfile.gettempdir()).glob("tallyroll-*"):
        shutil.rmtree(folder, ignore_errors=True)


def sqs_messages(event: Mapping[str, Any]) -> list[Message]:
    """The messages of an SQS event, in order; none for an event without records.

    Source: AWS Lambda Developer Guide, "Using Lambda with Amazon SQS", the example event.
    """
    return [
        Message(
            id=record["messageId"],
            body=record.get("body") or "",
            sent=int(record["attributes"]["SentTimestamp"]),
            receives=int(record["attributes"]["ApproximateReceiveCount"]),
            receipt=record["receiptHandle"],
            redrive=redrive_of(_texts(attributes))
            if (attributes := record.get("messageAttributes"))
            else None,
        )
        for record in event.get("Records") or []
    ]


def _texts(attributes: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The message attributes with text values."""
    values = {name: value.get("stringValue") for name, value in attributes.items()}
    return {name: text for name, text in values.items() if isinstance(text, str)}


def batch_failures(message_ids: list[str]) -> dict[str, list[dict[str, str]]]:
    """The response that makes SQS redeliver only these messages (ReportBatchItemFailures)."""
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in message_ids]}


def is_rest(event: Mapping[str, Any]) -> bool:
    """Whether a REST API sent the event (payload format 1.0), and not an HTTP API (2.0).

    Source: API Gateway Developer Guide, "Create AWS Lambda proxy integrations for HTTP APIs".
    """
    return "httpMethod" in event


def query_of(event: Mapping[str, Any]) -> str:
    """The raw query string of a request. A REST API decodes it: its parameters are encoded.

    Source: API Gateway Developer Guide, "Lambda proxy integrations in API Gateway".
    """
    if not is_rest(event):
        return str(event.get("rawQueryString", ""))
    parameters = event.get("multiValueQueryStringParameters") or {}
    # A lone surrogate, which no URL holds, is refused where the query is read.
    return urlencode(parameters, doseq=True, errors="surrogatepass")
