"""Counting a hot key in Cassandra: the three strategies of Amazon Keyspaces' Developer Guide.

`make bench`, or

    python -m benchmarks.keyspaces [EVENTS] [--records N]

The strategies are those of the guide's "Using write sharding": a partition for a key; a random
suffix, with plain inserts, read by scatter-gather; a suffix that is computed of the event's id. The
third one is this project's writer, with conditional inserts, on a pipeline whose windows are in the
same node. Beside them `UpdateItem ADD` on DynamoDB Local, in the same run. 5 % of the messages come
twice, and each way counts what it has in the end.

Machines are noisy, and one node is no cluster: look at ratios of client CPU, at the share of the
hottest partition, and at who is exact. Then a window of many records is counted and folded.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from benchmarks.peers import load as loads
from benchmarks.peers.__main__ import pipeline_of
from benchmarks.peers.load import Invocation, Load, invocation
from benchmarks.peers.ways import Adding, Tallyroll, current_spec
from benchmarks.tables import Rows, show
from local.aws.embedded import Embedded
from local.cassandra import node
from local.cassandra.keyspace import make_keyspace
from tallyroll.adapters.cassandra import cql
from tallyroll.adapters.cassandra.rows import CassandraRows
from tallyroll.adapters.cassandra.session import Connection, Endpoint, connect
from tallyroll.adapters.rows.metering import METERING
from tallyroll.adapters.system import SystemEffects
from tallyroll.model.amounts import MICROS
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.model.tallies import ReadCost, Tally
from tallyroll.model.windows import KEYSPACES
from tallyroll.pipeline import Pipeline
from tallyroll.settings import Settings

EVENTS = 5_000
RECORDS = 200_000
SHARDS = 16
KEY = "hot"
NAME = "strategies"
KEYSPACE = "strategies"
HEAP_MB = 512
COUNTS = 3
PLAIN = cql.INSERT.removesuffix(" IF NOT EXISTS")


class Counting(Protocol):
    """One way to count."""

    name: str

    def handle(self, event: Invocation) -> list[str]:
        """Count a batch; the ids of the messages that must come again."""

    def totals(self) -> Counter[str]:
        """The events that are counted, by key."""


class Plain:
    """Plain inserts on one of a key's shards, chosen at random."""

    def __init__(self, name: str, connection: Connection, shards: int) -> None:
        self.name = name
        self._connection, self._shards = connection, shards
        self._rows = CassandraRows(connection)
        self._table = f"plain-{shards}"
        self._rows.make_table(self._table, {})
        self.partitions: Counter[int] = Counter()

    def handle(self, event: Invocation) -> list[str]:
        """Count a batch."""
        puts = []
        for record in event["Records"]:
            report = json.loads(record["body"])
            shard = random.randrange(self._shards) + 1
            self.partitions[shard] += 1
            puts.append((report["key"], shard, report["id"], 1, MICROS, 1, ""))
        for _ in self._connection.gathered(cql.PUT_STRIPE, self._table, puts):
            pass
        return []

    def totals(self) -> Counter[str]:
        """The rows of the key, from all shards."""
        return Counter({KEY: self._rows.tally(self._table, KEY, self._shards).n})


@dataclass(frozen=True, slots=True)
class Measured:
    """What a way took: client CPU in microseconds an event; `share` of all writes went to the
    partition that has most.
    """

    way: str
    counted: int
    off: int
    per_second: float
    cpu_us: float
    share: float


def measured(way: Counting, load: Load, share: Callable[[], float]) -> Measured:
    """Let a way count a load. Raises RuntimeError if it hands messages back."""
    way.totals()  # so that all statements are prepared
    wall = cpu = 0.0
    for batch in load.batches:
        event = invocation(batch)
        began = time.perf_counter(), time.process_time()
        if failures := way.handle(event):
            raise RuntimeError(f"{way.name}: {len(failures)} messages were handed back")
        wall += time.perf_counter() - began[0]
        cpu += time.process_time() - began[1]
    found, events = way.totals()[KEY], load.events
    off = found - load.truth[KEY]
    return Measured(way.name, found, off, events / wall, cpu / events * 1e6, share())


def share_of(writes: Counter[int]) -> float:
    """The largest part of the writes that one partition has."""
    return max(writes.values()) / writes.total()


def strategies(aws: Embedded, endpoint: Endpoint, events: int) -> Iterator[Measured]:
    """All ways, each on the same load, on tables of its own."""
    connection = connect(endpoint, SystemEffects())
    keys = loads.keys_of(KEY, events)
    single = loads.own_ids("single", keys, int(time.time() * 1_000))
    yield measured(Adding("UpdateItem ADD (DynamoDB)", "keyspaces-add"), single, lambda: 1.0)
    for name, shards in (("one partition", 1), ("random suffix", SHARDS)):
        plain = Plain(name, connection, shards)
        yield measured(plain, single, partial(share_of, plain.partitions))
    connection.close()
    settings = settings_of(aws, NAME, endpoint)
    ours = Tallyroll("calculated suffix (Tallyroll)", settings, 0, {KEY})
    load = loads.own_ids("ours", keys, int(time.time() * 1_000))
    spec = current_spec(Pipeline(settings))
    ids = [json.loads(message.body)["id"] for batch in load.batches for message in batch]
    writes = Counter(spec.shard(KEY, each) for each in ids)
    yield measured(ours, load, partial(share_of, writes))


