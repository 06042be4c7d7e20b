"""Loopback ports for programs that take fixed ones."""

from __future__ import annotations

import contextlib
import socket


def free_ports() -> int:
    """The first of three free ports in a row."""
    for _ in range(50):
        with contextlib.suppress(OSError), contextlib.ExitStack() as held:
            first = held.enter_context(socket.socket())
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            for number in (1, 2):
                held.enter_context(socket.socket()).bind(("127.0.0.1", port + number))
            return port
    raise AssertionError("no three free ports in a row")
