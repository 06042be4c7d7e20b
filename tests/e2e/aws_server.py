"""moto as a server to which `cdk deploy` can deploy a pipeline.

    python -m tests.e2e.aws_server

prints its port and serves until it is killed. It is `local.aws.moto_server` with three changes:

- moto's CloudFormation knows the types of `KINDS` as well, which moto 5.2 would leave out: it calls
  the service's own API, with the template's properties as they are. botocore checks them, so that
  a property that the API does not know fails the deployment;
- a creation that fails is rolled back (`rollbacks`), and updates change resources in place or
  replace them (`updates`);
- queues invoke no function: moto would run it in Docker, whatever the batch size. The test plays
  the event source itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import boto3
from botocore import xform_name
from moto import mock_aws
from moto.cloudformation import parsing
from moto.core.common_models import CloudFormationModel

from local.aws.moto_server import serve
from tallyroll.testing.lean_sqs import LeanQueue
from tests.e2e import rollbacks, updates

Properties = dict[str, Any]
Call = tuple[str, Properties]


@dataclass(frozen=True)
class Kind:
    """How a resource of a type is created, changed and deleted.

    `calls` gives the operations and their parameters, from the resource's name and properties; the
    name is the one under the property `named_by`, or a generated one. Ref gives what the last reply
    has under `reference`, or the name; GetAtt what `attributes` finds in that reply. `changes`
    gives the operations that change it, from its physical id and new properties: those of the
    creation, unless others are given. `deletion` gives the operation that deletes it, from its
    physical id; without one it stays.
    """

    type: str
    service: str
    calls: Callable[[str, Properties], list[Call]]
    reference: str = ""
    named_by: str = ""
    attributes: Mapping[str, Callable[[Properties], str]] = field(default_factory=dict)
    changes: Callable[[str, Properties], list[Call]] | None = None
    deletion: Callable[[str], Call] | None = None


def _as_it_is(operation: str) -> Callable[[str, Properties], list[Call]]:
    return lambda _name, properties: [(operation, properties)]


def _changed(operation: str, id_: str) -> Callable[[str, Properties], list[Call]]:
    return lambda name, properties: [(operation, {**properties, id_: name})]


def _schedule(name: str, properties: Properties) -> list[Call]:
    return [("CreateSchedule", {**properties, "Name": name})]


def _alarms(name: str) -> Call:
    return ("DeleteAlarms", {"AlarmNames": [name]})


def _alarm(name: str, properties: Properties) -> list[Call]:
    asked = {"AlarmNames": [name]}
    return [("PutMetricAlarm", {"AlarmName": name, **properties}), ("DescribeAlarms", asked)]


def _page(name: str, properties: Properties) -> list[Call]:
    asked = {"AlarmNames": [name], "AlarmTypes": ["CompositeAlarm"]}
    return [("PutCompositeAlarm", {"AlarmName": name, **properties}), ("DescribeAlarms", asked)]


def _queue_policy(_name: str, properties: Properties) -> list[Call]:
    attributes = {"Policy": json.dumps(properties["PolicyDocument"])}
    return [
        ("SetQueueAttributes", {"QueueUrl": url, "Attributes": attributes})
        for url in properties["Queues"]
    ]


def _topic_policy(_name: str, properties: Properties) -> list[Call]:
    policy = {"AttributeName": "Policy", "AttributeValue": json.dumps(properties["PolicyDocument"])}
    return [("SetTopicAttributes", {"TopicArn": arn, **policy}) for arn in properties["Topics"]]


def _replacing(path: str, value: object) -> Properties:
    return {"op": "replace", "path": path, "value": str(value)}


def _rest_account(_name: str, properties: Properties) -> list[Call]:
    replaced = _replacing("/cloudwatchRoleArn", properties["CloudWatchRoleArn"])
    return [("UpdateAccount", {"patchOperations": [replaced]})]


def _rest_stage(_name: str, properties: Properties) -> list[Call]:
    """A stage, whose log and limits are changes of it: for all methods, or for none."""
    where = {"restApiId": properties["RestApiId"], "stageName": properties["StageName"]}
    deployed = properties["DeploymentId"]  # moto's own object, where AWS gives the id
    log = properties["AccessLogSetting"]
    [limits] = properties["MethodSettings"]
    assert (limits["HttpMethod"], limits["ResourcePath"]) == ("*", "/*")
    changes = [
        _replacing("/accessLogSettings/destinationArn", log["DestinationArn"]),
        _replacing("/accessLogSettings/format", log["Format"]),
        _replacing("/*/*/throttling/rateLimit", limits["ThrottlingRateLimit"]),
        _replacing("/*/*/throttling/burstLimit", limits["ThrottlingBurstLimit"]),
    ]
    traced = {"tracingEnabled": properties["TracingEnabled"]}
    return [
        ("CreateStage", {**where, **traced, "deploymentId": deployed.id}),
        ("UpdateStage", {**where, "patchOperations": changes}),
    ]


KINDS = (
    Kind(
        "AWS::CloudWatch::Alarm",
        "cloudwatch",
        _alarm,
        named_by="AlarmName",
        attributes={"Arn": lambda reply: reply["MetricAlarms"][0]["AlarmArn"]},
        deletion=_alarms,
    ),
    Kind(
        "AWS::CloudWatch::CompositeAlarm",
        "cloudwatch",
        _page,
        named_by="AlarmName",
        attributes={"Arn": lambda reply: reply["CompositeAlarms"][0]["AlarmArn"]},
        deletion=_alarms,
    ),
    Kind(
        "AWS::Scheduler::Schedule",
        "scheduler",
        _schedule,
        named_by="Name",
        changes=_changed("UpdateSchedule", "Name"),
        deletion=lambda name: ("DeleteSchedule", {"Name": name}),
    ),
    Kind(
        "AWS::ApiGatewayV2::Api",
        "apigatewayv2",
        _as_it_is("CreateApi"),
        reference="ApiId",
        attributes={name: itemgetter(name) for name in ("ApiId", "ApiEndpoint")},
        changes=_changed("UpdateApi", "ApiId"),
    ),
    Kind(
        "AWS::ApiGatewayV2::Integration",
        "apigatewayv2",
        _as_it_is("CreateIntegration"),
        reference="IntegrationId",
        changes=_changed("UpdateIntegration", "IntegrationId"),
    ),
    Kind(
        "AWS::ApiGatewayV2::Route",
        "apigatewayv2",
        _as_it_is("CreateRoute"),
        reference="RouteId",
        changes=_changed("UpdateRoute", "RouteId"),
    ),
    Kind(
        "AWS::ApiGatewayV2::Stage",
        "apigatewayv2",
        _as_it_is("CreateStage"),
        reference="StageName",
        changes=_changed("UpdateStage", "StageName"),
    ),
    Kind("AWS::ApiGateway::Account", "apigateway", _rest_account),
    Kind("AWS::ApiGateway::Stage", "apigateway", _rest_stage, reference="stageName"),
    Kind("AWS::Lambda::EventInvokeConfig", "lambda", _as_it_is("PutFunctionEventInvokeConfig")),
    Kind("AWS::SQS::QueuePolicy", "sqs", _queue_policy),
    Kind("AWS::SNS::TopicPolicy", "sns", _topic_policy),
)


def model(kind: Kind) -> type[CloudFormationModel]:
    """The class by which moto's CloudFormation creates resources of a kind, while it is referenced.

    moto finds its models among the direct subclasses of `CloudFormationModel`, hence a class each.
    """

    def called(region: str, calls: list[Call]) -> Properties:
        client: Any = boto3.client(kind.service, region_name=region)  # type: ignore[call-overload]
        reply: Properties = {}
        for operation, parameters in calls:
            reply = getattr(client, xform_name(operation))(**parameters)
        return reply

    def create(cls: Any, name: str, described: Any, _account: str, region: str, /, **_: Any) -> Any:
        reply = called(region, kind.calls(name, described["Properties"]))
        resource = cls()
        resource.physical_resource_id = reply[kind.reference] if kind.reference else name
        resource.attributes = {key: find(reply) for key, find in kind.attributes.items()}
        return resource

    def update(_cls: Any, /, *, original_resource: Any, **given: Any) -> Any:
        id_, described = original_resource.physical_resource_id, given["cloudformation_json"]
        called(given["region_name"], (kind.changes or kind.calls)(id_, described["Properties"]))
        return original_resource

    def delete(_cls: Any, id_: str, _described: Any, _account: str, region: str) -> None:
        if kind.deletion:
            called(region, [kind.deletion(id_)])

    namespace = {
        "__module__": "moto.ext.models",  # moto reads the service's name from there
        "cloudformation_name_type": staticmethod(lambda: kind.named_by),
        "cloudformation_type": staticmethod(lambda: kind.type),
        "has_cfn_attr": classmethod(lambda _cls, name: name in kind.attributes),
        "get_cfn_attribute": lambda self, name: self.attributes[name],
        "create_from_cloudformation_json": classmethod(create),
        "update_from_cloudformation_json": classmethod(update),
        "delete_from_cloudformation_json": classmethod(delete),
    }
    for found in (parsing.get_model_map, parsing.get_model_list):
        found.cache_clear()  # moto looks for models once in a process
    return type(kind.type.replace("::", ""), (CloudFormationModel,), namespace)


class _Deaf:
    """No event source mappings, whatever is put there."""

    def __get__(self, _queue: Any, _owner: Any) -> dict[str, Any]:
        return {}

    def __set__(self, _queue: Any, _mappings: dict[str, Any]) -> None:
        pass


def main() -> None:
    """Serve, and print the port."""
    models = [model(kind) for kind in KINDS]
    vars_of_queue: Any = LeanQueue
    vars_of_queue.lambda_event_source_mappings = _Deaf()
    rollbacks.install()
    updates.install()
    # The calls above stay in this process and reach the backends that the server serves.
    mock_aws().start()
    serve(0, lambda port: print(port, flush=True))  # noqa: T201  (what it is for)
    assert models  # moto knows them by weak references only


if __name__ == "__main__":
    main()
