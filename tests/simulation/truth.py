"""What every key truly holds, at every moment; an answer must agree with one moment of its read."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

MICROS = 1_000_000
Sums = tuple[int, int]
"""Events, and their sum in millionths."""


@dataclass(frozen=True, slots=True)
class Read:
    """A read as its reader saw it: a range of window ids, when it began and ended (true ms), and
    what its sandbox promises: a clock `clock_ms` ahead, answers at most `cache_ms` old.
    """

    key: str
    since: str
    until: str
    consistent: bool
    began: int
    ended: int
    clock_ms: int
    cache_ms: int
    sandbox: int


@lru_cache(maxsize=1_024)
def window_name(start_ms: int) -> str:
    """The id of the window that starts at `start_ms`."""
    return datetime.fromtimestamp(start_ms // 1000, UTC).strftime("%Y%m%dT%H%M%SZ")


class Truth:
    """The accepted events of each window and key over time, by the oracle's own reckoning."""

    def __init__(self) -> None:
        self._times: dict[tuple[str, str], list[int]] = {}
        self._sums: dict[tuple[str, str], list[Sums]] = {}
        self._seen: dict[tuple[int, str, str, str], int] = {}

    def on_counted(self, now: int, window: str, key: str, n: int, amount: int) -> None:
        """Take note of a record that was stored for the first time."""
        times = self._times.setdefault((key, window), [])
        sums = self._sums.setdefault((key, window), [(0, 0)])
        times.append(now)
        sums.append((sums[-1][0] + n, sums[-1][1] + amount))

    def between(self, key: str, window: str, first: int, last: int) -> list[Sums]:
        """What a key held in a window at the moments from `first` to `last` (ms), ascending."""
        times = self._times.get((key, window), [])
        sums = self._sums.get((key, window), [(0, 0)])
        # Before all of the first millisecond, since its commits may have come after the read.
        return sums[bisect_right(times, first - 1) : bisect_right(times, last) + 1]

    def finding(self, read: Read, answer: Mapping[str, Any]) -> str | None:
        """What is wrong with an answer of the aggregator, or None."""
        parts = answer["windows"]
        names = [part["window"] for part in parts]
        missing = answer.get("missing", [])
        if len({*names, *missing}) < len(names) + len(missing):
            return f"a window stands twice in {names}, {missing}"
        if answer["complete"] is not (not missing):
            return f"complete is {answer['complete']}, but {missing} are missing"
        rolled = answer.get("rolled_up", [])
        sums, all_parts = (answer["events"], Decimal(answer["sum"])), [*parts, *rolled]
        if sums != (sum(p["events"] for p in all_parts), sum(Decimal(p["sum"]) for p in all_parts)):
            return f"{sums} is not the sum of {all_parts}"
        as_of = _ms(answer["as_of"]) - read.clock_ms
        oldest = read.began if read.consistent else read.began - read.cache_ms
        if not oldest <= as_of <= read.ended:
            return f"an answer as of {as_of} to a read from {read.began} to {read.ended}"
        return (
            self._wrong_period(read, rolled, {*names, *missing}, as_of)
            or self._wrong_part(read, parts, missing, as_of, rolled)
            or self._backwards(read, answer)
        )

    def _wrong_period(self, read: Read, rolled: Any, names: set[str], as_of: int) -> str | None:
        """What is wrong with days and months, whose windows must not be told once more."""
        for part in rolled:
            begins = part["period"].replace("-", "")
            if twice := [name for name in names if name.startswith(begins)]:
                return f"{twice} are in {part}, too"
            if not read.since <= begins or not begins + "~" <= read.until:
                return f"{part} is out of the range {read.since} to {read.until}"
            windows = [of for key, of in self._times if key == read.key and of.startswith(begins)]
            true = [self.between(read.key, window, as_of, read.ended) for window in windows]
            least, most = (sum(sums[at][0] for sums in true) for at in (0, -1))
            if not least <= part["events"] <= most:
                return f"{read.key} is said to hold {part}, it held {true}"
            amount = sum(sums[0][1] for sums in true)
            if least == most and amount != _micros(part["sum"]):
                return f"{read.key} is said to hold {part}, it held {true}"
        return None

    def _wrong_part(
        self, read: Read, parts: Any, missing: list[str], as_of: int, rolled: Any
    ) -> str | None:
        told = {part["window"]: (part["events"], _micros(part["sum"])) for part in parts}
        begins = tuple(part["period"].replace("-", "") for part in rolled)
        known = {
            of for key, of in self._times if key == read.key and not of.startswith(begins or "none")
        }
        for window in sorted({*known, *told} - {*missing}):
            if not read.since <= window < read.until:
                if window in told:
                    return f"{window} is out of the range {read.since} to {read.until}"
                continue
            true = self.between(read.key, window, as_of, read.ended)
            if told.get(window, (0, 0)) not in true:
                return f"{read.key} in {window} is said to hold {told.get(window)}, it held {true}"
        return None

    def _backwards(self, read: Read, answer: Mapping[str, Any]) -> str | None:
        """Whole answers of one sandbox never shrink, cached or not."""
        if not answer["complete"]:
            return None
        asked = (read.sandbox, read.key, read.since, read.until)
        before, now = self._seen.get(asked, 0), answer["events"]
        self._seen[asked] = now
        return f"{read.key} went from {before} events to {now}" if now < before else None


def _micros(text: str) -> int:
    return int(Decimal(text) * MICROS)


def _ms(iso: str) -> int:
    return round(datetime.fromisoformat(iso).timestamp() * 1000)
