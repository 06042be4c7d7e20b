"""A Lambda function of its own, inlined by `log_role` as it stands here: CloudFormation calls it
for a custom resource. It sets the role by which API Gateway writes logs of REST APIs, if the
account has none in the Region. What is set is never replaced, and stays on deletion.

Sources: CloudFormation Template Reference, "Custom resource request objects" and "Custom resource
response objects"; API Gateway API Reference, GetAccount and UpdateAccount.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

import boto3
from botocore.exceptions import ClientError

# IAM needs a while until a new role works: of the function's role API Gateway then says that access
# is denied, and of the role to be set that the request is bad.
RETRIED = frozenset(
    {
        "AccessDeniedException",
        "BadRequestException",
        "ConflictException",
        "TooManyRequestsException",
    }
)
PAUSE_SECONDS = 5
ANSWER_MS = 60_000  # what remains of the function's time for the answer
ANSWER_TRIES = 3
REASON_MAX = 1_000  # characters; the whole answer may have 4,096 bytes


def handler(event: Mapping[str, Any], context: Any) -> None:
    """Do what CloudFormation asks, and tell it the outcome."""
    reason = ""
    try:
        if event["RequestType"] != "Delete":
            left_ms = context.get_remaining_time_in_millis
            role = event["ResourceProperties"]["RoleArn"]
            set_once(boto3.client("apigateway"), role, left_ms, time.sleep)
    except Exception as error:  # noqa: BLE001  (without an answer the stack waits)
        reason = f"{type(error).__name__}: {error}"[:REASON_MAX]
    answer(event, reason, urllib.request.urlopen, time.sleep)


def set_once(
    gateway: Any, role: str, left_ms: Callable[[], int], sleep: Callable[[float], None]
) -> bool:
    """Set the role unless there is one; say whether it was set. Raises ClientError."""
    change = {"op": "replace", "path": "/cloudwatchRoleArn", "value": role}
    while True:
        try:
            if gateway.get_account().get("cloudwatchRoleArn"):
                return False
            gateway.update_account(patchOperations=[change])
        except ClientError as error:
            late = left_ms() < ANSWER_MS + 1_000 * PAUSE_SECONDS
            if late or error.response["Error"]["Code"] not in RETRIED:
                raise
            sleep(PAUSE_SECONDS)
        else:
            return True


def answer(
    event: Mapping[str, Any], reason: str, send: Callable[..., Any], sleep: Callable[[float], None]
) -> None:
    """Tell CloudFormation the outcome: a failure if there is a reason. Raises OSError."""
    named = ("StackId", "RequestId", "LogicalResourceId")
    told = {
        "Status": "FAILED" if reason else "SUCCESS",
        "Reason": reason or "done",
        "PhysicalResourceId": event.get("PhysicalResourceId", "api-gateway-log-role"),
        **{name: event[name] for name in named},
    }
    request = urllib.request.Request(  # noqa: S310  (CloudFormation's own address)
        event["ResponseURL"],
        data=json.dumps(told).encode(),
        headers={"Content-Type": ""},  # its signature has none
        method="PUT",
    )
    for tried in range(1, ANSWER_TRIES + 1):
        try:
            with send(request, timeout=15):
                return
        except OSError:
            if tried == ANSWER_TRIES:
                raise
            sleep(PAUSE_SECONDS)
