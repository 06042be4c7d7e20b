"""What moto's CloudFormation lacks of updates.

As the AWS CloudFormation User Guide has it ("Update behaviors of stack resources"):

- a resource of which a create-only property changes is replaced: a new one is made, then the old
  one is deleted. A new one cannot have the name of the old one, so such an update fails;
- everything else is changed in place and keeps its physical id. moto lacks most attributes of
  queues, and leaves no resource at all where it cannot update one: here it stays as it was.

That a resource is replaced because one that it refers to is replaced, is not played.
"""

from __future__ import annotations

import json
from typing import Any

import boto3
from moto.cloudformation import parsing
from moto.cloudformation.parsing import ResourceMap, clean_json

from tests.e2e.deployment import REGION
from tests.harness.replacements import own_name, replaced_by

Resource = dict[str, Any]

_update = ResourceMap.update
_update_in_place = parsing.parse_and_update_resource


class ReplacementError(Exception):
    """A resource would have to be replaced, and has a name of its own."""


def install() -> None:
    """Let moto's CloudFormation behave so, for the rest of this process."""
    replaced: Any = ResourceMap
    replaced.update = _updated
    replaced = parsing
    replaced.parse_and_update_resource = _resource_updated


def _updated(resources: ResourceMap, template: Any, parameters: Any = None) -> None:
    extended: Any = resources
    extended.before = resources._resource_json_map
    _update(resources, template, parameters)


def _resource_updated(id_: str, resource: Resource, resources: Any, **where: str) -> Any:
    before, original = resources.before[id_], resources[id_]
    if before.get("Properties") == resource.get("Properties"):
        return original  # its policies changed, or what it depends on
    if changed := replaced_by(before, resource):
        return _replaced(id_, resources, changed)
    if resource["Type"] == "AWS::S3::Bucket":  # moto looks for its name there
        named = {"BucketName": original.name, **resource["Properties"]}
        resource = {**resource, "Properties": named}
    updated: Any = _update_in_place(id_, resource, resources, **where)
    if resource["Type"] == "AWS::SQS::Queue":
        _set_attributes(original.name, clean_json(resource["Properties"], resources))
    return updated or original


def _replaced(id_: str, resources: Any, changed: list[str]) -> Any:
    before, resource = resources.before[id_], resources._resource_json_map[id_]
    name = own_name(before)
    if name is not None and name == own_name(resource):
        raise ReplacementError(f"{id_} must be replaced for {changed}, and keeps its name")
    original = resources._parsed_resources.pop(id_)
    made = resources[id_]  # which creates it
    resources._delete_resource(original, before)
    return made


def _set_attributes(queue: str, properties: Resource) -> None:
    """Set what moto's own update of a queue leaves out."""
    sqs: Any = boto3.client("sqs", region_name=REGION)
    attributes = {
        name: json.dumps(value) if isinstance(value, dict) else str(value)
        for name, value in properties.items()
        if name not in {"QueueName", "Tags"}
    }
    url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
    sqs.set_queue_attributes(QueueUrl=url, Attributes=attributes)
