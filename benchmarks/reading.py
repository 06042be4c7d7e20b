"""What a count takes on DynamoDB Local, cold and warm, beside bare requests of the same stripes.

`make bench`, or

    python -m benchmarks.reading [ROUNDS]

Every round runs each way once, so that all meet the same machine. Medians of the rounds are shown,
and their ratios; requests are those of one read. Compare the rows with each other: an emulator has
no network, and no partitions.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.peers.ways import current_spec, dynamodb_client
from benchmarks.tables import show
from local.aws.embedded import Embedded
from tallyroll.adapters.dynamodb.items import Key
from tallyroll.adapters.dynamodb.store import DynamoStore
from tallyroll.model.specs import Spec
from tallyroll.pipeline import Pipeline
from tallyroll.settings import Settings

ROUNDS, WARM_UP = 30, 5
KEYS = 100
TIME_LEFT_MS = 60_000
HOT, KEY = "hot", "key-0"
STRIPES, FEW = 100, 8  # of the hot key, and of each other one
SETTINGS = Settings(
    name="reading", window_seconds=3600, shards=STRIPES, stripes_min=FEW, cache_live_ms=0
)


@dataclass
class Ways:
    """The ways of reading."""

    pipeline: Pipeline
    store: DynamoStore
    spec: Spec
    client: Any

    def table(self) -> dict[str, Callable[[], int]]:
        """Each way gives the events that it found."""
        reader, keys = self.pipeline.reader, [f"key-{number}" for number in range(KEYS)]

        def single() -> int:
            return sum(reader.count(key, time_left_ms=TIME_LEFT_MS).events for key in keys)

        def together() -> int:
            return sum(one.events for one in reader.counts(keys, time_left_ms=TIME_LEFT_MS))

        return {
            "a count, cold": lambda: reader.count(HOT, consistent=True).events,
            "a count, warm": lambda: reader.count(HOT).events,
            f"a count of {FEW} stripes, cold": lambda: reader.count(KEY, consistent=True).events,
            f"a count of {FEW} stripes, warm": lambda: reader.count(KEY).events,
            f"a bare BatchGetItem of the {STRIPES} stripes": self.batch,
            f"{STRIPES} Queries in turn": self.queries,
            f"{KEYS} keys by one count, warm": together,
            f"{KEYS} keys by a count each, warm": single,
        }

    def fill(self) -> None:
        """Put an event into every stripe, of which the hot key gets 100."""
        self._add(self.stripes(HOT))
        for _ in range(4):  # each doubles them, up to N
            self.store.widen(self.spec, HOT)
        self._add(self.stripes(HOT))
        for number in range(KEYS):
            self._add(self.stripes(f"key-{number}"))

    def _add(self, keys: Sequence[Key]) -> None:
        for key in keys:
            self.client.update_item(
                TableName=self.spec.table,
                Key=key,
                UpdateExpression="ADD n :n, v :n",
                ExpressionAttributeValues={":n": {"N": "1"}},
            )

    def stripes(self, key: str) -> list[Key]:
        """The places of a key's stripes."""
        return self.store.stripe_keys(self.spec, [key])

    def batch(self) -> int:
        """The hot key's stripes by one request, as anybody would ask."""
        asked = {self.spec.table: {"Keys": self.stripes(HOT), "ConsistentRead": True}}
        reply = self.client.batch_get_item(RequestItems=asked)
        return sum(int(item["n"]["N"]) for item in reply["Responses"][self.spec.table])

    def queries(self) -> int:
        """The same, stripe by stripe."""
        found = 0
        for key in self.stripes(HOT):
            reply = self.client.query(
                TableName=self.spec.table,
                ConsistentRead=True,
                KeyConditionExpression="pk = :pk AND sk = :sk",
                ExpressionAttributeValues={":pk": key["pk"], ":sk": key["sk"]},
            )
            found += sum(int(item["n"]["N"]) for item in reply["Items"])
        return found


def measured(ways: Mapping[str, Callable[[], int]], rounds: int) -> dict[str, float]:
    """The median ms of each way, round by round. Raises RuntimeError if an answer changes."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    first = {name: way() for name, way in ways.items()}
    for number in range(WARM_UP + rounds):
        for name, way in ways.items():
            began = time.perf_counter()
            found = way()
            ms = (time.perf_counter() - began) * 1_000
            if found != first[name] or not found:
                raise RuntimeError(f"{name}: {found} events, and {first[name]} before")
            if number >= WARM_UP:
                took[name].append(ms)
    return {name: statistics.median(some) for name, some in took.items()}


def rows_of(
    ways: Mapping[str, Callable[[], int]], medians: Mapping[str, float], requests: list[str]
) -> list[list[str]]:
    """The table: ms, the ratio to a bare BatchGetItem, and the requests of our own reads."""
    bare = next(ms for name, ms in medians.items() if name.startswith("a bare"))
    rows = [["", "median ms", "of a bare one", "requests"]]
    for name, way in ways.items():
        requests.clear()
        way()
        counted = str(len(requests)) if requests else ""
        rows.append([name, f"{medians[name]:.1f}", f"{medians[name] / bare:.2f}", counted])
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", nargs="?", type=int, default=ROUNDS)
    rounds = parser.parse_args(arguments).rounds
    with Embedded(SETTINGS) as aws:
        os.environ.update(aws.environment)
        requests: list[str] = []
        made = Pipeline(aws.settings, observe=partial(_noted, requests))
        for _ in range(3):
            made.roller.run(TIME_LEFT_MS)
        assert isinstance(made.store, DynamoStore)
        of = Ways(made, made.store, current_spec(made), dynamodb_client())
        of.fill()
        ways = of.table()
        medians = measured(ways, rounds)
        show("Counts, DynamoDB Local", rows_of(ways, medians, requests))


def _noted(requests: list[str], operation: str, ms: float, code: str | None) -> None:
    del ms, code
    requests.append(operation)


if __name__ == "__main__":
    main()
