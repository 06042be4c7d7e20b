"""The statements of all policies in a synthesized template, with ARNs as texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.infra import reference
from tests.infra.templates import Template, of_type

# What a resource's ARN is, as the reference has it.
_KIND_OF = {
    "AWS::DynamoDB::Table": ("dynamodb", "table"),
    "AWS::Events::Rule": ("events", "rule-on-default-event-bus"),
    "AWS::IAM::Role": ("iam", "role"),
    "AWS::KMS::Key": ("kms", "key"),
    "AWS::Lambda::Alias": ("lambda", "function alias"),
    "AWS::Lambda::Function": ("lambda", "function"),
    "AWS::Logs::LogGroup": ("logs", "log-group"),
    "AWS::S3::Bucket": ("s3", "bucket"),
    "AWS::SNS::Topic": ("sns", "topic"),
    "AWS::SQS::Queue": ("sqs", "queue"),
}
_NAMED_BY_ARN = ("AWS::Lambda::Alias", "AWS::SNS::Topic")  # which `Ref` gives
_PSEUDO = {
    "AWS::Partition": "aws",
    "AWS::Region": "eu-west-1",
    "AWS::AccountId": "123456789012",
    "AWS::URLSuffix": "amazonaws.com",
}


@dataclass(frozen=True)
class Statement:
    """A statement and where it stands; of a policy on who may assume a role, without resources."""

    where: str
    allows: bool
    of_identity: bool
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: Mapping[str, Mapping[str, Any]]


def statements_of(template: Template) -> Iterator[Statement]:
    """All statements: of identities, of resources, of roles' trust, and functions' permissions."""
    for id_, resource in template["Resources"].items():
        kind = resource["Type"]
        itself = _arn(template, id_) if kind in _KIND_OF else "*"
        for path, document in _documents(resource.get("Properties", {}), id_):
            trust = path.endswith(".AssumeRolePolicyDocument")
            identity = kind.startswith("AWS::IAM::") and not trust
            for n, one in enumerate(_listed(document["Statement"])):
                resources = [text(template, each) for each in _listed(one.get("Resource", []))]
                plain = {**one, "Resource": resources}
                where = f"{path}[{one.get('Sid', n)}]"
                yield statement(where, plain) if identity else statement(where, plain, itself)
    for id_, given in of_type(template, "AWS::Lambda::Permission").items():
        called = text(template, given["FunctionName"])
        yield statement(id_, {**given, "Effect": "Allow", "Resource": called}, called)


def statement(where: str, written: Mapping[str, Any], itself: str = "") -> Statement:
    """A statement of a policy's JSON; in a policy of a resource's own, `itself` is that one."""
    assert not written.keys() & {"NotAction", "NotResource"}, f"{where} is not understood"
    resources = _listed(written.get("Resource", []))
    return Statement(
        where,
        written["Effect"] == "Allow",
        not itself,
        tuple(_listed(written["Action"])),
        tuple(_full(each, itself) if itself else each for each in resources),
        written.get("Condition", {}),
    )


def _documents(value: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        if "Statement" in value:
            yield path, value
        for key, each in value.items():
            yield from _documents(each, f"{path}.{key}")
    elif isinstance(value, list):
        for n, each in enumerate(value):
            yield from _documents(each, f"{path}.{n}")


def _full(resource: str, itself: str) -> str:
    """A resource in a policy of a resource's own: `*` is that one, and an API's name may be short.
    Source of the latter: API Gateway Developer Guide, "API Gateway resource policy examples".
    """
    if resource.startswith("execute-api:/"):
        return resource.replace("execute-api:", "arn:aws:execute-api:eu-west-1:123456789012:api", 1)
    return itself if resource == "*" else resource


def _arn(template: Template, id_: str) -> str:
    kind = template["Resources"][id_]["Type"]
    found = reference.arn(*_KIND_OF[kind], id_)
    return f"{found}:*" if kind == "AWS::Logs::LogGroup" else found  # as CloudFormation gives it


def text(template: Template, value: Any) -> str:
    """A template's value as a text, with a logical id for the name of what is made."""
    match value:
        case str():
            return value
        case {"Fn::Join": [str(separator), list(parts)]}:
            return separator.join(text(template, part) for part in parts)
        case {"Fn::GetAtt": [str(id_), "Arn"]}:
            return _arn(template, id_)
        case {"Fn::GetAtt": [str(id_), str()]}:
            return id_
        case {"Ref": str(name)} if name in _PSEUDO:
            return _PSEUDO[name]
        case {"Ref": str(id_)}:
            kind = template["Resources"].get(id_, {}).get("Type")
            return _arn(template, id_) if kind in _NAMED_BY_ARN else id_
        case _:
            raise NotImplementedError(f"what value is {value}?")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
