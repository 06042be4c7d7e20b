"""Counting hot keys: this project beside what is widely used, in one run on DynamoDB Local.

`python -m benchmarks.peers [EVENTS] [--write]`, a part of `make bench`. `--write` puts tables and
charts into the documents.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.peers import load as loads
from benchmarks.peers.load import Load
from benchmarks.peers.measure import Measured, measured
from benchmarks.peers.reads import measured_reads
from benchmarks.peers.report import read_table, write_documents, write_table
from benchmarks.peers.ways import (
    Adding,
    Powertools,
    PynamoDB,
    RandomShards,
    Summing,
    Tallyroll,
    Way,
)
from benchmarks.peers.wire import Wire
from local.aws.embedded import Embedded
from tallyroll.model.specs import IdentityScope
from tallyroll.pipeline import Pipeline
from tallyroll.settings import Settings
from tallyroll.testing.emulated import create_tables

EVENTS = 20_000
WARM_UP = 3_000  # events
WIDTH = 120
IDS = {IdentityScope.WINDOW: "own ids", IdentityScope.PIPELINE: "ids for 31 days"}
PACKED = {"none": ", packed", "text": ", payloads", "random": ", random payloads"}
COLUMNS = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
TIME_LEFT_MS = 60_000


def peers(load: str) -> Iterator[Way]:
    """The ways that are widely used, each with tables of its own."""
    yield Adding("(a) UpdateItem ADD", f"{load}-add")
    yield Powertools("(b) Powertools, ids for 31 days", f"{load}-powertools")
    yield PynamoDB("(c) PynamoDB update", f"{load}-pynamodb")
    yield RandomShards("(d) random suffixes, ADD", f"{load}-random")


def ours(
    aws: Embedded, name: str, dies_after: int, keys: Iterable[str], **changes: Any
) -> Tallyroll:
    """This project's way, on a pipeline of its own. Its load has to be of a later time."""
    return Tallyroll(name, pipeline_of(aws, name, **changes), dies_after, set(keys))


def pipeline_of(aws: Embedded, name: str, **changes: Any) -> Settings:
    """A new pipeline on the same engine, whose first windows are open."""
    settings = replace(aws.settings, name=name, **changes)
    create_tables(settings, aws.client("dynamodb"))
    Pipeline(settings).roller.run(TIME_LEFT_MS)
    return settings


@dataclass(frozen=True)
class Bench:
    """One run of the comparison."""

    aws: Embedded
    wire: Wire
    bar: Progress

    def run(self, way: Way, load: Load, *, sealed: bool = False) -> Measured:
        """One way on one load."""
        task = self.bar.add_task(way.name, total=sum(map(len, load.batches)))
        advance = partial(self.bar.advance, task)
        return measured(way, load, self.wire, advance, sealed=sealed)

    def warm_up(self) -> None:
        """Let each way count a small load in tables of its own, and forget the result. Then the
        order of the ways does not matter: Java optimizes its code under load.
        """
        for _ in self.all_of("warm", loads.keys_of("hot", WARM_UP)):
            pass

    def all_of(self, name: str, keys: Sequence[str]) -> Iterator[Measured]:
        """All ways on events of these keys."""
        single = loads.own_ids("single", keys, _now())
        for way in peers(name):
            yield self.run(way, single)
        for scope, shown in IDS.items():
            own = ours(self.aws, f"{name}-ids-{scope}", 5, keys, identity=scope)
            own.name = f"(e) Tallyroll, {shown}"
            yield self.run(own, loads.own_ids(own.name, keys, _now()), sealed=True)
        for kind, shown in PACKED.items():
            packed = ours(self.aws, f"{name}-{kind}", 1, keys)
            packed.name = f"(f) Tallyroll{shown}"
            yield self.run(packed, loads.packed(packed.name, keys, _now(), kind), sealed=True)
        half = (len(set(keys[: loads.BATCH])) + 1) // 2  # of the keys of a batch
        yield self.run(Summing("(g) ADD of a batch's sums", f"{name}-sums", half), single)


def _now() -> int:
    return int(time.time() * 1_000)


def main() -> int:
    """Measure, and print the tables; the status is 1 if this project was not exact."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("events", nargs="?", type=int, default=EVENTS)
    parser.add_argument("--write", action="store_true", help="write documents and charts")
    asked = parser.parse_args()
    console, wire = Console(width=WIDTH), Wire()
    settings = Settings(name="peers", shards=64)
    with Embedded(settings, optimized=True) as aws, wire.tapped():
        os.environ.update(aws.environment)
        with Progress(*COLUMNS, console=console, transient=True) as bar:
            bench = Bench(aws, wire, bar)
            bench.warm_up()
            found = {
                title: list(bench.all_of(name, loads.keys_of(name, asked.events)))
                for name, title in loads.LOADS.items()
            }
        reads = measured_reads(aws, pipeline_of)
    for title, rows in found.items():
        console.print(write_table(f"{asked.events:,} events of {title}", rows))
    console.print(read_table(reads))
    if asked.write:
        write_documents(found, reads, asked.events)
    exact = all(row.exact for rows in found.values() for row in rows if "Tallyroll" in row.way)
    return 0 if exact else 1


if __name__ == "__main__":
    raise SystemExit(main())
