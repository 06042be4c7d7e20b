"""The console's HTTP server: the page's files, and the answers under `/api/` (`answers.py`).

It takes GET alone. Behind a `token` each answer needs `Authorization: Bearer TOKEN`; the page takes
it from its address's fragment, which no browser sends and no log holds. A Host that is no name of
this server is refused (421), so a foreign name that leads to this machine reads nothing; and what
another site asks (403).
"""

from __future__ import annotations

import gzip
import hmac
import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from math import inf
from pathlib import Path
from socket import AF_INET, AF_INET6, SHUT_RDWR, SOCK_DGRAM, socket
from time import monotonic
from typing import Any, Self
from urllib.parse import urlsplit

from tallyroll.errors import TallyrollError
from tallyroll.reads.described.problems import MEDIA_TYPE, problem_of

TYPE = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src"
        " 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
        " require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
JSON = {"Content-Type": "application/json", "Cache-Control": "no-store"}
PROBLEM = JSON | {"Content-Type": MEDIA_TYPE, "Allow": "GET"}
CONNECTIONS_MAX = 64  # a thread each
HEAD_S, IDLE_S = 5, 30  # until a first request is whole; until another one is

Told = Mapping[str, Any]
Answer = Callable[[str], Told]
"""Gives the JSON of an answer for a URL's raw query string."""
Routes = Mapping[str, Answer]


@cache
def assets() -> Mapping[str, tuple[Mapping[str, str], bytes]]:
    """The headers and the bytes, in gzip, of the page's files by their paths."""
    found = {}
    for path in Path(__file__).with_name("page").iterdir():
        if kind := TYPE.get(path.suffix):
            body = gzip.compress(path.read_bytes(), 9, mtime=0)
            tag = f'"{sha256(body).hexdigest()[:32]}"'
            headers = {"ETag": tag, "Cache-Control": "no-cache", "Content-Encoding": "gzip"}
            name = "/" if path.name == "index.html" else f"/{path.name}"
            found[name] = ({"Content-Type": f"{kind}; charset=utf-8", **headers}, body)
    return found


class ConsoleServer(ThreadingHTTPServer):
    """Serves the page and `routes` at an IP address and a port, 0 for any free one; answers need
    the `token`, unless it is "". Raises OSError if the port is taken.
    """

    def __init__(self, address: str, port: int, routes: Routes, token: str = "") -> None:
        self.routes, self.token, self.address = routes, token, address
        self.names = {"localhost", "127.0.0.1", "::1", address}
        self.due: dict[Any, float] = {}  # of each connection: by when its next request is whole
        self.address_family = AF_INET6 if ":" in address else AF_INET
        super().__init__((address, port), _Handler)

    @classmethod
    def at(cls, address: str, ports: Sequence[int], *of: Any) -> Self:
        """A server at the first of these ports that is not taken. Raises OSError."""
        for port in ports[:-1]:
            with suppress(OSError):
                return cls(address, port, *of)
        return cls(address, ports[-1], *of)

    @property
    def url(self) -> str:
        """Where a browser opens the page, with the token: never 0.0.0.0, but an own address."""
        host, other = self.address, "2001:db8::1" if ":" in self.address else "192.0.2.1"
        if ip_address(host).is_unspecified:
            host = "localhost"
            with socket(self.address_family, SOCK_DGRAM) as way, suppress(OSError):
                way.connect((other, 9))  # nothing is sent
                host = str(way.getsockname()[0])
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{self.server_port}/" + (f"#token={self.token}" if self.token else "")

    def serves(self, host: str) -> bool:
        """Whether a Host header names this server: behind a token by any address, which no foreign
        name is.
        """
        with suppress(ValueError):
            name = urlsplit(f"//{host}").hostname or ""
            return name in self.names or bool(self.token and ip_address(name))
        return False

    def verify_request(self, request: Any, _: object) -> bool:
        """Whether there is a thread for a connection; if not, it is closed."""
        if free := len(self.due) < CONNECTIONS_MAX:
            self.due[request] = monotonic() + HEAD_S
        return free

    def service_actions(self) -> None:
        """End connections whose next request did not come in time, however slowly it comes."""
        for connection, due in self.due.copy().items():
            if due < monotonic():
                with suppress(OSError):
                    connection.shutdown(SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self.due.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, *_: object) -> None:
        """A reader that went away is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: ConsoleServer
    protocol_version, timeout = "HTTP/1.1", IDLE_S
    server_version, sys_version = "tallyroll", ""

    def do_GET(self) -> None:
        """Answer a request."""
        self.server.due[self.connection] = inf
        path, _, query = self.path.partition("?")
        if not self.server.serves(self.headers.get("Host", "")):
            self._problem(HTTPStatus.MISDIRECTED_REQUEST, "this server has another name")
        elif path in assets():
            headers, body = assets()[path]
            known = self.headers.get("If-None-Match") == headers["ETag"]
            self._send(HTTPStatus.NOT_MODIFIED if known else HTTPStatus.OK, body, headers)
        elif self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            self._problem(HTTPStatus.FORBIDDEN, "another site asks")
        elif not self._may_read():
            self._problem(HTTPStatus.UNAUTHORIZED, "the token is missing or wrong")
        elif answer := self.server.routes.get(path):
            self._answer(answer, query)
        else:
            self._problem(HTTPStatus.NOT_FOUND, f"known are {', '.join(self.server.routes)}")
        self.server.due[self.connection] = monotonic() + IDLE_S

    def _may_read(self) -> bool:
        given = self.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        expected = f"Bearer {self.server.token}".encode()
        return not self.server.token or hmac.compare_digest(given, expected)

    def _answer(self, answer: Answer, query: str) -> None:
        try:
            self._send(HTTPStatus.OK, json.dumps(answer(query)).encode(), JSON)
        except OSError:
            raise  # the reader went away
        except Exception as error:  # noqa: BLE001 - each becomes an answer
            kind, _, more = problem_of(error)
            if not isinstance(error, TallyrollError):
                traceback.print_exc()
            self._problem(HTTPStatus(kind.status), str(error), type=kind.uri, **more)

    def _problem(self, status: HTTPStatus, detail: str, **more: Any) -> None:
        body = {"title": status.phrase, "status": status, "detail": detail, **more}
        self._send(status, json.dumps(body).encode(), PROBLEM)

    def _send(self, status: HTTPStatus, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, **headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        if status >= HTTPStatus.BAD_REQUEST or not self._may_read():
            self.send_header("Connection", "close")  # who shows no token holds none
        self.end_headers()
        if self.command != "HEAD" and status is not HTTPStatus.NOT_MODIFIED:
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Answer what is no request, or has another method; its body, if any, is not read."""
        status = HTTPStatus.METHOD_NOT_ALLOWED if code == 501 else HTTPStatus(code)
        self._problem(status, message or "")

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""
