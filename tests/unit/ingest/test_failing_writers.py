"""Writers that fail for hours: no window may close over its own backlog.

The queue delivers in random order, hides a batch from others while it is worked on, and its age
metric leaves out what was received three times. Lambda counts invocations that failed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from tallyroll.adapters.memory import MemoryCatalog
from tallyroll.errors import Refused
from tallyroll.ingest import placement
from tallyroll.ingest.writer import Writer
from tallyroll.limits import LONE_DEATHS_MAX
from tallyroll.model import events
from tallyroll.model.messages import Message
from tallyroll.model.records import Increment, Record
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status
from tallyroll.model.windows import window_id
from tallyroll.ports.store import Answer, Element, Outcome, Verdict
from tallyroll.reasons import Reason
from tallyroll.settings import Settings
from tests.harness.pipeline import HOUR, MINUTE, SECOND, START, PickyQueue, Pipeline, StillEffects

pytestmark = pytest.mark.slow

SETTINGS = Settings(
    shards=2, stripes_min=8, buckets=2, gates=2, retention_ms=1_000 * HOUR, rollups=False
)
CLOSES_WITHIN = 2 * HOUR + 2 * SETTINGS.visibility_ms + 30 * MINUTE  # of a window's start, + HOUR
READS = ("calendar", "claims", "specs", "window")
NOTES = ("note_straggler", "note_received", "clear_received", "beat")


class Killed(BaseException):
    """The writer's process ends."""


class RandomQueue(PickyQueue):
    """Delivers any of the visible messages, as a standard queue may."""

    chance: Random

    def receive(self, most: int = 10) -> list[Message]:
        now = self._observed()
        visible = [held for held in self.held() if held.visible_at <= now]
        chosen = self.chance.sample(visible, min(most, len(visible)))
        return [message for held in chosen if (message := self.deliver(held))]


class Denied:
    """A catalog of which some methods, or all, are denied to writers."""

    def __init__(self, catalog: MemoryCatalog, names: Sequence[str] = ()) -> None:
        self._catalog = catalog
        self._names = names

    def __getattr__(self, name: str) -> Any:
        def refuse(*_: object, **__: object) -> None:
            raise Refused(f"{name}: AccessDeniedException", "AccessDeniedException")

        if not self._names or name in self._names:
            return refuse
        return getattr(self._catalog, name)


