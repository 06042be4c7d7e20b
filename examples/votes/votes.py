"""A vote service: each voter has one vote, whichever candidate it is for, and whatever the hour.

The pipeline's option `identity` is `pipeline`: an id counts once at all, not once for each
candidate and hour. So the id is the voter's, and nothing here has to remember who has voted. Of two
votes of one voter the first counts. A second one for the same candidate is a duplicate; one for
another candidate is rejected as `id-conflict`, and goes to the dead-letter queue. The votes have no
`ts`: with the time of each press in it, the same vote again would have another content, and be
rejected, too.
"""

from __future__ import annotations

import json
import os
from typing import Any

import boto3


def cast(voter: str, candidate: str) -> None:
    """Post a voter's vote."""
    vote = {"key": candidate, "id": f"vote-of-{voter}"}
    _sqs().send_message(QueueUrl=os.environ["VOTES_QUEUE_URL"], MessageBody=json.dumps(vote))


def _sqs() -> Any:
    return boto3.client("sqs")


def handler(event: dict[str, Any], _context: object) -> None:
    """The service as a Lambda function."""
    cast(event["voter"], event["candidate"])
