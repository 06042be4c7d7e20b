"""Writers of a logged key that die and are stopped, while one of its two windows is closed.

    python -m tests.concurrency.logs_night [--seeds 10] [--from 1] [--events 200000]

Starts DynamoDB Local, and judges one night for each seed. The status is 1 if one is not exact.

Four processes write plain events of one key that were sent in two windows, a half in each. They get
them as a queue hands them out: by chance, 5 % of them twice, and the last ones as a backlog in a
random order and in small batches, so that slots become full. Writers are killed at a commit, or
when they are anywhere, and others start in their place; what they had comes again. When a half is
handed out, the earlier window is closed, and sealed soon after. A writer is stopped meanwhile.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from random import Random
from typing import Any
from uuid import UUID

from local.aws import dynamodb_local
from tallyroll.ingest.cost import LogCounts
from tallyroll.lifecycle.sealing import Sealing, seal
from tallyroll.model.messages import Message
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status
from tallyroll.model.stored import apart, logged_events, stored
from tallyroll.model.tallies import Tally
from tallyroll.model.windows import Span
from tallyroll.reasons import Reason
from tests.concurrency import log_writers
from tests.concurrency.crowd import HOUR, Crowd, open_window
from tests.concurrency.log_writers import DEATHS, Batch, State, Told, Trouble

EVENTS = 200_000
KEY = "home-page"
RATE = 5_000  # events a second
WRITERS = 4
BATCH_MAX = 3_000
BATCH_OF_BACKLOG_MAX = 5
TWICE = 0.05
BACKLOG = 0.008
MIXED = 6_000  # messages are handed out by chance among so many
TROUBLES = 12
KILLS = 4  # of writers that may be anywhere
SLEEPS = 6  # so many batches are handed out while a writer is stopped
SEALS_AFTER = 6  # batches after the close
WAIT_S = 1_000.0
TURN_S = 0.05
MICROS = 1_000_000


@dataclass
class Writer:
    """A process, and the batch it has; if it is stopped, the number of batches until it wakes."""

    process: Any
    pipe: Pipe
    batch: Batch | None = None
    asleep: int = 0


@dataclass
class Night:
    """Two windows of a pipeline of its own, and all that is sent in them."""

    endpoint: str
    seed: int
    events: int = EVENTS
    told: list[Told] = field(default_factory=list)
    deaths: int = 0
    stops: int = 0

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)
        self.crowd = Crowd.gathered(stripes=64, logs={KEY: RATE}, accept_for_ms=2 * HOUR)
        self.opened = self.crowd.spec
        start = self.opened.start
        self.closing = open_window(self.crowd.made, Span(start - HOUR, start), start)
        self.sent = {each.id: each for each in self._messages()}
        self.todo = deque(self._deliveries())
        self.taken, self.ordered = 0, len(self.todo) - int(self.events * BACKLOG)
        least = len(self.todo) // BATCH_MAX  # batches, in which most of the messages are
        numbers = range(4, 4 + max(2 * least, TROUBLES + KILLS))
        self.troubles = dict.fromkeys(self.chance.sample(numbers, TROUBLES + KILLS))
        for at, number in enumerate(self.troubles):
            kinds = (*DEATHS, Trouble.STOPS)
            self.troubles[number] = kinds[at % len(kinds)] if at < TROUBLES else None
        self.given = 0
        self.close_at = 0
        self.writers: list[Writer] = []

    def _messages(self) -> Iterator[Message]:
        for number in range(self.events):
            spec = (self.closing, self.opened)[number % 2]
            body = json.dumps({"key": KEY, "value": number % 7})
            name = str(UUID(int=self.chance.getrandbits(128), version=4))
            sent = spec.start + number // 2 * 1_000 // RATE
            yield Message(name, body, sent, 1, f"receipt {name}")

    def _deliveries(self) -> Iterator[Message]:
        """All messages as they are handed out, some of them twice."""
        backlog = int(self.events * (1 - BACKLOG))
        sent = [*self.sent.values()]
        parts = [sent[at : min(at + MIXED, backlog)] for at in range(0, backlog, MIXED)]
        parts.append(sent[backlog:])
        again: list[Message] = []
        for part in parts:
            twice = [replace(each, receives=2) for each in part if self.chance.random() < TWICE]
            late = twice[: len(twice) // 2]  # the others come while the first may be on its way
            part += [*twice[len(late) :], *again]
            again = late
            self.chance.shuffle(part)
            yield from part
        yield from again

    def run(self) -> None:
        """Let them write until everything is answered."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([log_writers.__name__])
        self._context: Any = context
        try:
            self.writers = [self._started() for _ in range(WRITERS)]
            with ThreadPoolExecutor(1) as pool:
                self._run(pool)
        finally:
            for each in self.writers:
                each.process.kill()
                each.process.join()

    def _run(self, pool: ThreadPoolExecutor) -> None:
        until = time.monotonic() + WAIT_S
        shut: Future[None] | None = None
        sealed: Future[None] | None = None
        half = len(self.todo) // 2
        while self.todo or any(each.batch for each in self.writers):
            assert time.monotonic() < until, f"no end: {self.given} batches given"
            self._turn()
            if shut is None and len(self.todo) < half:
                self.close_at = self.given
                shut = pool.submit(self._close)
            due = self.given >= self.close_at + SEALS_AFTER or not self.todo
            if shut and sealed is None and due:
                sealed = pool.submit(self._seal)
            nobody_writes = not self.todo or all(each.asleep for each in self.writers)
            for each in self.writers:
                if each.asleep and (self.given >= each.asleep or nobody_writes):
                    os.kill(each.process.pid, signal.SIGCONT)  # again until it says that it woke
        assert shut
        assert sealed
        sealed.result()

    def _turn(self) -> None:
        """Hand out batches, and take what there is to hear."""
        for at, each in enumerate(self.writers):
            if each.batch is None and self.todo:
                each.batch = self._next()
                try:
                    each.pipe.send(each.batch)
                except OSError:  # it was killed while it had nothing to do
                    self._died(at, each)
                if self.troubles.get(self.given, Trouble.NONE) is None:
                    self.troubles[self.given] = Trouble.NONE
                    victim = self.chance.choice(self.writers)
                    victim.process.kill()
            elif not each.process.is_alive() and not each.pipe.poll():
                self._died(at, each)
        for pipe in wait([each.pipe for each in self.writers], TURN_S):
            [writer] = [each for each in self.writers if each.pipe is pipe]
            try:
                self._heard(writer, writer.pipe.recv())
            except (EOFError, OSError):
                self._died(self.writers.index(writer), writer)

    def _next(self) -> Batch:
        before, most = self.ordered - self.taken, BATCH_MAX
        if -self.events * BACKLOG < before <= 0:  # what comes again is behind the backlog
            most = BATCH_OF_BACKLOG_MAX
        number = min(before if before > 0 else len(self.todo), self.chance.randint(1, most))
        self.taken += number
        messages: dict[str, Message] = {}
        for message in [self.todo.popleft() for _ in range(number)]:
            messages.setdefault(message.id, message)
        self.given += 1
        trouble = self.troubles.get(self.given) or Trouble.NONE
        if self.given == self.close_at + 1 and self.close_at:
            trouble = Trouble.STOPS  # across the seal
        return Batch(tuple(messages.values()), trouble, self.chance.randint(1, 2))

    def _heard(self, writer: Writer, said: State | Told) -> None:
        assert writer.batch
        if said is State.ASLEEP:
            self.stops += 1
            writer.asleep = self.given + SLEEPS
        elif said is State.AWAKE:
            writer.asleep = 0
        else:
            assert isinstance(said, Told)
            self.told.append(said)
            self._again(writer.batch, {*said.back})
            writer.batch = None

    def _again(self, batch: Batch, names: set[str]) -> None:
        messages = [each for each in batch.messages if each.id in names]
        self.todo.extend(replace(each, receives=each.receives + 1) for each in messages)

    def _died(self, at: int, writer: Writer) -> None:
        """Other writers do its batch again."""
        writer.process.join()
        assert writer.process.exitcode == -signal.SIGKILL, "a writer failed"
        self.deaths += 1
        if writer.batch:
            self._again(writer.batch, {each.id for each in writer.batch.messages})
        self.writers[at] = self._started()

    def _started(self) -> Writer:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=log_writers.writer,
            args=(self.crowd.settings, self.endpoint, theirs),
            daemon=True,
        )
        process.start()
        theirs.close()
        return Writer(process, ours)

    def _close(self) -> None:
        made = self.crowd.made
        state = made.catalog.window(self.closing.window)
        assert state
        made.catalog.advance(replace(state, status=Status.CLOSING))
        made.store.shut_gates(self.closing)

    def _seal(self) -> None:
        made = self.crowd.made
        list(seal(self.closing, made.store, made.totals, made.effects, Sealing()))
        state = made.catalog.window(self.closing.window)
        assert state
        made.catalog.advance(replace(state, status=Status.SEALED))

    @property
    def logs(self) -> LogCounts:
        """What the writers that lived said of slots and leaves."""
        counts = LogCounts()
        for each in self.told:
            counts.add(each.logs)
        return counts

    def judge(self) -> int:
        """Check what was told against what is there; the number of events that count."""
        there = {spec.window: _there(self.crowd, spec) for spec in (self.closing, self.opened)}
        counted = there[self.closing.window] + there[self.opened.window]
        assert set(counted.values()) == {1}, "an event counts twice"
        for spec in (self.closing, self.opened):
            events = [self.sent[name] for name in there[spec.window]]
            assert all(spec.start <= each.sent < spec.end for each in events)
            _agree(self.crowd.made.store.tallies(spec, [KEY])[KEY], events)
        totals = self.crowd.made.totals.of_window(self.closing.window, [KEY])
        closed = there[self.closing.window]
        amount = sum(_value(self.sent[name]) for name in closed) * MICROS
        assert (totals[KEY].n, totals[KEY].amount) == (len(closed), amount)
        letters = [letter for each in self.told for letter in each.letters]
        rejected = {name for name, _ in letters}
        assert {reason for _, reason in letters} <= {Reason.WINDOW_SEALED}
        assert not rejected & counted.keys(), "what counts was rejected"
        acknowledged = {name for each in self.told for name in each.acknowledged}
        assert acknowledged <= counted.keys(), "an event was acknowledged, and does not count"
        assert self.sent.keys() == counted.keys() | rejected, "an event was lost"
        assert sum(each.counted for each in self.told) <= len(counted)
        return len(counted)


