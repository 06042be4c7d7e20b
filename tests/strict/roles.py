"""The roles of a synthesized template, as statements with the ARNs of what is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.infra.policies import meets
from tests.infra.templates import (
    FUNCTIONS,
    Template,
    actions,
    has_compactor,
    of_type,
    statements,
)
from tests.strict.values import ACCOUNT, REGION, Question, bucket_arn, queue_arn, table_arn

Statement = Mapping[str, Any]
Rename = Callable[[str], str]
PSEUDO = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::URLSuffix": "amazonaws.com",
}


@dataclass(frozen=True)
class Role:
    """What a function's role allows and denies."""

    statements: tuple[Statement, ...]

    def may(self, asked: Question) -> bool:
        """Whether a statement allows it, and none denies it."""
        allowed = self._any("Allow", asked)
        return allowed and not self._any("Deny", asked)

    def _any(self, effect: str, asked: Question) -> bool:
        return any(
            one["Effect"] == effect
            and _like(one["Action"], asked.action)
            and _like(one["Resource"], asked.resource)
            and meets(one.get("Condition", {}), asked.context)
            for one in self.statements
        )


def _like(patterns: Sequence[str], value: str) -> bool:
    return meets({"StringLike": {"value": patterns}}, {"value": value})


def arns_of(template: Template, bucket: str, rename: Rename = str) -> dict[str, str]:
    """The ARNs of what statements name, by logical id; `rename` is given each name, but for the
    bucket's.
    """
    tables = of_type(template, "AWS::DynamoDB::Table").items()
    queues = of_type(template, "AWS::SQS::Queue").items()
    return {
        **{id_: table_arn(rename(found["TableName"])) for id_, found in tables},
        **{id_: queue_arn(rename(found["QueueName"])) for id_, found in queues},
        **dict.fromkeys(of_type(template, "AWS::S3::Bucket"), bucket_arn(bucket)),
        **dict.fromkeys(of_type(template, "AWS::Logs::LogGroup"), "arn:aws:logs:::log"),
    }


def keys_of(template: Template, arns: Mapping[str, str]) -> dict[str, str]:
    """The keys of the template's tables, queues and bucket, by their ARNs."""
    found = {
        id_: each.get("SSESpecification", {}).get("KMSMasterKeyId")
        for id_, each in of_type(template, "AWS::DynamoDB::Table").items()
    }
    for id_, each in of_type(template, "AWS::SQS::Queue").items():
        found[id_] = each.get("KmsMasterKeyId")
    for id_, each in of_type(template, "AWS::S3::Bucket").items():
        [rule] = each["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        found[id_] = rule["ServerSideEncryptionByDefault"].get("KMSMasterKeyID")
    return {arns[id_]: key for id_, key in found.items() if key}


def roles_of(template: Template, arns: Mapping[str, str], rename: Rename = str) -> dict[str, Role]:
    """The roles of all functions, by the function's package.

    `arns` has those of the template's resources, by logical id; `rename` is given each resource of
    a statement.
    """
    more = ["compactor"] if has_compactor(template) else []
    names = (*FUNCTIONS, *more)
    return {name: Role(_statements(template, name, arns, rename)) for name in names}


def _statements(
    template: Template, name: str, arns: Mapping[str, str], rename: Rename
) -> tuple[Statement, ...]:
    return tuple(
        {
            "Effect": effect,
            "Action": actions(one),
            "Resource": [rename(where) for where in _resources(one["Resource"], arns)],
            "Condition": _plain(one.get("Condition", {}), arns),
        }
        for effect in ("Allow", "Deny")
        for one in statements(template, name, effect)
    )


def _resources(given: Any, arns: Mapping[str, str]) -> list[str]:
    found = _plain(given, arns)
    return found if isinstance(found, list) else [found]


def _plain(value: Any, arns: Mapping[str, str]) -> Any:
    """A value of a template without CloudFormation's functions; KeyError for an unknown id."""
    match value:
        case {"Ref": name}:
            return {**PSEUDO, **arns}[name]
        case {"Fn::GetAtt": [id_, "Arn"]}:
            return arns[id_]
        case {"Fn::Join": [separator, parts]}:
            return separator.join(_plain(part, arns) for part in parts)
        case dict():
            return {key: _plain(each, arns) for key, each in value.items()}
        case list():
            return [_plain(each, arns) for each in value]
    return value
