"""What `--keep DIR` keeps over a restart, and whose directory it takes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from local.__main__ import _found
from local.aws.embedded import scaled_settings
from local.aws.guard import spawn_guarded
from local.aws.kept_dir import KeptDir, KeptDirError, kept_dir
from tallyroll.testing.emulated import create_bucket, create_queues
from tests.harness.processes import ran
from tests.local.test_main import ROOT, TAKES_S, engine, tallyroll

SETTINGS = scaled_settings("kept", 3_600)


@contextmanager
def moto(file: Path, end: signal.Signals) -> Iterator[Any]:
    """A server that keeps its queues and its bucket in a file, until it gets a signal."""
    process = subprocess.Popen(
        [sys.executable, "-m", "local.aws.moto_server", "--keep", str(file)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout
        with process.stdout as lines:
            url = f"http://127.0.0.1:{int(lines.readline())}"

        sqs = boto3.client("sqs", endpoint_url=url, region_name="us-east-1")
        s3 = boto3.client("s3", endpoint_url=url, region_name="us-east-1")
        yield sqs, s3, create_bucket(create_queues(SETTINGS, sqs), s3)
    finally:
        process.send_signal(end)
        process.wait(TAKES_S)


def received(sqs: Any, url: str, **more: Any) -> list[dict[str, Any]]:
    asked = {"MessageSystemAttributeNames": ["All"], "MessageAttributeNames": ["All"]}
    reply = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, **asked, **more)
    found: list[dict[str, Any]] = reply.get("Messages", [])
    return found


def same(message: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a message."""
    kept = {"MessageId", "Body", "MD5OfBody", "MessageAttributes", "MD5OfMessageAttributes"}
    sent = {"SentTimestamp": message["Attributes"]["SentTimestamp"]}
    return {name: value for name, value in message.items() if name in kept} | sent


def test_what_was_acknowledged_outlives_a_kill(made_up_aws: None, tmp_path: Path) -> None:
    file = tmp_path / "kept"
    attributes = {
        "text": {"DataType": "String", "StringValue": "é"},
        "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
    }
    with moto(file, signal.SIGKILL) as (sqs, s3, settings):
        url, dead = settings.queue_url, settings.dead_letters_url
        sqs.send_message(QueueUrl=url, MessageBody="deleted")
        [message] = received(sqs, url)
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        sqs.send_message(QueueUrl=url, MessageBody="in 'flight' \n", MessageAttributes=attributes)
        [in_flight] = received(sqs, url)
        sqs.send_message(QueueUrl=url, MessageBody="later", DelaySeconds=900)
        sqs.send_message(QueueUrl=dead, MessageBody="letter")
        [letter] = received(sqs, dead, VisibilityTimeout=0)
        put = {"Bucket": settings.bucket, "Metadata": {"is": "kept"}, "ContentType": "text/plain"}
        s3.put_object(Key="a/é", Body=b"old", **put)
        s3.put_object(Key="a/é", Body=b"new", **put)
        s3.put_object(Key="gone", Body=b"x", **put)
        s3.delete_object(Bucket=settings.bucket, Key="gone")
        before = s3.get_object(Bucket=settings.bucket, Key="a/é")
    with moto(file, signal.SIGTERM) as (sqs, s3, settings):
        url, dead = settings.queue_url, settings.dead_letters_url
        assert [same(message) for message in received(sqs, url)] == [same(in_flight)]
        counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        assert counts["ApproximateNumberOfMessagesDelayed"] == "1"
        assert [same(message) for message in received(sqs, dead)] == [same(letter)]
        after = s3.get_object(Bucket=settings.bucket, Key="a/é")
        assert after["Body"].read() == b"new"
        for name in ("ETag", "LastModified", "Metadata", "ContentType"):
            assert after[name] == before[name]
        [version] = s3.list_object_versions(Bucket=settings.bucket)["Versions"]
        assert version["Key"] == "a/é"
        with pytest.raises(ClientError, match="PreconditionFailed"):
            s3.put_object(Bucket=settings.bucket, Key="a/é", Body=b"", IfNoneMatch="*")
        sqs.purge_queue(QueueUrl=url)
    with moto(file, signal.SIGKILL) as (sqs, s3, settings):
        assert received(sqs, settings.queue_url) == []
        assert [same(message) for message in received(sqs, settings.dead_letters_url)] == [
            same(letter)
        ]


