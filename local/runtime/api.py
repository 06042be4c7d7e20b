"""Lambda's side of the Runtime API: what AWS's runtime client for Python asks for its invocations.

Source: AWS Lambda Developer Guide, "Using the Lambda runtime API for custom runtimes".
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
import uuid
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_ROOT = "/2018-06-01/runtime/"


class FunctionFailed(Exception):
    """A function's own error, as the runtime client reported it."""

    def __init__(self, error: dict[str, Any]) -> None:
        self.type = str(error.get("errorType"))
        self.trace = "".join(error.get("stackTrace") or ())
        super().__init__(f"{self.type}: {error.get('errorMessage')}\n{self.trace}")


@dataclass(frozen=True)
class _Invocation:
    event: Any
    arn: str
    deadline_ms: int
    id: str = field(default_factory=lambda: str(uuid.uuid4()))


class RuntimeApi:
    """A server on loopback that one runtime client asks; inside the `with` block.

    Attributes:
        address: What AWS_LAMBDA_RUNTIME_API has to say.
        asked: Set once the client has asked for an invocation: its initialization is over.
    """

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._invocations: queue.Queue[_Invocation | None] = queue.Queue()
        self._answers: queue.Queue[tuple[str, Any]] = queue.Queue()
        self._server = _Server(self)
        self.address = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer nothing any more; to be called when the client has ended."""
        self._invocations.put(None)
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def offer(self, event: Any, arn: str, timeout_s: float) -> str:
        """Let the client take an invocation next; return its id."""
        invocation = _Invocation(event, arn, int((time.time() + timeout_s) * 1000))
        self._invocations.put(invocation)
        return invocation.id

    def answer(self, wait_s: float) -> Any:
        """What came back, of the initialization or of the invocation.

        Raises FunctionFailed, and queue.Empty if nothing came so far.
        """
        kind, body = self._answers.get(timeout=wait_s)
        if kind == "error":
            raise FunctionFailed(body)
        return body

    def next(self) -> _Invocation | None:
        """The invocation that is next; None when the server closes."""
        self.asked.set()
        return self._invocations.get()

    def take(self, kind: str, body: Any) -> None:
        """Take a response or an error in."""
        self._answers.put((kind, body))


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, api: RuntimeApi) -> None:
        self.api = api
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what went wrong, but not that a client was killed while it waited."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        if self.path != _ROOT + "invocation/next":
            self._reply(404)
            return
        invocation = self.server.api.next()
        if invocation is None:
            self.close_connection = True
            return
        headers = {
            "Lambda-Runtime-Aws-Request-Id": invocation.id,
            "Lambda-Runtime-Deadline-Ms": str(invocation.deadline_ms),
            "Lambda-Runtime-Invoked-Function-Arn": invocation.arn,
            "Content-Type": "application/json",
        }
        self._reply(200, headers, json.dumps(invocation.event).encode())

    def do_POST(self) -> None:
        kind = self.path.rpartition("/")[2]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.path.startswith(_ROOT) or kind not in {"response", "error"}:
            self._reply(404)
            return
        self.server.api.take(kind, body)
        self._reply(202)

    def _reply(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
