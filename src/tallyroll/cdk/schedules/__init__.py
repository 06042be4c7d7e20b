"""The functions that run on a schedule: roller, cleanup, dropper, perhaps the compactor."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from tallyroll.cdk import permissions
from tallyroll.cdk.annotations import acknowledge, wildcard
from tallyroll.cdk.code.layers import layer
from tallyroll.cdk.functions import FULL_CPU_MB, FunctionDefaults, PipelineFunction
from tallyroll.cdk.ingest import Queues
from tallyroll.cdk.optional_permissions import to_lock
from tallyroll.cdk.schedules.compactor import (
    COMPACTOR_EVERY_MINUTES,
    DUCKDB,
    acknowledged,
    make_compactor,
    may_put_tickets,
)
from tallyroll.cdk.storage import Storage
from tallyroll.resources import function_name
from tallyroll.settings import Settings

# Long enough to seal a window with many keys. Short enough that at most five rollers run at once,
# which leaves room for writers among the ten concurrent functions of a new account.
ROLLER_TIMEOUT_SECONDS = 300
CLEANUP_TIMEOUT_SECONDS = 900  # the longest possible; below the lease of an export
CLEANUP_EVERY_MINUTES = 5
DROPPER_MEMORY_MB = 512  # it holds the stamps of an archive's files
DROPPER_TIMEOUT_SECONDS = 300
EVENT_AGE_SECONDS = 60  # the shortest possible; the next call replaces an older one


class Schedules(Construct):
    """The roller, as often as the settings say, cleanup and dropper every five minutes, and the
    compactor every hour, where the setting `archive` asks for one.

    Failed runs are not retried: the next run continues their work.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        settings: Settings,
        defaults: FunctionDefaults,
        storage: Storage,
        queues: Queues,
    ) -> None:
        super().__init__(scope, id_)
        self.roller = _roller(self, settings, defaults, storage, queues)
        self.cleanup = _cleanup(self, settings, defaults, storage)
        self.dropper = _dropper(self, settings.name, defaults, storage)
        self.functions = [self.roller, self.cleanup, self.dropper]
        self.duckdb: lambda_.ILayerVersion | None = None
        if settings.compacts:
            self.duckdb = layer(self, "DuckDB", defaults.options, DUCKDB)
            compactor = make_compactor(self, settings, defaults, storage, self.duckdb)
            self.functions.append(compactor)
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal(
                "scheduler.amazonaws.com",
                conditions={"StringEquals": {"aws:SourceAccount": cdk.Stack.of(self).account}},
            ),
            inline_policies={
                "Invoke": iam.PolicyDocument(
                    statements=[
                        iam.PolicyStatement(
                            actions=["lambda:InvokeFunction"],
                            resources=[one.function.function_arn for one in self.functions],
                        )
                    ]
                )
            },
        )
        self._every(settings.name, settings.roller_period_ms // 60_000, self.roller)
        self._every(settings.name, CLEANUP_EVERY_MINUTES, self.cleanup)
        self._every(settings.name, CLEANUP_EVERY_MINUTES, self.dropper)
        for compactor in self.functions[3:]:
            self._every(settings.name, COMPACTOR_EVERY_MINUTES, compactor)

    @property
    def arns(self) -> list[str]:
        """The ARNs of the schedules."""
        stack = cdk.Stack.of(self)
        made = [one for one in self.node.children if isinstance(one, scheduler.CfnSchedule)]
        return [
            stack.format_arn(
                service="scheduler", resource="schedule", resource_name=f"default/{one.name}"
            )
            for one in made
        ]

    def _every(self, pipeline: str, minutes: int, target: PipelineFunction) -> None:
        # Not `LambdaInvoke`, which makes a role per target and allows all versions.
        scheduler.CfnSchedule(
            self,
            f"{target.node.id}Schedule",
            name=function_name(pipeline, target.package),  # runbooks name it
            schedule_expression=f"rate({minutes} minute{'s' if minutes > 1 else ''})",
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            target=scheduler.CfnSchedule.TargetProperty(
                arn=target.function.function_arn,
                role_arn=self.role.role_arn,
                retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                    maximum_retry_attempts=0, maximum_event_age_in_seconds=EVENT_AGE_SECONDS
                ),
            ),
        )
        target.function.configure_async_invoke(
            retry_attempts=0, max_event_age=cdk.Duration.seconds(EVENT_AGE_SECONDS)
        )
        acknowledge(
            target.function,
            {
                "Serverless-LambdaAsyncFailureDestination": "a run that fails is counted as an"
                " error, which has an alarm; the next one does what it left"
            },
        )


def _roller(
    scope: Construct,
    settings: Settings,
    defaults: FunctionDefaults,
    storage: Storage,
    queues: Queues,
) -> PipelineFunction:
    made = PipelineFunction(
        scope,
        "Roller",
        defaults=defaults,
        package="roller",
        memory_mb=FULL_CPU_MB,
        timeout_seconds=ROLLER_TIMEOUT_SECONDS,
        statements=permissions.of_roller(storage, queues.events, settings),
    )
    metrics = "CloudWatch's metrics have no ARN: reading them is allowed on all or on none"
    acknowledge(
        made.role,
        {"AwsSolutions-IAM5[Resource::*]": metrics, "Serverless-LambdaStarPermissions": metrics},
    )
    return made


def _cleanup(
    scope: Construct, settings: Settings, defaults: FunctionDefaults, storage: Storage
) -> PipelineFunction:
    pipeline = settings.name
    made = PipelineFunction(
        scope,
        "Cleanup",
        defaults=defaults,
        package="cleanup",
        memory_mb=FULL_CPU_MB,
        timeout_seconds=CLEANUP_TIMEOUT_SECONDS,
        statements=[
            *permissions.of_cleanup(storage, pipeline, retracts=settings.retracts),
            *to_lock(storage, permissions.archives(storage, pipeline)),
            *may_put_tickets(storage, settings),
        ],
    )
    acknowledge(
        made.role,
        {
            wildcard(scope, permissions.archives(storage, pipeline)): "an archive's keys"
            " name its window and attempt; all are written under the pipeline's own prefix",
            wildcard(
                scope, permissions.archives(storage, pipeline, permissions.NOTES)
            ): "notes of progress stand beside each archive; nothing else may get their tag",
            wildcard(
                scope, permissions.uploads(storage, pipeline)
            ): "producers name what they upload; only what lies under the pipeline's own prefix is"
            " deleted",
            wildcard(
                scope, permissions.exports(storage)
            ): "DynamoDB names exports; only those of this pipeline's window tables are meant",
            **acknowledged(scope, storage, settings),
        },
    )
    return made


def _dropper(
    scope: Construct, pipeline: str, defaults: FunctionDefaults, storage: Storage
) -> PipelineFunction:
    made = PipelineFunction(
        scope,
        "Dropper",
        defaults=defaults,
        package="dropper",
        memory_mb=DROPPER_MEMORY_MB,
        timeout_seconds=DROPPER_TIMEOUT_SECONDS,
        statements=permissions.of_dropper(storage, pipeline),
    )
    acknowledge(
        made.role,
        {
            wildcard(scope, permissions.archives(storage, pipeline)): "an archive's keys"
            " name its window and attempt; all are read under the pipeline's own prefix"
        },
    )
    return made
