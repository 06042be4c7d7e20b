"""A relay before moto and DynamoDB Local: what a role does not allow is refused as AWS would."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from tests.strict.gate import Gate, body_of
from tests.strict.requests import request_of
from tests.strict.rules import UnknownRequestError
from tests.strict.values import Account, Refusal, Request

OF_TAGS, UNKNOWN = ("ListTagsOfResource", "TagResource"), b"UnknownOperationException"
OTHERS = ""  # the service whose engine answers for all that are not named
REFUSED = 300
_HOP = frozenset({"connection", "content-length", "keep-alive", "server", "transfer-encoding"})


def access_key(function: str) -> str:
    """The access key id by which the relay knows a function. DynamoDB Local takes letters only."""
    return f"ASIA{function.upper()}"


@contextmanager
def relayed(gate: Gate, engines: Mapping[str, str]) -> Iterator[str]:
    """The address of a relay to these engines, by the services that they answer for.

    Requests that are signed with the access key of no function are the test's own, and pass. What
    no rule knows is refused, and noted as refused.
    """
    turn = threading.Lock()
    made = type("Handler", (_Handler,), {"gate": gate, "engines": engines, "turn": turn})
    server = ThreadingHTTPServer(("127.0.0.1", 0), made)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    gate: Gate
    engines: Mapping[str, str]
    turn: threading.Lock
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def setup(self) -> None:
        super().setup()
        self._behind: dict[str, HTTPConnection] = {}

    def finish(self) -> None:
        for connection in self._behind.values():
            connection.close()
        super().finish()

    def log_message(self, *_: object) -> None:
        """Say nothing on stderr."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        caller, service = _signed(self.headers.get("Authorization", ""))
        asked = None
        if caller in self.gate.roles:
            try:
                asked, refusal = self._judged(caller, service, body)
            except (KeyError, UnknownRequestError) as unknown:
                asked, refusal = None, Refusal(501, "NotImplemented", repr(unknown))
                self.gate.refused.append((caller, refusal))
            if refusal:
                self._reply(refusal.status, {}, body_of(refusal, service))
                return
        answer = self._send(service, body)
        status, said = answer.status, answer.read()
        headers = dict(answer.getheaders())
        if asked and asked.operation in OF_TAGS and UNKNOWN in said:
            status, headers, said = HTTPStatus.OK, {}, _of_tags(asked, self.gate.account)
        if asked and status < REFUSED:
            with self.turn:
                self.gate.done(asked)
        self._reply(status, headers, said)

    def _judged(self, caller: str, service: str, body: bytes) -> tuple[Request, Refusal | None]:
        target = self.headers.get("X-Amz-Target")
        url, tagging = f"//relay{self.path}", self.headers.get("X-Amz-Tagging")
        lock = self.headers.get("X-Amz-Object-Lock-Mode")
        asked = request_of(service, self.command, url, target, body, tagging, lock)
        with self.turn:
            return asked, self.gate.judge(caller, asked)

    def _send(self, service: str, body: bytes) -> Any:
        address = self.engines.get(service, self.engines[OTHERS])
        if address not in self._behind:
            where = urlsplit(address)
            assert where.hostname
            self._behind[address] = HTTPConnection(where.hostname, where.port)
        connection = self._behind[address]
        headers = {name: text for name, text in self.headers.items() if name.lower() != "expect"}
        connection.request(self.command, self.path, body, headers)
        return connection.getresponse()

    def _reply(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response_only(status)
        for name, text in headers.items():
            if name.lower() not in _HOP:
                self.send_header(name, text)
        length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(body))
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()


for _method in ("DELETE", "GET", "HEAD", "POST", "PUT"):  # the names that http.server calls
    setattr(_Handler, f"do_{_method}", _Handler._answer)


def _of_tags(asked: Request, account: Account) -> bytes:
    """The answer to a request about tags, which DynamoDB Local has not."""
    tags = account.tags.get(asked.params["ResourceArn"], {})
    listed = {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
    return json.dumps(listed if asked.operation == "ListTagsOfResource" else {}).encode()


def _signed(authorization: str) -> tuple[str, str]:
    """Who signed, as a function's name, and for which service: from `AWS4-HMAC-SHA256
    Credential=ASIAWRITER/20261120/us-east-1/sqs/aws4_request, ...`.
    """
    scope = authorization.partition(",")[0].partition("Credential=")[2].split("/")
    if len(scope) != 5:
        return "", ""
    return scope[0].removeprefix("ASIA").lower(), scope[3]
