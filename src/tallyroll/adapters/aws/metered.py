"""What reads of DynamoDB take, as it says itself.

Source: Amazon DynamoDB API Reference, ReturnConsumedCapacity.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Any

_READS = frozenset({"batch_get_item", "get_item", "query", "scan"})
MINUTE_MS = 60_000


class Meter:
    """The read units that were taken in the last minute; `now` gives ms."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._lock = Lock()
        self._taken: deque[tuple[int, float]] = deque()

    def note(self, units: float) -> None:
        """A read has taken so many units."""
        with self._lock:
            self._taken.append((self._now(), units))
            self._forget()

    def a_minute(self) -> float:
        """The units of the last minute."""
        with self._lock:
            self._forget()
            return sum(units for _, units in self._taken)

    def _forget(self) -> None:
        before = self._now() - MINUTE_MS
        while self._taken and self._taken[0][0] <= before:
            self._taken.popleft()


class MeteredClient:
    """A client of DynamoDB whose reads ask what they take, and note it."""

    def __init__(self, client: Any, meter: Meter) -> None:
        self._client = client
        self._meter = meter

    def __getattr__(self, method: str) -> Any:
        call = getattr(self._client, method)
        if method not in _READS:
            return call

        def read(**params: Any) -> dict[str, Any]:
            reply: dict[str, Any] = call(**params, ReturnConsumedCapacity="TOTAL")
            taken = reply.get("ConsumedCapacity") or ()
            for each in [taken] if isinstance(taken, dict) else taken:
                self._meter.note(float(each["CapacityUnits"]))
            return reply

        return read
