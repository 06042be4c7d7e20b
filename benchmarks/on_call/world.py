"""A pipeline with windows in every state, in which faults are planted and mended."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Any, Protocol

from tallyroll import Pipeline
from tallyroll.model.states import Status, Window
from tallyroll.resources import Resources, declare, function_name
from tallyroll.settings import Settings


class Running(Protocol):
    """What runs the pipeline's functions."""

    def held_roller(self) -> AbstractContextManager[None]:
        """The roller does not run inside the block."""

    def stop_roller(self) -> None:
        """The roller runs no more. Wait until a window has ended after the last one."""

    def await_letter(self) -> None:
        """Wait until the writer has rejected a message."""


class World:
    """A pipeline, the clients of its AWS, its clock (ms), and what runs it."""

    def __init__(
        self, settings: Settings, client: Callable[[str], Any], pipeline: Pipeline, running: Running
    ) -> None:
        self.settings, self.pipeline, self.running = settings, pipeline, running
        self.client = client
        self.dynamodb, self.sqs, self.s3 = map(client, ("dynamodb", "sqs", "s3"))
        self.declared: Resources = declare(settings)

    def now(self) -> int:
        """The time by the pipeline's clock, ms."""
        return self.pipeline.effects.now()

    def send(self, body: str) -> None:
        """Put a message into the event queue."""
        self.sqs.send_message(QueueUrl=self.settings.queue_url, MessageBody=body)

    def waiting(self) -> int:
        """How many messages are in the event queue, received or not."""
        counted = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
        found = self.sqs.get_queue_attributes(
            QueueUrl=self.settings.queue_url, AttributeNames=counted
        )
        return sum(int(found["Attributes"][name]) for name in counted)

    def window(self, status: Status) -> Window:
        """The newest window in this state with events."""
        return self.windows(status)[-1]

    def windows(self, status: Status) -> list[Window]:
        """The windows in this state with events; of dropped ones those that the live pointer has
        passed, since the roller makes another again if its state is lost.
        """
        live = self.pipeline.catalog.live()
        passed = live.since if live else 0
        return [
            window
            for window in self.pipeline.catalog.windows(0, self.now())
            if window.status is status and (window.keys or not window.status.sealed)
            if status is not Status.DROPPED or window.start < passed
        ]

    @contextmanager
    def item_changed(self, table: str, key: dict[str, Any], **values: Any) -> Iterator[None]:
        """An item has other values, or is gone if none are given, inside the block."""
        before = self.dynamodb.get_item(TableName=table, Key=key, ConsistentRead=True)["Item"]
        if values:
            self.dynamodb.put_item(TableName=table, Item=before | values)
        else:
            self.dynamodb.delete_item(TableName=table, Key=key)
        yield
        self.dynamodb.put_item(TableName=table, Item=before)

    @contextmanager
    def object_changed(self, key: str, body: bytes | None) -> Iterator[None]:
        """An object of the bucket has another body, or none, inside the block.

        It is mended as the doctor advises: by the version that was there before.
        """
        place = {"Bucket": self.settings.bucket, "Key": key}
        if body is None:
            newer = self.s3.delete_object(**place)
        else:
            newer = self.s3.put_object(**place, Body=body)
        yield
        self.s3.delete_object(**place, VersionId=newer["VersionId"])

    @contextmanager
    def queue_changed(self, **attributes: str) -> Iterator[None]:
        """The event queue has other attributes inside the block."""
        place = {"QueueUrl": self.settings.queue_url}
        found = self.sqs.get_queue_attributes(**place, AttributeNames=["All"])["Attributes"]
        self.sqs.set_queue_attributes(**place, Attributes=attributes)
        yield
        before = {name: found.get(name, "") for name in attributes}
        self.sqs.set_queue_attributes(**place, Attributes=before)

    @contextmanager
    def published(
        self, namespace: str, name: str, dimension: tuple[str, str], values: list[float]
    ) -> Iterator[None]:
        """A metric of AWS has these values in the last minutes. It stays after the block."""
        newest = self.now() // 60_000 * 60_000
        key, of = dimension
        self.client("cloudwatch").put_metric_data(
            Namespace=namespace,
            MetricData=[
                {
                    "MetricName": name,
                    "Dimensions": [{"Name": key, "Value": of}],
                    "Timestamp": datetime.fromtimestamp((newest - ago * 60_000) / 1000, UTC),
                    "Value": value,
                }
                for ago, value in enumerate(values, 1)
            ],
        )
        yield

    def archived(self, ending: str) -> str:
        """The key of an object of a dropped window's archive."""
        prefix = self.window(Status.DROPPED).attempt.archive
        listed: list[dict[str, str]] = self.s3.list_objects_v2(
            Bucket=self.settings.bucket, Prefix=prefix
        )["Contents"]
        return next(each["Key"] for each in listed if each["Key"].endswith(ending))

    def newest(self) -> Window:
        """The window that was made last."""
        return self.pipeline.catalog.windows(0, 2 * self.now())[-1]

    def function(self, package: str) -> str:
        """The name of a function, and of its role and schedule."""
        return function_name(self.settings.name, package)

    def queue_arn(self) -> str:
        """The event queue's ARN."""
        asked = self.sqs.get_queue_attributes(
            QueueUrl=self.settings.queue_url, AttributeNames=["QueueArn"]
        )
        return str(asked["Attributes"]["QueueArn"])

    def table_arn(self, table: str) -> str:
        """A table's ARN."""
        return str(self.dynamodb.describe_table(TableName=table)["Table"]["TableArn"])

    def redrive(self, receives: int) -> str:
        """The event queue's redrive policy, with other receives."""
        arn = self.queue_arn().rpartition(":")[0]
        target = f"{arn}:{self.declared.dead_letters.name}"
        return json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": receives})
