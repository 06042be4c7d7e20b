"""Powertools' Tracer: what functions send to X-Ray by the setting, and that they load none of it
without.

Each function runs in a process of its own, as in Lambda: the SDK looks at the environment when it
is imported, and changes botocore.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tallyroll import telemetry
from tallyroll.errors import SettingsError
from tests.functions.invocation import EVENTS
from tests.harness.processes import ran

ROOT = Path(__file__).parents[2]
TRACE, PARENT = "1-5759e988-bd862e3fe1be46a994272793", "53995c3f42cd8ad8"
with_sdk = pytest.mark.skipif(find_spec("aws_xray_sdk") is None, reason="it is an extra")

# The handlers on moto, in this process: an event, and what the function does with it.
RUN = """
import json, os, sys
sys.path[:0] = {paths!r}
import boto3
from moto import mock_aws
from tests.functions.invocation import Context
from functions.{function} import handler as module
assert not [name for name in sys.modules if name.startswith(("aws_xray_sdk", "wrapt"))]
with mock_aws():
    {prepare}
    try:
        answer = module.handler(json.load(open({event!r})), Context())
    except Exception as error:
        answer = {{"raised": type(error).__name__}}
loaded = sorted(name for name in ("aws_xray_sdk", "wrapt") if name in sys.modules)
print(json.dumps({{"answer": answer, "loaded": loaded}}))
"""
TABLES = """from tallyroll.settings import Settings
    from tallyroll.testing.emulated import create_tables
    create_tables(Settings.from_env(os.environ), boto3.client("dynamodb"))
"""


@dataclass
class Daemon:
    """What Lambda's X-Ray daemon would be sent."""

    socket: socket.socket
    sent: list[dict[str, Any]] = field(default_factory=list)

    @property
    def address(self) -> str:
        host, port = self.socket.getsockname()
        return f"{host}:{port}"

    def read(self) -> list[dict[str, Any]]:
        """The segments that have arrived: a header and the segment, each a JSON object."""
        while True:
            try:
                header, _, segment = self.socket.recv(1 << 16).decode().partition("\n")
            except BlockingIOError:
                return self.sent
            assert json.loads(header) == {"format": "json", "version": 1}
            self.sent.append(json.loads(segment))


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind(("127.0.0.1", 0))
        made.setblocking(False)
        yield Daemon(made)


