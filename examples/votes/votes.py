"""A vote service: each voter has one ballot, and may press the button twice."""

from __future__ import annotations

import json
import os
from typing import Any

import boto3


def cast(voter: str, candidate: str) -> None:
    """Post a vote. The ballot is its identity: posted again, it counts once."""
    ballot = {"key": candidate, "id": f"ballot-{voter}"}
    _sqs().send_message(QueueUrl=os.environ["VOTES_QUEUE_URL"], MessageBody=json.dumps(ballot))


def _sqs() -> Any:
    return boto3.client("sqs")


def handler(event: dict[str, str], _context: object) -> None:
    """The service as a Lambda function."""
    cast(event["voter"], event["candidate"])
