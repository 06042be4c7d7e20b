"""Values that are kept for a while, however many ask for them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import TypeVar, cast

T = TypeVar("T")
ENTRIES_MAX = 64


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

    def get(self, name: Hashable, ask: Callable[[], T], ms: int | Callable[[T], int]) -> T:
        """The value of `name`: what `ask` gave at most so many ms ago, which may depend on it, or
        as long as that took. Raises what `ask` raises.
        """
        with self._lock:
            entry = self._entries.pop(name, None) or _Entry()
            self._entries[name] = entry  # the one that was asked for last is the last
            while len(self._entries) > ENTRIES_MAX:
                del self._entries[next(iter(self._entries))]
        with entry.lock:
            if (began := self._now()) >= entry.until:
                entry.value = value = ask()
                ended, kept_ms = self._now(), ms if isinstance(ms, int) else ms(value)
                entry.until = ended + max(kept_ms, ended - began)
            return cast("T", entry.value)
