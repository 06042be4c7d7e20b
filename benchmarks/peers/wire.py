"""Counts the requests that botocore sends, and can let the process "die" after one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from botocore.httpsession import URLLib3Session


class Died(BaseException):
    """The process ends here: no handler of exceptions may catch it."""


class Wire:
    """All requests of this process, inside the `with` block of `tapped`."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self._fatal = ""
        self._left = 0

    @contextmanager
    def dying(self, operation: str, after: int) -> Iterator[None]:
        """Die after so many replies to an operation; go on as a new process after the block."""
        self._fatal, self._left = operation, after
        try:
            yield
        except Died:
            self._fatal = ""
            return
        raise RuntimeError(f"the process sent fewer than {after} {operation} and did not die")

    @contextmanager
    def tapped(self) -> Iterator[None]:
        """Let every botocore client of the process pass through here."""
        original = URLLib3Session.send

        def send(session: URLLib3Session, request: Any) -> Any:
            reply = original(session, request)
            self._note(request)
            return reply

        with patch.object(URLLib3Session, "send", send):
            yield

    def _note(self, request: Any) -> None:
        target = request.headers.get("X-Amz-Target", b"")
        text = target.decode() if isinstance(target, bytes) else target
        operation = text.rpartition(".")[2]
        self.requests[operation] += 1
        if operation == self._fatal:
            self._left -= 1
            if self._left <= 0:
                raise Died
