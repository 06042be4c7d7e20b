"""A client of moto's DynamoDB that calls it as a function.

A call by boto3 costs some milliseconds: it is written as JSON, signed, read, answered as JSON and
read again. Virtual time takes thousands of calls a day.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from botocore.exceptions import ClientError
from moto.core.exceptions import JsonRESTError, ServiceException
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dynamodb.responses import DynamoHandler

_DIRECT = frozenset(
    {
        "batch_get_item",
        "create_table",
        "delete_item",
        "delete_table",
        "describe_table",
        "get_item",
        "list_tags_of_resource",
        "put_item",
        "query",
        "scan",
        "tag_resource",
        "transact_write_items",
        "update_item",
        "update_table",
    }
)


class DirectDynamoDB:
    """The operations that a pipeline uses often, without boto3, and the others of `client`."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._region: str = client.meta.region_name

    def __getattr__(self, operation: str) -> Callable[..., dict[str, Any]]:
        if operation not in _DIRECT:
            method: Callable[..., dict[str, Any]] = getattr(self._client, operation)
            return method
        return partial(self._call, operation)

    def _call(self, operation: str, **params: Any) -> dict[str, Any]:
        handler: Any = DynamoHandler()
        handler.region, handler.current_account = self._region, DEFAULT_ACCOUNT_ID
        handler.body = handler.params = params
        try:
            reply = getattr(handler, operation)().result
        except (JsonRESTError, ServiceException) as error:
            raise ClientError(_response(error), operation) from error  # type: ignore[arg-type]
        return dict(reply or {})


def _response(error: JsonRESTError | ServiceException) -> dict[str, Any]:
    """What boto3 makes of an error of moto."""
    if isinstance(error, ServiceException):
        return _error(error.code, error.message, 400)
    said: dict[str, Any] = json.loads(error.description)
    code = str(said.pop("__type", "")).rpartition("#")[2]
    message = str(said.get("message") or said.get("Message") or "")
    response = _error(code, message, int(error.code or 400))
    if "CancellationReasons" in said:
        response["CancellationReasons"] = [
            {**reason, "Item": _item(reason["Item"])} if "Item" in reason else reason
            for reason in said["CancellationReasons"]
        ]
    if "Item" in said:
        response["Item"] = _item(said["Item"])
    return response


def _error(code: str, message: str, status: int) -> dict[str, Any]:
    return {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }


def _item(written: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """An item from its JSON. Those that the core looks at have binary values at the top only."""
    return {
        name: {"B": base64.b64decode(value["B"])} if "B" in value else dict(value)
        for name, value in written.items()
    }
