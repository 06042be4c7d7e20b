"""Long outages of a part, with tens of thousands of events in the queue, end exact."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import count

import pytest

from tallyroll.client.packing import pack
from tallyroll.model.events import Event
from tallyroll.model.states import Status
from tallyroll.model.windows import window_id
from tests.harness.pipeline import HOUR, MINUTE, SMALL, START, TIME_LEFT, Pipeline, StillEffects

pytestmark = pytest.mark.slow

pytestmark = pytest.mark.no_cover  # traced, so many events take twice as long
EVENTS = 50_000
PACKED = 1_000  # events of a packet
KEYS = ("a", "b.1", "ü")
MICROS = 1_000_000
BATCH = 1_000
SETTINGS = replace(SMALL, settle_ms=MINUTE, rollups=False)


class Days:
    """Producers, a writer and a roller, minute by minute; the writer and the roller may be away."""

    def __init__(self) -> None:
        self.pipeline = Pipeline(SETTINGS, StillEffects(START))
        self.writer, self.roller = self.pipeline.writer(), self.pipeline.roller()
        self.truth: Counter[tuple[str, str]] = Counter()
        self._numbers = count(1)

    def minute(
        self, singles: int = 0, packets: int = 0, *, writes: bool = True, rolls: bool = True
    ) -> None:
        """Send so many events of now, singly and in packets, then do what the others do."""
        now = self.pipeline.effects.now()
        for _ in range(singles):
            number = next(self._numbers)
            key = KEYS[number % len(KEYS)]
            self.pipeline.queue.send(json.dumps({"id": f"e{number}", "key": key, "ts": now}))
            self.truth[window_id(now // HOUR * HOUR), key] += 1
        for _ in range(packets):
            key = KEYS[next(self._numbers) % len(KEYS)]
            events = (Event(key, None, now, MICROS, None) for _ in range(PACKED))
            for body in pack(events, lambda: f"p{next(self._numbers)}"):
                self.pipeline.queue.send(body)
            self.truth[window_id(now // HOUR * HOUR), key] += PACKED
        if rolls:
            assert not self.roller.run(TIME_LEFT).problems
        while writes and (batch := self.pipeline.queue.receive(BATCH)):
            failed = frozenset(self.writer.write(batch, TIME_LEFT).failures)
            for message in batch:
                if message.id not in failed:
                    self.pipeline.queue.delete(message.receipt)
        self.pipeline.effects.pass_by(MINUTE)

    def queued(self) -> int:
        """How many events are in the queue."""
        bodies = (json.loads(held.body) for held in self.pipeline.queue.held())
        return sum(len(body.get("events", (1,))) for body in bodies)

    def check(self) -> None:
        """Let the windows come to their seal, and compare everything with what was sent."""
        pipeline = self.pipeline
        windows = {window for window, _ in self.truth}
        for _ in range(6 * 60):
            if all(pipeline.state(window).status is Status.SEALED for window in windows):
                break
            self.minute()
        assert pipeline.queue.dead_letters == []
        assert len(pipeline.queue) == 0
        totals = pipeline.totals.listed()
        assert {(total.window, total.key): total.n for total in totals} == self.truth
        assert all(total.amount == total.n * MICROS for total in totals)
        for key in KEYS:
            answer = pipeline.reader().count(key, None, None, TIME_LEFT)
            assert answer.complete
            assert answer.events == sum(n for (_, of), n in self.truth.items() if of == key)


def test_the_writers_are_away_for_three_windows() -> None:
    days = Days()
    for _ in range(30):
        days.minute(singles=2)
    minutes = 3 * 60
    singles = 55
    packets = -(-(EVENTS - minutes * singles) // PACKED)
    for minute in range(minutes):
        days.minute(singles, packets=int(minute < packets), writes=False)
    assert days.queued() >= EVENTS
    assert days.pipeline.state(window_id(START)).status is Status.OPEN, "its events are queued"
    for _ in range(30):
        days.minute(singles=2)
    assert days.queued() == 0
    days.check()
    assert len({window for window, _ in days.truth}) == 4


def test_the_roller_is_away_for_two_windows() -> None:
    """No window opens meanwhile, so the events of the next ones wait in the queue."""
    days = Days()
    for _ in range(30):
        days.minute(singles=2)
    minutes = 2 * 60
    packets = 50
    for minute in range(minutes):
        days.minute(17, packets=int(minute >= minutes - packets), rolls=False)
    assert days.queued() >= EVENTS
    assert days.pipeline.state(window_id(START)).status is Status.OPEN
    for _ in range(30):
        days.minute(singles=2)
    assert days.queued() == 0
    days.check()
    assert len({window for window, _ in days.truth}) == 3
