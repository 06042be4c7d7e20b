"""Rules about tables, queues, objects and metrics: which questions a request asks."""

from __future__ import annotations

from collections.abc import Iterator

from tests.strict.values import (
    Account,
    Question,
    Reading,
    Request,
    Value,
    bucket_arn,
    question,
    queue_arn,
    seen,
    table_arn,
    tag_context,
)

BY_NAME = frozenset(
    (
        *("DeleteTable", "DescribeContinuousBackups", "DescribeTable"),
        *("UpdateContinuousBackups", "UpdateContributorInsights", "UpdateTable"),
    )
)
BY_ARN = {
    "DescribeExport": "ExportArn",
    "ExportTableToPointInTime": "TableArn",
    "ListTagsOfResource": "ResourceArn",
}
# A batch needs the action of its single requests.
OF_QUEUES = {
    "ChangeMessageVisibility": "ChangeMessageVisibility",
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibility",
    "DeleteMessage": "DeleteMessage",
    "DeleteMessageBatch": "DeleteMessage",
    "GetQueueAttributes": "GetQueueAttributes",
    "ReceiveMessage": "ReceiveMessage",
    "SendMessage": "SendMessage",
    "SendMessageBatch": "SendMessage",
}
OF_OBJECTS = {
    "AbortMultipartUpload": "AbortMultipartUpload",
    "CompleteMultipartUpload": "PutObject",
    "CreateMultipartUpload": "PutObject",
    "DeleteObject": "DeleteObject",
    "GetObject": "GetObject",
    "HeadObject": "GetObject",
    "PutObject": "PutObject",
    "PutObjectTagging": "PutObjectTagging",
    "UploadPart": "PutObject",
}
BY_EXPORT = ("AbortMultipartUpload", "PutObject", "PutObjectAcl")


def whole_tables(request: Request, account: Account, _reading: Reading) -> Iterator[Question]:
    """A request about a table asks for its own action on the table or export."""
    if request.operation in BY_NAME:
        arn = table_arn(request.params["TableName"])
    elif request.operation in BY_ARN:
        arn = request.params[BY_ARN[request.operation]]
    else:
        return
    yield question(f"dynamodb:{request.operation}", arn, seen(account, arn))


def new_tables(request: Request, account: Account, _reading: Reading) -> Iterator[Question]:
    """CreateTable asks for TagResource too if it has tags, and for PutResourcePolicy if it has a
    policy.
    """
    if request.operation != "CreateTable":
        return
    arn, tags = table_arn(request.params["TableName"]), tag_context(account, request.params)
    yield question("dynamodb:CreateTable", arn, tags)
    if request.params.get("Tags"):
        yield question("dynamodb:TagResource", arn, tags)
    if request.params.get("ResourcePolicy"):
        yield question("dynamodb:PutResourcePolicy", arn)


def tagging(request: Request, account: Account, _reading: Reading) -> Iterator[Question]:
    """TagResource asks with the tags of the request and those of the table."""
    if request.operation == "TagResource" and request.service == "dynamodb":
        arn = request.params["ResourceArn"]
        context = {**tag_context(account, request.params), **seen(account, arn)}
        yield question("dynamodb:TagResource", arn, context)


def exported_objects(request: Request, _account: Account, _reading: Reading) -> Iterator[Question]:
    """DynamoDB writes an export into the bucket in the name of who asks for it."""
    if request.operation == "ExportTableToPointInTime":
        where = bucket_arn(request.params["S3Bucket"])
        objects = f"{where}/{request.params['S3Prefix']}/AWSDynamoDB/data"
        for action in BY_EXPORT:
            yield question(f"s3:{action}", objects)


def messages(request: Request, _account: Account, _reading: Reading) -> Iterator[Question]:
    """A request to a queue asks for the action of its kind; a batch for that of one message."""
    if request.service == "sqs":
        action = OF_QUEUES[request.operation]
        yield question(f"sqs:{action}", queue_arn(request.params["QueueUrl"]))


def objects(request: Request, _account: Account, _reading: Reading) -> Iterator[Question]:
    """A request for an object asks for the action of its kind, for PutObjectTagging too if it has
    tags, and for PutObjectRetention if it locks it; one of a listing asks for ListBucket on the
    bucket. Source: S3 API Reference, PutObject.
    """
    if request.service != "s3":
        return
    bucket = bucket_arn(request.params["Bucket"])
    if request.operation == "ListObjectsV2":
        yield question("s3:ListBucket", bucket)
    else:
        action = OF_OBJECTS[request.operation]
        tags = {tag["Key"]: tag["Value"] for tag in request.params.get("Tags", ())}
        context: dict[str, Value] = {f"s3:RequestObjectTag/{key}": tags[key] for key in tags}
        context["s3:RequestObjectTagKeys"] = tuple(tags)
        yield question(f"s3:{action}", f"{bucket}/{request.params['Key']}", context)
        if request.params.get("Tagging"):
            yield question("s3:PutObjectTagging", f"{bucket}/{request.params['Key']}")
        if request.params.get("ObjectLockMode"):
            yield question("s3:PutObjectRetention", f"{bucket}/{request.params['Key']}")


def metrics(request: Request, _account: Account, _reading: Reading) -> Iterator[Question]:
    """CloudWatch's metrics have no ARN: only a statement on all resources allows reading them."""
    if request.operation == "GetMetricStatistics":
        yield question("cloudwatch:GetMetricStatistics", "*")
