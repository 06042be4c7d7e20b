"""The classic arithmetic of DynamoDB's partitions, for tables of provisioned capacity.

Sources, Amazon DynamoDB Developer Guide: [part] "Guidelines for Working with Tables",
"Understand Partition Behavior" (edition of 2017; later editions leave these formulas out);
[keys] "Best practices for designing and using partition keys effectively in DynamoDB"; [burst] the
same, "Burst and adaptive capacity". AWS shows nobody a table's partitions, so all of this is an
estimate. `tallyroll.planning.on_demand` has what DynamoDB does today.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, floor, log10
from typing import NamedTuple

from tallyroll.errors import UsageError
from tallyroll.limits import (
    BURST_SECONDS,
    PARTITION_BYTES,
    PARTITION_READ_UNITS,
    PARTITION_WRITE_UNITS,
)
from tallyroll.limits import write_units as units_of


class PartitionUnits(NamedTuple):
    """The read and write units a second of one partition."""

    read: float
    write: float

    def __str__(self) -> str:
        return f"{self.read:,.10g}/{self.write:,.10g}"

    def halved(self) -> PartitionUnits:
        """The share of each half after a split."""
        return PartitionUnits(self.read / 2, self.write / 2)


def initial_partitions(*, read_units: float = 0, write_units: float = 0) -> int:
    """How many partitions a new table of so many provisioned units a second has: at least 1.

    `ceil(read_units / 3,000 + write_units / 1,000)` [part].
    """
    _not_negative(read_units=read_units, write_units=write_units)
    return max(1, ceil(read_units / PARTITION_READ_UNITS + write_units / PARTITION_WRITE_UNITS))


def partitions_after_increase(
    *, partitions: int, read_units: float = 0, write_units: float = 0
) -> int:
    """How many partitions a table has after its throughput was raised to these units a second.

    If the partitions do not suffice, each of them is split in two, until they do [part]. They are
    never merged.
    """
    _positive(partitions=partitions)
    needed = initial_partitions(read_units=read_units, write_units=write_units)
    while partitions < needed:
        partitions *= 2
    return partitions


def units_per_partition(
    *, partitions: int, read_units: float = 0, write_units: float = 0
) -> PartitionUnits:
    """The share of one partition, if the table's units a second are divided evenly [part]."""
    _positive(partitions=partitions)
    _not_negative(read_units=read_units, write_units=write_units)
    return PartitionUnits(read_units / partitions, write_units / partitions)


def storage_partitions(*, stored_bytes: int) -> int:
    """How many partitions it takes to hold so many bytes: one holds 10 GB [part]."""
    _not_negative(stored_bytes=stored_bytes)
    return max(1, ceil(stored_bytes / PARTITION_BYTES))


def split_partition(*, shares: Sequence[PartitionUnits], full: int) -> list[PartitionUnits]:
    """The shares after the partition at the place `full` was split because it is full.

    Its two halves take half of its share each; the other partitions keep theirs [part].
    """
    if not 0 <= full < len(shares):
        raise UsageError(f"full {full}: there are partitions 0 to {len(shares) - 1}")
    half = shares[full].halved()
    return [*shares[:full], half, half, *shares[full + 1 :]]


class TableStep(NamedTuple):
    """A step in a table's life, and how many partitions have which share after it."""

    name: str
    shares: Counter[PartitionUnits]

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return self.shares.total()


def table_steps(
    *,
    units: PartitionUnits,
    raised: PartitionUnits | None = None,
    stored_bytes: int = 0,
    cut: PartitionUnits | None = None,
) -> Iterator[TableStep]:
    """A provisioned table, step by step: made with so many units a second, raised to others, filled
    with so many bytes, cut to others; what is left out is no step.

    Throughput and size split partitions, and a cut merges none, so each is left with less [part].
    Raises UsageError, also if a raise lowers, or a cut raises.
    """
    count = initial_partitions(read_units=units.read, write_units=units.write)

    def even(units: PartitionUnits) -> Counter[PartitionUnits]:
        share = units_per_partition(
            partitions=count, read_units=units.read, write_units=units.write
        )
        return Counter({share: count})

    yield TableStep(f"made with {units}", shares := even(units))
    if raised is not None:
        if raised.read < units.read or raised.write < units.write:
            raise UsageError(f"raised {raised}: must be {units} or more; a cut lowers")
        count = partitions_after_increase(
            partitions=count, read_units=raised.read, write_units=raised.write
        )
        units = raised
        yield TableStep(f"raised to {units}", shares := even(units))
    if stored_bytes:
        missing = storage_partitions(stored_bytes=stored_bytes) - count
        yield TableStep(
            f"filled with {stored_bytes / 1e9:,g} GB", shares := _split(shares, missing)
        )
    if cut is not None:
        if cut.read > units.read or cut.write > units.write:
            raise UsageError(f"cut {cut}: must be {units} or less; a raise is for more")
        read, write = (new / old if old else 0 for new, old in zip(cut, units, strict=True))
        cuts = {PartitionUnits(r * read, w * write): n for (r, w), n in shares.items()}
        yield TableStep(f"cut to {cut}", Counter(cuts))


