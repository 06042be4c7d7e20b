"""Values that are kept for a while, however many ask for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from threading import Lock
from typing import TypeVar, cast

T = TypeVar("T")
ENTRIES_MAX = 64


def monotonic_ms() -> int:
    """A clock that nobody sets."""
    return time.monotonic_ns() // 1_000_000


class _Entry:
    def __init__(self) -> None:
        self.lock = Lock()
        self.until = -1
        self.value: object = None


class KeptAnswers:
    """Values by name, each asked for anew once it is too old; of several that ask at once, one
    reads, and the others wait for it. Errors are not kept. `now` gives ms.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._lock = Lock()
        self._entries: dict[Hashable, _Entry] = {}

    def get(self, name: Hashable, ask: Callable[[], T], ms: Callable[[T], int]) -> T:
        """The value of `name`: what `ask` gave at most `ms` of it ago, or as long as that took.
        Raises what `ask` raises.
        """
        with self._lock:
            entry = self._entries.pop(name, None) or _Entry()
            self._entries[name] = entry  # the one that was asked for last is the last
            while len(self._entries) > ENTRIES_MAX:
                del self._entries[next(iter(self._entries))]
        with entry.lock:
            if (began := self._now()) >= entry.until:
                value = ask()
                ended = self._now()
                entry.value, entry.until = value, ended + max(ms(value), ended - began)
            return cast("T", entry.value)
