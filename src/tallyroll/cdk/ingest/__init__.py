"""The queues, the writer, and the event source that feeds it."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from tallyroll.cdk import permissions
from tallyroll.cdk.annotations import acknowledge, tag, wildcard
from tallyroll.cdk.existing_resources import check_queue
from tallyroll.cdk.functions import FULL_CPU_MB, FunctionDefaults, PipelineFunction
from tallyroll.cdk.storage import Storage
from tallyroll.resources import QueueDeclaration, Resources
from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import WRITER_TIMEOUT_SECONDS, OptionsError

# The defaults of a queue. Source: Amazon SQS API Reference, CreateQueue.
SQS_VISIBILITY_SECONDS = 30
SQS_RETENTION_SECONDS = 4 * 86_400


class Queues(Construct):
    """The event queue and its dead-letter queue, as declared; both require TLS.

    A `given` queue replaces the event queue, and keeps its own dead-letter rule and encryption.
    With a `key`, what is made here is encrypted with it. Raises OptionsError for a queue that
    cannot work, as `check_queue` does, and for a queue of this app whose visibility timeout is too
    short.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        options: Options,
        resources: Resources,
        given: sqs.IQueue | None = None,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, id_)
        assert resources.queue.dead_letters == resources.dead_letters.name
        self.dead_letters = _queue(self, "DeadLetters", resources.dead_letters, key)
        acknowledge(
            self.dead_letters,
            {"Serverless-SQSRedrivePolicy": "this is the dead-letter queue: nothing follows it"},
        )
        self.events: sqs.IQueue
        if given is None:
            self.events = _queue(self, "Events", resources.queue, key, self.dead_letters)
            self.retention_seconds = resources.queue.retention_seconds
            self.visibility_seconds = resources.queue.visibility_seconds
        else:
            self.events = given
            check_queue(self, given)
            kept = _known(given, "message_retention_period", SQS_RETENTION_SECONDS)
            self.retention_seconds = SQS_RETENTION_SECONDS if kept is None else kept
            least = options.visibility_seconds_of(self.retention_seconds)
            _check_visibility(given, least)
            hidden = _known(given, "visibility_timeout", SQS_VISIBILITY_SECONDS)
            self.visibility_seconds = hidden or max(least, options.visibility_seconds)
        # By its name: as a reference it would be a circle, since the event queue names the other.
        own = cdk.Stack.of(self).format_arn(service="sqs", resource=resources.queue.name)
        source = own if given is None else given.queue_arn
        _guard(self.dead_letters, source, options)


