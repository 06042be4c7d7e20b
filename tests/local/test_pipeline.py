"""A pipeline of the real handlers on this machine."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from local.aws.embedded import Embedded, scaled_settings
from local.pipeline import LocalPipeline, worth_reading
from local.runtime.poller import Faults


@pytest.mark.engine
@pytest.mark.parametrize("identity", ["window", "pipeline"])
def test_events_are_counted_once_under_faults(dynamodb_endpoint: str, identity: str) -> None:
    settings = replace(
        scaled_settings(f"t{uuid4().hex[:12]}", 60),
        buckets=4,
        gates=8,
        stripes_min=8,
        identity=identity,
    )
    runs, errors, counted = list[tuple[str, Any]](), list[str](), list[int]()

    def log(_function: str, line: str) -> None:
        if not worth_reading(line):
            counted.append(sum(map(int, json.loads(line).get("EventsCounted", []))))

    with (
        Embedded(settings, dynamodb_endpoint=dynamodb_endpoint) as aws,
        LocalPipeline(
            aws,
            writers=1,
            faults=Faults(redeliver=0.5, again_after_s=1),
            on_log=log,
            on_error=errors.append,
            on_run=lambda name, response: runs.append((name, response)),
        ) as pipeline,
    ):
        now = int(time.time() * 1000)
        for batch in range(3):
            entries = [
                {
                    "Id": str(n),
                    "MessageBody": json.dumps({"id": f"{batch}-{n}", "key": "k", "ts": now}),
                }
                for n in range(10)
            ]
            sent = aws.client("sqs").send_message_batch(
                QueueUrl=aws.settings.queue_url, Entries=entries
            )
            assert len(sent["Successful"]) == 10
        until = time.monotonic() + 300
        while pipeline.poller.polled.deleted < 30 and time.monotonic() < until:
            time.sleep(0.05)
        polled = pipeline.poller.polled
        if identity == "pipeline":
            table = f"{settings.name}-identities"
            assert aws.client("dynamodb").scan(TableName=table, Select="COUNT")["Count"] == 30
    assert runs[0][0] == "roller"
    assert runs[0][1]["steps"]["make-table"] >= 1
    assert polled.deleted == 30
    assert polled.redelivered >= 5
    assert sum(counted) == 30
    assert errors == []
    assert [pids for pids in (f.pids for f in pipeline.functions.values()) if pids] == []


@pytest.mark.parametrize(
    ("line", "worth"),
    [
        ('{"level":"ERROR","message":"m"}', True),
        ('{"level":"INFO","message":"m"}', False),
        ('{"_aws":{},"EventsCounted":[1.0]}', False),
        ("Traceback (most recent call last):", True),
        ("[1]", True),
    ],
)
def test_what_is_worth_reading(line: str, worth: bool) -> None:
    assert worth_reading(line) is worth
