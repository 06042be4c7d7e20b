"""What reads of DynamoDB take, as it says itself.

Source: Amazon DynamoDB API Reference, ReturnConsumedCapacity.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

_READS = frozenset({"batch_get_item", "get_item", "query", "scan"})
MINUTE_MS, READS_MAX = 60_000, 100_000


class MeteredClient:
    """A client of DynamoDB whose reads ask what they take, and note it; `now` gives ms."""

    def __init__(self, client: Any, now: Callable[[], int]) -> None:
        self._client, self._now = client, now
        self._taken: deque[tuple[int, float]] = deque(maxlen=READS_MAX)

    def units_a_minute(self) -> float:
        """The read units that were taken in the last minute."""
        since = self._now() - MINUTE_MS
        return sum(units for at, units in self._taken.copy() if at > since)

    def __getattr__(self, method: str) -> Any:
        call = getattr(self._client, method)
        if method not in _READS:
            return call

        def read(**params: Any) -> dict[str, Any]:
            reply: dict[str, Any] = call(**params, ReturnConsumedCapacity="TOTAL")
            taken = reply.get("ConsumedCapacity") or ()
            for each in [taken] if isinstance(taken, dict) else taken:
                self._taken.append((self._now(), float(each["CapacityUnits"])))
            return reply

        return read
