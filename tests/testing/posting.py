"""A service under test: it posts its votes with a boto3 client of its own."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import boto3


def post(url: str, *keys: str, **fields: Any) -> None:
    """Send an event of each key, as a service would."""
    post_bodies(url, [json.dumps({"key": key, **fields}) for key in keys])


def post_bodies(url: str, bodies: Iterable[str]) -> None:
    """Send these bodies, ten in a request."""
    sqs = boto3.client("sqs")
    queued = list(bodies)
    for first in range(0, len(queued), 10):
        ten = enumerate(queued[first : first + 10])
        entries = [{"Id": str(place), "MessageBody": body} for place, body in ten]
        reply = sqs.send_message_batch(QueueUrl=url, Entries=entries)  # type: ignore[arg-type]
        assert not reply.get("Failed")
