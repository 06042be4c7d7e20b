"""A small pipeline on real engines, its functions invoked as by Lambda, on its own clock."""

from __future__ import annotations

import gzip
import json
import os
import pkgutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from random import Random
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from uuid import uuid4

from moto.core import utils as moto_time
from moto.sqs.models import sqs_backends

import tallyroll
from functions.aggregator import handler as aggregator
from functions.cleanup import handler as cleanup
from functions.compactor import handler as compactor
from functions.dropper import handler as dropper
from functions.roller import handler as roller
from functions.writer import handler as writer
from tallyroll.adapters.aws.client import make_client
from tallyroll.adapters.aws.create_requests import queue_attributes, table_request
from tallyroll.cli import main
from tallyroll.errors import TallyrollError
from tallyroll.resources import declare, function_name
from tallyroll.settings import Settings
from tests.faults.clients import Switchboard
from tests.faults.injector import Crash, Injector, Plan
from tests.faults.native import NativeExports
from tests.harness.pipeline import HOUR, MINUTE, SECOND, StillEffects

if TYPE_CHECKING:
    import pytest

BEGIN = 1_796_077_800_000  # 2026-11-30T22:30:00Z: a day ends within the lives
TIME_LEFT_MS = 120_000
COMPACTOR_LEFT_MS = 900_000
HIDDEN_FROM_RECEIVE = 3  # received so often, a message is left out of the queue's age metric
ACCOUNT, REGION = "123456789012", "us-east-1"  # moto's
FUNCTIONS: dict[str, ModuleType] = {
    "writer": writer,
    "aggregator": aggregator,
    "roller": roller,
    "cleanup": cleanup,
    "dropper": dropper,
    "compactor": compactor,
}
SMALL = Settings(
    window_seconds=3600,
    shards=2,
    stripes_min=8,
    buckets=1,
    gates=2,
    accept_for_ms=0,
    skew_ms=MINUTE,
    ahead_windows=1,
    retention_ms=0,
    visibility_ms=30_000,
    drain_margin_ms=0,
    settle_ms=0,
    export_lease_ms=10 * MINUTE,
    export_segments=2,  # so that the proof has notes in the bucket
    transactions_at_once=2,
    write_rate=1_000,
    contributor_insights=True,
    cache_live_ms=0,
)


