"""The console's HTTP server: the page's files, and the answers under `/api/` (`answers.py`).

It takes GET alone. On a loopback address it needs no token; on any other one each answer needs
`Authorization: Bearer TOKEN`. The token is in the fragment of the printed address, which a browser
does not send, so it stands in no log. The page's files hold no data and need no token.

A request is refused (421) unless its Host is an address or a name of this server: a foreign name
that leads to this machine reads nothing. So is one that another site made (403).
"""

from __future__ import annotations

import gzip
import hmac
import json
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from socket import AF_INET6
from typing import Any
from urllib.parse import urlsplit

from tallyroll.errors import TallyrollError
from tallyroll.reads.described.problems import MEDIA_TYPE, problem_of

PAGE = Path(__file__).with_name("page")
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
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
API = "/api/"
IDLE_S = 30  # a connection that asks for nothing is closed
_NAMES = ("localhost", "127.0.0.1", "::1")

Answer = Callable[[str], Mapping[str, Any]]
"""Gives the JSON of an answer for a URL's raw query string."""


@dataclass(frozen=True)
class Asset:
    """A file of the page."""

    path: Path

    @cached_property
    def body(self) -> bytes:
        """What is in it."""
        return self.path.read_bytes()

    @cached_property
    def packed(self) -> bytes:
        """The same in gzip."""
        return gzip.compress(self.body, 9, mtime=0)

    @cached_property
    def etag(self) -> str:
        """Its tag: it changes with the file."""
        return f'"{sha256(self.body).hexdigest()[:32]}"'


ASSETS = {
    f"/{'' if path.name == 'index.html' else path.name}": Asset(path)
    for path in sorted(PAGE.iterdir())
    if path.suffix in TYPES
}


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches the address. Raises ValueError if it is none."""
    return ip_address(address).is_loopback


class ConsoleServer(ThreadingHTTPServer):
    """Serves the page and `routes` at an IP address and a port, 0 for any free one; answers need
    the `token`, unless it is "". Raises OSError if the port is taken.
    """

    daemon_threads = True

    def __init__(
        self, address: str, port: int, routes: Mapping[str, Answer], token: str = ""
    ) -> None:
        self.routes, self.token, self.address = routes, token, address
        if ":" in address:
            self.address_family = AF_INET6
        super().__init__((address, port), _Handler)

    @property
    def url(self) -> str:
        """Where the page is, with the token."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        fragment = f"#token={self.token}" if self.token else ""
        return f"http://{host}:{self.server_port}/{fragment}"

    def serves(self, host: str) -> bool:
        """Whether a Host header names this server. Behind a token any address will do: where all
        addresses of a machine are served, none is known, and no foreign name is an address.
        """
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in (*_NAMES, self.address):
            return True
        return bool(self.token) and _is_address(name)

    def handle_error(self, *_: object) -> None:
        """A reader that went away is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: ConsoleServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "tallyroll", ""
    timeout = IDLE_S

    def do_GET(self) -> None:
        """Answer a request."""
        path, _, query = self.path.partition("?")
        if not self.server.serves(self.headers.get("Host", "")):
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "this server has another name")
        elif asset := ASSETS.get(path):
            self._send_asset(asset, TYPES[asset.path.suffix])
        elif not path.startswith(API):
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such path")
        elif self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            self._refuse(HTTPStatus.FORBIDDEN, "another site asks")
        elif not self._may_read():
            self._refuse(HTTPStatus.UNAUTHORIZED, "the token is missing or wrong")
        elif answer := self.server.routes.get(path):
            self._answer(answer, query)
        else:
            self._refuse(HTTPStatus.NOT_FOUND, f"known are {', '.join(self.server.routes)}")

    def _may_read(self) -> bool:
        expected = f"Bearer {self.server.token}".encode()
        given = self.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        return not self.server.token or hmac.compare_digest(given, expected)

    def _answer(self, answer: Answer, query: str) -> None:
        try:
            self._send_json(HTTPStatus.OK, answer(query))
        except OSError:
            raise  # the reader went away
        except Exception as error:  # noqa: BLE001 - each becomes an answer
            kind, _, more = problem_of(error)
            said = str(error)
            if not isinstance(error, TallyrollError):
                said = f"{type(error).__name__}: {error}"
                traceback.print_exc()
            body = {"type": kind.uri, "title": kind.title, "status": kind.status, "detail": said}
            self._send_json(kind.status, {**body, **more}, MEDIA_TYPE)

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        body = {"title": status.phrase, "status": status, "detail": detail}
        self._send_json(status, body, MEDIA_TYPE)

    def _send_json(
        self, status: int, body: Mapping[str, Any], content_type: str = "application/json"
    ) -> None:
        text = json.dumps(body, separators=(",", ":")).encode()
        self._send(status, text, {"Content-Type": content_type, "Cache-Control": "no-store"})

    def _send_asset(self, asset: Asset, content_type: str) -> None:
        headers = {"Cache-Control": "no-cache", "ETag": asset.etag, "Vary": "Accept-Encoding"}
        if self.headers.get("If-None-Match") == asset.etag:
            self._send(HTTPStatus.NOT_MODIFIED, b"", headers)
            return
        headers["Content-Type"] = content_type
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            self._send(HTTPStatus.OK, asset.packed, {**headers, "Content-Encoding": "gzip"})
        else:
            self._send(HTTPStatus.OK, asset.body, headers)

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, **headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def send_error(
        self, code: int, message: str | None = None, _explain: str | None = None
    ) -> None:
        """What is no request, or has another method than GET."""
        status = HTTPStatus(code)
        if status is HTTPStatus.NOT_IMPLEMENTED:  # the method
            status = HTTPStatus.METHOD_NOT_ALLOWED
        self.close_connection = True  # its body, if it has one, is not read
        body = {"title": status.phrase, "status": status, "detail": message or ""}
        text = json.dumps(body).encode() if self.command != "HEAD" else b""
        kind = MEDIA_TYPE
        headers = {"Content-Type": kind, "Cache-Control": "no-store", "Connection": "close"}
        self._send(status, text, {**headers, "Allow": "GET"})

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
