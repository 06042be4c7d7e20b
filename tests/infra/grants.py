"""Which grants a call needs, and which a policy gives."""

from __future__ import annotations

from tests.infra.calls import Call
from tests.infra.templates import Template, named, of_type

DYNAMO_STORE = "adapters.dynamodb.store.DynamoStore"
TABLE_OF = {
    "adapters.dynamodb.store": "windows",
    "adapters.dynamodb.exports": "windows",
    "adapters.dynamodb.tables": "windows",
    "adapters.dynamodb.catalog": "catalog",
    "adapters.dynamodb.ledger": "catalog",
    "adapters.dynamodb.periods": "catalog",
    "adapters.dynamodb.rate": "catalog",
    "adapters.dynamodb.wishes": "catalog",
    "adapters.dynamodb.writer_notes": "catalog",
    "adapters.dynamodb.corrections": "totals",
    "adapters.dynamodb.totals_table": "totals",
}
ALL_AT_ONCE = "adapters.glances"  # asks three tables by one request
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
# attribute-based access control", "Using IAM with CloudWatch contributor insights for DynamoDB" and
# "Requesting a table export in DynamoDB".
IN_THE_CALLERS_NAME = {
    "CreateTable": {("windows", "dynamodb:TagResource")},
    "UpdateContributorInsights": {("insights role", "iam:CreateServiceLinkedRole")},
    "ExportTableToPointInTime": {
        ("objects", "s3:AbortMultipartUpload"),
        ("objects", "s3:PutObject"),
        ("objects", "s3:PutObjectAcl"),
    },
}

Grants = set[tuple[str, str]]
INSIGHTS_ROLE = (
    ":role/aws-service-role/contributorinsights.dynamodb.amazonaws.com"
    "/AWSServiceRoleForDynamoDBCloudWatchContributorInsights"
)
INSIGHT_RULES = ":insight-rule/DynamoDBContributorInsights-PKT-tallyroll-*"


def needed(call: Call) -> Grants:
    """The grants that a call needs: on what, and which action."""
    action = ACTION_OF.get(call.operation, call.operation)
    if call.operation == "TransactWriteItems":
        return set()  # its parts are calls of their own
    if call.module == "adapters.aws.s3":
        return {("bucket" if action == "ListBucket" else "objects", f"s3:{action}")}
    if call.operation == "GetMetricStatistics":
        return {("*", f"cloudwatch:{action}")}
    if call.module == "pipeline.queue_urls":
        return {("queue", f"sqs:{action}"), ("dead letters", f"sqs:{action}")}
    if call.module in ("adapters.aws.sqs", "adapters.aws.sqs_dead_letters"):
        # The writer rejects, the operator sends again.
        theirs = call.adapter == "adapters.aws.sqs_dead_letters.SqsDeadLetters"
        there = "queue" if theirs == (action == "SendMessage") else "dead letters"
        return {(there, f"sqs:{action}")}
    shared = call.module in ("adapters.dynamodb.requests", "adapters.dynamodb.actions")
    module = call.adapter.rpartition(".")[0] if shared else call.module
    if module == ALL_AT_ONCE:
        return {(table, f"dynamodb:{action}") for table in ("windows", "catalog", "totals")}
    table = "exports" if action == "DescribeExport" else TABLE_OF[module]
    return {(table, f"dynamodb:{action}")} | IN_THE_CALLERS_NAME.get(action, set())


def of_identities(reached: set[str]) -> Grants:
    """The grants on the table of identities that a function needs which reaches these verbs of the
    store: `calls` cannot tell in which table a verb puts or finds an item.
    """
    needed = {"commit": "PutItem", "identities": "BatchGetItem"}
    return {("identities", f"dynamodb:{needed[verb]}") for verb in needed.keys() & reached}


def label(template: Template, arn: str) -> str:
    """What a policy's resource is: one of the words of `needed`."""
    if arn == "*":
        return "*"
    tables = of_type(template, "AWS::DynamoDB::Table").items()
    known = {
        named(template, "AWS::SQS::Queue", "QueueName", "tallyroll-events"): "queue",
        named(template, "AWS::SQS::Queue", "QueueName", "tallyroll-dead-letters"): "dead letters",
        **{id_: table["TableName"].removeprefix("tallyroll-") for id_, table in tables},
        **dict.fromkeys(of_type(template, "AWS::S3::Bucket"), "bucket"),
        **dict.fromkeys(of_type(template, "AWS::Logs::LogGroup"), "log"),
        **dict.fromkeys(of_type(template, "AWS::Lambda::Function"), "functions"),
        **dict.fromkeys(of_type(template, "AWS::IAM::Role"), "roles"),
        **dict.fromkeys(of_type(template, "AWS::SNS::Topic"), "topics"),
    }
    if arn.endswith(INSIGHTS_ROLE):
        return "insights role"
    if arn.endswith(INSIGHT_RULES):
        return "rules"
    if ":schedule/default/" in arn:
        return "schedules"
    if ":table/" in arn:
        return "exports" if arn.endswith("Z/export/*") else "windows"
    id_, slash, _ = arn.partition("/")
    return "objects" if slash and known[id_] == "bucket" else known[id_]