def _value(message: Message) -> int:
    value = json.loads(message.body)["value"]
    assert isinstance(value, int)
    return value


def _agree(tally: Tally, events: Sequence[Message]) -> None:
    amount = sum(map(_value, events)) * MICROS
    assert (tally.n, tally.amount) == (len(events), amount), "the tally is another"
    assert sum(n for _, n in tally.series) == len(events), "the curve is another"


def _there(crowd: Crowd, spec: Spec) -> Counter[str]:
    """How often each message is stored, in a log or as a record. Each leaf is where it may be."""
    found: Counter[str] = Counter()
    slots: dict[str, dict[int, bool]] = {}
    rule = spec.logs[KEY]
    for record in crowd.records(spec):
        if record.logged:
            slot, _, position = record.id.rpartition(".")
            slots.setdefault(slot, {})[int(position)] = record.format == "log1e+zlib"
            group, place = map(int, slot.removeprefix("~log.").split("."))
            times = {sent // rule.slot_ms for _, sent in logged_events(record)}
            assert times == {group * rule.slots + place}, f"{record.id} has what it must not"
        found.update(each.message or each.id for each in apart(stored(record)))
    for slot, ends in slots.items():
        assert sorted(ends) == [*range(len(ends))], f"slot {slot} has a gap"
        assert not any(ends[at] for at in range(len(ends) - 1)), f"slot {slot} goes on after an end"
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the seeds, and print what came of each."""
    parser = argparse.ArgumentParser(prog="python -m tests.concurrency.logs_night")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--from", dest="first", type=int, default=1)
    parser.add_argument("--events", type=int, default=EVENTS)
    asked = parser.parse_args(arguments)
    made_up = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    os.environ.update({"AWS_DEFAULT_REGION": "us-east-1", **dict.fromkeys(made_up, "none")})
    failed = 0
    with dynamodb_local.start() as engine:
        os.environ["AWS_ENDPOINT_URL_DYNAMODB"] = engine.endpoint
        for seed in range(asked.first, asked.first + asked.seeds):
            night, began = Night(engine.endpoint, seed, asked.events), time.monotonic()
            try:
                night.run()
                result = f"exact: {night.judge():,} of {asked.events:,} events count"
            except AssertionError as error:
                failed += 1
                result = f"WRONG: {error}"
            print(  # noqa: T201
                f"seed {seed}: {result}; {night.deaths} writers killed, {night.stops} stopped,"
                f" {night.logs}, {time.monotonic() - began:.0f} s",
                flush=True,
            )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
