"""What stays: the catalog, the totals and the archive bucket. None of them goes with the stack."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.tags import tag
from tallyroll.resources import BucketDeclaration, Resources, TableDeclaration

_WINDOW_ID = "????????T??????Z"  # as long as an id, so that no other pipeline's tables match


class Storage(Construct):
    """The permanent tables and the bucket, as declared; the roller makes the window tables."""

    def __init__(self, scope: Construct, id_: str, *, resources: Resources) -> None:
        super().__init__(scope, id_)
        self.catalog = _table(self, "Catalog", resources.catalog)
        self.totals = _table(self, "Totals", resources.totals)
        self.bucket = _bucket(self, "Archive", resources.bucket)
        self.window_tables_arn = cdk.Stack.of(self).format_arn(
            service="dynamodb", resource="table", resource_name=resources.windows.name + _WINDOW_ID
        )
        """Matches this pipeline's window tables and nothing else."""


def _table(scope: Construct, id_: str, declared: TableDeclaration) -> dynamodb.Table:
    table = dynamodb.Table(
        scope,
        id_,
        table_name=declared.name,
        partition_key=_key(declared.partition_key),
        sort_key=_key(declared.sort_key),
        billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
        point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
            point_in_time_recovery_enabled=declared.point_in_time_recovery
        ),
        deletion_protection=declared.deletion_protection,
        removal_policy=cdk.RemovalPolicy.RETAIN,
    )
    tag(table, declared.tags)
    return table


def _key(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)


def _bucket(scope: Construct, id_: str, declared: BucketDeclaration) -> s3.Bucket:
    bucket = s3.Bucket(
        scope,
        id_,
        bucket_name=declared.name or None,
        versioned=declared.versioned,
        block_public_access=(
            s3.BlockPublicAccess.BLOCK_ALL if declared.block_public_access else None
        ),
        encryption=s3.BucketEncryption.S3_MANAGED,
        enforce_ssl=True,
        removal_policy=cdk.RemovalPolicy.RETAIN,
    )
    tag(bucket, declared.tags)
    return bucket
