"""A vote service: each voter has one ballot, and may press the button twice.

The same event is the same key (the candidate), the same id (the ballot) and the same window (the
hour of `ts`). So a ballot has the time at which it was issued: posted again in the next hour, it
still counts once. But a ballot for Ada and the same one for Grace are two events, and both count:
that a voter has one vote is for the service to decide before it posts.
"""

from __future__ import annotations

import json
import os
from typing import Any

import boto3


def cast(voter: str, candidate: str, issued: int) -> None:
    """Post a vote on the ballot that the voter was issued at a time (ms since the epoch)."""
    ballot = {"key": candidate, "id": f"ballot-{voter}", "ts": issued}
    _sqs().send_message(QueueUrl=os.environ["VOTES_QUEUE_URL"], MessageBody=json.dumps(ballot))


def _sqs() -> Any:
    return boto3.client("sqs")


def handler(event: dict[str, Any], _context: object) -> None:
    """The service as a Lambda function."""
    cast(event["voter"], event["candidate"], event["issued"])
