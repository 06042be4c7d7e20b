"""API Gateway as the HTTP API has it: loopback requests become payloads (2.0) of a function.

Each request is answered, signed or not: signatures are not checked. Source of the payload: API
Gateway Developer Guide, "Create AWS Lambda proxy integrations for HTTP APIs".
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from local.runtime.pool import TIMED_OUT, FunctionError, Invokes
from tallyroll.reads.described.routes import OTHER_PATHS

_JSON = {"content-type": "application/json"}
_ACCOUNT = "123456789012"


class HttpApi:
    """Answers GET requests by a function, inside the `with` block; other methods, and the path `/`,
    as API Gateway does, with 404.

    Args:
        function: What answers.
        paths: The paths of its routes. There is a route for the others, too.
        port: The loopback port to listen on (0: a free one). Raises RuntimeError if it is taken.

    Attributes:
        url: Where it listens.
    """

    def __init__(self, function: Invokes, paths: Sequence[str], port: int = 0) -> None:
        self._server = _Server(function, paths, port)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, function: Invokes, paths: Sequence[str], port: int) -> None:
        self.function = function
        self.paths = paths
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise RuntimeError(f"port {port} is not free: {error.strerror}") from error


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        """Answer by the function."""
        target = urlsplit(self.path)
        if target.path == "/":  # which the route of other paths does not match
            self._refuse(HTTPStatus.NOT_FOUND, "Not Found")
            return
        try:
            answer = self.server.function.invoke(self._payload(target.path, target.query))
        except FunctionError as error:
            if error.kind == TIMED_OUT:
                self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "Service Unavailable")
            else:
                self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "Internal Server Error")
        else:
            self._reply(answer["statusCode"], answer.get("headers") or {}, answer.get("body") or "")

    def do_POST(self) -> None:
        """Refuse it: there is no such route."""
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self._refuse(HTTPStatus.NOT_FOUND, "Not Found")

    do_PUT = do_PATCH = do_DELETE = do_HEAD = do_POST  # noqa: N815  (names of the standard library)

    def _payload(self, path: str, query: str) -> dict[str, Any]:
        host, now = self.headers.get("host", ""), time.time()
        known = path in self.server.paths
        route = f"GET {path if known else OTHER_PATHS}"
        parameters = parse_qs(query, keep_blank_values=True, errors="replace")
        headers = {name.lower(): ",".join(self.headers.get_all(name, [])) for name in self.headers}
        payload = {
            "version": "2.0",
            "routeKey": route,
            "rawPath": path,
            "rawQueryString": query,
            "headers": headers,
            "requestContext": {
                "accountId": _ACCOUNT,
                "apiId": "local",
                "domainName": host,
                "domainPrefix": "local",
                "http": {
                    "method": "GET",
                    "path": path,
                    "protocol": self.request_version,
                    "sourceIp": self.client_address[0],
                    "userAgent": self.headers.get("user-agent", ""),
                },
                "requestId": str(uuid.uuid4()),
                "routeKey": route,
                "stage": "$default",
                "time": datetime.fromtimestamp(now, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000"),
                "timeEpoch": int(now * 1000),
            },
            "isBase64Encoded": False,
        }
        if not known:
            payload["pathParameters"] = {"proxy": path[1:]}
        if parameters:
            joined = {name: ",".join(values) for name, values in parameters.items()}
            payload["queryStringParameters"] = joined
        return payload

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        self._reply(status, _JSON, json.dumps({"message": message}))

    def _reply(self, status: int, headers: dict[str, str], body: str) -> None:
        text = body.encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Log no requests: the function's log has what matters."""
