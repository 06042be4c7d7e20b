"""Plays what calls functions in AWS, by what is deployed: the queue's event source, the HTTP API
and the schedules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode

from local.runtime.poller import RECEIVE_MAX, failed_ids
from local.runtime.schedule import scheduled_event
from tallyroll.reads.described.routes import OTHER_PATHS
from tallyroll.testing.sqs_records import record
from tests.e2e.deployment import REGION, Deployed, Json
from tests.functions.invocation import rest_form

Invoke = Callable[[str, Any], Any]
"""Invokes the function of an ARN with an event."""


@dataclass(frozen=True)
class Batch:
    """What one poll did: the records that the function was given, and the ids left in the queue."""

    records: list[Json]
    left: set[str]


class EventSource:
    """The deployed event source mapping of a queue."""

    def __init__(self, deployment: Deployed, invoke: Invoke) -> None:
        self._sqs = deployment.client("sqs")
        [self.mapping] = deployment.client("lambda").list_event_source_mappings()[
            "EventSourceMappings"
        ]
        name = self.mapping["EventSourceArn"].rpartition(":")[2]
        self.queue_url = self._sqs.get_queue_url(QueueName=name)["QueueUrl"]
        self._invoke = invoke

    def poll(self) -> Batch:
        """Receive a batch, invoke the function, delete what it does not name as failed."""
        messages = self.receive(self.mapping["BatchSize"])
        records = self.records(messages)
        if not records:
            return Batch([], set())
        left = self.deliver(records)
        self.finish(messages, left)
        return Batch(records, left)

    def records(self, messages: list[Json]) -> list[Json]:
        """Messages as the function is given them."""
        return [record(found, self.mapping["EventSourceArn"], REGION) for found in messages]

    def finish(self, messages: list[Json], left: set[str]) -> None:
        """Delete the messages whose ids are not `left`."""
        for found in messages:
            if found["MessageId"] not in left:
                self._sqs.delete_message(
                    QueueUrl=self.queue_url, ReceiptHandle=found["ReceiptHandle"]
                )

    def deliver(self, records: list[Json]) -> set[str]:
        """Invoke the function with these records; the ids that it names as failed."""
        response = self._invoke(self.mapping["FunctionArn"], {"Records": records})
        ids = {one["messageId"] for one in records}
        if "ReportBatchItemFailures" not in self.mapping.get("FunctionResponseTypes", ()):
            return set()  # Lambda would not look at the response
        return failed_ids(response, ids)

    def show(self, record: Json) -> None:
        """Make a hidden message visible."""
        self._sqs.change_message_visibility(
            QueueUrl=self.queue_url, ReceiptHandle=record["receiptHandle"], VisibilityTimeout=0
        )

    def in_flight(self) -> int:
        """How many messages the queue hides."""
        name = "ApproximateNumberOfMessagesNotVisible"
        asked = self._sqs.get_queue_attributes(QueueUrl=self.queue_url, AttributeNames=[name])
        return int(asked["Attributes"][name])

    def receive(self, most: int) -> list[Json]:
        """Take up to so many messages, as far as there are any."""
        messages: list[Json] = []
        while len(messages) < most:
            reply = self._sqs.receive_message(
                QueueUrl=self.queue_url,
                MaxNumberOfMessages=min(RECEIVE_MAX, most - len(messages)),
                MessageSystemAttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
            if not reply.get("Messages"):
                break
            messages += reply["Messages"]
        return messages


class HttpApi:
    """The deployed HTTP API: its routes, and the functions behind them."""

    def __init__(self, deployment: Deployed, invoke: Invoke) -> None:
        client = deployment.client("apigatewayv2")
        [api] = client.get_apis()["Items"]
        integrations = client.get_integrations(ApiId=api["ApiId"])["Items"]
        targets = {f"integrations/{found['IntegrationId']}": found for found in integrations}
        routes = client.get_routes(ApiId=api["ApiId"])["Items"]
        self.integrations = {route["RouteKey"]: targets[route["Target"]] for route in routes}
        self.routes = {route["RouteKey"]: route for route in routes}
        self.id = api["ApiId"]
        self._host = f"{self.id}.execute-api.{REGION}.amazonaws.com"
        self._invoke = invoke

    def get(self, path: str, **query: str) -> tuple[int, Json]:
        """Status and JSON of the answer to a GET; raises KeyError where there is no such route."""
        route = f"GET {path}"
        integration = self.integrations.get(route) or self.integrations[f"GET {OTHER_PATHS}"]
        assert (integration["IntegrationType"], integration["PayloadFormatVersion"]) == (
            "AWS_PROXY",
            "2.0",
        )
        event = http_event(self.id, self._host, path, query)
        response = self._invoke(integration["IntegrationUri"], event)
        return response["statusCode"], json.loads(response["body"])


def http_event(api_id: str, host: str, path: str, query: dict[str, str]) -> Json:
    """A request of payload format 2.0. Source: Amazon API Gateway Developer Guide, "Create AWS
    Lambda proxy integrations for HTTP APIs".
    """
    now = datetime.now(UTC)
    text = urlencode(query)
    http = {"method": "GET", "path": path, "protocol": "HTTP/1.1", "sourceIp": "192.0.2.17"}
    return {
        "version": "2.0",
        "routeKey": f"GET {path}",
        "rawPath": path,
        "rawQueryString": text,
        "headers": {"accept": "*/*", "host": host, "x-forwarded-proto": "https"},
        "queryStringParameters": dict(parse_qsl(text)),
        "requestContext": {
            "accountId": "123456789012",
            "apiId": api_id,
            "domainName": host,
            "domainPrefix": api_id,
            "http": {**http, "userAgent": "e2e"},
            "requestId": "JKJaXmPLvHcESHA=",
            "routeKey": f"GET {path}",
            "stage": "$default",
            "time": f"{now:%d/%b/%Y:%H:%M:%S} +0000",
            "timeEpoch": int(now.timestamp() * 1000),
        },
        "isBase64Encoded": False,
    }


class RestApi:
    """A deployed REST API: its methods and its stage, and the functions behind them."""

    def __init__(self, client: Any, invoke: Invoke) -> None:
        [self.api] = client.get_rest_apis()["items"]
        self.id = self.api["id"]
        [self.stage] = client.get_stages(restApiId=self.id)["item"]
        resources = client.get_resources(restApiId=self.id, embed=["methods"])["items"]
        self.methods = {
            f"{name} {resource['path']}": method
            for resource in resources
            for name, method in resource.get("resourceMethods", {}).items()
        }
        self._invoke = invoke

    def get(self, path: str, **query: str) -> tuple[int, Json]:
        """Status and JSON of the answer to a GET; raises KeyError where there is no such method."""
        method = self.methods.get(f"GET {path}") or self.methods[f"GET {OTHER_PATHS}"]
        integration = method["methodIntegration"]
        assert (integration["type"], integration["httpMethod"]) == ("AWS_PROXY", "POST")
        [arn] = re.findall(
            r":lambda:path/2015-03-31/functions/(.+)/invocations$", integration["uri"]
        )
        host = f"{self.id}.execute-api.{REGION}.amazonaws.com"
        event = rest_form(http_event(self.id, host, path, query), self.stage["stageName"])
        response = self._invoke(arn, event)
        [kind] = response["multiValueHeaders"]["Content-Type"]
        assert kind in ("application/json", "application/problem+json")
        return response["statusCode"], json.loads(response["body"])


class Schedules:
    """The deployed schedules, by the ARN of what they invoke."""

    def __init__(self, deployment: Deployed, invoke: Invoke) -> None:
        client = deployment.client("scheduler")
        names = [entry["Name"] for entry in client.list_schedules()["Schedules"]]
        found = [client.get_schedule(Name=name) for name in names]
        self.by_target = {schedule["Target"]["Arn"]: schedule for schedule in found}
        self._invoke = invoke

    def fire(self, arn: str) -> Any:
        """Invoke a function as its schedule does; raises KeyError where it has none."""
        schedule = self.by_target[arn]
        given = schedule["Target"].get("Input")
        event = json.loads(given) if given else scheduled_event(schedule["Name"], datetime.now(UTC))
        return self._invoke(arn, event)
