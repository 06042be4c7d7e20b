"""Looking into a synthesized template."""

from __future__ import annotations

from typing import Any

from tallyroll.resources import QueueDeclaration

Template = dict[str, Any]
FUNCTIONS = ("writer", "aggregator", "roller", "cleanup", "dropper")


def of_type(template: Template, kind: str) -> dict[str, dict[str, Any]]:
    """The properties of the resources of one type, by logical id."""
    return {
        id_: resource.get("Properties", {})
        for id_, resource in template["Resources"].items()
        if resource["Type"] == kind
    }


def only(template: Template, kind: str) -> dict[str, Any]:
    """The properties of the one resource of a type."""
    [found] = of_type(template, kind).values()
    return found


def function(template: Template, name: str) -> dict[str, Any]:
    """The properties of one function."""
    functions = of_type(template, "AWS::Lambda::Function").values()
    [found] = [f for f in functions if f["Handler"] == f"functions.{name}.handler.handler"]
    return found


def has_compactor(template: Template) -> bool:
    """Whether the pipeline makes Parquet."""
    functions = of_type(template, "AWS::Lambda::Function").values()
    return any(each["Handler"] == "functions.compactor.handler.handler" for each in functions)


def statements(template: Template, name: str, effect: str = "Allow") -> list[dict[str, Any]]:
    """What one function's role allows, or denies."""
    role_id = function(template, name)["Role"]["Fn::GetAtt"][0]
    role = template["Resources"][role_id]["Properties"]
    assert "ManagedPolicyArns" not in role
    documents = [policy["PolicyDocument"] for policy in role["Policies"]]
    documents += [
        policy["PolicyDocument"]
        for policy in of_type(template, "AWS::IAM::Policy").values()
        if {"Ref": role_id} in policy.get("Roles", ())
    ]
    found = [one for document in documents for one in document["Statement"]]
    return [one for one in found if one["Effect"] == effect]


def actions(statement: dict[str, Any]) -> list[str]:
    """A statement's actions, always as a list."""
    found = statement["Action"]
    return [found] if isinstance(found, str) else found


def resource(statement: dict[str, Any]) -> str:
    """A statement's one resource as a text, with logical ids in the place of what they name."""
    return text(statement["Resource"])


def text(value: Any) -> str:
    """A value as a text, with logical ids in the place of what they name."""
    if isinstance(value, str):
        return value
    assert isinstance(value, dict), value
    if "Fn::Join" in value:
        return "".join(map(text, value["Fn::Join"][1]))
    if "Fn::GetAtt" in value:
        return str(value["Fn::GetAtt"][0])
    return str(value["Ref"])


def queue(template: Template, declared: QueueDeclaration) -> tuple[str, dict[str, Any]]:
    """Logical id and properties of the queue of a declaration."""
    queues = of_type(template, "AWS::SQS::Queue").items()
    [found] = [entry for entry in queues if entry[1]["QueueName"] == declared.name]
    return found


def named(template: Template, kind: str, property_: str, name: str) -> str:
    """The logical id of the resource of a type that has this name in a property."""
    [id_] = [id_ for id_, found in of_type(template, kind).items() if found[property_] == name]
    return id_


def tags(properties: dict[str, Any]) -> dict[str, str]:
    """A resource's tags."""
    return {tag["Key"]: tag["Value"] for tag in properties["Tags"]}


def watched_by(alarm: dict[str, Any]) -> list[dict[str, Any]]:
    """The metrics of an alarm that computes its number from some."""
    return [one["MetricStat"]["Metric"] for one in alarm.get("Metrics", ()) if "MetricStat" in one]
