"""The function that makes Parquet of archives, where the option `archive` asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_

from tallyroll.cdk import optional_permissions, permissions
from tallyroll.cdk.annotations import acknowledge, wildcard
from tallyroll.cdk.code.layers import Packages
from tallyroll.cdk.functions import FULL_CPU_MB, FunctionDefaults, PipelineFunction
from tallyroll.cdk.storage import Storage
from tallyroll.ports.bucket import TAG_PASSING, ticket_of
from tallyroll.settings import Settings
from tallyroll.settings.common import PARQUET

if TYPE_CHECKING:
    from constructs import Construct

COMPACTOR_TIMEOUT_SECONDS = 900  # the longest possible
COMPACTOR_EVERY_MINUTES = 60  # longer than a run, so that two are never at work
COMPACTOR_DISK_MB = 10_240  # the most: rows wait there as text, and are sorted
DUCKDB = Packages("duckdb.txt", "DuckDB", "archive", "give tallyroll:archive dynamodb")
_MADE = "*.parquet.*"
_TICKETS = "a ticket is named after its window; all are under the pipeline's own prefix"


def make_compactor(
    scope: Construct,
    settings: Settings,
    defaults: FunctionDefaults,
    storage: Storage,
    duckdb: lambda_.ILayerVersion,
) -> PipelineFunction:
    """The function, with DuckDB from a layer."""
    pipeline = settings.name
    made = PipelineFunction(
        scope,
        "Compactor",
        defaults=defaults,
        package="compactor",
        memory_mb=FULL_CPU_MB,
        timeout_seconds=COMPACTOR_TIMEOUT_SECONDS,
        statements=of_compactor(storage, pipeline, expires=settings.archive == PARQUET),
    )
    resource = made.function.node.default_child
    assert isinstance(resource, lambda_.CfnFunction)
    resource.ephemeral_storage = lambda_.CfnFunction.EphemeralStorageProperty(
        size=COMPACTOR_DISK_MB
    )
    made.function.add_layers(duckdb)
    archive = "an archive's keys name its window and attempt; all are under the pipeline's prefix"
    acknowledge(
        made.role,
        {
            wildcard(scope, permissions.archives(storage, pipeline)): archive,
            wildcard(scope, permissions.archives(storage, pipeline, _MADE)): archive,
            wildcard(scope, _tickets(storage, pipeline)): _TICKETS,
        },
    )
    return made


def of_compactor(
    storage: Storage, pipeline: str, *, expires: bool
) -> Sequence[iam.PolicyStatement]:
    """Read archives, write those as Parquet, and delete tickets. Where the others expire, give
    these, and never one as Parquet, the tag for which a rule of the bucket deletes them.
    """
    made = permissions.archives(storage, pipeline, _MADE)
    return [
        _allow(storage.catalog.table_arn, "dynamodb:GetItem"),
        _allow(permissions.archives(storage, pipeline), "s3:GetObject"),
        _allow(made, "s3:PutObject"),
        *optional_permissions.to_lock(storage, made),
        *(_to_let_pass(permissions.archives(storage, pipeline), made) if expires else ()),
        _allow(_tickets(storage, pipeline), "s3:DeleteObject", "s3:GetObject", "s3:PutObject"),
        _allow(storage.bucket.bucket_arn, "s3:ListBucket"),
        *optional_permissions.in_use([storage.bucket.encryption_key], [storage.key]),
    ]


def may_put_tickets(storage: Storage, settings: Settings) -> list[iam.PolicyStatement]:
    """Allow cleanup to put tickets, where there is a compactor."""
    return [_allow(_tickets(storage, settings.name), "s3:PutObject")] if settings.compacts else []


def acknowledged(scope: Construct, storage: Storage, settings: Settings) -> dict[str, str]:
    """Why that permission has a wildcard, by the id of the rule about it."""
    if not settings.compacts:
        return {}
    return {wildcard(scope, _tickets(storage, settings.name)): _TICKETS}


def _tickets(storage: Storage, pipeline: str) -> str:
    return storage.bucket.arn_for_objects(ticket_of(pipeline, "*"))


def _to_let_pass(arn: str, never: str) -> list[iam.PolicyStatement]:
    tags = {
        "ForAllValues:StringEquals": {"s3:RequestObjectTagKeys": [TAG_PASSING]},
        "StringEquals": {f"s3:RequestObjectTag/{TAG_PASSING}": "true"},
    }
    action = "s3:PutObjectTagging"
    denied = iam.PolicyStatement(effect=iam.Effect.DENY, actions=[action], resources=[never])
    allowed = _allow(arn, action)
    allowed.add_conditions(tags)
    return [allowed, denied]


def _allow(arn: str, *actions: str) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=list(actions), resources=[arn])
