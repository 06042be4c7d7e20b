"""What a producer is told: how it packs, waits, gives up, and what it holds."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

from tallyroll.client.packing import ENTRIES_BYTES_MAX, MINUTE_MS, PACKET_EVENTS_MAX

GROUP_BYTES = 16  # of the hash that is a message group


@dataclass(slots=True, kw_only=True)
class ProducerRules:
    """How a producer packs, waits, and gives up. `give_up_ms` is None if it never does.

    A packet's events lie in one span of `span_ms`. If packets are `compressed`, `packet_bytes`
    counts their compressed bytes.
    """

    linger_ms: float
    span_ms: int = MINUTE_MS
    packet_events: int = PACKET_EVENTS_MAX
    packet_bytes: int = ENTRIES_BYTES_MAX
    give_up_ms: float | None
    grouped: bool = False
    compressed: bool = False


@dataclass(slots=True, kw_only=True)
class Limits:
    """What a producer holds, and what it does when that is full: wait up to `block_ms` (None: for
    ever), or raise at once. `workers` threads send; without any, `flush` does.
    """

    buffer_bytes: int
    blocks: bool = True
    block_ms: float | None = None
    workers: int = 4


def group_of(key: str) -> str:
    """The message group of a key: a hash, since a group has at most 128 ASCII characters."""
    return blake2b(key.encode(), digest_size=GROUP_BYTES).hexdigest()
