"""The permissions that come with what a deployment chose: a key that encrypts its data, and
CloudWatch's Contributor Insights for throttled keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms

from tallyroll.cdk.storage import Storage
from tallyroll.resources import THROTTLED_KEYS_RULE
from tallyroll.settings import Settings

INSIGHTS = "contributorinsights.dynamodb.amazonaws.com"
_ROLE = f"aws-service-role/{INSIGHTS}/AWSServiceRoleForDynamoDBCloudWatchContributorInsights"
# What a caller of SQS, S3 or DynamoDB needs of a key that encrypts their data. Sources: the
# services' developer guides, on encryption at rest with a customer managed key.
_READS = ("kms:Decrypt", "kms:DescribeKey")
_WRITES = (*_READS, "kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo")


def in_use(
    written: Sequence[kms.IKey | None], read: Sequence[kms.IKey | None]
) -> list[iam.PolicyStatement]:
    """Allow what writing under these keys needs, and reading under those; None is no key."""
    write = {key.key_arn for key in written if key}
    only_read = {key.key_arn for key in read if key} - write
    return [
        *(_allow(arn, _WRITES) for arn in sorted(write)),
        *(_allow(arn, _READS) for arn in sorted(only_read)),
    ]


def of_new_tables(key: kms.IKey | None, here: cdk.Stack) -> list[iam.PolicyStatement]:
    """Allow DynamoDB, asked by CreateTable, to give itself the grant by which it uses the key of a
    new table, and the rest of the least that it asks of who chooses the key. Source: DynamoDB
    Developer Guide, "How DynamoDB encryption at rest uses AWS KMS", on authorizing use of a key.
    """
    if key is None:
        return []
    via = {"StringEquals": {"kms:ViaService": f"dynamodb.{here.region}.{here.url_suffix}"}}
    granted = {"Bool": {"kms:GrantIsForAWSResource": "true"}, **via}
    return [
        _allow(key.key_arn, ["kms:CreateGrant"], granted),
        _allow(key.key_arn, ["kms:GenerateDataKeyWithoutPlaintext"], via),
    ]


def to_note_throttled_keys(storage: Storage, settings: Settings) -> list[iam.PolicyStatement]:
    """Switch Contributor Insights on for a new table, if an option asks for them. The first of an
    account has DynamoDB make its role. Source: DynamoDB Developer Guide, "Using IAM with CloudWatch
    contributor insights for DynamoDB".
    """
    if not settings.contributor_insights:
        return []
    role = cdk.Stack.of(storage).format_arn(
        service="iam", region="", resource="role", resource_name=_ROLE
    )
    by_service = {"StringEquals": {"iam:AWSServiceName": INSIGHTS}}
    return [
        _allow(storage.window_tables_arn, ["dynamodb:UpdateContributorInsights"]),
        _allow(role, ["iam:CreateServiceLinkedRole"], by_service),
    ]


def to_read_throttled_keys(storage: Storage, settings: Settings) -> list[iam.PolicyStatement]:
    """Read Contributor Insights, if an option asks for them."""
    if not settings.contributor_insights:
        return []
    rules = cdk.Stack.of(storage).format_arn(
        service="cloudwatch",
        resource="insight-rule",
        resource_name=f"{THROTTLED_KEYS_RULE}{settings.name}-*",
    )
    return [
        _allow(storage.window_tables_arn, ["dynamodb:DescribeContributorInsights"]),
        _allow(rules, ["cloudwatch:GetInsightRuleReport"]),
    ]


def to_lock(storage: Storage, those: str) -> list[iam.PolicyStatement]:
    """Put `those` objects so that they are locked, if an option asks for it; the request is
    PutObject. Nobody is allowed to bypass a lock. Source: S3 API Reference, PutObject.
    """
    return [_allow(those, ["s3:PutObjectRetention"])] if storage.locks else []


def to_read_archives(storage: Storage, those: str, asked: bool) -> list[iam.PolicyStatement]:  # noqa: FBT001
    """Read the tables, and `those` objects if an option asks for it, by the keys of both."""
    if not asked:
        return in_use([], [storage.key])
    return [
        _allow(those, ["s3:GetObject"]),
        _allow(storage.bucket.bucket_arn, ["s3:ListBucket"]),
        *in_use([], [storage.key, storage.bucket.encryption_key]),
    ]


def _allow(
    arn: str, actions: Sequence[str], conditions: dict[str, Any] | None = None
) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=list(actions), resources=[arn], conditions=conditions)
