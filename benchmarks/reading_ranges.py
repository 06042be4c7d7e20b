"""What reads of ranges take on DynamoDB Local, beside bare requests for the same items.

`make bench`, or

    python -m benchmarks.reading_ranges [RECORDS] [--rounds N]

One key has so many records in the 24 windows of a day, of which the first half is sealed, and
totals in the 31 days before it. Every round runs each way once, so that all meet the same machine.
Medians of the rounds are shown, and their ratios. The bare ways ask as a reader must that knows the
names of the windows and shards: for the states before and after the records. Compare the rows with
each other: an emulator has no network, and no partitions.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from benchmarks.peers.ways import dynamodb_client
from benchmarks.tables import Rows, show
from local.aws.embedded import Embedded
from tallyroll.adapters.dynamodb.catalog_items import key_of, month_key
from tallyroll.adapters.dynamodb.items import record_key
from tallyroll.lifecycle.state_machine import freeze
from tallyroll.model.events import Event
from tallyroll.model.messages import Message
from tallyroll.model.periods import DAY_MS, day_of
from tallyroll.model.records import increments_of, record_of
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar, Status, Window
from tallyroll.model.totals import Total
from tallyroll.model.windows import Grid, Span, table_name
from tallyroll.pipeline import Pipeline
from tallyroll.ports.store import Verdict
from tallyroll.reads.parts import SHARDS_AT_ONCE
from tallyroll.settings import Settings

RECORDS, ROUNDS = 24_000, 7
EVENT_ROUNDS = 60
DAYS = 31  # of the series
COMMIT, FILLED_AT_ONCE = 90, 8  # records in a transaction, windows side by side
KEY = "candidate-7"
PAYLOAD = '{"from":"a benchmark","number":%d}'
ZONE = ZoneInfo("Europe/Berlin")
SETTINGS = Settings(name="ranges", gates=16, shards=16, shards_max=16, cache_live_ms=0)
MIB = 1 << 20

Way = Callable[[], int]


def event_id(number: int) -> str:
    """The id of an event of the key."""
    return f"vote-{number:09d}"


@dataclass
class Filled:
    """A pipeline with a day of `records`, and `days` of totals before it."""

    settings: Settings
    records: int
    days: int = DAYS
    requests: list[str] = field(default_factory=list)
    specs: list[Spec] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.made = self.pipeline()
        self.client = dynamodb_client()
        self.day = day_of(self.made.effects.now() - DAY_MS)
        self.grid = Grid.of(self.settings.window_seconds)
        self.made.catalog.found(Calendar(self.grid, self.series().start))
        self._fill_days()
        spans = list(self.grid.over(self.day.start, self.day.end))
        share = self.records // len(spans)
        self.records = share * len(spans)
        windows, starts = [self._window(span) for span in spans], range(0, self.records, share)
        with ThreadPoolExecutor(FILLED_AT_ONCE) as pool:
            self.specs = list(pool.map(partial(self._filled, share), starts, windows))
        self._seal(self.specs[: len(self.specs) // 2])

    def pipeline(self, **changes: Any) -> Pipeline:
        """The pipeline with other settings, in a process that knows nothing yet. Its requests are
        noted.
        """
        return Pipeline(replace(self.settings, **changes), observe=partial(_noted, self.requests))

    def series(self) -> Span:
        """The days before the day, in the time zone."""
        date = datetime.fromtimestamp(self.day.start / 1000, ZONE).date()
        first, last = (
            datetime(at.year, at.month, at.day, tzinfo=ZONE)
            for at in (date - timedelta(self.days), date)
        )
        return Span(round(first.timestamp()) * 1000, round(last.timestamp()) * 1000)

    def _window(self, span: Span) -> Window:
        """A window is made."""
        table = table_name(self.settings.name, span.id)
        window = Window(span.id, table, span.start, span.end)
        self.made.catalog.create(window)
        return window

    def _fill_days(self) -> None:
        series = self.series()
        for span in self.grid.over(series.start, series.end):
            self.made.catalog.advance(replace(self._window(span), status=Status.SEALED))
            self.made.totals.put([Total(KEY, span.id, 1, 0)])

    def _filled(self, share: int, first: int, window: Window) -> Spec:
        """A window with its share of the records, as writers commit them."""
        store = self.made.store
        spec = self.made.catalog.put_spec(freeze(window, self.settings))
        store.make_table(window.table, {})
        store.open_gates(spec)
        self.made.catalog.advance(replace(window, status=Status.OPEN, shards=spec.shards))
        records = (
            record_of(
                Event(KEY, event_id(each), spec.start, each, PAYLOAD % each),
                Message(f"m-{each}", "", spec.start, 1, "r"),
                spec,
            )
            for each in range(first, first + share)
        )
        while some := list(islice(records, COMMIT)):
            outcome = store.commit(spec, some, increments_of(some))
            if outcome.verdict is not Verdict.COMMITTED:
                raise RuntimeError(f"{window.id}: {outcome}")
        return spec

    def _seal(self, specs: Sequence[Spec]) -> None:
        """As the roller does, without its waits."""
        for spec in specs:
            self.made.store.shut_gates(spec)
            tally = self.made.store.tallies(spec, [KEY])[KEY]
            self.made.totals.put([Total(KEY, spec.window, tally.n, tally.amount)])
            window = self.made.catalog.window(spec.window)
            assert window
            self.made.catalog.advance(replace(window, status=Status.SEALED, keys=1, events=tally.n))


@dataclass
class Bare:
    """Requests as anybody would make them, by boto3's client."""

    of: Filled

    def states(self) -> int:
        """The states of the day's windows."""
        first, last = self.of.specs[0].window, self.of.specs[-1].window
        reply = self.of.client.query(
            TableName=self.of.made.catalog.own_table.name,
            ConsistentRead=True,
            KeyConditionExpression="pk = :pk AND sk BETWEEN :first AND :last",
            FilterExpression="attribute_exists(#status)",
            ExpressionAttributeNames={"#status": "status"},
            ExpressionAttributeValues={
                ":pk": {"S": month_key(first)},
                ":first": {"S": first},
                ":last": {"S": f"{last}#~"},
            },
        )
        return len(reply["Items"])

    def states_by_key(self) -> int:
        """The same by BatchGetItem."""
        table = self.of.made.catalog.own_table.name
        keys = [key_of(spec.window, "state") for spec in self.of.specs]
        asked = {table: {"Keys": keys, "ConsistentRead": True}}
        return len(self.of.client.batch_get_item(RequestItems=asked)["Responses"][table])

    def event(self, name: str, states: Way) -> int:
        """An event in whichever window it is."""
        asked = {
            spec.table: {
                "Keys": [record_key(KEY, spec.shard(KEY, name), name)],
                "ConsistentRead": True,
            }
            for spec in self.of.specs
        }
        states()
        reply = self.of.client.batch_get_item(RequestItems=asked)
        states()
        return sum(map(len, reply["Responses"].values()))

    def pages(self) -> int:
        """All records, so many shards at once as one window's are read at once."""
        shards = [
            (spec, shard) for spec in self.of.specs for shard in range(1, spec.shards_of(KEY) + 1)
        ]
        with ThreadPoolExecutor(SHARDS_AT_ONCE) as pool:
            return sum(pool.map(self._shard, shards))

    def _shard(self, place: tuple[Spec, int]) -> int:
        spec, shard = place
        found, more = 0, dict[str, Any]()
        while True:
            reply = self.of.client.query(
                TableName=spec.table,
                ConsistentRead=True,
                KeyConditionExpression="pk = :pk AND begins_with(sk, :record)",
                ExpressionAttributeValues={
                    ":pk": {"S": f"{KEY}.{shard}"},
                    ":record": {"S": "e#"},
                },
                **more,
            )
            found += len(reply["Items"])
            if not reply.get("LastEvaluatedKey"):
                return found
            more["ExclusiveStartKey"] = reply["LastEvaluatedKey"]


