"""A test's pipeline, on the engine that keeps its tables."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import dynamodb_backends
from moto.s3.models import s3_backends
from moto.sqs.models import sqs_backends

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.memory import MemoryBucket, MemoryCatalog, MemoryStore, MemoryTotals
from tallyroll.pipeline import Pipeline
from tallyroll.ports.bucket import ArchiveBucket
from tallyroll.ports.effects import Effects
from tallyroll.settings import Settings
from tallyroll.testing.aws import client
from tallyroll.testing.direct_dynamodb import DirectDynamoDB
from tallyroll.testing.emulated import create_bucket, create_queues, create_tables
from tallyroll.testing.options import DYNAMODB_LOCAL, MEMORY, MOTO, FixtureOptions
from tallyroll.testing.queues import CountedQueue, NoMetrics


class SharedBucket(MemoryBucket):
    """A bucket in memory whose objects are also in moto's S3, for the test to read."""

    def put(self, key: str, body: bytes) -> None:
        """Write an object."""
        super().put(key, body)
        s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(self.name, key, body)


@contextmanager
def pipeline_of(options: FixtureOptions, region: str, effects: Effects) -> Iterator[Pipeline]:
    """A pipeline with nothing in it, inside `emulated_aws`; nothing of it is left
    afterwards, also in a `mock_aws` of the test that goes on.
    """
    settings = options.settings
    if options.engine == DYNAMODB_LOCAL:  # others may use it at the same time
        settings = replace(settings, name=f"{settings.name[:39]}-{uuid.uuid4().hex[:8]}")
    settings = create_queues(settings, client("sqs", region))
    dynamodb = client("dynamodb", region, options.endpoint)
    try:
        if options.engine == MEMORY:
            catalog, bucket = MemoryCatalog(), MemoryBucket()
            ports: dict[str, object] = {
                "store": MemoryStore(effects, catalog),
                "catalog": catalog,
                "totals": MemoryTotals(),
            }
        else:
            settings = create_bucket(settings, client("s3", region))
            create_tables(settings, dynamodb)
            bucket = SharedBucket(settings.bucket)
            direct = DirectDynamoDB(dynamodb) if options.engine == MOTO else dynamodb
            ports = {"dynamodb": Caller(direct, effects)}
        queue = _queue(settings, bucket, region, effects)
        ports |= {"bucket": bucket, "queue": queue, "exports": None}
        yield Pipeline(settings, effects, ports=ports)
    finally:
        _clear(settings, region)
        if options.engine == DYNAMODB_LOCAL:
            _delete_tables(settings, dynamodb)


def _queue(
    settings: Settings, bucket: ArchiveBucket, region: str, effects: Effects
) -> CountedQueue:
    caller = Caller(client("sqs", region), effects)
    return CountedQueue(
        caller,
        effects,
        queue_url=settings.queue_url,
        dead_letters_url=settings.dead_letters_url,
        bucket=bucket,
        metrics=NoMetrics(caller, effects, queue="", period_ms=settings.drain_period_ms),
    )


def _clear(settings: Settings, region: str) -> None:
    """Take what a pipeline had out of moto."""
    queues: dict[str, Any] = sqs_backends[DEFAULT_ACCOUNT_ID][region].queues
    tables: dict[str, Any] = dynamodb_backends[DEFAULT_ACCOUNT_ID][region].tables
    for held in (queues, tables):
        for name in [name for name in held if name.startswith(f"{settings.name}-")]:
            del held[name]
    s3 = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    if settings.bucket in s3.buckets:
        bucket = s3.buckets.pop(settings.bucket)
        s3_backends.bucket_accounts.pop(settings.bucket, None)
        for key in [key for name in bucket.keys for key in bucket.keys.getlist(name)]:
            key.dispose()


def _delete_tables(settings: Settings, dynamodb: Any) -> None:
    """Delete a pipeline's tables, which nothing else does in a DynamoDB that runs on."""
    pages = dynamodb.get_paginator("list_tables").paginate()
    names = [name for page in pages for name in page["TableNames"]]
    for name in names:
        if name.startswith(f"{settings.name}-"):
            with suppress(dynamodb.exceptions.ResourceNotFoundException):
                dynamodb.update_table(TableName=name, DeletionProtectionEnabled=False)
                dynamodb.delete_table(TableName=name)
