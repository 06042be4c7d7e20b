"""How evenly the record suffixes spread ids: `python -m benchmarks.suffixes` prints the table of
the docs.

The ids are made from a fixed seed, so the table is the same on every machine.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Callable, Iterator

from tallyroll.model.sharding import STRATEGIES

IDS = 100_000
SHARDS = 200


def uuids() -> list[str]:
    """Random UUIDs (version 4)."""
    chance = random.Random(20261120)
    return [str(uuid.UUID(int=chance.getrandbits(128), version=4)) for _ in range(IDS)]


def order_ids() -> list[str]:
    """Sequential order ids."""
    return [f"order-{number:06d}" for number in range(1, IDS + 1)]


def integers() -> list[str]:
    """Decimal integers."""
    return [str(number) for number in range(1, IDS + 1)]


def letters() -> list[str]:
    """Eight random lower-case letters."""
    chance = random.Random(20261121)
    return ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=8)) for _ in range(IDS)]


def digits() -> list[str]:
    """Eight random digits."""
    chance = random.Random(20261127)
    return ["".join(chance.choices("0123456789", k=8)) for _ in range(IDS)]


KINDS: dict[str, Callable[[], list[str]]] = {
    "random UUIDs": uuids,
    "order-000001 ...": order_ids,
    "1, 2, 3 ...": integers,
    "eight random letters": letters,
    "eight random digits": digits,
}


def rows() -> Iterator[str]:
    """The table's lines, as Markdown."""
    yield "| ids | strategy | suffixes used | largest / mean | on the fullest suffix |"
    yield "|---|---|---|---|---|"
    for kind, make in KINDS.items():
        ids = make()
        for name, strategy in STRATEGIES.items():
            counts = Counter(strategy(record_id, SHARDS) for record_id in ids)
            most = max(counts.values())
            ratio, share = most / (IDS / SHARDS), most / IDS
            yield f"| {kind} | {name} | {len(counts)} of {SHARDS} | {ratio:.2f} | {share:.1%} |"


def main() -> None:
    """Print the table."""
    for row in rows():
        print(row)


if __name__ == "__main__":
    main()
