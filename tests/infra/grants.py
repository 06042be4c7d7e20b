"""Which grants a call needs, and which a policy gives."""

from __future__ import annotations

from tests.infra.calls import Call
from tests.infra.templates import Template, named, of_type

TABLE_OF = {
    "dynamodb_store": "windows",
    "dynamodb_exports": "windows",
    "dynamodb_records": "windows",
    "dynamodb_tables": "windows",
    "dynamodb_catalog": "catalog",
    "dynamodb_ledger": "catalog",
    "dynamodb_periods": "catalog",
    "dynamodb_receptions": "catalog",
    "dynamodb_totals": "totals",
}
# IAM's names where they are not the operation's own. A transaction needs what its parts need.
# Sources: DynamoDB Developer Guide, "Using IAM with DynamoDB transactions"; Service Authorization
# Reference, "Actions, resources, and condition keys for Amazon SQS" and "... for Amazon S3".
ACTION_OF = {
    "ConditionCheck": "ConditionCheckItem",
    "Delete": "DeleteItem",
    "Put": "PutItem",
    "Update": "UpdateItem",
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibility",
    "DeleteMessageBatch": "DeleteMessage",
    "SendMessageBatch": "SendMessage",
    "ListObjectsV2": "ListBucket",
    "CreateMultipartUpload": "PutObject",
    "UploadPart": "PutObject",
    "CompleteMultipartUpload": "PutObject",
}
# What a call does besides, in the caller's name. Sources: DynamoDB Developer Guide, "Using
# attribute-based access control" and "Requesting a table export in DynamoDB".
IN_THE_CALLERS_NAME = {
    "CreateTable": {("windows", "dynamodb:TagResource")},
    "ExportTableToPointInTime": {
        ("objects", "s3:AbortMultipartUpload"),
        ("objects", "s3:PutObject"),
        ("objects", "s3:PutObjectAcl"),
    },
}

Grants = set[tuple[str, str]]


def needed(call: Call) -> Grants:
    """The grants that a call needs: on what, and which action."""
    action = ACTION_OF.get(call.operation, call.operation)
    if call.operation == "TransactWriteItems":
        return set()  # its parts are calls of their own
    if call.module == "s3":
        return {("bucket" if action == "ListBucket" else "objects", f"s3:{action}")}
    if call.operation == "GetMetricStatistics":
        return {("*", f"cloudwatch:{action}")}
    if call.module == "cli_queues":
        return {("queue", f"sqs:{action}"), ("dead letters", f"sqs:{action}")}
    if call.module in ("sqs", "sqs_dead_letters"):
        # The writer rejects, the operator sends again.
        theirs = call.adapter == "sqs_dead_letters.SqsDeadLetters"
        there = "queue" if theirs == (action == "SendMessage") else "dead letters"
        return {(there, f"sqs:{action}")}
    module = call.adapter.partition(".")[0] if call.module == "dynamodb" else call.module
    table = "exports" if action == "DescribeExport" else TABLE_OF[module]
    return {(table, f"dynamodb:{action}")} | IN_THE_CALLERS_NAME.get(action, set())


def label(template: Template, arn: str) -> str:
    """What a policy's resource is: one of the words of `needed`."""
    if arn == "*":
        return "*"
    known = {
        named(template, "AWS::SQS::Queue", "QueueName", "tallyroll-events"): "queue",
        named(template, "AWS::SQS::Queue", "QueueName", "tallyroll-dead-letters"): "dead letters",
        named(template, "AWS::DynamoDB::Table", "TableName", "tallyroll-catalog"): "catalog",
        named(template, "AWS::DynamoDB::Table", "TableName", "tallyroll-totals"): "totals",
        **dict.fromkeys(of_type(template, "AWS::S3::Bucket"), "bucket"),
        **dict.fromkeys(of_type(template, "AWS::Logs::LogGroup"), "log"),
    }
    if ":table/" in arn:
        return "exports" if arn.endswith("Z/export/*") else "windows"
    id_, slash, _ = arn.partition("/")
    return "objects" if slash and known[id_] == "bucket" else known[id_]
