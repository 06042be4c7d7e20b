"""Draws 100,000 ids of one key over 200 suffixes: `docs/pictures/suffixes-{light,dark}.svg`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from random import Random

from benchmarks.suffixes import IDS, SHARDS, digits
from tallyroll.model.sharding import calculated, product, random_suffix
from tests.docs.drawing import picture

SIZE = (860, 400)
LEFT, BAR, HIGH, MOST = 60, 3.9, 84, 3 * IDS // SHARDS  # higher bars are cut off


@cache
def counted() -> dict[str, Sequence[int]]:
    """How many ids each suffix gets, by way."""
    ids, chance = digits(), Random(20261127)
    ways = {
        "random: even, but a redelivery counts twice": lambda _: random_suffix(SHARDS, chance),
        "product, AWS's example": lambda each: product(each, SHARDS),
        "calculated, the default": lambda each: calculated(each, SHARDS),
    }
    found = {name: Counter(map(way, ids)) for name, way in ways.items()}
    return {name: [each[suffix + 1] for suffix in range(SHARDS)] for name, each in found.items()}


def row(name: str, counts: Sequence[int], foot: int) -> str:
    """The bars of one way, and what the fullest suffix has."""
    bars = "".join(
        f"M{LEFT + at * BAR:.1f} {foot} v-{HIGH * min(count, MOST) / MOST:.1f} "
        for at, count in enumerate(counts)
    )
    most, empty = max(counts) / IDS, sum(not count for count in counts)
    told = f"{name}: {most:.1%} of the ids on the fullest suffix, {empty} of {SHARDS} empty"
    return (
        f'<text class="name" x="{SIZE[0] / 2}" y="{foot - HIGH - 8}">{told}</text>'
        f'<path d="{bars}" style="stroke-width: 3"/>'
        f'<path d="M{LEFT - 3} {foot} h{SHARDS * BAR}"/>'
    )


def suffixes(theme: str) -> str:
    """The whole picture."""
    rows = (row(*one, 118 + 128 * at) for at, one in enumerate(counted().items()))
    label = f"{IDS:,} random ids of eight digits over {SHARDS} suffixes, by three ways"
    return picture(theme, SIZE, label, "".join(rows))
