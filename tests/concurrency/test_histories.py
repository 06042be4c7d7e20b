"""Many writers and several readers over two windows on DynamoDB Local, judged as one history."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import pytest

from tallyroll.lifecycle.sealing import Sealing, seal
from tallyroll.lifecycle.state_machine import freeze
from tallyroll.model.messages import Message
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status, Window
from tallyroll.model.tallies import Tally
from tallyroll.operations.probe.history import Fact, History, ReadRule
from tallyroll.operations.probe.judge import judge
from tallyroll.operations.probe.run import read_of
from tallyroll.ports.store import Store
from tallyroll.reads.reader import PortReader
from tests.concurrency.crowd import TIME_LEFT_MS, Crowd
from tests.concurrency.test_writers import deliveries

pytestmark = pytest.mark.engine
EVENTS, SLICES, READERS, KEYS = 800, 5, 3, 2
STRIPES = 8
PACKED = 5
MICROS = 1_000_000
RADIX = 10_000


@dataclass
class Watched(Crowd):
    """A crowd whose writers note what they began with and what they acknowledged."""

    history: History = field(default_factory=History)
    events: dict[str, Fact] = field(default_factory=dict)
    before: Spec | None = None

    def add_window(self) -> None:
        """Have the window before the current one take events, too."""
        calendar = self.made.catalog.calendar()
        assert calendar
        span = calendar.grid.at(self.spec.start - 1)
        window = Window(
            span.id,
            f"{self.settings.name}-{span.id}",
            span.start,
            span.end,
            accept_from=0,
            accept_until=self.now + 3_600_000,
        )
        self.made.catalog.create(window)
        self.made.store.make_table(window.table, {"tallyroll": self.settings.name})
        self.before = self.made.catalog.put_spec(freeze(window, self.settings))
        self.made.store.open_gates(self.before)
        self.state = self.made.catalog.advance(replace(window, status=Status.OPEN))

    def seal_window(self) -> None:
        """Close and seal the window before the current one, beside writers and readers."""
        assert self.before
        state = self.made.catalog.advance(replace(self.state, status=Status.CLOSING))
        self.made.store.shut_gates(self.before)
        list(seal(self.before, self.made.store, self.made.totals, self.made.effects, Sealing()))
        self.made.catalog.advance(replace(state, status=Status.SEALED))

    def envelope(self, number: int) -> Message:
        """A message of one event, or every fourth time of a packet, of some key and window."""
        assert self.before
        spec = (self.spec, self.before)[number // KEYS % 2]
        key = f"key-{number % KEYS}"
        value = RADIX ** (number % 3)
        n = PACKED if number % 4 == 0 else 1
        body: dict[str, object] = {"id": f"e{number}", "key": key}
        if n > 1:
            body |= {"v": 1, "t0": spec.start, "events": [[0, value]] * n}
        else:
            body |= {"ts": spec.start, "value": value}
        message = Message(f"m{number}", json.dumps(body), self.now, 1, f"r{number}")
        identity = spec.start, key, f"e{number}"
        self.events[message.id] = Fact(identity, n, n * value * MICROS, 0)
        return message

    def _write(self, batch: Sequence[Message]) -> list[Message]:
        began = self.made.effects.now()
        records = [replace(self.events[message.id], at=began) for message in batch]
        self.history.sent += records
        report = self._writer().write(batch, TIME_LEFT_MS)
        self.reports.append(report)
        ended = self.made.effects.now()
        failed = set(report.failures)
        left = failed | {letter.message.id for letter in self.queue.dead_letters}
        self.history.counted += [
            replace(record, at=ended)
            for message, record in zip(batch, records, strict=True)
            if message.id not in left
        ]
        return [replace(message, receives=2) for message in batch if message.id in failed]


class Readers:
    """Clients that read all keys again and again, each with a cache of its own."""

    def __init__(self, crowd: Watched, store: Store | None = None) -> None:
        self._crowd = crowd
        self._store = store or crowd.made.store
        self._rounds = [0] * READERS
        self._stopping = False
        self._round = threading.Condition()

    def run(self, work: Sequence[Callable[[], object]]) -> None:
        """Read beside each piece of work, and once more after it."""
        with ThreadPoolExecutor(READERS) as pool:
            reading = [pool.submit(self._read, number) for number in range(READERS)]
            try:
                for piece in work:
                    piece()
                    self._await_rounds(reading)
            finally:
                self._stopping = True
            for each in reading:
                each.result()

    def _await_rounds(self, reading: Sequence[Future[None]]) -> None:
        """Wait until every reader has begun and ended a round from now on."""
        with self._round:
            wanted = [rounds + 2 for rounds in self._rounds]
            done = self._round.wait_for(
                lambda: (
                    any(each.done() for each in reading)
                    or all(now >= want for now, want in zip(self._rounds, wanted, strict=True))
                ),
                timeout=600,
            )
        assert done, "the readers stand still"

    def _read(self, number: int) -> None:
        crowd = self._crowd
        made, effects = crowd.made, crowd.made.effects
        aggregator = PortReader(crowd.settings, self._store, made.catalog, made.totals, effects)
        turn = 0
        while not self._stopping:
            turn += 1
            for key in [f"key-{n}" for n in range(KEYS)]:
                for consistent, windows in ((True, True), (False, False), (False, False)):
                    began = effects.now()
                    count = aggregator.count(
                        key, None, None, TIME_LEFT_MS, consistent=consistent, by_window=windows
                    )
                    cache_ms = 0 if consistent else crowd.settings.cache_live_ms
                    crowd.history.reads.append(
                        read_of(
                            count,
                            f"reader {number}",
                            began,
                            effects.now(),
                            cache_ms=cache_ms,
                            asked="by window" if windows else "",
                        )
                    )
            with self._round:
                self._rounds[number] = turn
                self._round.notify_all()


@pytest.fixture
def crowd(dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_endpoint)
    crowd = Watched.gathered(stripes=STRIPES)
    assert isinstance(crowd, Watched)
    crowd.add_window()
    return crowd


def slices(crowd: Watched, events: int) -> list[Callable[[], None]]:
    """The work of delivering all events, some of them several times, in so many slices."""
    delivered = deliveries([crowd.envelope(number) for number in range(events)], 1)
    cut = [delivered[at::SLICES] for at in range(SLICES)]
    return [partial(crowd.deliver, part, at) for at, part in enumerate(cut)]


def test_readers_of_two_windows_one_of_which_is_sealed_meanwhile(crowd: Watched) -> None:
    work = slices(crowd, EVENTS)
    Readers(crowd).run([*work[:3], crowd.seal_window, *work[3:]])
    verdict = judge(crowd.history)
    assert verdict.findings == []
    assert not verdict.undecided
    for rule in ReadRule:
        assert verdict.judged[rule] >= READERS * SLICES, rule
    assert len({read.n for read in crowd.history.reads if read.key == "key-0"}) >= SLICES
    assert len(crowd.history.counted) > EVENTS // 2


class Short:
    """A store whose tallies lack the last stripe that holds any."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, verb: str) -> object:
        return getattr(self._store, verb)

    def tallies(self, spec: Spec, keys: Sequence[str]) -> dict[str, Tally]:
        whole = self._store.tallies(spec, keys)
        for stripes in range(STRIPES - 1, 0, -1):
            part = self._store.tallies(replace(spec, stripes_min=1, shards=stripes), keys)
            if part != whole:
                return part
        return {}


def test_readers_who_miss_a_stripe_are_found(crowd: Watched) -> None:
    short = cast("Store", Short(crowd.made.store))
    for piece in slices(crowd, EVENTS // 8):
        piece()
    Readers(crowd, short).run([lambda: None])
    assert ReadRule.BELOW in {finding.rule for finding in judge(crowd.history).findings}
