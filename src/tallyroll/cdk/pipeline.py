"""A pipeline as a construct, for any stack.

from tallyroll.cdk import Options, Tallyroll

counter = Tallyroll(self, "Counter", options=Options(name="votes"))
counter.grant_send(producer)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from constructs import Construct

from tallyroll.cdk import permissions
from tallyroll.cdk.annotations import tag
from tallyroll.cdk.code import functions_code
from tallyroll.cdk.code.layers import DRIVER, layer
from tallyroll.cdk.existing_resources import (
    all_tags,
    check_grantee,
    check_name,
    check_types,
    key_of,
    warn_of_insights,
    warn_of_suffix,
)
from tallyroll.cdk.functions import FunctionDefaults, PipelineFunction
from tallyroll.cdk.ingest import Ingest, Queues
from tallyroll.cdk.ingest.rollout import Rollout
from tallyroll.cdk.keyspaces.permissions import tell_reads_of_system
from tallyroll.cdk.network import network_of
from tallyroll.cdk.observability import Observability
from tallyroll.cdk.observability.budget import Budget
from tallyroll.cdk.reads import Reads
from tallyroll.cdk.schedules import Schedules
from tallyroll.cdk.storage import Storage
from tallyroll.cdk.storage.replication import Replication
from tallyroll.resources import TAG_PIPELINE, declare
from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import OptionsError

if TYPE_CHECKING:
    from aws_cdk import aws_dynamodb as dynamodb
    from aws_cdk import aws_ec2 as ec2
    from aws_cdk import aws_iam as iam
    from aws_cdk import aws_kms as kms
    from aws_cdk import aws_lambda as lambda_
    from aws_cdk import aws_s3 as s3
    from aws_cdk import aws_sns as sns
    from aws_cdk import aws_sqs as sqs


class Tallyroll(Construct):
    """A pipeline with the options' name; an app may have several, with different names.

    What a team has already can be passed in:

    queue           An event queue. Its visibility timeout must be at least
                    `options.visibility_seconds_of` its retention. Its dead-letter rule, if it has
                    one, should allow 1,000 receives, since messages of a healthy backlog are
                    received many times.
    bucket          A bucket for archives and rejected bodies. It should be versioned, and no rule
                    of its lifecycle may delete what lies under `archive/`.
    alarm_topic     A standard topic for alarms: for pages, and also for tickets if there is no
                    `ticket_topic`. If it is encrypted with a key, the key's policy must let
                    cloudwatch.amazonaws.com use it, and events.amazonaws.com if the pipeline has
                    a key. Its key is to be another than the pipeline's.
    ticket_topic    The same for alarms that can wait for the next working day.
    encryption_key  A key for the queues, the tables, the bucket, the logs and the functions'
                    environment, as far as these are made here, and for the window tables that the
                    roller makes from then on; not for the topics, which tell when it is disabled.
                    The policy of a key of another app must let logs use it.
    tags            Tags of everything that is made here, and of the window tables that the roller
                    makes from then on.
    vpc             A VPC for the functions, in `vpc_subnets` (by default its private subnets),
                    with `security_groups` (by default one that lets out HTTPS alone). It needs
                    endpoints for what functions call (`tallyroll.cdk.Endpoints`), or a way out.
                    A private API gets its endpoint there, unless `options.api_endpoint` has one.
    code            The asset of the functions; by default the package's own.
    driver          A layer with the driver of Amazon Keyspaces, for a pipeline with a keyspace; by
                    default pip fetches it at synthesis.

    What of it works against this advice, as far as it is known at synthesis, is a warning of the
    CDK. Raises OptionsError for arguments of a wrong type, for options, tags, a queue or a topic
    that cannot work, and `tallyroll.cdk.code.CodeMissingError` if the package has no code of its
    own.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        options: Options,
        code: lambda_.Code | None = None,
        queue: sqs.IQueue | None = None,
        bucket: s3.IBucket | None = None,
        alarm_topic: sns.ITopic | None = None,
        ticket_topic: sns.ITopic | None = None,
        encryption_key: kms.IKey | None = None,
        tags: Mapping[str, str] | None = None,
        vpc: ec2.IVpc | None = None,
        vpc_subnets: ec2.SubnetSelection | None = None,
        security_groups: Sequence[ec2.ISecurityGroup] | None = None,
        driver: lambda_.ILayerVersion | None = None,
    ) -> None:
        super().__init__(scope, id_)
        check_types(options, code, tags, (queue, bucket, alarm_topic, encryption_key, ticket_topic))
        check_name(self, options.name)
        self.options = options
        warn_of_suffix(self, options)
        tags, key = all_tags(options, tags), key_of(self, options, encryption_key)
        configured = partial(options.settings, tags=tags, kms_key=key.key_arn if key else "")
        warn_of_insights(self, options, key)
        owned = declare(configured())
        self.storage = Storage(self, "Storage", resources=owned, given=bucket, key=key)
        self.queues = Queues(self, "Queues", options=options, resources=owned, given=queue, key=key)
        settings = configured(
            queue_url=self.queues.events.queue_url,
            dead_letters_url=self.queues.dead_letters.queue_url,
            bucket=self.storage.bucket.bucket_name,
            visibility_ms=self.queues.visibility_seconds * 1000,
            queue_retention_ms=self.queues.retention_seconds * 1000,
            cache_url="",  # the aggregator's alone
        )
        defaults = FunctionDefaults(
            options=options,
            code=functions_code(self, options) if code is None else code,
            environment=settings.to_env(),
            key=key,
            network=network_of(self, options, vpc, vpc_subnets, security_groups),
            driver=(driver or layer(self, "Driver", options, DRIVER)) if owned.keyspace else None,
        )
        storage, queues = self.storage, self.queues
        self.ingest = Ingest(
            self, "Ingest", options=options, defaults=defaults, storage=storage, queues=queues
        )
        self.reads = Reads(self, "Reads", options=options, defaults=defaults, storage=storage)
        self.schedules = Schedules(
            self, "Schedules", settings=settings, defaults=defaults, storage=storage, queues=queues
        )
        self.observability = Observability(
            self,
            "Observability",
            options=options,
            queues=self.queues,
            functions=self._functions,
            api=self.reads.api,
            given=alarm_topic,
            given_tickets=ticket_topic,
            key=key,
        )
        self._add_chosen()
        tell_reads_of_system(self.storage.keyspace, self._functions)
        tag(self, {**tags, TAG_PIPELINE: options.name})

    def _add_chosen(self) -> None:
        """What exists only where an option asks for it."""
        options, alarms = self.options, self.observability.alarms
        if options.rollout == "canary":
            Rollout(self, "Rollout", options=options, writer=self.ingest.writer, alarms=alarms)
        if options.read_archives and self.schedules.duckdb:
            self.reads.aggregator.function.add_layers(self.schedules.duckdb)
        if options.archive_replica:
            Replication(self, "Replication", options=options, storage=self.storage)
        if options.budget:
            Budget(self, "Budget", options=options)

    @property
    def _functions(self) -> Sequence[PipelineFunction]:
        return self.ingest.writer, self.reads.aggregator, *self.schedules.functions

    @property
    def queue(self) -> sqs.IQueue:
        """The queue to which producers send events."""
        return self.queues.events

    @property
    def dead_letter_queue(self) -> sqs.IQueue:
        """The queue of messages that can never count."""
        return self.queues.dead_letters

    @property
    def catalog(self) -> dynamodb.ITable:
        """The table of windows."""
        return self.storage.catalog

    @property
    def totals(self) -> dynamodb.ITable:
        """The table of sealed totals."""
        return self.storage.totals

    @property
    def identities(self) -> dynamodb.ITable | None:
        """The table of ids that are taken beyond their window, if there is one."""
        return self.storage.identities

    @property
    def bucket(self) -> s3.IBucket:
        """The bucket of archives, and of rejected bodies that no queue takes."""
        return self.storage.bucket

    @property
    def alarm_topic_arn(self) -> str:
        """The ARN of the topic that pages notify."""
        return self.observability.topic.topic_arn

    @property
    def ticket_topic_arn(self) -> str:
        """The ARN of the topic that all alarms notify."""
        return self.observability.tickets.topic_arn

    @property
    def api_url(self) -> str:
        """The URL of the API. Raises OptionsError if there is none."""
        if self.reads.api is None:
            raise OptionsError("tallyroll:api 'none': there is no HTTP API, and so no URL")
        return self.reads.api.url

    def grant_send(self, grantee: iam.IGrantable, *, payloads: bool = False) -> iam.Grant:
        """Allow `grantee` to send events; with `payloads`, also to upload those that are too large
        for a message.
        """
        check_grantee("grant_send", grantee)
        if payloads:
            _allow(grantee, permissions.of_uploader(self.storage, self.options.name))
        return self.queue.grant_send_messages(grantee)

    def grant_redrive(self, grantee: iam.IGrantable) -> None:
        """Allow `grantee`, an operator, to use `tallyroll dlq`."""
        check_grantee("grant_redrive", grantee)
        _allow(grantee, permissions.of_redriver(self.storage, self.queue, self.dead_letter_queue))

    def grant_operate(self, grantee: iam.IGrantable) -> None:
        """Allow `grantee`, an operator, to use the whole `tallyroll` command, except what makes
        and deletes tables: `preflight`, `teardown`, `archive restore` and `conform`.
        """
        check_grantee("grant_operate", grantee)
        _allow(
            grantee,
            permissions.of_operator(
                self.storage,
                self.queue,
                self.dead_letter_queue,
                settings=self.options.settings(),
                functions=[one.function.function_arn for one in self._functions],
                roles=[one.role.role_arn for one in self._functions],
                schedules=self.schedules.arns,
                topics=sorted({self.alarm_topic_arn, self.ticket_topic_arn}),
            ),
        )

    def grant_read(self, grantee: iam.IGrantable) -> None:
        """Allow `grantee` to call the API, or the aggregator if there is no API. Raises
        OptionsError if the API requires tokens.
        """
        if self.options.auth != "iam":
            raise OptionsError(
                f"tallyroll:auth {self.options.auth!r}: grants are for iam; whom to let in is"
                " decided by who is given a token"
            )
        check_grantee("grant_read", grantee)
        self.reads.grant(grantee)


def _allow(grantee: iam.IGrantable, statements: Sequence[iam.PolicyStatement]) -> None:
    for statement in statements:
        grantee.grant_principal.add_to_principal_policy(statement)