def _split(shares: Counter[PartitionUnits], missing: int) -> Counter[PartitionUnits]:
    """The shares after so many splits by size, of partitions that were split least first."""
    shares = shares.copy()
    while missing > 0:
        largest = max(shares)
        count = shares.pop(largest)
        splits = min(missing, count)
        shares += Counter({largest: count - splits})
        shares[largest.halved()] += 2 * splits
        missing -= splits
    return shares


def bulk_load_write_units(*, items: int, item_bytes: int, seconds: float) -> float:
    """Write units a second that load so many items in that time; an item takes whole units."""
    _positive(items=items, item_bytes=item_bytes, seconds=seconds)
    return items * units_of(item_bytes) / seconds


def rounded_units(*, units: float) -> int:
    """The units to two digits, as the guide rounds them in its example of a bulk load [part]."""
    _positive(units=units)
    digit: int = 10 ** max(0, floor(log10(units)) - 1)
    return floor(units / digit + 0.5) * digit


def burst_units(*, unused_units: float, idle_seconds: float) -> float:
    """How many units are saved for a burst while so many a second go unused.

    DynamoDB keeps up to 300 s of unused capacity, and may use some of it itself [burst].
    """
    _not_negative(unused_units=unused_units, idle_seconds=idle_seconds)
    return unused_units * min(idle_seconds, BURST_SECONDS)


def burst_lasts_seconds(
    *, saved_units: float, demanded_units: float, provisioned_units: float
) -> float:
    """How long saved units carry a demand above the provisioned units a second; infinite if it is
    not above them.
    """
    _not_negative(saved_units=saved_units, demanded_units=demanded_units)
    above = demanded_units - provisioned_units
    return saved_units / above if above > 0 else float("inf")


class Isolation(NamedTuple):
    """The items of each partition, and the items whose load is more than one partition gives."""

    partitions: list[list[str]]
    throttled: list[str]


def isolated_items(
    *, write_units: Mapping[str, float], partition_write_units: float = PARTITION_WRITE_UNITS
) -> Isolation:
    """How items come to lie on partitions once their load is known, from their write units a
    second.

    DynamoDB rebalances partitions so that frequently accessed items do not share one; an item alone
    may take all that a partition gives, and never more [burst]. The busiest item comes first here,
    and each goes to the first partition that has room.
    """
    placed: list[tuple[list[str], float]] = []
    throttled: list[str] = []
    for item, load in sorted(write_units.items(), key=lambda pair: (-pair[1], pair[0])):
        if load > partition_write_units:
            throttled.append(item)
        room = (at for at, (_, used) in enumerate(placed) if used + load <= partition_write_units)
        if (at := next(room, None)) is None:
            placed.append(([item], load))
        else:
            items, used = placed[at]
            placed[at] = ([*items, item], used + load)
    return Isolation([items for items, _ in placed], throttled)


def adaptive_capacity(
    *, demanded_write_units: Sequence[float], provisioned_write_units: float
) -> list[float]:
    """The write units a second that each partition is granted, from what each is asked for.

    A partition may exceed its even share, as long as the table's total is not exceeded, nor what
    one partition gives [burst]. If the total is exceeded, all are cut by the same factor.
    """
    _not_negative(provisioned_write_units=provisioned_write_units)
    bounded = [min(demand, PARTITION_WRITE_UNITS) for demand in demanded_write_units]
    total = sum(bounded)
    share = min(1.0, provisioned_write_units / total) if total else 1.0
    return [demand * share for demand in bounded]


def _not_negative(**numbers: float) -> None:
    for name, number in numbers.items():
        if not number >= 0:
            raise UsageError(f"{name} {number}: must be 0 or more")


def _positive(**numbers: float) -> None:
    for name, number in numbers.items():
        if not number > 0:
            raise UsageError(f"{name} {number}: must be more than 0")
