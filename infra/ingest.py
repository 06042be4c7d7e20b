"""From the queue into the window tables: queues, the writer, and how Lambda feeds it."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra import permissions
from infra.functions import FULL_CPU_MB, FunctionDefaults, PipelineFunction
from infra.options import WRITER_TIMEOUT_SECONDS, Options
from infra.storage import Storage
from infra.tags import tag
from tallyroll.resources import QueueDeclaration, Resources


class Queues(Construct):
    """The event queue and its dead-letter queue, as declared; both take encrypted calls only."""

    def __init__(self, scope: Construct, id_: str, *, resources: Resources) -> None:
        super().__init__(scope, id_)
        assert resources.queue.dead_letters == resources.dead_letters.name
        self.dead_letters = _queue(self, "DeadLetters", resources.dead_letters)
        self.events = _queue(self, "Events", resources.queue, self.dead_letters)


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
            statements=permissions.of_writer(storage, queues.events, queues.dead_letters),
        )
        # Not `SqsEventSource`, which grants more than the writer's statements do.
        self.source = lambda_.EventSourceMapping(
            self,
            "Source",
            target=self.writer.function,
            event_source_arn=queues.events.queue_arn,
            batch_size=options.batch_size,
            max_batching_window=cdk.Duration.seconds(options.batch_window_seconds),
            max_concurrency=options.max_concurrency,
            report_batch_item_failures=True,
        )


def _queue(
    scope: Construct, id_: str, declared: QueueDeclaration, dead_letters: sqs.Queue | None = None
) -> sqs.Queue:
    fuse = None
    if dead_letters and declared.max_receives:
        fuse = sqs.DeadLetterQueue(queue=dead_letters, max_receive_count=declared.max_receives)
    queue = sqs.Queue(
        scope,
        id_,
        queue_name=declared.name,
        visibility_timeout=cdk.Duration.seconds(declared.visibility_seconds),
        retention_period=cdk.Duration.seconds(declared.retention_seconds),
        max_message_size_bytes=declared.message_bytes_max,
        dead_letter_queue=fuse,
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=True,
        # Undelivered events must outlive a stack that is deleted by mistake.
        removal_policy=cdk.RemovalPolicy.RETAIN,
    )
    tag(queue, declared.tags)
    return queue
