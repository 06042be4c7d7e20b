"""One seeded life of a producer's events, over several processes, and its judgement.

Every event has a number. At the end the tables, the dead letters and what the producer said are
compared: what was accepted is counted once, or reported.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tallyroll.client.producer import PortProducer
from tallyroll.client.receipts import Delivery, Receipt
from tallyroll.client.rules import Limits, ProducerRules
from tallyroll.client.spool import Spool
from tallyroll.errors import BufferFull, NotSent, Rejected
from tallyroll.reasons import Reason
from tests.harness.pipeline import MINUTE
from tests.producing.world import (
    FAULTS,
    Disk,
    DiskJournal,
    Doom,
    Killed,
    LyingQueue,
    Weather,
    World,
)

# A retry after a long freeze may come when its window is closed: it is a dead letter then.
LATE = {Reason.TOO_LATE, Reason.WINDOW_SEALED, Reason.NOT_OPEN_WHEN_SENT}
KEYS = ("a", "b", "video-42", "\u00fc\ufffe")


@dataclass(slots=True)
class Fate:
    """What the producer said of an event: all receipts for it, how often it did not take it, and
    whether a process died in `send`.
    """

    receipts: list[Receipt] = field(default_factory=list)
    refused: int = 0
    limbo: bool = False
    own: dict[str, Any] | None = None


@dataclass(slots=True)
class Result:
    """A seed's faults by name, its number of events, and what is wrong."""

    seed: int
    events: int = 0
    met: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def weather_of(chance: Random) -> Weather:
    """A seed's weather: calm, or some faults at rates of its own."""
    faults = {}
    for name in FAULTS:
        if chance.random() < 0.5:
            faults[name] = chance.random() * (0.02 if name == "refused" else 0.25)
    return Weather(
        faults,
        latency_ms=chance.choice((5, 50, 2_000)),
        freeze=chance.choice((0, 0, 0.02, 0.1)),
        freeze_ms=chance.choice((5_000, 3 * MINUTE, 45 * MINUTE, 180 * MINUTE)),
        disk_full=chance.choice((0, 0, 0.05)),
        final=chance.choice((0, 0, 0.1)),
    )


