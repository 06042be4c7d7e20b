"""Runs one way on one load, and says what it took and how far off the truth it is."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.costs import queue_requests
from benchmarks.peers.load import BATCH, Delivered, Load, invocation
from benchmarks.peers.ways import PROGRESS_MS, Way
from benchmarks.peers.wire import Wire
from tallyroll.planning import prices
from tallyroll.planning.costs import function_dollars
from tallyroll.planning.writes import DAY_UNITS, MONTH_UNITS, TOTAL_UNITS

ROUNDS_MAX = 10
REQUEST_MS = {"TransactWriteItems": 20.0}  # assumed, of AWS's DynamoDB
REQUEST_MS_OTHER = 5.0

Advance = Callable[[int], None]
"""Called with the number of messages after each batch."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a way took, for each event of a load: write units, requests to DynamoDB, client CPU in
    microseconds; `counted` events, and the events by which its numbers are `off`, key by key.
    """

    way: str
    events: int
    counted: int
    off: int
    per_second: float
    requests: float
    units: float
    cpu_us: float
    dollars: float

    @property
    def exact(self) -> bool:
        """Whether each key has its true number."""
        return self.off == 0


def measured(way: Way, load: Load, wire: Wire, advance: Advance, *, sealed: bool) -> Measured:
    """Let a way count a load. If `sealed`, its costs include the totals of keys."""
    wire.requests.clear()
    gc.collect()
    clock = _Clock()
    again: list[Delivered] = []
    for number, batch in enumerate(load.batches):
        event = invocation(batch)  # Lambda makes it, whatever the function does
        if number == load.dies:
            with wire.dying(way.operation, way.dies_after), clock:
                way.handle(event)
            way.start()
            again += [message.again() for message in batch]
        else:
            with clock:
                again += _failed(batch, way.handle(event))
        advance(len(batch))
    for _ in range(ROUNDS_MAX):
        if not again:
            break
        batch, again = again[:BATCH], again[BATCH:]
        event = invocation(batch)
        time.sleep(PROGRESS_MS / 1_000)  # the queue hides messages for longer
        with clock:
            again += _failed(batch, way.handle(event))
    requests = Counter(wire.requests)
    units = way.units(requests)
    found = way.totals()
    off = sum(abs(found[key] - load.truth[key]) for key in found.keys() | load.truth.keys())
    busy = sum(
        number * REQUEST_MS.get(operation, REQUEST_MS_OTHER)
        for operation, number in requests.items()
    )
    events = load.events
    cpu_us = clock.cpu / events * 1e6
    totals = len(load.truth) * (TOTAL_UNITS + DAY_UNITS + MONTH_UNITS / 30) if sealed else 0.0
    dollars = (
        (units + totals) * prices.WRITE_UNIT
        + queue_requests(load.bodies) * prices.SQS_REQUEST
        + function_dollars(clock.cpu * 1e3 + busy / way.parallel)
        + len(load.batches) * prices.LAMBDA_REQUEST
    )
    return Measured(
        way=way.name,
        events=events,
        counted=found.total(),
        off=off,
        per_second=events / clock.wall,
        requests=requests.total() / events,
        units=units / events,
        cpu_us=cpu_us,
        dollars=dollars / events * prices.MILLION,
    )


def _failed(batch: Sequence[Delivered], failures: Sequence[str]) -> list[Delivered]:
    ids = set(failures)
    return [message.again() for message in batch if message.id in ids]


class _Clock:
    """Adds up wall and CPU seconds of the `with` blocks."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def __enter__(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        self.wall += time.perf_counter() - self._began[0]
        self.cpu += time.process_time() - self._began[1]
