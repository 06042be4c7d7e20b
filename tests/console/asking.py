"""Asks a console's server without a browser."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlencode

from tallyroll.console.server import ConsoleServer


class Asked:
    """A reply, read whole."""

    def __init__(self, reply: HTTPResponse) -> None:
        self.status, self.headers, body = reply.status, reply.headers, reply.read()
        packed = reply.headers.get("Content-Encoding") == "gzip"
        self.body = gzip.decompress(body) if packed and body else body

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


@contextmanager
def serving(server: ConsoleServer) -> Iterator[Callable[..., Asked]]:
    """What asks a server that runs."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()

    def ask(path: str = "/", method: str = "GET", **headers: str) -> Asked:
        connection = HTTPConnection("127.0.0.1", server.server_port, timeout=60)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=named)
        try:
            return Asked(connection.getresponse())
        finally:
            connection.close()

    try:
        yield ask
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Clock:
    """The clock by which answers are kept."""

    def __init__(self) -> None:
        self.ms = 0

    def __call__(self) -> int:
        return self.ms


def api(name: str, **parameters: Any) -> str:
    return f"/api/{name}?{urlencode(parameters, doseq=True)}"
