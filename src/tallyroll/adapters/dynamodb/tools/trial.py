"""A DynamoDB endpoint on trial: clients of it, and what no pipeline asks of DynamoDB."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from tallyroll.adapters.aws.client import Caller, identity_found, make_client, region_found, retried
from tallyroll.adapters.dynamodb.attributes import expressed
from tallyroll.adapters.dynamodb.items import Key
from tallyroll.adapters.dynamodb.requests import DynamoTable, passing
from tallyroll.errors import StoreError, Unknown, UsageError
from tallyroll.ports.backoff import REQUEST
from tallyroll.ports.effects import Effects

_AWS = (".amazonaws.com", ".amazonaws.com.cn", ".api.aws")
_MADE_UP = "local"  # DynamoDB Local takes letters and digits only
_MADE_UP_REGION = "us-east-1"
_SILENCE = ("ConnectTimeoutError", "EndpointConnectionError", "ReadTimeoutError")
_COUNTED: Key = {"pk": {"S": "~trial"}, "sk": {"S": "token"}}


def client_parameters(
    endpoint: str, region: str | None, tell: Callable[[str], None]
) -> dict[str, str]:
    """The parameters of a client of this endpoint. Raises UsageError if it is no URL.

    Region and credentials come from the AWS environment. If that has none, and the endpoint is not
    AWS's, they are made up, which `tell` is told.
    """
    where = {"endpoint_url": _checked(endpoint)}
    host = urlsplit(endpoint).hostname or ""
    is_aws = host.endswith(_AWS)
    if region:
        where["region_name"] = region
    elif not is_aws and not region_found():
        where["region_name"] = _MADE_UP_REGION
        tell(f"no region is set: {_MADE_UP_REGION} is taken")
    if not is_aws and not identity_found():
        where |= {"aws_access_key_id": _MADE_UP, "aws_secret_access_key": _MADE_UP}
        tell("no credentials are set: made-up ones are taken")
    return where


def _checked(endpoint: str) -> str:
    try:
        parts = urlsplit(endpoint)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        known = None
    if not known:
        raise UsageError(f"--endpoint {endpoint!r}: give a URL such as http://localhost:8000")
    return endpoint


def caller_at(where: dict[str, str], effects: Effects, observe: Callable[..., None]) -> Caller:
    """A way to the endpoint, with connections of its own."""
    return Caller(make_client("dynamodb", **where), effects, observe)


def reach(caller: Caller, table: str) -> None:
    """Raise Unknown if nobody answers one request within the client's time, some 5 s. What the
    answer is, is of no interest: the table does not exist yet.
    """
    try:
        caller.call("DescribeTable", TableName=table)
    except Unknown as error:
        if error.code in _SILENCE:
            raise
    except StoreError:
        return


def added_twice(caller: Caller, effects: Effects, table: str) -> int:
    """Send one transaction that adds 1 to an item twice, under one ClientRequestToken; return what
    was added. Raises StoreError.
    """
    add = {"Update": {"TableName": table, "Key": _COUNTED, **expressed("ADD #n :one", one=1)}}
    token = f"{effects.chance.getrandbits(128):032x}"

    def once() -> None:
        caller.call("TransactWriteItems", TransactItems=[add], ClientRequestToken=token)

    for _ in range(2):
        retried(effects, REQUEST, once, passing)
    item = DynamoTable(caller, effects, table).get(_COUNTED)
    return int(item["n"]["N"]) if item else 0
