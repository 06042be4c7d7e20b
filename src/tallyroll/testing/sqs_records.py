"""Messages of a queue as Lambda hands them to a function."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any


def record(message: Mapping[str, Any], queue_arn: str, region: str) -> dict[str, Any]:
    """A received message as a record of Lambda's SQS event."""
    attributes = {
        name: {
            "dataType": value["DataType"],
            "stringListValues": [],
            "binaryListValues": [],
            **({"stringValue": value["StringValue"]} if "StringValue" in value else {}),
            **(
                {"binaryValue": base64.b64encode(value["BinaryValue"]).decode()}
                if "BinaryValue" in value
                else {}
            ),
        }
        for name, value in message.get("MessageAttributes", {}).items()
    }
    md5 = message.get("MD5OfMessageAttributes")
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": dict(message["Attributes"]),
        "messageAttributes": attributes,
        **({"md5OfMessageAttributes": md5} if md5 else {}),
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": region,
    }
