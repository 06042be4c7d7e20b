"""What every key truly holds, at every moment; an answer must agree with the time of its read."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Any

from tallyroll.model.periods import PeriodState
from tallyroll.model.states import Window
from tallyroll.model.totals import PeriodTotal, Total

MICROS = 1_000_000
NOTHING = (0, 0, 0, 0)
Sums = tuple[int, int, int, int]
"""Accepted events, and their sum in millionths; and those of them that were retracted."""


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
        self._seen: dict[tuple[int, str, str, str], Sums] = {}

    def on_counted(self, now: int, window: str, key: str, n: int, amount: int) -> None:
        """Take note of a record that was stored for the first time."""
        self._add(now, (key, window), (n, amount, 0, 0))

    def on_retracted(self, now: int, window: str, key: str, n: int, amount: int) -> None:
        """Take note that something was taken back."""
        self._add(now, (key, window), (0, 0, n, amount))

    def _add(self, now: int, place: tuple[str, str], more: Sums) -> None:
        sums = self._sums.setdefault(place, [NOTHING])
        self._times.setdefault(place, []).append(now)
        sums.append(added(sums[-1], more))

    def between(self, key: str, window: str, first: int, last: int) -> list[Sums]:
        """What a key held in a window at the moments from `first` to `last` (ms), ascending."""
        times = self._times.get((key, window), [])
        sums = self._sums.get((key, window), [NOTHING])
        # Before all of the first millisecond, since its commits may have come after the read.
        return sums[bisect_right(times, first - 1) : bisect_right(times, last) + 1]

    def keys(self) -> list[str]:
        """All keys of which something counted, in the order of their first event."""
        return list(dict.fromkeys(key for key, _ in self._times))

    def within(self, key: str, since: str, until: str, first: int, last: int) -> tuple[Sums, Sums]:
        """The least and the most that a key held in the windows that start in [since, until), at
        moments from `first` to `last` (ms).
        """
        windows = [of for name, of in self._times if name == key and since <= of < until]
        some = [self.between(key, window, first, last) for window in windows]
        return added(*(sums[0] for sums in some)), added(*(sums[-1] for sums in some))

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
            least, most, told = (
                *(added(*(sums[at] for sums in true)) for at in (0, -1)),
                told_sums(part),
            )
            if unlike(told, least, most):
                return f"{read.key} is said to hold {part}, it held {true}"
        return None

    def _wrong_part(
        self, read: Read, parts: Any, missing: list[str], as_of: int, rolled: Any
    ) -> str | None:
        told = {part["window"]: told_sums(part) for part in parts}
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
            said = told.get(window, NOTHING)
            if said not in true and not mixed(said, true):
                return f"{read.key} in {window} is said to hold {said}, it held {true}"
        return None

    def _backwards(self, read: Read, answer: Mapping[str, Any]) -> str | None:
        """In whole answers of one sandbox neither the accepted events nor the retracted ones are
        fewer than before, cached or not.
        """
        if not answer["complete"]:
            return None
        asked = (read.sandbox, read.key, read.since, read.until)
        before, now = self._seen.get(asked, NOTHING), told_sums(answer)
        self._seen[asked] = now
        shrinks = now[0] < before[0] or now[2] < before[2]
        return f"{read.key} went from {before} events to {now}" if shrinks else None


def told_sums(part: Mapping[str, Any]) -> Sums:
    """What an answer or a part of it says: what is left and what was retracted were accepted."""
    back = part.get("retracted", {"events": 0, "sum": "0"})
    n, amount = back["events"], _micros(back["sum"])
    return part["events"] + n, _micros(part["sum"]) + amount, n, amount


def mixed(told: Sums, moments: Sequence[Sums]) -> bool:
    """Whether a read may have told this that lasted from the first of these moments to the last: of
    what came meanwhile it may have any part. A raised tally is read by two requests, of which the
    second sees a commit that came after one that the first did not see.
    """
    found = {moments[0]}
    for before, after in pairwise(moments):
        n, amount, back, amount_back = (now - then for then, now in zip(before, after, strict=True))
        more = {added(one, (n, amount, back, amount_back)) for one in found}
        found |= {one for one in more if one[0] <= told[0] and one[2] <= told[2]}
    return told in found


def unlike(told: Sums, least: Sums, most: Sums) -> bool:
    """Whether sums cannot be those of a moment between two others."""
    return any(
        not least[n] <= told[n] <= most[n]
        or (least[n] == most[n] and told[amount] != least[amount])
        for n, amount in ((0, 1), (2, 3))
    )


def added(*some: Sums) -> Sums:
    """The sum of these."""
    n, amount, back, amount_back = map(sum, zip(NOTHING, *some, strict=True))
    return n, amount, back, amount_back


def wrong_roll_up(
    state: PeriodState,
    windows: Sequence[Window],
    rolled: Sequence[PeriodTotal],
    totals: Mapping[tuple[str, str], Total],
) -> str:
    """What is wrong with the sums of a day or month, which stand now, of all its windows; or ""."""
    if open_ := [window.id for window in windows if not window.status.sealed]:
        return f"{state.name} is rolled up, but {open_} are not sealed"
    names, true = {window.id for window in windows}, dict[str, tuple[int, int]]()
    for (window, key), total in totals.items():
        if window in names:
            n, amount = true.get(key, (0, 0))
            true[key] = (n + total.n, amount + total.amount)
    found = {
        row.key: (row.n, row.amount)
        for row in rolled
        if (row.period, row.epoch, row.windows) == (state.name, state.epoch, len(names))
    }
    return f"{state.name} is rolled up as {found}, its windows hold {true}" if found != true else ""


def _micros(text: str) -> int:
    return int(Decimal(text) * MICROS)


def _ms(iso: str) -> int:
    return round(datetime.fromisoformat(iso).timestamp() * 1000)
