"""The aggregator's handler as a WSGI application, which any HTTP test client can call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from tests.functions.invocation import load

Ask = Callable[[dict[str, Any]], dict[str, Any]]


class Served:
    """Answers requests as an HTTP API with a route for each method would, and counts the answers by
    path and status.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.answers: Counter[tuple[str, int]] = Counter()

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., object]
    ) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        answer = self._ask(self._event(path, environ))
        status = HTTPStatus(answer["statusCode"])
        self.answers[path, int(status)] += 1
        body = answer["body"].encode()
        start_response(f"{int(status)} {status.phrase}", [*answer["headers"].items()])
        return [body]

    @staticmethod
    def _event(path: str, environ: dict[str, Any]) -> dict[str, Any]:
        event = load("aggregator-count.json")
        headers = {
            name.removeprefix("HTTP_").replace("_", "-").lower(): value
            for name, value in environ.items()
            if name.startswith("HTTP_")
        }
        event |= {"rawPath": path, "rawQueryString": environ["QUERY_STRING"], "headers": headers}
        event["requestContext"]["http"] |= {"method": environ["REQUEST_METHOD"], "path": path}
        return event
