"""Counts that processes share by a cache, for as long as one process would keep them.

The cache is never trusted. An entry's name is a hash of the question, and the entry begins with a
hash of its name and content, both by a key that follows from the catalog's secret: what another
pipeline put, or this one before it was made again, is not found, and what is damaged or forged is
not taken. The secret itself is not in the cache, nor are the keys that were counted.

A cache that fails or is slow is left alone for a second, then for twice as long each time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from hashlib import blake2b
from hmac import compare_digest
from threading import Lock
from typing import Any, TypeVar

from tallyroll.errors import StoreError
from tallyroll.model.states import Status
from tallyroll.model.tallies import ReadCost
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.counting.shared_cache import ENTRY_BYTES_MAX, SharedCache
from tallyroll.reads.counts import Count, PeriodCount, WindowCount

Asked = tuple[str, int | None, int | None, bool]
"""The arguments of a count: key, since, until, by window."""
PAUSE_MS, PAUSE_MS_MAX = 1_000, 64_000
STEPS = 3  # of one call: connect, prove who asks, ask
Take = Callable[[Mapping[Asked, Count]], dict[Asked, Count]]
_T = TypeVar("_T")
_HASH_BYTES = 16
_VERSION = 1
# Another release may have other fields, and then asks for other names.
FORMAT = [
    _VERSION,
    *([each.name for each in fields(shape)] for shape in (Count, WindowCount, PeriodCount)),
    [*ReadCost._fields],
    [*Status],
]


@dataclass(frozen=True, slots=True)
class SharedUse:
    """How many counts the cache gave and did not give, and how many calls of it failed."""

    hits: int = 0
    misses: int = 0
    errors: int = 0


class SharedCounts:
    """Counts in a shared cache, each with the time at which its read began."""

    def __init__(
        self,
        cache: SharedCache,
        catalog: Catalog,
        now: Callable[[], int],
        kept_ms: int,
        calendar_ms: int,
    ) -> None:
        self._cache = cache
        self._catalog = catalog
        self._now = now
        self._kept_ms = kept_ms
        self._calendar_ms = calendar_ms
        self._known: tuple[bytes, int] | None = None  # the key, and when it was read
        self._paused_until, self._pause_ms = 0, PAUSE_MS
        self._use = SharedUse()
        self._lock = Lock()  # never held during a call

    def found(self, asked: Sequence[Asked], left_ms: int, take: Take) -> dict[Asked, Count]:
        """What the cache has of these and `take` lets through; nothing, if the cache may take more
        than half of the time that is left (ms).
        """
        key = self._key(left_ms)
        if key is None:
            return {}
        names = [_name(key, each) for each in asked]
        entries = self._call(lambda: self._cache.get(names)) or [None] * len(names)
        counts = take(
            {
                each: count
                for each, name, entry in zip(asked, names, entries, strict=True)
                if entry and (count := _opened(key, name, entry))
            }
        )
        self._add(hits=len(counts), misses=len(asked) - len(counts))
        return counts

    def put(self, counts: Mapping[Asked, Count], left_ms: int) -> None:
        """Share counts of one read, for as long as they may be kept."""
        if not counts:
            return
        kept_ms = self._kept_ms - (self._now() - min(count.as_of for count in counts.values()))
        key = self._key(left_ms) if kept_ms > 0 else None
        if key is None:
            return
        sealed = {name: _sealed(key, name, count) for name, count in _named(key, counts)}
        entries = {name: one for name, one in sealed.items() if len(one) <= ENTRY_BYTES_MAX}
        if entries:
            self._call(lambda: self._cache.put(entries, min(kept_ms, self._kept_ms)))

    def use(self) -> SharedUse:
        """How the cache was used since this was last asked for."""
        with self._lock:
            used, self._use = self._use, SharedUse()
        return used

    def _key(self, left_ms: int) -> bytes | None:
        """What follows from the catalog's secret; None: the cache is not to be asked."""
        now = self._now()
        if now < self._paused_until or left_ms < 2 * STEPS * self._cache.wait_ms:
            return None
        known = self._known
        if known is None or not 0 <= now - known[1] < self._calendar_ms:
            try:
                calendar = self._catalog.calendar()
            except StoreError:
                return None
            if calendar is None or not calendar.secret:
                return None
            known = self._known = key_of(calendar.secret), now
        return known[0]

    def _call(self, call: Callable[[], _T]) -> _T | None:
        began = self._now()
        try:
            answer = call()
        except StoreError:
            self._pause()
            self._add(errors=1)
            return None
        if self._now() - began > self._cache.wait_ms:
            self._pause()
        else:
            self._pause_ms = PAUSE_MS
        return answer

    def _pause(self) -> None:
        with self._lock:
            self._paused_until = self._now() + self._pause_ms
            self._pause_ms = min(2 * self._pause_ms, PAUSE_MS_MAX)

    def _add(self, hits: int = 0, misses: int = 0, errors: int = 0) -> None:
        with self._lock:
            use = self._use
            self._use = SharedUse(use.hits + hits, use.misses + misses, use.errors + errors)


def key_of(secret: str) -> bytes:
    """The key of hashes, which tells nothing of the secret."""
    return blake2b(secret.encode(), digest_size=32, person=b"tallyroll-shared").digest()


def _named(key: bytes, counts: Mapping[Asked, Count]) -> list[tuple[str, Count]]:
    return [(_name(key, each), count) for each, count in counts.items()]


def _name(key: bytes, asked: Asked) -> str:
    text = json.dumps([FORMAT, *asked])
    return f"tallyroll:{blake2b(text.encode(), key=key, digest_size=_HASH_BYTES).hexdigest()}"


def _mac(key: bytes, name: str, body: bytes) -> bytes:
    return blake2b(name.encode() + body, key=key, digest_size=_HASH_BYTES).digest()


def _sealed(key: bytes, name: str, count: Count) -> bytes:
    told = asdict(replace(count, gathering=None, why_missing=dict(count.why_missing)))
    body = json.dumps(told, separators=(",", ":")).encode()
    return _mac(key, name, body) + body


def _opened(key: bytes, name: str, entry: bytes) -> Count | None:
    """The count in an entry; None, if this pipeline did not put it under this name."""
    body = entry[_HASH_BYTES:]
    if not compare_digest(entry[:_HASH_BYTES], _mac(key, name, body)):
        return None
    told: dict[str, Any] = json.loads(body)  # ours, and of this form: the name says so
    windows = tuple(_window(each) for each in told.pop("windows"))
    periods = tuple(PeriodCount(**_paired(each)) for each in told.pop("periods"))
    return Count(**told | {"windows": windows, "periods": periods, "source": "shared"})


def _window(told: dict[str, Any]) -> WindowCount:
    reading = ReadCost(*told["reading"]) if told["reading"] else None
    return WindowCount(**_paired(told) | {"status": Status(told["status"]), "reading": reading})


def _paired(told: dict[str, Any]) -> dict[str, Any]:
    return {**told, "retracted": tuple(told["retracted"])}
