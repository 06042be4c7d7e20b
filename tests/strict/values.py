"""What the rules of the relay judge: a request, an account's state, and what AWS's documents leave
open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import product
from types import MappingProxyType
from typing import Any

ACCOUNT, REGION = "123456789012", "us-east-1"  # moto's
HERE = f"{REGION}:{ACCOUNT}"
NOTHING: Mapping[str, Any] = MappingProxyType({})
Value = str | tuple[str, ...]


class Parts(StrEnum):
    """Which `dynamodb:LeadingKeys` and `dynamodb:Attributes` a part of a transaction has."""

    OWN = "its own"
    ALL = "those of all parts"
    NONE = "none"


@dataclass(frozen=True)
class Reading:
    """One reading of what the DynamoDB Developer Guide and the Service Authorization Reference
    leave open, or say differently.

    `checks_enclosed`: ConditionCheckItem has `dynamodb:EnclosingOperation`. It does by example 2 of
    "Using IAM with DynamoDB transactions"; the Service Authorization Reference does not list it.
    `parts`: see `Parts`; neither document says.
    `conditions_count`: `dynamodb:Attributes` has the names in condition expressions too, as by
    example 2 of "Using IAM policy conditions for fine-grained access control"; the table of that
    page names the attributes of the request.
    """

    checks_enclosed: bool
    parts: Parts
    conditions_count: bool

    def __str__(self) -> str:
        enclosed = "" if self.checks_enclosed else "not "
        counted = "also of conditions" if self.conditions_count else "of the item"
        return f"checks {enclosed}enclosed, parts have {self.parts}, attributes {counted}"


READINGS = tuple(Reading(*each) for each in product((True, False), Parts, (True, False)))


@dataclass(frozen=True)
class Request:
    """A call of AWS: `params` as the API names them, of S3 only what decides."""

    service: str
    operation: str
    params: Mapping[str, Any]


@dataclass(frozen=True)
class Question:
    """What IAM is asked: may this action be done on this resource, by a request with these
    condition keys?
    """

    action: str
    resource: str
    keys: tuple[tuple[str, Value], ...] = ()

    @property
    def context(self) -> dict[str, Value]:
        """The condition keys by name."""
        return dict(self.keys)


def question(action: str, resource: str, context: Mapping[str, Value] = NOTHING) -> Question:
    """A question with these condition keys; one without a value is absent."""
    return Question(action, resource, tuple(sorted((k, v) for k, v in context.items() if v)))


@dataclass(frozen=True)
class Refusal:
    """An error of AWS's."""

    status: int
    code: str
    message: str


@dataclass(frozen=True)
class Account:
    """The state of an account and its Region.

    `tag_control`: attribute-based access control for DynamoDB is on. `tags` are those of tables,
    `keys` the KMS keys of tables, queues, buckets and topics, all by ARN. `disabled` are keys that
    nobody can use. `concurrency` is how many functions may run at once, of which `reserved` are set
    aside.
    """

    tag_control: bool = True
    tags: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    disabled: frozenset[str] = frozenset()
    concurrency: int = 1_000
    reserved: int = 0


def table_arn(name: str) -> str:
    """The ARN of a table; that of an index, stream or export begins with it."""
    return f"arn:aws:dynamodb:{HERE}:table/{name}"


def queue_arn(url: str) -> str:
    """The ARN of the queue of an address."""
    return f"arn:aws:sqs:{HERE}:{url.rpartition('/')[2]}"


def bucket_arn(name: str) -> str:
    """The ARN of a bucket."""
    return f"arn:aws:s3:::{name}"


def after(account: Account, request: Request) -> Account:
    """The account's state after a request that was carried out."""
    params = request.params
    match request.operation:
        case "CreateTable":
            arn = table_arn(params["TableName"])
            key = params.get("SSESpecification", {}).get("KMSMasterKeyId")
            keys = {**account.keys, arn: key} if key else account.keys
            return replace(account, keys=keys, tags={**account.tags, arn: _tags(params)})
        case "TagResource":
            arn = params["ResourceArn"]
            tags = {**account.tags.get(arn, {}), **_tags(params)}
            return replace(account, tags={**account.tags, arn: tags})
        case "DeleteTable":
            arn = table_arn(params["TableName"])
            return replace(
                account,
                tags={known: tags for known, tags in account.tags.items() if known != arn},
                keys={known: key for known, key in account.keys.items() if known != arn},
            )
    return account


def _tags(params: Mapping[str, Any]) -> dict[str, str]:
    return dict(_pairs(params))


def _pairs(params: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for tag in params.get("Tags", ()):
        yield tag["Key"], tag["Value"]


def tag_context(account: Account, params: Mapping[str, Any]) -> dict[str, Value]:
    """The condition keys of the tags in a request.

    Without attribute-based access control they are absent, as are those of tables: conditions are
    evaluated as if there were no tags on resources or requests. Source: DynamoDB Developer Guide,
    "Enabling ABAC in DynamoDB".
    """
    if not account.tag_control:
        return {}
    tags = _tags(params)
    named = {f"aws:RequestTag/{key}": value for key, value in tags.items()}
    return {**named, "aws:TagKeys": tuple(tags)}


def seen(account: Account, arn: str) -> dict[str, Value]:
    """The condition keys of a table's tags; see `tag_context`. What lies under a table has its."""
    table = "/".join(arn.split("/")[:2])
    tags = account.tags.get(table, {}) if account.tag_control else {}
    return {f"aws:ResourceTag/{key}": value for key, value in tags.items()}
