"""Rules about customer managed keys: what AWS KMS is asked, in the name of who calls a service."""

from __future__ import annotations

from collections.abc import Iterator

from tests.strict.items import SINGLE
from tests.strict.values import (
    REGION,
    Account,
    Question,
    Reading,
    Request,
    Value,
    bucket_arn,
    question,
    queue_arn,
    table_arn,
)

OF_WHO_CHOOSES = (
    *("Decrypt", "DescribeKey", "Encrypt", "GenerateDataKey", "GenerateDataKeyWithoutPlaintext"),
    *("ReEncryptFrom", "ReEncryptTo"),
)
OF_UPLOADS = frozenset({"CompleteMultipartUpload", "CreateMultipartUpload", "UploadPart"})


def _on_key(key: str, service: str, *actions: str, **more: str) -> Iterator[Question]:
    via: dict[str, Value] = {"kms:ViaService": f"{service}.{REGION}.amazonaws.com"}
    for action in actions:
        yield question(f"kms:{action}", key, {**via, **more})


def chosen_keys(request: Request, _account: Account, _reading: Reading) -> Iterator[Question]:
    """Who chooses a key for a table needs at least these permissions on it; DynamoDB creates its
    grant in that name.
    """
    key = request.params.get("SSESpecification", {}).get("KMSMasterKeyId")
    if request.operation == "CreateTable" and key:
        yield from _on_key(key, "dynamodb", *OF_WHO_CHOOSES)
        granted = {"kms:GrantIsForAWSResource": "true"}
        yield from _on_key(key, "dynamodb", "CreateGrant", **granted)


def table_keys(request: Request, account: Account, _reading: Reading) -> Iterator[Question]:
    """DynamoDB decrypts a table's key for each caller who reads or writes items."""
    for table in sorted(_with_items(request)):
        if key := account.keys.get(table_arn(table)):
            yield from _on_key(key, "dynamodb", "Decrypt")


def _with_items(request: Request) -> set[str]:
    params = request.params
    match request.operation:
        case "TransactWriteItems":
            return {part["TableName"] for each in params["TransactItems"] for part in each.values()}
        case "BatchGetItem":
            return set(params["RequestItems"])
        case "Query" | "Scan":
            return {params["TableName"]}
        case "ExportTableToPointInTime":
            return {params["TableArn"].rpartition("/")[2]}
    return {params["TableName"]} if request.operation in SINGLE else set()


def queue_keys(request: Request, account: Account, _reading: Reading) -> Iterator[Question]:
    """Who sends to an encrypted queue needs GenerateDataKey, and Decrypt, by which SQS verifies the
    new data key; who receives from it needs Decrypt.
    """
    if request.service != "sqs":
        return
    if key := account.keys.get(queue_arn(request.params["QueueUrl"])):
        if request.operation in ("SendMessage", "SendMessageBatch"):
            yield from _on_key(key, "sqs", "Decrypt", "GenerateDataKey")
        elif request.operation == "ReceiveMessage":
            yield from _on_key(key, "sqs", "Decrypt")


def object_keys(request: Request, account: Account, _reading: Reading) -> Iterator[Question]:
    """Who puts an object under a key needs GenerateDataKey, for a multipart upload also Decrypt;
    who gets it needs Decrypt. An export puts its objects so, in the name of who asks for it.
    """
    if request.operation == "ExportTableToPointInTime":
        key = request.params.get("S3SseKmsKeyId")
        if key:
            yield from _on_key(key, "s3", "Decrypt", "GenerateDataKey")
        return
    if request.service != "s3":
        return
    if key := account.keys.get(bucket_arn(request.params["Bucket"])):
        if request.operation == "PutObject":
            yield from _on_key(key, "s3", "GenerateDataKey")
        elif request.operation in OF_UPLOADS:
            yield from _on_key(key, "s3", "Decrypt", "GenerateDataKey")
        elif request.operation == "GetObject":
            yield from _on_key(key, "s3", "Decrypt")