class Run:
    """The processes of one seed."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.result = Result(seed)
        self.world = World(Random(seed + 1))
        self.effects = self.world.pipeline.effects
        self.effects.chance = Random(seed + 2)
        self.weather = weather_of(self.chance)
        self.spooled = self.chance.random() < 0.7
        self.spool_sizes = {
            "compact_bytes": self.chance.choice((300, 100_000)),
            "rewrite_bytes": self.chance.choice((1_000, 100_000)),
        }
        self.busy = self.chance.choice((0.15, 0.02))  # how often it sends between two events
        self.disk = Disk()
        self.fates: dict[int, Fate] = {}
        self.told: set[str] = set()  # the messages of which the producer said that they are lost
        self.rules = ProducerRules(
            linger_ms=self.chance.choice((0, 20, 200)),
            packet_events=self.chance.choice((2, 10, 1000)),
            packet_bytes=self.chance.choice((120, 2_000, 250_000)),
            give_up_ms=self.chance.choice((None, 500, 20_000)),
            grouped=self.chance.random() < 0.5,
        )
        self.compressing = Random(seed + 3)

    def run(self) -> Result:
        lives = self.chance.randint(1, 4) if self.spooled else 1
        for life in range(lives):
            last = life == lives - 1
            killed = self.spooled and not last
            doom = Doom(self.chance.randint(1, 90) if killed else None)
            self._live(doom, last=last)
            if self.chance.random() < 0.7:
                self.world.write()
            if doom.dead:
                self.result.met["killed"] += 1
        if self.spooled:
            self._clear_up()
        self.world.write()
        self._judge()
        self.result.events = len(self.fates)
        return self.result

    def _producer(self, doom: Doom, weather: Weather) -> PortProducer:
        queue = LyingQueue(self.world.pipeline, doom, self.chance, weather, self.result.met)
        journal = DiskJournal(self.disk, doom, self.chance, weather.disk_full)
        return PortProducer(
            queue,
            self.effects,
            replace(self.rules, compressed=self.compressing.random() < 0.5),
            Limits(
                buffer_bytes=self.chance.choice((5_000, 1_000_000)),
                blocks=self.chance.random() < 0.8,
                block_ms=self.chance.choice((None, 100)),
                workers=0,
            ),
            spool=Spool(journal, **self.spool_sizes) if self.spooled else None,
            on_delivery=self._delivered,
            monotonic=lambda: self.effects.now() / 1000,
        )

    def _delivered(self, delivery: Delivery) -> None:
        if delivery.error:
            self.told.add(delivery.id)

    def _live(self, doom: Doom, *, last: bool) -> None:
        """One process: it sends, and ends by a kill, or by a close of limited patience."""
        try:
            producer = self._producer(doom, self.weather)
            before = self._accepted()
            for _ in range(self.chance.randint(0, 60)):
                self._act(producer)
            self._flush(producer, None if last and not self.rules.give_up_ms else 5)
            try:
                producer.close(self.chance.choice((0, 1, 30)))
            except NotSent:
                self.result.met["closed with a loss"] += 1
            self._check_stats(producer, self._accepted() - before)
        except Killed:
            pass

    def _act(self, producer: PortProducer) -> None:
        drawn = self.chance.random()
        if drawn < 0.9 - self.busy:
            self._send(producer)
        elif drawn < 0.9:
            self.effects.pass_by(self.chance.randint(1, 300))
            producer.step()
        elif drawn < 0.95:
            self._flush(producer, self.chance.choice((0, 0.1, 5)))
        else:
            self.effects.pass_by(self.chance.randint(1, 30_000))

    def _flush(self, producer: PortProducer, timeout: float | None) -> None:
        try:
            producer.flush(timeout)
        except (NotSent, TimeoutError) as error:
            self.result.met[f"flush: {type(error).__name__}"] += 1

    def _send(self, producer: PortProducer) -> None:
        number, fields = self._event()
        fate = self.fates.setdefault(number, Fate())
        try:
            fate.receipts.append(producer.send(**fields))
        except (BufferFull, Rejected, OSError) as error:
            self.result.met[f"send: {type(error).__name__}"] += 1
            fate.refused += 1
        except Killed:
            fate.limbo = True
            raise

    def _event(self) -> tuple[int, dict[str, Any]]:
        """A new event, or one that was sent before with a time and an id of its own."""
        again = [number for number, fate in self.fates.items() if fate.own]
        if again and self.chance.random() < 0.1:
            number = self.chance.choice(again)
            own = self.fates[number].own
            assert own
            return number, own
        number = len(self.fates)
        fields: dict[str, Any] = {"key": self.chance.choice(KEYS), "payload": {"n": number}}
        if self.chance.random() < 0.1:
            fields["payload"]["long"] = "x" * self.chance.choice((50, 500, 300_000))
        if self.chance.random() < 0.3:
            fields["value"] = self.chance.choice((2, 0.5, -1))
        if self.chance.random() < 0.3:
            fields["ts"] = self.effects.now() - self.chance.randint(0, 20 * MINUTE)
        if self.chance.random() < 0.3:
            fields["id"] = f"own-{number}"
        self.fates[number] = Fate(own=fields if {"id", "ts"} <= fields.keys() else None)
        return number, fields

    def _clear_up(self) -> None:
        """A last start in calm weather: it sends what the spool still has."""
        producer = self._producer(Doom(), Weather())
        recovered = producer.stats.recovered
        self.result.met["recovered"] += recovered
        if producer.stats.damaged:
            self.result.wrong.append(f"{producer.stats.damaged} damaged lines")
        with suppress(NotSent):  # what an earlier process gave up
            producer.close()
        if producer.stats.confirmed + producer.stats.failed != recovered:
            self.result.wrong.append(f"{recovered} recovered, {producer.stats} in calm weather")
        if self.disk.data:
            self.result.wrong.append("the spool is not empty at the end")

    def _accepted(self) -> int:
        return sum(len(fate.receipts) for fate in self.fates.values())

    def _check_stats(self, producer: PortProducer, accepted: int) -> None:
        stats = producer.stats
        if (stats.accepted, stats.waiting, stats.held_bytes) != (accepted, 0, 0):
            self.result.wrong.append(f"{accepted} accepted, but {stats}")

    def _judge(self) -> None:
        counts = self.world.count()
        for number, fate in self.fates.items():
            problem = self._problem(
                fate, counts.counted[number], counts.rejected.get(number, set())
            )
            if problem:
                self.result.wrong.append(f"event {number}: {problem}")

    def _problem(self, fate: Fate, counted: int, rejected: set[Reason | None]) -> str:
        if counted > 1:
            return f"counted {counted} times"
        if rejected - LATE:
            return f"rejected: {sorted(map(str, rejected))}"
        reported = counted or rejected
        errors = [receipt.exception(0) if receipt.done() else None for receipt in fate.receipts]
        unsure = fate.limbo or any(error is None or error.unknown or error.kept for error in errors)
        if reported and not unsure:
            return "counted, although every try was reported as not sent"
        for receipt, error in zip(fate.receipts, errors, strict=True):
            sure = receipt.done() and error is None
            kept = error.kept if error else self.spooled and not receipt.done()
            told = receipt.id.partition(":")[0] in self.told
            if (sure or (kept and not told)) and not reported:
                return f"silently lost (confirmed {sure}, in the spool {kept})"
        if not self.spooled and any(not receipt.done() for receipt in fate.receipts):
            return "has no outcome after close"
        return ""


def run(seed: int) -> Result:
    """The run of a seed."""
    return Run(seed).run()
