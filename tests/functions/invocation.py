"""Invokes the real handlers, with events as AWS sends them, on a pipeline of in-memory ports."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from functions.aggregator import handler as aggregator
from functions.cleanup import handler as cleanup
from functions.compactor import handler as compactor
from functions.dropper import handler as dropper
from functions.roller import handler as roller
from functions.writer import handler as writer
from tests.harness.pipeline import TIME_LEFT, Pipeline

if TYPE_CHECKING:
    import pytest

EVENTS = Path(__file__).parents[2] / "events"


def load(name: str) -> dict[str, Any]:
    """A sample event."""
    event = json.loads((EVENTS / name).read_text())
    assert isinstance(event, dict)
    return event


def rest_form(event: dict[str, Any], stage: str = "live") -> dict[str, Any]:
    """An HTTP API's event (payload 2.0) as a private REST API sends the same request (1.0).

    Source: API Gateway Developer Guide, "Lambda proxy integrations in API Gateway".
    """
    http, path = event["requestContext"]["http"], event["rawPath"]
    query = parse_qs(event["rawQueryString"], keep_blank_values=True)
    headers = {name.title(): value for name, value in event["headers"].items()}
    return {
        "resource": path,
        "path": path,
        "httpMethod": http["method"],
        "headers": headers,
        "multiValueHeaders": {name: [value] for name, value in headers.items()},
        "queryStringParameters": {name: values[-1] for name, values in query.items()} or None,
        "multiValueQueryStringParameters": query or None,
        "pathParameters": None,
        "stageVariables": None,
        "requestContext": {
            "accountId": event["requestContext"]["accountId"],
            "apiId": event["requestContext"]["apiId"],
            "domainName": event["requestContext"]["domainName"],
            "domainPrefix": event["requestContext"]["domainPrefix"],
            "extendedRequestId": "JKJaXmPLvHcESHA=",
            "httpMethod": http["method"],
            "identity": {
                "caller": "AROAEXAMPLE:reader",
                "sourceIp": "10.0.1.17",
                "user": "AROAEXAMPLE:reader",
                "userAgent": http["userAgent"],
                "userArn": "arn:aws:sts::123456789012:assumed-role/reader/reader",
                "vpcId": "vpc-0a1b2c3d4e5f60718",
                "vpceId": "vpce-0a1b2c3d4e5f60718",
            },
            "path": f"/{stage}{path}",
            "protocol": http["protocol"],
            "requestId": "79104EXAMPLEB723",
            "requestTime": event["requestContext"]["time"],
            "requestTimeEpoch": event["requestContext"]["timeEpoch"],
            "resourceId": "abc123",
            "resourcePath": path,
            "stage": stage,
        },
        "body": None,
        "isBase64Encoded": False,
    }


@dataclass
class Context:
    """What Lambda hands to a handler besides the event."""

    time_left_ms: int = TIME_LEFT
    function_name: str = "tallyroll-function"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:eu-central-1:123456789012:function:tallyroll"
    aws_request_id: str = "3f2b1c9e-0000-4000-8000-000000000000"

    def get_remaining_time_in_millis(self) -> int:
        return self.time_left_ms


@dataclass
class Invocations:
    """The functions on one pipeline, and the metrics that their last invocation printed."""

    pipeline: Pipeline
    patch: pytest.MonkeyPatch
    capture: pytest.CaptureFixture[str]
    metrics: dict[str, Any] = field(default_factory=dict)

    def write(self, event: dict[str, Any], time_left_ms: int = TIME_LEFT) -> dict[str, Any]:
        return self._invoke(writer, event, self.pipeline.writer(), time_left_ms)

    def ask(self, event: dict[str, Any], time_left_ms: int = TIME_LEFT) -> dict[str, Any]:
        return self._invoke(aggregator, event, self.pipeline.reader(), time_left_ms)

    def roll(self, event: dict[str, Any]) -> dict[str, Any]:
        return self._invoke(roller, event, self.pipeline.roller())

    def clean(self, event: dict[str, Any]) -> dict[str, Any]:
        return self._invoke(cleanup, event, self.pipeline.cleanup())

    def drop(self, event: dict[str, Any]) -> dict[str, Any]:
        return self._invoke(dropper, event, self.pipeline.dropper())

    def compact(self, event: dict[str, Any]) -> dict[str, Any]:
        return self._invoke(compactor, event, self.pipeline.compactor(), 900_000)

    def _invoke(
        self, module: ModuleType, event: dict[str, Any], use_case: object, left: int = TIME_LEFT
    ) -> dict[str, Any]:
        self.patch.setattr(module, "use_case", lambda: use_case)
        self.capture.readouterr()
        answer = module.handler(event, Context(left))
        lines = self.capture.readouterr().out.splitlines()
        blobs = [json.loads(line) for line in lines]
        emitted = [blob for blob in blobs if "_aws" in blob]
        self.metrics = emitted[0] if emitted else {}
        assert len(emitted) <= 1
        assert json.loads(json.dumps(answer)) == answer
        return dict(answer)

    def units(self) -> dict[str, str]:
        """The units of the metrics that were printed, by name."""
        (directive,) = self.metrics["_aws"]["CloudWatchMetrics"]
        return {metric["Name"]: metric["Unit"] for metric in directive["Metrics"]}

    def values(self) -> dict[str, float]:
        """The metrics that were printed."""
        return {name: _only(self.metrics[name]) for name in self.units()}


def _only(value: Any) -> float:
    (number,) = value if isinstance(value, list) else [value]
    return float(number)