def test_what_was_found_is_told(made_up_aws: None, tmp_path: Path) -> None:
    with moto(tmp_path / "kept", signal.SIGTERM) as (sqs, _, settings):
        sqs.send_message(QueueUrl=settings.queue_url, MessageBody="x")
        dynamodb = boto3.client(
            "dynamodb", endpoint_url=sqs.meta.endpoint_url, region_name="us-east-1"
        )
        for name in ("kept-catalog", "kept-20261120T080000Z"):
            dynamodb.create_table(
                TableName=name,
                AttributeDefinitions=[{"AttributeName": "p", "AttributeType": "S"}],
                KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}],
                BillingMode="PAY_PER_REQUEST",
            )
        aws: Any = SimpleNamespace(
            settings=settings, client={"sqs": sqs, "dynamodb": dynamodb}.__getitem__
        )
        told = _found(aws, KeptDir(tmp_path, 0, goes_on=True))
    held = "1 table of a window, 1 message, 0 dead letters"
    assert told == f"# goes on from {tmp_path}: {held}"


def test_a_message_that_moves_to_the_dead_letters_is_there(
    made_up_aws: None, tmp_path: Path
) -> None:
    with moto(tmp_path / "kept", signal.SIGKILL) as (sqs, _, settings):
        url = settings.queue_url
        asked = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"])
        policy = asked["Attributes"]["RedrivePolicy"].replace("1000", "1")
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": policy})
        sent = sqs.send_message(QueueUrl=url, MessageBody="poison")["MessageId"]
        assert received(sqs, url, VisibilityTimeout=0)
        assert received(sqs, url, WaitTimeSeconds=1) == []
    with moto(tmp_path / "kept", signal.SIGKILL) as (sqs, _, settings):
        assert received(sqs, settings.queue_url) == []
        [letter] = received(sqs, settings.dead_letters_url)
        assert letter["MessageId"] == sent
        assert letter["Attributes"]["DeadLetterQueueSourceArn"].endswith("kept-events")


def test_a_directory_is_of_one_pipeline_and_one_process(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    with kept_dir(path, SETTINGS) as kept:
        assert kept.tables.is_dir()
        assert not kept.goes_on
        with pytest.raises(KeptDirError, match=f"the process {os.getpid()} uses it; end that"):
            kept_dir(path, SETTINGS).__enter__()
    with kept_dir(path, SETTINGS) as again:
        assert again.goes_on
    told = (
        "other options .TALLYROLL_NAME is kept there and other here, TALLYROLL_WINDOW_SECONDS is"
        " 3600 there and 60 here, [0-9]+ more.; give its options"
    )
    with pytest.raises(KeptDirError, match=told):
        kept_dir(path, scaled_settings("other", 60)).__enter__()
    with pytest.raises(KeptDirError, match="it holds kept and no pipeline; give a new"):
        kept_dir(tmp_path, SETTINGS).__enter__()


def test_emulators_of_a_killed_process_end_before_the_next_begins(tmp_path: Path) -> None:
    gone = ran([sys.executable, "-c", "import os; print(os.getpid())"], check=True).stdout
    with kept_dir(tmp_path, SETTINGS) as kept:
        # In its last second of work.
        emulator = spawn_guarded(["sleep", "1"], held=[kept.lock])
        (tmp_path / "lock").write_text(gone.strip())
    assert emulator.poll() is None
    with kept_dir(tmp_path, SETTINGS):
        assert emulator.wait(0.5) == 0


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.engine
def test_a_pipeline_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    few = ("-c", "tallyroll:gates=1", "-c", "tallyroll:stripes=8", "--window", "1h")
    given = ("--engine", "dynamodb-local", *few, "--keep", str(tmp_path / "kept"))
    with engine(*given, end=signal.SIGKILL) as environment:
        tallyroll(environment, "send", "--key", "a", "--id", "once", "--wait")
    with engine(*given) as environment:
        assert '"events": 1' in tallyroll(environment, "count", "a", "--json")
