"""The HTTP API of the local engine: payloads as API Gateway makes them, its own refusals."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from local.runtime.http_api import HttpApi
from local.runtime.pool import KILLED, TIMED_OUT, FunctionError

EVENTS = Path(__file__).parents[2] / "events"


class Fake:
    """A function that answers as it is told, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answer: dict[str, Any] | FunctionError = {
            "statusCode": 200,
            "headers": {"content-type": "application/json"},
            "body": '{"events": 3, "key": "käse"}',
        }

    def invoke(self, event: Any, *, kill_after_ms: float | None = None) -> Any:
        assert kill_after_ms is None
        self.asked.append(event)
        if isinstance(self.answer, FunctionError):
            raise self.answer
        return self.answer


@pytest.fixture
def function() -> Fake:
    return Fake()


@pytest.fixture
def api(function: Fake) -> Iterator[HttpApi]:
    with HttpApi(function, ["/v1/counters"]) as api:
        yield api


def ask(url: str, method: str = "GET") -> tuple[int, Any]:
    try:
        with urlopen(Request(url, method=method)) as reply:
            return reply.status, json.load(reply)
    except HTTPError as error:
        body = error.read()
        return error.code, json.loads(body) if body else None


def paths_of(value: Any, at: str = "") -> set[str]:
    """The names of all members, but of headers and parameters only that they are there."""
    if not isinstance(value, dict) or at in (".headers", ".queryStringParameters"):
        return {at}
    return set().union(*(paths_of(each, f"{at}.{name}") for name, each in value.items()))


def test_the_payload_is_shaped_as_the_samples(api: HttpApi, function: Fake) -> None:
    assert ask(f"{api.url}/v1/counters?key=video%3Aa&key=b&windows=") == (
        200,
        {"events": 3, "key": "käse"},
    )
    [payload] = function.asked
    sample = json.loads((EVENTS / "aggregator-count.json").read_text(encoding="utf-8"))
    assert paths_of(payload) == paths_of(sample)
    assert payload["rawQueryString"] == "key=video%3Aa&key=b&windows="
    assert payload["queryStringParameters"] == {"key": "video:a,b", "windows": ""}
    assert payload["routeKey"] == payload["requestContext"]["routeKey"] == "GET /v1/counters"
    assert payload["headers"]["host"] == api.url.removeprefix("http://")


def test_problems_of_the_function_pass(api: HttpApi, function: Fake) -> None:
    function.answer = {"statusCode": 400, "body": '{"detail": "key is missing"}'}
    assert ask(f"{api.url}/v1/counters") == (400, {"detail": "key is missing"})
    [payload] = function.asked
    assert "queryStringParameters" not in payload


@pytest.mark.parametrize(
    ("path", "method"), [("/", "GET"), ("/v1/counters", "POST"), ("/v1/votes", "DELETE")]
)
def test_what_is_no_route_does_not_reach_the_function(
    api: HttpApi, function: Fake, path: str, method: str
) -> None:
    assert ask(api.url + path, method) == (404, {"message": "Not Found"})
    assert function.asked == []


@pytest.mark.parametrize("path", ["/v1/votes", "/v1/counters/", "/favicon.ico"])
def test_other_paths_reach_the_function_by_their_route(
    api: HttpApi, function: Fake, path: str
) -> None:
    function.answer = {"statusCode": 404, "body": '{"detail": "known are"}'}
    assert ask(f"{api.url}{path}?a=b") == (404, {"detail": "known are"})
    [payload] = function.asked
    sample = json.loads((EVENTS / "aggregator-unknown-path.json").read_text(encoding="utf-8"))
    assert paths_of(payload) >= paths_of(sample)
    assert payload["routeKey"] == sample["routeKey"] == "GET /{proxy+}"
    assert (payload["rawPath"], payload["pathParameters"]) == (path, {"proxy": path[1:]})


@pytest.mark.parametrize(
    ("kind", "status", "message"),
    [
        (TIMED_OUT, 503, "Service Unavailable"),
        (KILLED, 500, "Internal Server Error"),
        ("ValueError", 500, "Internal Server Error"),
    ],
)
def test_a_function_that_fails(
    api: HttpApi, function: Fake, kind: str, status: int, message: str
) -> None:
    function.answer = FunctionError(kind, "why")
    assert ask(f"{api.url}/v1/counters?key=a") == (status, {"message": message})


def test_a_head_request_gets_no_body(api: HttpApi) -> None:
    assert ask(f"{api.url}/v1/counters", "HEAD") == (404, None)


def test_a_taken_port_is_refused(function: Fake) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(RuntimeError, match="is not free: Address already in use"):
            HttpApi(function, [], taken.getsockname()[1])
