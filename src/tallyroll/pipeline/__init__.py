"""A pipeline built from its settings: the one place where ports meet their adapters.

What only some functions or the operator needs is imported where it is made, for short cold starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from tallyroll.adapters.aws.client import (
    Caller,
    LateClient,
    Observe,
    make_client,
    region,
    translated,
)
from tallyroll.adapters.aws.cloudwatch import QueueMetrics
from tallyroll.adapters.aws.s3 import S3Bucket
from tallyroll.adapters.aws.sqs import SqsPoster, SqsQueue, SqsSender
from tallyroll.adapters.dynamodb.catalog import DynamoCatalog
from tallyroll.adapters.dynamodb.store import DynamoStore
from tallyroll.adapters.system import SystemEffects
from tallyroll.errors import UsageError
from tallyroll.ports.effects import Effects
from tallyroll.resources import declare, function_name
from tallyroll.settings import Settings

if TYPE_CHECKING:
    from tallyroll.adapters.aws.deployment import LambdaDeployment
    from tallyroll.adapters.aws.gauges import AwsGauges
    from tallyroll.adapters.aws.sqs_dead_letters import SqsDeadLetters
    from tallyroll.adapters.aws.stack import AwsStack, IamRights
    from tallyroll.adapters.dynamodb.exports import DynamoExports
    from tallyroll.adapters.dynamodb.tools.listing import DynamoListing
    from tallyroll.adapters.dynamodb.tools.restore import DynamoRestore
    from tallyroll.adapters.dynamodb.totals_table import DynamoTotals
    from tallyroll.adapters.routed import RoutedStore
    from tallyroll.client.bulk import BulkMessage, BulkSender
    from tallyroll.ingest.writer import Writer
    from tallyroll.lifecycle.cleanup import Cleanup
    from tallyroll.lifecycle.compactor import Compactor
    from tallyroll.lifecycle.dropper import Dropper
    from tallyroll.lifecycle.roller import Roller
    from tallyroll.model.windows import WindowId
    from tallyroll.operations.arrivals import Arrivals
    from tallyroll.operations.probe.plan import ProbePlan
    from tallyroll.operations.probe.run import Probe
    from tallyroll.operations.redrive import Redriver
    from tallyroll.operations.teardown import Teardown
    from tallyroll.pipeline.archived_pages import ArchivedPages
    from tallyroll.ports.counting.shared_cache import SharedCache
    from tallyroll.ports.store import ItemCodec
    from tallyroll.reads.reader import PortReader

Tell = Callable[[str], None]


class Pipeline:
    """One pipeline: its use cases, and the adapters under them, each made when first asked for.

    `effects` gives time, chance and threads; `observe` is called for every AWS call. All clients
    are in `region`, by default that of the environment. `ports` replace the adapters of their
    names: `store`, `catalog`, `queue` ...; `dynamodb` and `sqs` are the callers of these services.
    Raises UsageError for a port of another name.
    """

    def __init__(
        self,
        settings: Settings,
        effects: Effects | None = None,
        observe: Observe | None = None,
        *,
        region: str | None = None,
        ports: Mapping[str, object] = {},
    ) -> None:
        self.settings = settings
        self.effects: Effects = effects or SystemEffects()
        self._observe = observe
        self._region = region
        self._resources = declare(settings)
        self._ports = ports
        for name in ports:
            if not isinstance(getattr(type(self), name, None), cached_property):
                raise UsageError(f"ports {name!r}: Pipeline makes no port of this name")
        vars(self).update(ports)  # where the cached properties keep what they have made

    @cached_property
    def writer(self) -> Writer:
        """Writes batches of the event queue."""
        from tallyroll.ingest.writer import Writer

        totals = self.totals if self.settings.retracts else None
        return Writer(self.settings, self.store, self.catalog, self.queue, self.effects, totals)

    @cached_property
    def reader(self) -> PortReader:
        """Reads counts, events and the largest keys."""
        from tallyroll.adapters.glances import glances_on
        from tallyroll.reads.reader import PortReader

        ports = (self.store, self.catalog, self.totals)
        glances = glances_on(*ports)
        archives = self.archived_pages if self.settings.read_archives else None
        return PortReader(self.settings, *ports, self.effects, glances, self.shared_cache, archives)

    def archived_pages(self) -> ArchivedPages:
        """Reads dropped windows of ranges from their archives."""
        from tallyroll.pipeline.archived_pages import ArchivedPages

        return ArchivedPages(self.catalog, self.totals, self.bucket, self.codec, self.effects)

    @cached_property
    def shared_cache(self) -> SharedCache | None:
        """The cache in which aggregators share counts, if there is one."""
        if not self.settings.cache_url:
            return None
        from tallyroll.adapters.valkey_cache import ValkeyCache  # the `cache` extra

        return ValkeyCache(self.settings.cache_url)

    @cached_property
    def roller(self) -> Roller:
        """Makes windows ahead, closes and seals them."""
        from tallyroll.lifecycle.roller import Roller

        settings, store, catalog, totals = self.settings, self.store, self.catalog, self.totals
        effects, loads = self.effects, self.queue_metrics
        return Roller(settings, store, catalog, totals, self.queue, effects, loads)

    @cached_property
    def cleanup(self) -> Cleanup:
        """Exports cold windows, proves the archives, and tags the tables."""
        from tallyroll.lifecycle.cleanup import Cleanup

        ports = (self.store, self.catalog, self.totals, self.bucket, self.effects, self.exports)
        return Cleanup(self.settings, *ports)

    @cached_property
    def dropper(self) -> Dropper:
        """Deletes the tables that cleanup has proven and tagged."""
        from tallyroll.lifecycle.dropper import Dropper

        return Dropper(self.settings, self.store, self.catalog, self.bucket, self.effects)

    @cached_property
    def compactor(self) -> Compactor:
        """Makes Parquet of archives."""
        from tallyroll.lifecycle.compactor import Compactor

        return Compactor(self.settings, self.catalog, self.bucket, self.codec, self.effects)

    def redriver(self, to: WindowId | None, *, unverified: bool) -> Redriver:
        """Sends dead letters again; see `Redriver` for its arguments."""
        from tallyroll.operations.redrive import Redriver

        ports = (self.store, self.catalog, self.dead_letters, self.effects)
        return Redriver(self.settings, *ports, to=to, unverified=unverified)

    def teardown(self) -> Teardown:
        """Takes all windows down by way of their archives, without waiting for them to be cold."""
        from tallyroll.operations.teardown import Teardown

        settings, effects = replace(self.settings, retention_ms=0), self.effects
        hasty = Pipeline(settings, effects, self._observe, region=self._region, ports=self._ports)
        ports = (hasty.store, hasty.catalog, hasty.effects)
        return Teardown(hasty.settings, *ports, hasty.roller, hasty.cleanup, hasty.dropper)

    def probe(self, plan: ProbePlan) -> Probe:
        """Sends a plan's events, reads them, and judges what was read."""
        from tallyroll.operations.probe.run import Probe

        ports = (self.store, self.catalog, self.totals, self.effects, self.sender)
        return Probe(plan, self.settings, *ports)

    def bulk_sender(
        self,
        tell: Tell,
        *,
        packed: bool = True,
        compress: bool = False,
        rate: float | None = None,
        name: str | None = None,
        anyway: bool = False,
        refused: Callable[[BulkMessage], object] = lambda _: None,
        dry: bool = False,
    ) -> BulkSender:
        """Packs events and sends them, or only counts them if it is `dry`; `tell` is called if the
        catalog cannot be read. See `BulkSender` for the other arguments.
        """
        from tallyroll.client.bulk import BulkSender, Nowhere
        from tallyroll.client.send_calendar import SendCalendar

        calendar = SendCalendar(self.catalog, self.settings, self.effects, tell)
        return BulkSender(
            Nowhere() if dry else self.sender,
            self.effects,
            calendar,
            packed=packed,
            compress=compress,
            rate=rate,
            name=name,
            anyway=anyway,
            refused=refused,
        )

    def arrivals(self) -> Arrivals:
        """Finds out whether messages that are sent from now on are counted."""
        from tallyroll.operations.arrivals import Arrivals

        return Arrivals(self.store, self.catalog, self.queue, self.dead_letters, self.effects)

    @cached_property
    def store(self) -> DynamoStore | RoutedStore:
        """The window tables."""
        dynamodb = DynamoStore(self.dynamodb, self.effects, self.settings)
        if not self.settings.window_keyspace:
            return dynamodb
        from tallyroll.pipeline.stores import routed

        return routed(self.settings, dynamodb, self.catalog, self.effects)

    @property
    def codec(self) -> ItemCodec:
        """How archives hold the items of window tables; needs no client."""
        return DynamoStore.codec

    @cached_property
    def catalog(self) -> DynamoCatalog:
        """The catalog of windows."""
        return DynamoCatalog(self.dynamodb, self.effects, self._resources.catalog.name)

    @cached_property
    def totals(self) -> DynamoTotals:
        """The sealed totals."""
        from tallyroll.adapters.dynamodb.totals_table import DynamoTotals

        return DynamoTotals(self.dynamodb, self.effects, self._resources.totals.name)

    @cached_property
    def queue(self) -> SqsQueue:
        """The event queue and its dead letters."""
        return SqsQueue(
            self.sqs,
            self.effects,
            queue_url=self.settings.queue_url,
            dead_letters_url=self.settings.dead_letters_url,
            bucket=self.bucket,
            metrics=self.queue_metrics,
        )

    @cached_property
    def queue_metrics(self) -> QueueMetrics:
        """What CloudWatch says of the event queue and the writer."""
        name = self.settings.name
        return self._metrics_of(self.settings.queue_url, function_name(name, "writer"))

    def _metrics_of(self, queue_url: str, writer: str = "") -> QueueMetrics:
        return QueueMetrics(
            self.caller("cloudwatch"),
            self.effects,
            queue=queue_url.rpartition("/")[2],
            period_ms=self.settings.drain_period_ms,
            writer=writer,
            pipeline=self.settings.name,
        )

    @cached_property
    def dead_letters(self) -> SqsDeadLetters:
        """The dead-letter queue, as the operator sees it."""
        from tallyroll.adapters.aws.sqs_dead_letters import SqsDeadLetters

        return SqsDeadLetters(
            self.sqs,
            self.effects,
            queue_url=self.settings.queue_url,
            dead_letters_url=self.settings.dead_letters_url,
            bucket=self.bucket,
        )

    @cached_property
    def sender(self) -> SqsSender:
        """The producers' side of the event queue."""
        return SqsSender(self.sqs, self.effects, self.settings.queue_url)

    @cached_property
    def poster(self) -> SqsPoster:
        """A producer's side of the event queue, request by request."""
        return SqsPoster(self.sqs, self.settings.queue_url)

    @cached_property
    def bucket(self) -> S3Bucket:
        """The bucket of archives and rejected bodies."""
        of = self.settings
        lock = of.archive_lock_days, of.archive_lock
        return S3Bucket(self.caller("s3"), self.effects, of.bucket, *lock)

    def bucket_named(self, name: str) -> S3Bucket:
        """Any bucket of S3."""
        return S3Bucket(self.caller("s3"), self.effects, name)

    @cached_property
    def exports(self) -> DynamoExports:
        """DynamoDB's own exports of window tables."""
        from tallyroll.adapters.dynamodb.exports import DynamoExports

        return DynamoExports(self.dynamodb, self.settings.kms_key)

    @cached_property
    def restore(self) -> DynamoRestore:
        """What restores archives into tables of their own."""
        from tallyroll.adapters.dynamodb.tools.restore import DynamoRestore

        given = self.settings
        return DynamoRestore(self.dynamodb, self.effects, given.tags, given.kms_key)

    @cached_property
    def dead_letters_queue(self) -> SqsQueue:
        """The dead-letter queue as any queue, with its backlog."""
        return SqsQueue(
            self.sqs,
            self.effects,
            queue_url=self.settings.dead_letters_url,
            dead_letters_url="",
            bucket=self.bucket,
            metrics=self._metrics_of(self.settings.dead_letters_url),
        )

    @cached_property
    def tables(self) -> DynamoListing:
        """The account's tables, as the operator sees them."""
        from tallyroll.adapters.dynamodb.tools.listing import DynamoListing

        return DynamoListing(self.dynamodb)

    @cached_property
    def deployment(self) -> LambdaDeployment:
        """The pipeline's functions, as the operator sees them."""
        from tallyroll.adapters.aws.deployment import LambdaDeployment

        return LambdaDeployment(self.caller("lambda"))

    @cached_property
    def gauges(self) -> AwsGauges:
        """The pipeline's metrics, quotas and trigger, as the operator sees them."""
        from tallyroll.adapters.aws.gauges import AwsGauges

        metrics, quotas = self.queue_metrics, self.caller("service-quotas")
        return AwsGauges(metrics, quotas, self.caller("lambda"), self.settings)

    @cached_property
    def stack(self) -> AwsStack:
        """What was deployed around tables and queues, as the operator sees it."""
        from tallyroll.adapters.aws.stack import AwsStack

        functions, schedules, bucket = map(self.caller, ("lambda", "scheduler", "s3"))
        return AwsStack(
            lambda_caller=functions,
            scheduler_caller=schedules,
            sqs_caller=self.sqs,
            dynamodb_caller=self.dynamodb,
            s3_caller=bucket,
            cloudwatch_caller=self.caller("cloudwatch"),
            sns_caller=self.caller("sns"),
            metrics=self.queue_metrics,
            settings=self.settings,
        )

    @cached_property
    def rights(self) -> IamRights:
        """What identities may do, by simulation."""
        from tallyroll.adapters.aws.stack import IamRights

        return IamRights(self.caller("iam"), self._region or region())

    @cached_property
    def dynamodb(self) -> Caller:
        """Calls DynamoDB."""
        where = {"region_name": self._region} if self._region else {}
        return Caller(make_client("dynamodb", **where), self.effects, self._observe)

    @cached_property
    def sqs(self) -> Caller:
        """Calls SQS."""
        return self.caller("sqs")

    def caller(self, service: str) -> Caller:
        """Calls a service, by a client that is made at its first call."""
        # A writer seldom rejects and never asks for metrics: clients it does not call cost nothing.
        return Caller(LateClient(service, self._region), self.effects, self._observe)


def connecting() -> AbstractContextManager[None]:
    """Gives boto3's errors before a first call, such as for no Region, as this package's own."""
    return translated("connect")
