"""A relay in front of a server on loopback, which can be cut, or hold answers back."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

LOCALHOST = "127.0.0.1"
CHUNK = 65_536


class Relay:
    """Forwards connections to a port. Requests always arrive, unless it is cut."""

    def __init__(self, port: int) -> None:
        self._behind = port
        self._flowing = threading.Event()
        self._flowing.set()
        self._up = True
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server((LOCALHOST, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cut()
        self.answer()
        self._listener.close()

    def cut(self) -> None:
        """End all connections, and every one that comes, as a server does that is down."""
        with self._lock:
            self._up = False
            ours, self._sockets = self._sockets, set()
        for one in ours:
            _end(one)

    def mend(self) -> None:
        """Take connections again."""
        with self._lock:
            self._up = True

    def withhold(self) -> None:
        """Hold all answers back: what was asked for is done."""
        self._flowing.clear()

    def answer(self) -> None:
        """Give the answers that were held back, and all others."""
        self._flowing.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                front, _ = self._listener.accept()
                if not self._joined(front):
                    _end(front)

    def _joined(self, front: socket.socket) -> bool:
        back = socket.create_connection((LOCALHOST, self._behind))
        with self._lock:
            if not self._up:
                back.close()
                return False
            self._sockets |= {front, back}
        for ways in ((front, back, False), (back, front, True)):
            threading.Thread(target=self._pump, args=ways, daemon=True).start()
        return True

    def _pump(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                if answers:
                    self._flowing.wait()
                sink.sendall(data)
        _end(source)
        _end(sink)


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
