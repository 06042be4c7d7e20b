"""Replies are counted once, and do not make their thread's item any larger."""

from __future__ import annotations

import boto3
import forum
import pytest


@pytest.fixture(autouse=True)
def service(tallyroll, monkeypatch):
    boto3.client("dynamodb").create_table(
        TableName="threads",
        KeySchema=[{"AttributeName": "thread", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "thread", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    monkeypatch.setenv("FORUM_QUEUE_URL", tallyroll.queue_url)
    monkeypatch.setenv("THREADS_TABLE", "threads")


def test_replies_are_events_and_the_thread_stays_small(tallyroll):
    forum.open_thread("aws/1", "Which partition key?")
    for number in range(40):
        forum.reply("aws/1", f"reply-{number}", "x" * 1_000)
    tallyroll.drain()
    tallyroll.redeliver()
    tallyroll.drain()
    assert tallyroll.count("aws/1") == 40
    assert forum.subject_of("aws/1") == "Which partition key?"
    [item] = boto3.resource("dynamodb").Table("threads").scan()["Items"]
    assert item == {"thread": "aws/1", "subject": "Which partition key?"}


def test_a_reply_that_is_posted_twice_is_one(tallyroll):
    forum.reply("aws/1", "reply-1", "By the user's id.")
    forum.reply("aws/1", "reply-1", "By the user's id.")
    tallyroll.drain()
    assert tallyroll.count("aws/1") == 1
