"""How well a field of items does as a partition key.

Source: Amazon DynamoDB Developer Guide, "Designing partition keys to distribute your workload
evenly", with its table of five choices, and "Key range throughput exceeded (hot partitions)".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tallyroll.errors import UsageError
from tallyroll.limits import PARTITION_WRITE_UNITS, TABLE_UNITS_QUOTA

SLICE_LINES = 1_000  # consecutive items, among which the hottest value is looked for
GOOD_FROM, FAIR_FROM = 50, 20  # scores
RUNS_SHARE = 1.1  # runs of equal values, per value: a value that comes once only has one
RUN_MIN = 2.0  # items a run
ASCENDING_SHARE = 0.95  # of the steps between sort keys of one value


class KeyVerdict(StrEnum):
    """What a choice of partition key is worth."""

    GOOD = "good"
    FAIR = "fair"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class KeyScore:
    """The score of a partition key, 0 to 100, and what it follows from.

    `hottest_share` is that of the most frequent value in all items; `hottest_share_at_once` among
    1,000 consecutive items, on average. `write_units` is what the table takes a second before its
    hottest value fills a partition.
    """

    items: int
    values: int
    hottest: str
    hottest_share: float
    hottest_share_at_once: float
    effective_values: float
    write_units: float
    moves_on: bool
    ascending_sort_keys: bool | None
    score: int
    verdict: KeyVerdict
    reasons: tuple[str, ...]


def scored_key(items: Iterable[Mapping[str, Any]], *, by: str, sort: str | None = None) -> KeyScore:
    """The score of the field `by` as partition key, with the field `sort` as sort key, of items in
    the order in which they are written. Raises UsageError if an item has no such field.
    """
    seen = _Seen()
    for number, item in enumerate(items, 1):
        for field in filter(None, (by, sort)):
            if field not in item:
                raise UsageError(f"item {number} has no field {field!r}: it has {_names(item)}")
        seen.add(str(item[by]), item[sort] if sort else None)
    if not seen.items:
        raise UsageError("no items: there is nothing to score")
    return seen.score()


def _names(item: Mapping[str, Any]) -> str:
    return ", ".join(sorted(map(str, item))[:10]) or "none"


class _Seen:
    """What was seen of the items."""

    def __init__(self) -> None:
        self.items = 0
        self._values: Counter[str] = Counter()
        self._slice: Counter[str] = Counter()
        self._shares: list[float] = []
        self._runs = 0
        self._before: str | None = None
        self._last_sort: dict[str, Any] = {}
        self._steps = self._ascending = 0

    def add(self, value: str, sort: Any) -> None:
        self.items += 1
        self._values[value] += 1
        self._slice[value] += 1
        self._runs += value != self._before
        self._before = value
        if self._slice.total() == SLICE_LINES:
            self._shares.append(max(self._slice.values()) / SLICE_LINES)
            self._slice.clear()
        if sort is not None:
            if value in self._last_sort:
                self._steps += 1
                self._ascending += _ascends(self._last_sort[value], sort)
            self._last_sort[value] = sort

    def score(self) -> KeyScore:
        hottest, most = self._values.most_common(1)[0]
        share = most / self.items
        at_once = sum(self._shares) / len(self._shares) if self._shares else share
        moves_on = (
            len(self._values) > 1
            and self._runs <= RUNS_SHARE * len(self._values)
            and self.items / self._runs >= RUN_MIN
        )
        if moves_on:
            at_once = 1.0
        units = PARTITION_WRITE_UNITS / max(share, at_once)
        score = min(100, round(100 * units / TABLE_UNITS_QUOTA))
        ascending = self._ascending >= ASCENDING_SHARE * self._steps if self._steps else None
        fair = KeyVerdict.FAIR if score >= FAIR_FROM else KeyVerdict.BAD
        return KeyScore(
            items=self.items,
            values=len(self._values),
            hottest=hottest,
            hottest_share=share,
            hottest_share_at_once=at_once,
            effective_values=1 / sum((n / self.items) ** 2 for n in self._values.values()),
            write_units=units,
            moves_on=moves_on,
            ascending_sort_keys=ascending,
            score=score,
            verdict=KeyVerdict.GOOD if score >= GOOD_FROM else fair,
            reasons=tuple(self._reasons(units, share, moves_on=moves_on, ascending=ascending)),
        )

    def _reasons(
        self, units: float, share: float, *, moves_on: bool, ascending: bool | None
    ) -> Iterable[str]:
        values = len(self._values)
        if moves_on:
            yield (
                "at any moment all items have one value, which moves on: a whole table takes what"
                " one partition takes"
            )
        elif units < TABLE_UNITS_QUOTA and share * values < 3:
            yield f"there are few values, {values:,}: at most so many partitions are used"
        elif units < TABLE_UNITS_QUOTA:
            yield f"one value has {share:.1%} of the items, {share * values:,.0f} times the mean"
        yield f"the hottest value fills a partition at {units:,.0f} write units a second"
        if ascending:
            yield "sort keys ascend: a hot value cannot be split for heat, so shard it"


def _ascends(before: Any, now: Any) -> bool:
    try:
        return bool(before <= now)
    except TypeError:
        return str(before) <= str(now)


def score_lines(by: str, score: KeyScore) -> Iterator[str]:
    """The score of a field in words, line by line."""
    yield f"{by} as partition key: {score.verdict}, {score.score} of 100"
    yield f"  {score.values:,} values in {score.items:,} items, as if {score.effective_values:,.1f}"
    yield f"  the hottest value, {score.hottest!r}, has {score.hottest_share:.1%}"
    yield from (f"  {reason}" for reason in score.reasons)