@dataclass(frozen=True, slots=True)
class Times:
    """What one way took, round by round: ms of the clock, and of this process's processor."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def ratio(self, other: Times) -> tuple[float, float]:
        """The medians over those of another way, in the same rounds."""
        return (
            statistics.median(self.wall) / statistics.median(other.wall),
            statistics.median(self.cpu) / statistics.median(other.cpu),
        )


def measured(ways: Mapping[str, Way], rounds: int) -> dict[str, Times]:
    """What each way took, round by round, after one that is not counted. Raises RuntimeError if an
    answer is another one.
    """
    took = {name: Times() for name in ways}
    first = {name: way() for name, way in ways.items()}
    for _ in range(rounds):
        for name, way in ways.items():
            began, cpu = time.perf_counter(), time.process_time()
            found = way()
            wall, used = time.perf_counter() - began, time.process_time() - cpu
            if found != first[name] or not found:
                raise RuntimeError(f"{name}: found {found}, and {first[name]} before")
            took[name].wall.append(wall * 1_000)
            took[name].cpu.append(used * 1_000)
    return took


def event_ways(of: Filled) -> dict[str, Way]:
    """An event by its id and day, of a sealed window and of an open one."""
    reader, bare, day = of.made.reader, Bare(of), of.day

    def ours(name: str) -> int:
        return len(reader.event_within(KEY, name, day.start, day.end).found)

    names = {"sealed": event_id(0), "open": event_id(of.records - 1)}
    ways: dict[str, Way] = {
        f"an event by its day, window {status}": partial(ours, name)
        for status, name in names.items()
    }
    ways["bare, states by BatchGetItem"] = partial(bare.event, names["open"], bare.states_by_key)
    ways["bare, states by Query"] = partial(bare.event, names["open"], bare.states)
    return ways


def stream_ways(of: Filled) -> dict[str, Way]:
    """All events of the day."""
    return {
        "the events of a day": partial(_streamed, of, of.day.end),
        "bare paginated Queries": Bare(of).pages,
    }


def _streamed(of: Filled, until: int) -> int:
    return sum(1 for _ in of.made.reader.events_within(KEY, of.day.start, until))


def peaks(of: Filled) -> dict[str, float]:
    """The most memory (MiB) of Python's objects in streams of a quarter of the day, and of all."""
    found = {}
    for windows in (len(of.specs) // 4, len(of.specs)):
        tracemalloc.start()
        _streamed(of, of.specs[windows - 1].end)
        found[f"{windows} windows"] = tracemalloc.get_traced_memory()[1] / MIB
        tracemalloc.stop()
    return found


def series_requests(of: Filled) -> dict[str, int]:
    """The requests of reads that are warm; within `cache_live_ms`, if the name says so."""
    span, kept = of.series(), of.pipeline(cache_live_ms=60_000).reader
    reader = of.made.reader

    def series() -> int:
        return len(reader.series(KEY, span.start, span.end, "day", ZONE).points)

    sealed = Span(of.specs[0].start, of.specs[len(of.specs) // 2].start)
    ways: dict[str, Way] = {
        f"a series of {of.days} days, warm": series,
        "a sealed range, warm": lambda: reader.count(KEY, sealed.start, sealed.end).events,
        "a sealed range, kept": lambda: kept.count(KEY, sealed.start, sealed.end).events,
    }
    found = {}
    for name, way in ways.items():
        first = way()
        of.requests.clear()
        if way() != first or not first:
            raise RuntimeError(f"{name}: another answer than {first}")
        found[name] = len(of.requests)
    return found


def rows_of(took: Mapping[str, Times], events: int = 0) -> Rows:
    """The table of the ways: ratios are to the last ones, which are bare."""
    bare = next(times for name, times in took.items() if name.startswith("bare"))
    rows: Rows = [("", "median ms", "CPU ms", "of a bare one", "CPU", *["events/s"] * bool(events))]
    for name, times in took.items():
        wall, cpu = statistics.median(times.wall), statistics.median(times.cpu)
        ratios = [f"{each:.2f}" for each in times.ratio(bare)]
        speed = [f"{events / wall * 1_000:,.0f}"] * bool(events)
        rows.append((name, f"{wall:.1f}", f"{cpu:.1f}", *ratios, *speed))
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("records", nargs="?", type=int, default=RECORDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args(arguments)
    with Embedded(SETTINGS, optimized=True) as aws:
        os.environ.update(aws.environment)
        of = Filled(aws.settings, given.records)
        title = f"{len(of.specs)} windows, DynamoDB Local"
        show(f"An event in {title}", rows_of(measured(event_ways(of), EVENT_ROUNDS)))
        memory = "; ".join(f"{name}: {mib:.1f} MiB at most" for name, mib in peaks(of).items())
        took = measured(stream_ways(of), given.rounds)
        show(f"{of.records:,} events in {title}", rows_of(took, of.records), memory)
        counted = series_requests(of).items()
        show("Requests", [("", "requests"), *((name, str(number)) for name, number in counted)])


def _noted(requests: list[str], operation: str, ms: float, code: str | None) -> None:
    del ms, code
    requests.append(operation)


if __name__ == "__main__":
    main()