def run(
    daemon: Daemon, function: str, event: str, *, prepare: str = "pass", **variables: str
) -> dict[str, Any]:
    """What a function answers in a process of its own, and what it has loaded of the SDK."""
    script = RUN.format(
        paths=[*map(str, sys.path), str(ROOT)],
        function=function,
        prepare=prepare,
        event=str(EVENTS / event),
    )
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("POWERTOOLS_")},
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "eu-central-1",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_XRAY_DAEMON_ADDRESS": daemon.address,
        "LAMBDA_TASK_ROOT": "/var/task",
        "_X_AMZN_TRACE_ID": f"Root={TRACE};Parent={PARENT};Sampled=1",
        **variables,
    }
    done = ran([sys.executable, "-c", script], cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    answered: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answered


def flat(segments: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Segments with those inside of them."""
    inside = [one for segment in segments for one in flat(segment.get("subsegments", []))]
    return [*segments, *inside]


@with_sdk
def test_a_handler_and_its_calls_of_aws_are_traced(daemon: Daemon) -> None:
    ran = run(
        daemon, "aggregator", "aggregator-count.json", prepare=TABLES, TALLYROLL_TRACER="true"
    )

    assert ran["loaded"] == ["aws_xray_sdk", "wrapt"]
    found = flat(daemon.read())
    assert {one["trace_id"] for one in daemon.sent} == {TRACE}
    [handler] = [one for one in found if one["name"] == "## handler"]
    assert handler["annotations"] == {"ColdStart": True, "Service": "aggregator"}
    assert "metadata" not in handler  # the answer, which has the key
    assert handler["parent_id"] == PARENT
    calls = [one for one in found if one.get("namespace") == "aws"]
    assert {one["name"] for one in calls} == {"dynamodb"}
    assert {one["aws"]["operation"] for one in calls} >= {"Query"}
    assert all(one["end_time"] >= one["start_time"] for one in found)
    assert "aurora" not in json.dumps(found)


@with_sdk
def test_an_error_that_a_handler_raises_is_captured(daemon: Daemon) -> None:
    ran = run(daemon, "roller", "roller-schedule.json", TALLYROLL_TRACER="true")

    assert ran["answer"] == {"raised": "Missing"}
    found = flat(daemon.read())
    [handler] = [one for one in found if one["name"] == "## handler"]
    assert handler["fault"] is True
    assert [one["type"] for one in handler["cause"]["exceptions"]] == ["Missing"]
    refused = [one for one in found if one.get("namespace") == "aws"]
    assert refused
    assert any(one.get("error") or one.get("fault") for one in refused)


@with_sdk
def test_an_error_that_the_aggregator_answers_is_captured(daemon: Daemon) -> None:
    ran = run(daemon, "aggregator", "aggregator-count.json", TALLYROLL_TRACER="true")

    assert ran["answer"]["statusCode"] == 503
    [handler] = [one for one in flat(daemon.read()) if one["name"] == "## handler"]
    assert [one["type"] for one in handler["cause"]["exceptions"]] == ["Missing"]


@pytest.mark.parametrize("variables", [{}, {"TALLYROLL_TRACER": "false"}])
def test_without_the_setting_nothing_is_loaded_and_nothing_sent(
    daemon: Daemon, variables: dict[str, str]
) -> None:
    ran = run(daemon, "aggregator", "aggregator-count.json", prepare=TABLES, **variables)

    assert ran["loaded"] == []
    assert ran["answer"]["statusCode"] == 200
    assert daemon.read() == []


def test_without_the_sdk_the_remedy_is_told(daemon: Daemon) -> None:
    hidden = 'sys.modules["aws_xray_sdk"] = sys.modules["aws_xray_sdk.core"] = None'
    ran = run(daemon, "writer", "writer-own-id.json", prepare=hidden, TALLYROLL_TRACER="true")
    assert ran["answer"] == {"raised": "SettingsError"}


# --- with a tracer of the test's own


def test_the_setting_is_read_once_at_the_first_invocation(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []

    class Own:
        def __init__(self, **given: Any) -> None:
            made.append(given)

        def capture_lambda_handler(self, handler: Any, *, capture_response: bool) -> Any:
            assert capture_response is False
            return lambda event, context: ("captured", handler(event, context))

    monkeypatch.setattr(telemetry, "Tracer", Own)
    handler = telemetry.traced("writer")(lambda event, _: event["number"])
    monkeypatch.setenv("TALLYROLL_TRACER", "true")
    assert not made
    assert [handler({"number": number}, None) for number in (1, 2)] == [
        ("captured", 1),
        ("captured", 2),
    ]
    assert made == [{"service": "writer", "patch_modules": ["botocore"]}]


def test_a_wrong_setting_and_a_missing_sdk_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(**_: Any) -> None:
        raise ModuleNotFoundError(name="aws_xray_sdk")

    monkeypatch.setattr(telemetry, "Tracer", missing)
    for value, said in (
        ("perhaps", "^TALLYROLL_TRACER 'perhaps': give true or false$"),
        ("true", "^TALLYROLL_TRACER true: aws_xray_sdk is not installed: add the extra tallyroll"),
    ):
        monkeypatch.setenv("TALLYROLL_TRACER", value)
        with pytest.raises(SettingsError, match=said):
            telemetry.traced("writer")(lambda *_: None)({}, None)


def test_an_answered_error_is_added_to_the_trace_that_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    added: list[Exception] = []
    current: list[Any] = [None]
    recorder = SimpleNamespace(current_subsegment=lambda: current[0])
    core = SimpleNamespace(xray_recorder=recorder)
    error = ValueError("no")
    monkeypatch.delitem(sys.modules, "aws_xray_sdk.core", raising=False)
    telemetry.trace_error(error)
    monkeypatch.setitem(sys.modules, "aws_xray_sdk.core", core)
    telemetry.trace_error(error)
    current[0] = SimpleNamespace(add_exception=lambda one, _stack: added.append(one))
    telemetry.trace_error(error)
    assert added == [error]