def settings_of(aws: Embedded, name: str, endpoint: Endpoint) -> Settings:
    """A new pipeline whose windows are in the node."""
    return pipeline_of(
        aws,
        name,
        shards=SHARDS,
        store=KEYSPACES,
        keyspace=endpoint.keyspace,
        cassandra=f"{endpoint.hosts[0]}:{endpoint.port}",
    )


def strategy_rows(found: list[Measured]) -> Rows:
    """The ways side by side, with ratios to the first one."""
    rows: Rows = [
        ("way", "counted", "off", "events/s", "CPU us/event", "of ADD's", "hottest", "its rate")
    ]
    for each in found:
        row = (
            each.way,
            f"{each.counted:,}",
            f"{each.off:+,}" if each.off else "exact",
            f"{each.per_second:,.0f}",
            f"{each.cpu_us:,.0f}",
            f"{each.cpu_us / found[0].cpu_us:.2f}",
            f"{each.share:.0%}",
            f"{each.share * each.per_second:,.0f}/s",
        )
        rows.append(row)
    return rows


def filled(connection: Connection, made: Pipeline, records: int) -> Spec:
    """Put so many records of one key into the pipeline's current window, in plain batches."""
    spec = current_spec(made)
    chains: dict[int, list[tuple[Any, ...]]] = {}
    for number in range(records):
        row = record_of(spec, number)
        values = (row.key, row.shard, row.id, row.ts, row.n, row.amount, row.digest)
        chains.setdefault(row.shard, []).append((*values, "", METERING.record_cost(row)))
    for rows in chains.values():
        connection.batched(PLAIN, spec.table, rows)
    return spec


def record_of(spec: Spec, number: int) -> Record:
    """One event of the counted window."""
    name = f"id-{number:07d}"
    digest = number.to_bytes(16, "big")
    return Record(KEY, name, spec.shard(KEY, name), spec.start, 1, MICROS, digest)


def big_window(settings: Settings, endpoint: Endpoint, records: int) -> Rows:
    """Fill a window, count it and fold it: what that took, by phase. Raises RuntimeError if a
    number is wrong.
    """
    connection = connect(endpoint, SystemEffects())
    made = Pipeline(settings)
    spec = filled(connection, made, records)
    connection.close()
    taken, live = [], Tally(KEY, 0, 0)
    for _ in range(COUNTS):
        began, cpu = time.perf_counter(), time.process_time()
        live = made.store.tallies(spec, [KEY])[KEY]
        taken.append((time.perf_counter() - began, time.process_time() - cpu))
        if live.n != records:
            raise RuntimeError(f"{live.n} of {records} records were counted")
    made.store.shut_gates(spec)
    began, cpu = time.perf_counter(), time.process_time()
    for _ in made.store.fold(spec, ""):
        pass
    folding = time.perf_counter() - began, time.process_time() - cpu
    began = time.perf_counter()
    tally = made.store.tallies(spec, [KEY])[KEY]
    sealed = time.perf_counter() - began
    if tally.n != records:
        raise RuntimeError(f"{tally.n} of {records} records were folded")
    best = min(taken)
    reading = live.reading or ReadCost(0, 0)
    return [
        ("phase", "took"),
        ("count, live", f"{best[0]:.2f} s, CPU {best[1]:.2f} s (best of {COUNTS})"),
        ("reads of it", f"{reading.rows:,} rows, {reading.cost_max:,} read units at most"),
        ("fold", f"{folding[0]:.1f} s, CPU {folding[1]:.1f} s"),
        ("count, folded", f"{sealed * 1e3:.0f} ms"),
    ]


def main() -> int:
    """Measure, and print the tables; the status is 1 if this project was not exact."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("events", nargs="?", type=int, default=EVENTS)
    parser.add_argument("--records", type=int, default=RECORDS)
    asked = parser.parse_args()
    with node.start(heap_mb=HEAP_MB) as running, Embedded(Settings(name="bench")) as aws:
        os.environ.update(aws.environment)
        endpoint = make_keyspace(running.port, KEYSPACE)
        found = list(strategies(aws, endpoint, asked.events))
        title = f"{asked.events:,} events of one hot key, 5 % delivered twice"
        show(title, strategy_rows(found))
        settings = settings_of(aws, f"{NAME}-big", endpoint)
        title = f"{asked.records:,} records of one key on {SHARDS} shards"
        show(title, big_window(settings, endpoint, asked.records), left=2)
    return int(found[-1].off != 0)


if __name__ == "__main__":
    raise SystemExit(main())
