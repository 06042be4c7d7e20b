"""What an update of a stack would replace or delete, by its two templates.

AWS CloudFormation User Guide, "Update behaviors of stack resources": a resource is replaced if a
create-only property changes. cfn-lint has CloudFormation's own schemas, which name these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cfnlint.schema import PROVIDER_SCHEMA_MANAGER  # type: ignore[import-untyped]

Json = dict[str, Any]

# What holds events, counts, archives or logs, and what others have noted: addresses, subscriptions.
KEPT = frozenset(
    {
        "AWS::ApiGatewayV2::Api",
        "AWS::DynamoDB::Table",
        "AWS::KMS::Key",
        "AWS::Lambda::EventSourceMapping",
        "AWS::Lambda::Function",
        "AWS::Logs::LogGroup",
        "AWS::S3::Bucket",
        "AWS::SNS::Topic",
        "AWS::SQS::Queue",
    }
)
RETAINED = frozenset({"AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::SQS::Queue"})
_RETAINING = ("Retain", "RetainExceptOnCreate")
_REGION = "us-east-1"  # the schemas are the same in every Region


def replaced_by(before: Json, after: Json) -> list[str]:
    """The paths of the properties by whose change CloudFormation replaces a resource."""
    return [path for path in _create_only(before) if _at(before, path) != _at(after, path)]


def own_name(resource: Json) -> str | None:
    """The name that a template gives a resource, if it gives one."""
    for path in _create_only(resource):
        name = _at(resource, path)
        if path.endswith("Name") and isinstance(name, str):
            return name
    return None


def harms(before: Json, after: Json) -> list[str]:
    """What an update from one template to another would lose, or why it would fail."""
    old, new = before["Resources"], after["Resources"]
    changed = [name for name, one in before["Outputs"].items() if after["Outputs"].get(name) != one]
    return [
        *(harm for id_, one in old.items() for harm in _replacement(id_, one, new.get(id_))),
        *_collisions(old, new),
        *(harm for id_, one in new.items() for harm in _policies(id_, one)),
        *(f"the output {name} would change" for name in changed),
    ]


def _replacement(id_: str, resource: Json, now: Json | None) -> Iterator[str]:
    kept = resource["Type"] in KEPT
    if now is None or now["Type"] != resource["Type"]:
        if kept:
            yield f"{id_} would be deleted"
    elif changed := replaced_by(resource, now):
        if kept:
            yield f"{id_} would be replaced, for {', '.join(changed)}"
        elif own_name(resource) is not None and own_name(resource) == own_name(now):
            yield f"{id_} cannot be replaced under its name, for {', '.join(changed)}"


def _collisions(old: Json, new: Json) -> Iterator[str]:
    """A new resource is made before an old one of its name is deleted."""
    owners = {(one["Type"], name): id_ for id_, one in old.items() if (name := own_name(one))}
    for id_, resource in new.items():
        owner = owners.get((resource["Type"], own_name(resource) or ""), id_)
        if owner != id_:
            yield f"{id_} cannot be made: {owner} has its name"


def _policies(id_: str, resource: Json) -> Iterator[str]:
    if resource["Type"] in RETAINED:
        for policy in ("DeletionPolicy", "UpdateReplacePolicy"):
            if resource.get(policy) not in _RETAINING:
                yield f"{id_} has the {policy} {resource.get(policy)}"


def _create_only(resource: Json) -> list[str]:
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema(_REGION, resource["Type"]).schema
    keys = ("createOnlyProperties", "conditionalCreateOnlyProperties")
    return [path for key in keys for path in schema.get(key, ())]


def _at(resource: Json, path: str) -> Any:
    """What a resource has at a path such as `/properties/KeySchema`."""
    found: Any = resource.get("Properties", {})
    for name in path.split("/")[2:]:
        found = found.get(name) if isinstance(found, dict) else None
    return found
