"""Creates what a pipeline keeps, in an emulated AWS."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from tallyroll.adapters.aws.create_requests import (
    expiry_request,
    queue_attributes,
    table_request,
)
from tallyroll.resources import declare
from tallyroll.settings import Settings


def create_queues(settings: Settings, sqs: Any) -> Settings:
    """Create the event queue and its dead-letter queue by a boto3 client; the settings that name
    them.
    """
    resources = declare(settings)
    dead = sqs.create_queue(
        QueueName=resources.dead_letters.name,
        Attributes=queue_attributes(resources.dead_letters),
        tags=dict(resources.dead_letters.tags),
    )["QueueUrl"]
    asked = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])
    events = sqs.create_queue(
        QueueName=resources.queue.name,
        Attributes=queue_attributes(resources.queue, asked["Attributes"]["QueueArn"]),
        tags=dict(resources.queue.tags),
    )["QueueUrl"]
    return replace(settings, queue_url=events, dead_letters_url=dead)


def create_bucket(settings: Settings, s3: Any) -> Settings:
    """Create the archive bucket by a boto3 client; the settings that name it."""
    settings = replace(settings, bucket=settings.bucket or f"{settings.name}-archive")
    bucket = declare(settings).bucket
    region = s3.meta.region_name
    # The first region is the only one that must not be named.
    place = {} if region == "us-east-1" else {"LocationConstraint": region}
    asked = {"CreateBucketConfiguration": place} if place else {}
    locks = {"ObjectLockEnabledForBucket": True} if bucket.locks else {}
    s3.create_bucket(Bucket=bucket.name, **asked, **locks)
    status = "Enabled" if bucket.versioned else "Suspended"
    s3.put_bucket_versioning(Bucket=bucket.name, VersioningConfiguration={"Status": status})
    return settings


def create_tables(settings: Settings, dynamodb: Any) -> None:
    """Create the permanent tables by a boto3 client."""
    for table in declare(settings).permanent:
        # A DynamoDB that runs already may hold the tables of an earlier run.
        with suppress(dynamodb.exceptions.ResourceInUseException):
            dynamodb.create_table(**table_request(table))
        dynamodb.get_waiter("table_exists").wait(TableName=table.name, WaiterConfig={"Delay": 1})
        if table.expires_by and not _expires(table.name, dynamodb):
            dynamodb.update_time_to_live(**expiry_request(table))


def _expires(table: str, dynamodb: Any) -> bool:
    """Whether items of a table expire. Who switches it on twice is refused."""
    found = dynamodb.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
    return found.get("TimeToLiveStatus") in ("ENABLED", "ENABLING")