def window_of(ms: int) -> str:
    """The id of the hour in which an instant lies."""
    return datetime.fromtimestamp(ms // HOUR * 3600, UTC).strftime("%Y%m%dT%H%M%SZ")


@dataclass
class Context:
    """What Lambda hands to a handler besides the event."""

    time: StillEffects
    until: int
    function_name: str = "tallyroll"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:tallyroll"
    aws_request_id: str = "3f2b1c9e-0000-4000-8000-000000000000"

    def get_remaining_time_in_millis(self) -> int:
        """What is left of the invocation's time."""
        return self.until - self.time.now()


@dataclass
class Raw:
    """Clients of the test itself, which no fault meets."""

    dynamodb: Any
    sqs: Any
    s3: Any
    cloudwatch: Any

    @classmethod
    def made(cls) -> Raw:
        """New clients of the process's session."""
        return cls(*map(make_client, ("dynamodb", "sqs", "s3", "cloudwatch")))

    def items_in(self, bucket: str, prefix: str) -> int:
        """How many items the data files under a prefix hold."""
        return sum(1 for _ in self.archived(bucket, prefix))

    def keys_in(self, bucket: str, prefix: str) -> list[str]:
        """The keys of the objects under a prefix."""
        listed = self.s3.list_objects_v2(Bucket=bucket, Prefix=prefix)
        return [entry["Key"] for entry in listed.get("Contents", ())]

    def put(
        self, bucket: str, key: str, body: bytes, encryption: Mapping[str, str] | None = None
    ) -> None:
        """Put an object."""
        self.s3.put_object(Bucket=bucket, Key=key, Body=body, **(encryption or {}))

    def archived(self, bucket: str, prefix: str) -> Iterator[Any]:
        """The items of the data files under a prefix."""
        listed = self.s3.list_objects_v2(Bucket=bucket, Prefix=prefix)
        for entry in listed.get("Contents", ()):
            if "/data/" in entry["Key"]:
                body = self.s3.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read()
                for line in gzip.decompress(body).splitlines():
                    yield json.loads(line)["Item"]


@dataclass
class World:
    """One pipeline: its resources, its queue's deliveries, its functions' processes."""

    settings: Settings
    time: StillEffects
    injector: Injector
    raw: Raw
    patch: pytest.MonkeyPatch
    crashes: int = 0
    delivered: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _invoked: Counter[str] = field(default_factory=Counter)
    _failed: Counter[str] = field(default_factory=Counter)

    @classmethod
    def made(
        cls,
        switchboard: Switchboard,
        patch: pytest.MonkeyPatch,
        seed: int,
        plan: Plan | None = None,
        **changes: Any,
    ) -> World:
        """A pipeline with its permanent resources, its adapters on this world's time."""
        time = StillEffects(BEGIN, seed)
        patch.setattr(moto_time, "utcnow", lambda: _naive(time.now()))
        for module in _making_effects():
            patch.setattr(module, "SystemEffects", lambda: time)
        engines = switchboard.engines
        switchboard.on_send = None
        raw = Raw.made()
        settings = _provided(raw, **changes)
        engines.items_in = raw.items_in
        engines.exports = NativeExports(window_of(BEGIN - HOUR), raw.put, time.now)
        for name in [name for name in os.environ if name.startswith("TALLYROLL_")]:
            patch.delenv(name)
        for name, value in settings.to_env().items():
            patch.setenv(name, value)
        injector = Injector(engines.send, time, plan, Random(seed))
        switchboard.on_send = injector.on_send
        world = cls(settings, time, injector, raw, patch)
        world.renew(*FUNCTIONS)
        return world

    def renew(self, *functions: str) -> None:
        """End the processes of these functions: the next invocation begins in a new one."""
        for name in functions:
            FUNCTIONS[name].use_case.cache_clear()

    def invoke(self, function: str, event: dict[str, Any]) -> Any | None:
        """A function's answer; None if its process crashed or the function failed."""
        left_ms = COMPACTOR_LEFT_MS if function == "compactor" else TIME_LEFT_MS
        context = Context(self.time, self.time.now() + left_ms)
        self._invoked[function] += 1
        try:
            answer = FUNCTIONS[function].handler(event, context)
        except Crash:
            self.crashes += 1
            self.renew(function)
            self._failed[function] += 1
            return None
        except TallyrollError:
            self._failed[function] += 1
            return None  # Lambda invokes it again
        self.problems += [
            f"{function}: {problem}"
            for problem in answer.get("problems", ())
            if "unexpected" in problem
        ]
        return answer

    def roll(self) -> None:
        """One run of the roller."""
        self.invoke("roller", {})

    def clean(self) -> None:
        """One run of cleanup, and one of the dropper."""
        self.invoke("cleanup", {})
        self.invoke("dropper", {})

    def poll(self) -> bool:
        """Have the writer count what the queue gives out; whether there was something."""
        url = self.settings.queue_url
        reply = self.raw.sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        records = [_record(message) for message in reply.get("Messages", ())]
        if records:
            self.delivered += records
            self.deliver(records)
        return bool(records)

    def deliver(self, records: Sequence[dict[str, Any]]) -> None:
        """Invoke the writer, and acknowledge what it does not hand back."""
        answer = self.invoke("writer", {"Records": list(records)})
        if answer is None:
            return
        failed = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
        for record in records:
            if record["messageId"] not in failed:
                with suppress(self.raw.sqs.exceptions.ClientError):
                    self.raw.sqs.delete_message(
                        QueueUrl=self.settings.queue_url, ReceiptHandle=record["receiptHandle"]
                    )

    def redeliver(self) -> None:
        """The queue delivers at least once: everything delivered so far comes again."""
        for at in range(0, len(self.delivered), 10):
            again = [
                {**record, "attributes": {**record["attributes"], "ApproximateReceiveCount": "2"}}
                for record in self.delivered[at : at + 10]
            ]
            self.deliver(again)

    def command(self, *argv: str) -> int:
        """Run `tallyroll` with the pipeline's name only; give its exit status."""
        with self.patch.context() as held:
            held.delenv("TALLYROLL_QUEUE_URL")
            return main.main(["--name", self.settings.name, *argv])

    def send(self, *bodies: str) -> None:
        """Put messages into the queue, past every fault."""
        for body in bodies:
            self.raw.sqs.send_message(QueueUrl=self.settings.queue_url, MessageBody=body)

    def publish_ages(self) -> None:
        """CloudWatch's age metric: all that is queued has been sent just now."""
        for ago in (1, 2, 3, 4):
            self._publish_age(0, self.time.now() - ago * MINUTE)

    def observe(self) -> None:
        """Publish what CloudWatch would see now: the age of the queue's oldest message, which
        leaves out those received three times or more; and the results of the writer's invocations
        since it was last observed.
        """
        at = self.time.now() - SECOND
        messages: Any = sqs_backends[ACCOUNT][REGION].queues[self._queue_name]._messages
        sent = [
            message.sent_timestamp
            for message in messages
            if message.approximate_receive_count < HIDDEN_FROM_RECEIVE
        ]
        self._publish_age(max(0, at - min(sent, default=at)), at)
        writer = {"FunctionName": function_name(self.settings.name, "writer")}
        self._publish("AWS/Lambda", "Invocations", writer, at, self._invoked.pop("writer", 0))
        self._publish("AWS/Lambda", "Errors", writer, at, self._failed.pop("writer", 0))

    def _publish_age(self, age_ms: int, at: int) -> None:
        queue = {"QueueName": self._queue_name}
        self._publish("AWS/SQS", "ApproximateAgeOfOldestMessage", queue, at, age_ms / 1000)

    def _publish(
        self, namespace: str, name: str, dimensions: dict[str, str], at: int, value: float
    ) -> None:
        datum = {
            "MetricName": name,
            "Dimensions": [{"Name": key, "Value": of} for key, of in dimensions.items()],
            "Timestamp": datetime.fromtimestamp(at / 1000, UTC),
            "Value": value,
        }
        self.raw.cloudwatch.put_metric_data(Namespace=namespace, MetricData=[datum])

    @property
    def _queue_name(self) -> str:
        return declare(self.settings).queue.name

    def ask(self, path: str, **parameters: str) -> tuple[int, dict[str, Any]]:
        """The aggregator's HTTP status and body; 0 if it crashed."""
        event = {
            "version": "2.0",
            "rawPath": path,
            "rawQueryString": urlencode(parameters),
            "queryStringParameters": parameters,
            "requestContext": {"http": {"method": "GET", "path": path}, "stage": "$default"},
            "headers": {},
            "isBase64Encoded": False,
        }
        answer = self.invoke("aggregator", event)
        return (answer["statusCode"], json.loads(answer["body"])) if answer else (0, {})


@cache
def _making_effects() -> tuple[ModuleType, ...]:
    """The core's modules that make production's effects by themselves."""
    names = [module.name for module in pkgutil.walk_packages(tallyroll.__path__, "tallyroll.")]
    modules = [import_module(name) for name in names if not name.endswith("__main__")]
    return tuple(
        module
        for module in modules
        if "SystemEffects" in vars(module) and module.__name__ != "tallyroll.adapters.system"
    )


def _provided(raw: Raw, **changes: Any) -> Settings:
    """Settings whose permanent tables, queues and bucket exist."""
    name = f"f{uuid4().hex[:12]}"
    facts = {each.name: getattr(SMALL, each.name) for each in fields(SMALL)}
    settings = Settings(**{**facts, "name": name, "bucket": f"{name}-archive", **changes})
    declared = declare(settings)
    for table in declared.permanent:
        raw.dynamodb.create_table(**table_request(table))
    locks = {"ObjectLockEnabledForBucket": True} if declared.bucket.locks else {}
    raw.s3.create_bucket(Bucket=settings.bucket, **locks)
    dead = declared.dead_letters
    dead_url = raw.sqs.create_queue(QueueName=dead.name, Attributes=queue_attributes(dead))
    arn = f"arn:aws:sqs:us-east-1:123456789012:{dead.name}"
    queue = declared.queue
    url = raw.sqs.create_queue(QueueName=queue.name, Attributes=queue_attributes(queue, arn))
    urls = {"queue_url": url["QueueUrl"], "dead_letters_url": dead_url["QueueUrl"]}
    return Settings(**{**facts, **changes, "name": name, "bucket": settings.bucket, **urls})


def _record(message: dict[str, Any]) -> dict[str, Any]:
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message["Attributes"],
        "messageAttributes": {
            name: {"stringValue": value["StringValue"], "dataType": value["DataType"]}
            for name, value in message.get("MessageAttributes", {}).items()
        },
        "eventSource": "aws:sqs",
    }


def _naive(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC).replace(tzinfo=None)
