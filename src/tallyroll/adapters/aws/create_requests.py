"""Requests that create declared tables and queues, where the CDK does not."""

from __future__ import annotations

import json
from typing import Any

from tallyroll.resources import QueueDeclaration, TableDeclaration


def table_request(table: TableDeclaration) -> dict[str, Any]:
    """CreateTable's parameters; point-in-time recovery and the expiry of items can only be switched
    on afterwards.
    """
    encryption = {"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": table.kms_key}
    sort_key = ((table.sort_key, "RANGE"),) if table.sort_key else ()
    keys = ((table.partition_key, "HASH"), *sort_key)
    return {
        "TableName": table.name,
        "KeySchema": [{"AttributeName": name, "KeyType": kind} for name, kind in keys],
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
        "BillingMode": "PAY_PER_REQUEST",
        "DeletionProtectionEnabled": table.deletion_protection,
        "Tags": [{"Key": key, "Value": value} for key, value in table.tags.items()],
        **({"SSESpecification": encryption} if table.kms_key else {}),
        **({"ResourcePolicy": _no_drop_without(table.drop_needs)} if table.drop_needs else {}),
    }


def expiry_request(table: TableDeclaration) -> dict[str, Any]:
    """UpdateTimeToLive's parameters, for a table whose items expire."""
    return {
        "TableName": table.name,
        "TimeToLiveSpecification": {"AttributeName": table.expires_by, "Enabled": True},
    }


def _no_drop_without(tag: str) -> str:
    """A resource policy of one denial, which no other policy overrides. In a table's policy `*` is
    that table.

    Sources: IAM User Guide, "Policy evaluation logic"; DynamoDB Developer Guide, "Using
    attribute-based access control with DynamoDB", by which the conditions of resource-based
    policies see a table's tags.
    """
    denial = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "dynamodb:DeleteTable",
        "Resource": "*",
        "Condition": {"Null": {f"aws:ResourceTag/{tag}": "true"}},
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [denial]}, separators=(",", ":"))


def queue_attributes(queue: QueueDeclaration, dead_letters_arn: str = "") -> dict[str, str]:
    """CreateQueue's attributes; `dead_letters_arn` is that of the queue `queue.dead_letters`."""
    attributes = {
        "VisibilityTimeout": str(queue.visibility_seconds),
        "MessageRetentionPeriod": str(queue.retention_seconds),
        "MaximumMessageSize": str(queue.message_bytes_max),
        "SqsManagedSseEnabled": str(queue.encrypted).lower(),
    }
    if dead_letters_arn:
        attributes["RedrivePolicy"] = (
            f'{{"deadLetterTargetArn":"{dead_letters_arn}","maxReceiveCount":{queue.max_receives}}}'
        )
    return attributes
