"""A cache that several processes share. It may forget anything at any time, be slow, or be gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

ENTRY_BYTES_MAX = 32_768  # a count over a year of windows of an hour, rolled up, has some 5 KB


class SharedCache(Protocol):
    """Entries of at most `ENTRY_BYTES_MAX` bytes under names."""

    @property
    def wait_ms(self) -> int:
        """For how long a call may wait at each step of it: to connect, and for an answer."""
        ...

    def get(self, names: Sequence[str]) -> list[bytes | None]:
        """The entries of these names, in their order; None: there is none. Of a longer one its
        first bytes. Raises StoreError.
        """
        ...

    def put(self, entries: Mapping[str, bytes], kept_ms: int) -> None:
        """Put entries, which are to be gone after `kept_ms`. Raises StoreError."""
        ...
