"""A forum: a thread's item has its subject alone, and each reply is an event of its own.

With the replies as a set in the thread's item, the item grows towards the 400 KB that DynamoDB
allows, and a reader of the subject alone reads, and pays for, all replies. Here a popular thread is
one hot key of the pipeline: its replies are spread over shards, counted exactly, and read in pages.
"""

from __future__ import annotations

import json
import os
from typing import Any

import boto3


def open_thread(thread: str, subject: str) -> None:
    """Store a thread without its replies."""
    _threads().put_item(Item={"thread": thread, "subject": subject})


def subject_of(thread: str) -> str:
    """A thread's subject; half a read unit, however many replies there are."""
    return str(_threads().get_item(Key={"thread": thread})["Item"]["subject"])


def reply(thread: str, reply_id: str, text: str) -> None:
    """Post a reply; sent again under the same id, it is the same reply."""
    event = {"key": thread, "id": reply_id, "payload": {"text": text}}
    boto3.client("sqs").send_message(
        QueueUrl=os.environ["FORUM_QUEUE_URL"], MessageBody=json.dumps(event)
    )


def _threads() -> Any:
    return boto3.resource("dynamodb").Table(os.environ["THREADS_TABLE"])