class Ingest(Construct):
    """The writer, fed from the event queue."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        options: Options,
        defaults: FunctionDefaults,
        storage: Storage,
        queues: Queues,
    ) -> None:
        super().__init__(scope, id_)
        self.writer = PipelineFunction(
            self,
            "Writer",
            defaults=defaults,
            package="writer",
            memory_mb=FULL_CPU_MB,
            timeout_seconds=WRITER_TIMEOUT_SECONDS,
            statements=permissions.of_writer(
                storage,
                queues.events,
                queues.dead_letters,
                retracts=options.retracts,
                logs=bool(options.logs),
            ),
            reserved_concurrency=options.reserved_concurrency,
            published=options.rollout != "none",
        )
        acknowledge(
            self.writer.role,
            {
                wildcard(self, permissions.rejected(storage)): "a rejected body's key ends in"
                " its message's id; all are written under one prefix"
            },
        )
        # Not `SqsEventSource`, which grants more than the writer's statements do.
        self.source = lambda_.EventSourceMapping(
            self,
            "Source",
            target=self.writer.invoked,
            event_source_arn=queues.events.queue_arn,
            batch_size=options.batch_size,
            max_batching_window=cdk.Duration.seconds(options.batch_window_seconds),
            max_concurrency=None if options.pollers else options.max_concurrency,
            provisioned_poller_config=_pollers(options),
            report_batch_item_failures=True,
        )
        acknowledge(
            self.source,
            {
                "Serverless-LambdaEventSourceMappingDestination": "SQS sources have none: what can"
                " never count is sent to the dead-letter queue by the writer, with its reason; the"
                " queue's own rule is a fuse for crashes, at 1,000 receives, because a healthy"
                " backlog must never end there"
            },
        )


def _pollers(options: Options) -> lambda_.ProvisionedPollerConfig | None:
    if not options.pollers:
        return None
    return lambda_.ProvisionedPollerConfig(
        minimum_pollers=options.pollers["min"], maximum_pollers=options.pollers["max"]
    )


def _queue(
    scope: Construct,
    id_: str,
    declared: QueueDeclaration,
    key: kms.IKey | None,
    dead_letters: sqs.Queue | None = None,
) -> sqs.Queue:
    fuse = None
    if dead_letters and declared.max_receives:
        # High, since a healthy backlog behind a late window or a throttled table is received many
        # times. The writer itself rejects messages that crash it earlier.
        fuse = sqs.DeadLetterQueue(queue=dead_letters, max_receive_count=declared.max_receives)
    queue = sqs.Queue(
        scope,
        id_,
        queue_name=declared.name,
        visibility_timeout=cdk.Duration.seconds(declared.visibility_seconds),
        retention_period=cdk.Duration.seconds(declared.retention_seconds),
        max_message_size_bytes=declared.message_bytes_max,
        dead_letter_queue=fuse,
        encryption=_encryption(declared, key),
        encryption_master_key=key,
        enforce_ssl=True,
        # Events must survive the deletion of a stack by mistake. But a first deployment that fails
        # removes the queue again, or its name would be taken for the next one.
        removal_policy=cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    )
    tag(queue, declared.tags)
    return queue


def _guard(dead_letters: sqs.Queue, source_arn: str, options: Options) -> None:
    """Let no other queue send its dead letters here, and let nobody move letters by SQS itself, as
    far as the options say so: some Regions take no redrive allow policy, and no document shows the
    denial in a queue's policy.

    SQS's own redrive gives messages new ids and send times, by which an event without an id and a
    time of its own is told from a new one. The redrive allow policy does not stop it: that only
    says whose dead-letter queue this may be. Sources: Amazon SQS Developer Guide, "Learn how to
    configure a dead-letter queue redrive" and "Amazon SQS API permissions: Actions and resource
    reference"; API Reference, SetQueueAttributes, at RedriveAllowPolicy.
    """
    if options.redrive_allow_policy:
        resource = dead_letters.node.default_child
        assert isinstance(resource, sqs.CfnQueue)
        resource.redrive_allow_policy = {
            "redrivePermission": "byQueue",
            "sourceQueueArns": [source_arn],
        }
    if options.deny_sqs_redrive:
        dead_letters.add_to_resource_policy(
            iam.PolicyStatement(
                sid="NoRedriveBySqs",
                effect=iam.Effect.DENY,
                principals=[iam.AnyPrincipal()],
                actions=["sqs:StartMessageMoveTask"],
                resources=[dead_letters.queue_arn],
            )
        )


def _encryption(declared: QueueDeclaration, key: kms.IKey | None) -> sqs.QueueEncryption:
    if key:
        return sqs.QueueEncryption.KMS
    if declared.encrypted:
        return sqs.QueueEncryption.SQS_MANAGED
    return sqs.QueueEncryption.UNENCRYPTED


def _check_visibility(queue: sqs.IQueue, least: int) -> None:
    found = _known(queue, "visibility_timeout", SQS_VISIBILITY_SECONDS)
    if found is not None and found < least:
        raise OptionsError(
            f"queue {queue.node.path}: visibility timeout {found} s; give at least {least} s, 6"
            " times the writer's timeout and batch window (tallyroll:batch_window_seconds), and a"
            " thousandth of the retention"
        )


def _known(queue: sqs.IQueue, attribute: str, default: int) -> int | None:
    """An attribute of a queue that is made in this app; None if it is not known here."""
    resource = queue.node.default_child
    if not isinstance(resource, sqs.CfnQueue):
        return None
    value = getattr(resource, attribute)
    if value is None:
        return default
    return None if cdk.Token.is_unresolved(value) else int(value)
