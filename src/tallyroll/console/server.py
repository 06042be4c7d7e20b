"""The console's HTTP server: the page's files, and the answers under `/api/` (`answers.py`).

It takes GET alone. Behind a `token` each answer needs `Authorization: Bearer TOKEN`; the page takes
it from its address's fragment, which a browser does not send, so it stands in no log. A request is
refused (421) unless its Host is an address or a name of this server: a foreign name that leads to
this machine reads nothing. So is one that another site made (403).
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
from pathlib import Path
from socket import AF_INET6
from threading import Semaphore
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
API, NAMES = "/api/", ("localhost", "127.0.0.1", "::1")
IDLE_S = 30  # a connection that asks for nothing is closed
CONNECTIONS_MAX = 64  # a thread each, with a token or without

Answer = Callable[[str], Mapping[str, Any]]
"""Gives the JSON of an answer for a URL's raw query string."""


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

    daemon_threads = True

    def __init__(
        self, address: str, port: int, routes: Mapping[str, Answer], token: str = ""
    ) -> None:
        self.routes, self.token, self.address = routes, token, address
        self._free = Semaphore(CONNECTIONS_MAX)
        if ":" in address:
            self.address_family = AF_INET6
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
        """Where the page is, with the token."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.server_port}/" + (f"#token={self.token}" if self.token else "")

    def serves(self, host: str) -> bool:
        """Whether a Host header names this server: behind a token by any address, which no foreign
        name is.
        """
        try:
            name = urlsplit(f"//{host}").hostname or ""
            return name in {*NAMES, self.address} or bool(self.token and ip_address(name))
        except ValueError:
            return False

    def verify_request(self, *_: object) -> bool:
        """Whether there is a thread for a connection; if not, it is closed."""
        return self._free.acquire(blocking=False)

    def process_request_thread(self, *of: Any) -> None:
        """Answer a connection's requests, in its thread."""
        super().process_request_thread(*of)
        self._free.release()

    def handle_error(self, *_: object) -> None:
        """A reader that went away is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: ConsoleServer
    protocol_version, timeout = "HTTP/1.1", IDLE_S
    server_version, sys_version = "tallyroll", ""

    def do_GET(self) -> None:
        """Answer a request."""
        path, _, query = self.path.partition("?")
        if not self.server.serves(self.headers.get("Host", "")):
            self._problem(HTTPStatus.MISDIRECTED_REQUEST, "this server has another name")
        elif path in assets():
            headers, body = assets()[path]
            known = self.headers.get("If-None-Match") == headers["ETag"]
            self._send(HTTPStatus.NOT_MODIFIED if known else HTTPStatus.OK, body, headers)
        elif self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            self._problem(HTTPStatus.FORBIDDEN, "another site asks")
        elif path.startswith(API) and not self._may_read():
            self._problem(HTTPStatus.UNAUTHORIZED, "the token is missing or wrong")
        elif answer := self.server.routes.get(path):
            self._answer(answer, query)
        else:
            self._problem(HTTPStatus.NOT_FOUND, f"known are {', '.join(self.server.routes)}")

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
            self._problem(HTTPStatus(kind.status), str(error), {"type": kind.uri, **more})

    def _problem(
        self, status: HTTPStatus, detail: str, more: Mapping[str, Any] = {}, **headers: str
    ) -> None:
        body = {"title": status.phrase, "status": status, "detail": detail, **more}
        self._send(status, json.dumps(body).encode(), JSON | {"Content-Type": MEDIA_TYPE} | headers)

    def _send(self, status: HTTPStatus, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, **headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD" and status is not HTTPStatus.NOT_MODIFIED:
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Answer what is no request, or has another method; its body, if any, is not read."""
        self.close_connection = True
        no_method = code == HTTPStatus.NOT_IMPLEMENTED
        status = HTTPStatus.METHOD_NOT_ALLOWED if no_method else HTTPStatus(code)
        self._problem(status, message or "", Allow="GET", Connection="close")

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""
