"""Plain events of one hot key, by several writers at once: `python -m benchmarks.logs`.

Each way counts the same messages on DynamoDB Local, 5 % of which come twice: logs, records, one ADD
of each event, one ADD of a batch's sum. Writers are processes; `--backlog` lets them have messages
of all times in one batch. Units are those of AWS's rules, reads of slots included. DynamoDB Local
carries transactions out one after another, so that events a second say little of AWS.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from random import Random
from typing import Any
from uuid import UUID

from benchmarks.peers.ways import dynamodb_client, make_table
from benchmarks.processes import cpu_seconds
from benchmarks.tables import Rows, show
from local.aws.embedded import Embedded
from tallyroll.ingest.appending import OLD_MS
from tallyroll.ingest.writer import Writer
from tallyroll.limits import READ_UNIT_BYTES
from tallyroll.model.items import sized
from tallyroll.model.messages import Message
from tallyroll.pipeline import Pipeline
from tallyroll.settings import Settings
from tallyroll.testing.emulated import create_tables

KEY = "home-page"
WAYS = ("log", "records", "add", "sums")
ADDING = ("add", "sums")
Batches = Iterable[Sequence[Message]]
AGAIN = 0.05
TIME_LEFT_MS = 120_000
SEED = 7


@dataclass(frozen=True, slots=True)
class Case:
    """So many events, sent at a rate, a second, that writers take at once; or a `backlog`."""

    events: int
    rate: int
    writers: int
    backlog: bool = False


@dataclass(frozen=True, slots=True)
class Measured:
    """What a way took, write and read units apart, and how many events it has."""

    writes: float
    reads: float
    requests: int
    seconds: float
    cpu: float
    counted: int


def batches_of(case: Case, begin: int) -> list[list[list[Message]]]:
    """For each writer its batches: what was sent within a second, divided by chance."""
    chance = Random(SEED)
    messages = [
        Message(
            str(UUID(int=chance.getrandbits(128), version=4)),
            json.dumps({"key": KEY}),
            begin + number * 1_000 // case.rate,
            1,
            f"r{number}",
        )
        for number in range(case.events)
    ]
    if case.backlog:
        chance.shuffle(messages)
    again = [
        (
            # a deep backlog outlasts its messages' time in flight
            case.events if case.backlog else number + int(chance.random() * 3 * case.rate),
            replace(message, receives=2),
        )
        for number, message in enumerate(messages)
        if chance.random() < AGAIN
    ]
    queue = sorted([*enumerate(messages), *again], key=lambda each: each[0])
    found: list[list[list[Message]]] = [[] for _ in range(case.writers)]
    for first in range(0, len(queue), case.rate):
        batches: list[list[Message]] = [[] for _ in found]
        for _, message in queue[first : first + case.rate]:
            batches[int(chance.random() * case.writers)].append(message)
        for mine, batch in zip(found, batches, strict=True):
            mine.append(batch)
    return found


def paced(batches: Batches, phase: float) -> Iterator[Sequence[Message]]:
    """The batches, one a second, as an event source has them; `phase` within the second."""
    begin = time.monotonic() + phase
    for number, batch in enumerate(batches):
        time.sleep(max(0, begin + number - time.monotonic()))
        yield batch


def work(
    way: str, settings: Settings, batches: Batches, pace: float | None, ready: Any, done: Any
) -> None:
    """One writer's part, in a process of its own: tells units (written and read), requests,
    seconds, and seconds of CPU, without those of its start.
    """
    pipeline = Pipeline(settings)
    pipeline.catalog.calendar()
    written = partial(_written, pipeline.store, pipeline.writer)
    added = partial(_added, settings, dynamodb_client(), way)
    ready.wait()
    began, cpu = time.perf_counter(), cpu_seconds()
    batches = batches if pace is None else paced(batches, pace)
    units = (added if way in ADDING else written)(batches)
    done.put((*units, time.perf_counter() - began, cpu_seconds() - cpu))


def _added(settings: Settings, client: Any, way: str, batches: Batches) -> tuple[float, float, int]:
    units = 0
    for batch in batches:
        for n in [1] * len(batch) if way == "add" else [len(batch)]:
            client.update_item(
                TableName=settings.name,
                Key={"pk": {"S": KEY}},
                UpdateExpression="ADD n :n",
                ExpressionAttributeValues={":n": {"N": str(n)}},
            )
            units += 1
    return units, 0.0, units


def _written(store: Any, writer: Writer, batches: Batches) -> tuple[float, float, int]:
    """Write units, read units and requests for the records of the writer's batches."""
    writes = reads = 0.0
    requests = 0
    lookup, commit = store.lookup, store.commit

    def counting(verb: Any, price: float) -> Any:
        def read(*given: Any) -> Any:
            nonlocal reads, requests
            requests += 1
            page = verb(*given)
            size = sum(sized(each).size for each in page.records)
            reads += price * max(1, -(-size // READ_UNIT_BYTES))
            return page

        return read

    def looked_up(spec: Any, names: Any) -> Any:
        nonlocal reads, requests
        requests += 1
        reads += len(names)
        return lookup(spec, names)

    def committed(*given: Any) -> Any:
        nonlocal requests
        requests += 1
        return commit(*given)

    store.commit = committed
    store.records, store.lookup = counting(store.records, 1), looked_up
    store.records_eventually = counting(store.records_eventually, 0.5)
    for batch in batches:
        left: Sequence[Message] = batch
        while left:
            report = writer.write(left, TIME_LEFT_MS)
            writes += report.cost.total
            left = [
                replace(each, receives=each.receives + 1)
                for each in left
                if each.id in report.failures
            ]
    return writes, reads, requests


def measured(aws: Embedded, case: Case, way: str, name: str, *, pace: bool = False) -> Measured:
    """One way on one case, in a pipeline of its own."""
    settings = replace(aws.settings, name=name, logs={KEY: case.rate} if way == "log" else {})
    client = aws.client("dynamodb")
    create_tables(settings, client)
    if way in ADDING:
        make_table(name, "pk")
    pipeline = Pipeline(settings)
    pipeline.roller.run(TIME_LEFT_MS)
    calendar = pipeline.catalog.calendar()
    assert calendar
    age = case.events * 1_000 // case.rate + (OLD_MS if case.backlog else 0)
    begin = max(calendar.genesis, int(time.time() * 1000) - age)
    context = get_context("spawn")
    ready, done = context.Barrier(case.writers + 1), context.Queue()
    parts = batches_of(case, begin)
    processes = [
        context.Process(
            target=work,
            args=(way, settings, part, number / case.writers if pace else None, ready, done),
        )
        for number, part in enumerate(parts)
    ]
    for process in processes:
        process.start()
    ready.wait()
    told = [done.get() for _ in processes]
    for process in processes:
        process.join()
    if way in ADDING:
        there = int(client.get_item(TableName=name, Key={"pk": {"S": KEY}})["Item"]["n"]["N"])
    else:
        there = pipeline.reader.count(KEY, None, None).events
    writes, reads, requests, seconds, cpu = zip(*told, strict=True)
    return Measured(sum(writes), sum(reads), sum(requests), max(seconds), sum(cpu), there)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 1 if a way that is exact was not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--rate", type=int, default=1_000, help="events a second")
    parser.add_argument("--writers", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--backlog", action="store_true", help="batches hold messages of all times")
    parser.add_argument("--paced", action="store_true", help="a batch a second, as it is sent")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args(arguments)
    wrong = 0
    with Embedded(Settings(name="bench"), optimized=True) as aws:
        os.environ.update(aws.environment)
        measured(aws, Case(2_000, 1_000, 1), "log", "warm")
        for writers in given.writers:
            case = Case(given.events, given.rate, writers, given.backlog)
            heads = ("units an event", "of these read", "requests", "events/s", "CPU us", "counted")
            rows: Rows = [("way", *heads)]
            for round_ in range(given.rounds):
                for way in given.ways:
                    one = measured(aws, case, way, f"{way}-{writers}-{round_}", pace=given.paced)
                    wrong += way not in ADDING and one.counted != case.events
                    rows.append(
                        (
                            way,
                            f"{(one.writes + one.reads) / case.events:.3f}",
                            f"{one.reads / case.events:.3f}",
                            f"{one.requests / case.events:.4f}",
                            f"{case.events / one.seconds:,.0f}",
                            f"{one.cpu * 1e6 / case.events:,.0f}",
                            f"{one.counted:,} of {case.events:,}",
                        )
                    )
            show(f"{writers} writers, {case.rate:,} events/s", rows, "5 % come twice")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
