"""Reading the number of a key that is spread over shards: one gathering read beside one Query for
each shard.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from benchmarks.peers.ways import TIME_LEFT_MS, current_spec, dynamodb_client, make_table
from local.aws.embedded import Embedded
from tallyroll.adapters.dynamodb.items import tally_key
from tallyroll.pipeline import Pipeline
from tallyroll.settings import Settings

SHARDS = (1, 10, 100, 200)
TIMES = 20
WARM_UP = 20  # reads that are not measured
THREADS = 16
KEY = "hot"
EACH = 8_000  # events of a shard


@dataclass(frozen=True, slots=True)
class Read:
    """Median milliseconds of a read over so many shards."""

    shards: int
    ours: float
    in_turn: float
    threads: float


def measured_reads(aws: Embedded, pipeline_of: Callable[..., Settings]) -> list[Read]:
    """All reads. Raises RuntimeError if a sum is wrong."""
    return [_measured(aws, shards, pipeline_of) for shards in SHARDS]


def _measured(aws: Embedded, shards: int, pipeline_of: Callable[..., Settings]) -> Read:
    settings = pipeline_of(aws, f"reads-{shards}", shards=shards, stripes_min=8, cache_live_ms=0)
    made, client, table = Pipeline(settings), dynamodb_client(), f"reads-{shards}-items"
    make_table(table, "pk")
    spec = current_spec(made)
    stripes = spec.stripes_of(KEY)
    for number in range(1, stripes + 1):
        _add(client, spec.table, tally_key(spec, KEY, number), shards * EACH // stripes)
    for number in range(1, shards + 1):
        _add(client, table, {"pk": {"S": f"{KEY}#{number}"}}, EACH)

    def query(number: int) -> int:
        reply = client.query(
            TableName=table,
            ConsistentRead=True,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": f"{KEY}#{number}"}},
        )
        return sum(int(item["n"]["N"]) for item in reply["Items"])

    numbers = range(1, shards + 1)
    with ThreadPoolExecutor(THREADS) as pool:
        return Read(
            shards,
            _median(lambda: made.reader.count(KEY, None, None, TIME_LEFT_MS).events, shards),
            _median(lambda: sum(map(query, numbers)), shards),
            _median(lambda: sum(pool.map(query, numbers)), shards),
        )


def _add(client: Any, table: str, key: Any, n: int) -> None:
    client.update_item(
        TableName=table,
        Key=key,
        UpdateExpression="ADD n :n, v :n",
        ExpressionAttributeValues={":n": {"N": str(n)}},
    )


def _median(read: Callable[[], int], shards: int) -> float:
    """The median ms of a read, once engine and client are warm."""
    took = []
    for _ in range(WARM_UP + TIMES):
        began = time.perf_counter()
        if (found := read()) != shards * EACH:
            raise RuntimeError(f"{found} events were read of {shards * EACH}")
        took.append((time.perf_counter() - began) * 1_000)
    return statistics.median(took[WARM_UP:])