@dataclass
class Night:
    """A pipeline at work, minute by minute: a producer, an event source, a roller."""

    pipeline: Pipeline
    batch: int = 10
    batches: int = 12  # a minute
    sent: dict[str, str] = field(default_factory=dict)
    writer: Writer | None = None
    failing: str = ""
    kills: Callable[[Sequence[Message]], bool] = lambda _: False

    def send(self, key: str = "k") -> None:
        now = self.pipeline.effects.now()
        record_id = f"e{len(self.sent)}"
        self.sent[record_id] = window_id(now // HOUR * HOUR)
        self.pipeline.queue.send(json.dumps({"id": record_id, "key": key, "ts": now}))

    def minute(self, *, every: int = 0, fails: str = "") -> None:
        """One minute of life: an event each `every` seconds, writers that fail or do not."""
        start = self.pipeline.effects.now()
        rolled = self.pipeline_roller.run(120 * SECOND)
        assert not [problem for problem in rolled.problems if "unexpected" in problem]
        for second in range(0, 60, 60 // self.batches):
            self.pipeline.effects.pass_by(start + second * SECOND - self.pipeline.effects.now())
            for later in range(60 // self.batches):
                if every and (start // SECOND + second + later) % every == 0:
                    self.send()
            self.poll(fails)
        self.pipeline.effects.pass_by(start + MINUTE - self.pipeline.effects.now())

    def poll(self, fails: str) -> None:
        pipeline = self.pipeline
        messages = pipeline.queue.receive(self.batch)
        if not messages:
            return
        if fails in ("dies", "throttled"):
            pipeline.queue.invoked(failed=True)
            self.writer = None
            return
        catalog: Any = {
            "catalog": Denied(pipeline.catalog),
            "notes": Denied(pipeline.catalog, NOTES),
            "reads": Denied(pipeline.catalog, READS),
        }.get(fails, pipeline.catalog)
        if self.writer is None or fails != self.failing:
            self.failing = fails
            self.writer = Writer(
                pipeline.settings, pipeline.store, catalog, pipeline.queue, pipeline.effects
            )
        try:
            report = self.writer.write(messages, 20_000)
        except Killed:
            pipeline.queue.invoked(failed=True)
            self.writer = None
            return
        pipeline.queue.invoked(failed=report.notes_failed > 0)
        for message in messages:
            if message.id not in report.failures:
                pipeline.queue.delete(message.receipt)

    def hours(self, hours: float, *, every: int = 0, fails: str = "") -> None:
        for _ in range(round(hours * 60)):
            self.minute(every=every, fails=fails)

    @property
    def open(self) -> list[str]:
        """The windows that are over for so long that they should be closed, and are not."""
        now = self.pipeline.effects.now()
        return [
            window.id
            for window in self.pipeline.catalog.windows(0, now)
            if window.start + CLOSES_WITHIN < now and window.status is Status.OPEN
        ]

    def check_counts(self) -> None:
        """Every event that was sent was counted, in the window in which it happened."""
        for window in dict.fromkeys(self.sent.values()):
            expected = sum(each == window for each in self.sent.values())
            assert self.pipeline.tally("k", window)[0] == expected, window
        assert self.pipeline.queue.dead_letters == []

    def __post_init__(self) -> None:
        self.pipeline_roller = self.pipeline.roller()


def night(seed: int = 7, **changes: Any) -> Night:
    pipeline = Pipeline(replace(SETTINGS, **changes), StillEffects(START))
    queue = RandomQueue(pipeline.effects, visibility_ms=SETTINGS.visibility_ms)
    queue.delays, queue.chance = [], Random(seed)
    pipeline.queue = queue
    return Night(pipeline)


def test_twelve_idle_hours() -> None:
    """Without any heartbeat windows close: the queue is empty."""
    idle = night()
    idle.hours(12)
    assert idle.open == []
    assert idle.pipeline.catalog.heartbeat().at is None


def test_one_event_an_hour() -> None:
    quiet = night()
    quiet.hours(12, every=3600)
    assert quiet.open == []
    quiet.check_counts()


def test_an_event_every_ten_seconds() -> None:
    busy = night()
    busy.hours(8, every=10)
    assert busy.open == []
    busy.hours(0.2)
    busy.check_counts()


def test_a_dead_writer_and_five_messages() -> None:
    dead = night()
    dead.hours(1, every=60)
    for _ in range(5):
        dead.send()
    dead.hours(12, fails="dies")
    states = {window.status for window in dead.pipeline.catalog.windows(0, START + 9 * HOUR)}
    assert states == {Status.OPEN}
    dead.hours(4)
    dead.check_counts()
    assert dead.open == []


@pytest.mark.parametrize("fails", ["dies", "throttled", "catalog", "notes", "reads"])
def test_six_hours_of_failing_writers(fails: str) -> None:
    """Every event counts in its own window, and afterwards all windows close."""
    failing = night()
    failing.hours(1, every=10)
    failing.hours(6, every=10, fails=fails)
    failing.hours(8, every=10)
    assert failing.open == []
    failing.hours(0.2)
    failing.check_counts()


def test_a_message_that_the_writer_fails_on_holds_its_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody knows its window while it comes again and again; once the writer is mended it counts
    there.
    """
    decode = events.decode

    def failing(body: str, *_: object) -> Any:
        if "odd" in body:
            raise TypeError("a defect")
        return decode(body)

    broken = night()
    broken.hours(1, every=10)
    with monkeypatch.context() as patched:
        patched.setattr(placement, "read", failing)
        body = {"id": "odd", "key": "odd", "ts": broken.pipeline.effects.now()}
        broken.pipeline.queue.send(json.dumps(body))
        broken.hours(6, every=10)
        assert set(broken.open) <= {"20261120T080000Z", "20261120T090000Z", "20261120T100000Z"}
        kept = broken.pipeline.catalog.receptions(0, START + 100 * HOUR, 99)
        assert len(kept) == 1, "a note takes the place of the one before"
        assert kept[0].digests == b"", "it blames nobody"
    broken.hours(2, every=10)
    assert broken.pipeline.tally("odd", "20261120T090000Z")[0] == 1
    assert broken.open == []
    assert broken.pipeline.queue.dead_letters == []


def test_a_backlog_that_takes_hours_after_an_outage() -> None:
    """What became hidden waits among the rest, in no order, while the ages seem fresh."""
    behind = night()
    behind.batch, behind.batches = 100, 4
    behind.hours(6, every=10, fails="dies")
    assert len(behind.pipeline.queue) == 2_160
    behind.batch = 2
    behind.hours(20, every=30)  # two a minute come, eight are taken
    behind.hours(5)
    behind.check_counts()
    assert behind.open == []


@pytest.mark.parametrize(
    ("seed", "fails"), [*((seed, "dies") for seed in range(3)), (0, "catalog"), (0, "notes")]
)
def test_a_window_of_one_message_in_a_backlog_of_hours(seed: int, fails: str) -> None:
    """It became hidden while writers failed, and nobody knows of it until its turn comes."""
    behind = night(seed)
    behind.batch, behind.batches = 100, 3
    behind.send()
    behind.hours(1, fails=fails)
    behind.hours(5, every=10, fails=fails)
    behind.batch = 2
    behind.hours(14, every=30)
    behind.hours(4)
    behind.check_counts()
    assert behind.open == []


def test_one_message_handed_back_for_days() -> None:
    """It holds its own window until it is about to expire, and no other one."""
    stuck = night(queue_retention_ms=48 * HOUR)
    stuck.batches = 2
    commit = stuck.pipeline.store.commit

    def refuse(spec: Spec, records: Sequence[Record], increments: Sequence[Increment]) -> Outcome:
        if records[0].key == "hot":
            elements = [Element(Answer.THROTTLED)] * (len(records) + len(increments))
            cut = len(records)
            return Outcome(Verdict.CANCELLED, tuple(elements[:cut]), tuple(elements[cut:]))
        return commit(spec, records, increments)

    stuck.pipeline.store.commit = refuse  # type: ignore[method-assign]
    stuck.hours(1)
    stuck.pipeline.queue.send(
        json.dumps({"id": "x", "key": "hot", "ts": stuck.pipeline.effects.now()})
    )
    for _ in range(45):
        stuck.hours(1, every=1800)
        assert set(stuck.open) <= {"20261120T090000Z"}
    assert stuck.open == ["20261120T090000Z"]
    stuck.hours(4, every=1800)
    assert stuck.open == []
    [letter] = stuck.pipeline.queue.dead_letters
    assert letter.reason is Reason.EXPIRING


def test_poison_beside_healthy_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """It kills each writer that works on it: the others leave, and it is rejected in hours."""
    poisoned = night()
    placer = Writer._write_group

    def killing(writer: Writer, group: Sequence[Any], *rest: Any) -> list[Any]:
        if any("poison" in case.message.body and not case.fate for case in group):
            raise Killed
        return placer(writer, group, *rest)

    monkeypatch.setattr(Writer, "_write_group", killing)
    poisoned.batches = 2
    poisoned.batch = 50
    poisoned.hours(1, every=2)
    poisoned.pipeline.queue.send("poison")
    worst = 0
    for _ in range(12 * 60):
        poisoned.minute(every=2)
        healthy = [held for held in poisoned.pipeline.queue.held() if held.body != "poison"]
        worst = max([worst, *(held.receives for held in healthy)])
    assert worst <= 10, "a healthy message leaves its cohort soon"
    [letter] = poisoned.pipeline.queue.dead_letters
    assert letter.reason is Reason.CRASHES_WRITER
    assert f"{LONE_DEATHS_MAX} writers died" in letter.detail
    poisoned.pipeline.queue.dead_letters.clear()
    assert poisoned.open == []
    poisoned.hours(1)
    poisoned.check_counts()
