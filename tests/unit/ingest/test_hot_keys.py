"""A key that goes viral in one window is spread in the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from tallyroll.adapters.dynamodb.throughput import METERING
from tallyroll.errors import Throttled
from tallyroll.ingest import hot_keys
from tallyroll.ingest.hot_keys import HotKeyDetector, note_chance
from tallyroll.lifecycle.resharding import hot_shards, throttled_lately
from tallyroll.limits import PARTITION_WRITE_UNITS
from tallyroll.model.records import Increment, Record
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar
from tallyroll.model.tallies import Tally
from tallyroll.model.windows import window_id
from tallyroll.ports.store import Answer, Element, Outcome, Verdict
from tallyroll.settings import Settings
from tests.harness.pipeline import (
    HOUR,
    NOW,
    SECOND,
    SMALL,
    TIME_LEFT,
    WINDOW,
    Pipeline,
    ScriptedStore,
    hour,
    opened,
    record_with,
    spec_of,
)

FINE = Element(Answer.FINE)
SPEC = spec_of()
MINUTES = Settings(
    window_seconds=60,
    shards=8,
    stripes_min=8,
    buckets=4,
    gates=4,
    skew_ms=0,
    roller_period_ms=5 * SECOND,
    cache_calendar_ms=0,
    settle_ms=0,
)


class Partitions(ScriptedStore):
    """A store in which every partition key has a partition of its own, of 1,000 units a second.

    What goes beyond is throttled, element by element, as DynamoDB does for a hot key. Gates and
    tallies are left out: they are spread by their own numbers.
    """

    spent: Counter[tuple[int, str]]
    throttled: int = 0

    def commit(
        self, spec: Spec, records: Sequence[Record], increments: Sequence[Increment]
    ) -> Outcome:
        second = self._effects.now() // SECOND
        asked = Counter({place(record): 0 for record in records})
        for record in records:
            asked[place(record)] += METERING.record_cost(record)
        over = {
            pk
            for pk, units in asked.items()
            if self.spent[second, pk] + units > PARTITION_WRITE_UNITS
        }
        if over:
            self.throttled += 1
            elements = tuple(
                Element(Answer.THROTTLED) if place(record) in over else FINE for record in records
            )
            return Outcome(Verdict.CANCELLED, elements, (FINE,) * len(increments))
        for pk, units in asked.items():
            self.spent[second, pk] += units
        return super().commit(spec, records, increments)


def place(record: Record) -> str:
    return f"{record.key}.{record.shard}"


def bodies(now: int, keys: Iterable[str]) -> list[dict[str, object]]:
    return [
        {"id": f"{now}-{n}", "key": key, "ts": now, "payload": "x" * 3_000}
        for n, key in enumerate(keys)
    ]


def storm(pipeline: Pipeline, seconds: int, keys: Sequence[str]) -> int:
    """A batch of these keys each second; how often the store throttled a commit."""
    store = pipeline.store
    assert isinstance(store, Partitions)
    before = store.throttled
    for _ in range(seconds):
        end = pipeline.effects.now() + SECOND
        report = pipeline.write(*bodies(pipeline.effects.now(), keys))
        assert report.events + len(report.failures) == len(keys)
        pipeline.effects.pass_by(max(0, end - pipeline.effects.now()))
    return store.throttled - before


def roll_to_the_next_window(pipeline: Pipeline) -> None:
    now = pipeline.effects.now()
    end = now // 60_000 * 60_000 + 60_000
    while pipeline.effects.now() < end:
        pipeline.roller().run(TIME_LEFT)
        pipeline.effects.pass_by(min(5 * SECOND, end - pipeline.effects.now()))
    pipeline.roller().run(TIME_LEFT)


def viral() -> Pipeline:
    pipeline = Pipeline(MINUTES)
    pipeline.store = Partitions(pipeline.effects, pipeline.catalog)
    pipeline.store.script, pipeline.store.commits = [], []
    pipeline.store.spent = Counter()
    pipeline.roller().run(TIME_LEFT)
    roll_to_the_next_window(pipeline)
    return pipeline


@pytest.mark.slow
def test_a_key_that_goes_viral_is_spread_in_the_next_window() -> None:
    """1,300 records a second, 8 units each: more than 8 partitions take."""
    pipeline, load = viral(), ["viral"] * 1_300
    assert storm(pipeline, 4, load) > 0
    first = pipeline.spec(window_id(pipeline.effects.now() // 60_000 * 60_000))
    roll_to_the_next_window(pipeline)
    assert storm(pipeline, 4, load) == 0
    spec = pipeline.spec(window_id(pipeline.effects.now() // 60_000 * 60_000))
    assert first.shards_of("viral") == 8 < spec.shards_of("viral") <= 40
    assert spec.shards_of("cold") == 8
    for _ in range(8):
        roll_to_the_next_window(pipeline)
    spec = pipeline.spec(window_id(pipeline.effects.now() // 60_000 * 60_000))
    assert spec.hot == {}, "it cooled"


def test_many_cold_keys_are_not_noted() -> None:
    pipeline = viral()
    assert storm(pipeline, 4, [f"key-{n}" for n in range(1_300)]) == 0
    current = window_id(pipeline.effects.now() // 60_000 * 60_000)
    assert pipeline.catalog.hot(current) == []
    roll_to_the_next_window(pipeline)
    assert pipeline.spec(window_id(pipeline.effects.now() // 60_000 * 60_000)).hot == {}


class Drawn:
    """Chance that always draws the same number."""

    def __init__(self, number: float) -> None:
        self._number = number

    def random(self) -> float:
        return self._number

    def getrandbits(self, bits: int) -> int:
        return bits


def noted(written: Iterable[str], spec: Spec = SPEC, draw: float = 0.0) -> list[str]:
    """Which keys a new writer notes that has written a record of each of these, in one batch."""
    pipeline = opened()
    pipeline.effects.chance = Drawn(draw)
    detector = HotKeyDetector(
        pipeline.settings, pipeline.catalog, pipeline.store.metering_of, pipeline.effects
    )
    detector.observe([(spec, record_with(f"e{n}", key)) for n, key in enumerate(written)], [])
    return pipeline.catalog.hot(WINDOW)


def test_a_key_with_a_twentieth_of_a_batch_may_be_hot() -> None:
    twenty, more = ([f"key-{n}" for n in range(count)] for count in (20, 21))
    assert noted(twenty * 2) == sorted(twenty)
    assert noted(more * 2) == []
    assert noted(more * 2 + ["key-7"]) == ["key-7"]


def test_a_key_s_share_is_that_of_all_its_records() -> None:
    cold = [f"cold-{n}" for n in range(25)]
    assert noted(["hot"] * 10 + cold * 2) == ["hot"]


def test_one_record_is_a_share_only_of_a_batch_of_one() -> None:
    assert noted(["k"]) == ["k"]
    assert noted(["k", "l"]) == []
    assert noted(["k", "k"]) == ["k"]
    assert noted(["k", "l", "l"]) == ["l"]


def test_a_key_of_many_shards_is_noted_less_often() -> None:
    """A minute's sixtieth; 250 records of 2 units: 16 notes expected where 4 shards are full."""
    spec = replace(SPEC, end=SPEC.start + 60_000, hot={"spread": 400})
    chances = {"k": 16 * 500 / (500 * 4), "spread": 16 * 500 / (500 * 400)}
    assert noted(["k"] * 250, spec, draw=0.99) == ["k"]
    assert noted(["spread"] * 250, spec, draw=chances["spread"] - 0.001) == ["spread"]
    assert noted(["spread"] * 250, spec, draw=chances["spread"] + 0.001) == []


def test_the_keys_noted_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot_keys, "NOTED_REMEMBERED_MAX", 2)
    pipeline = opened()
    asked: list[Sequence[str]] = []
    monkeypatch.setattr(pipeline.catalog, "note_hot", lambda _, keys, __: asked.append(keys))
    detector = HotKeyDetector(
        pipeline.settings, pipeline.catalog, pipeline.store.metering_of, pipeline.effects
    )
    for key in ("a", "b", "a", "c", "b", "c", "a"):
        detector.observe([], [(WINDOW, key)])
    assert asked == [["a"], ["b"], ["c"], ["a"]]


def test_without_adaptation_nothing_is_noted_and_the_settings_stand() -> None:
    pipeline = opened(replace(SMALL, shards_max=4, hot_shards={"k": 9}))
    assert pipeline.spec().hot == {"k": 9}
    throttled = Outcome(Verdict.CANCELLED, (Element(Answer.THROTTLED),), (FINE,))
    pipeline.store.script = [throttled]
    assert pipeline.write({"id": "e", "key": "k", "ts": NOW}).events == 1
    assert pipeline.catalog.hot(WINDOW) == []


def test_a_key_that_was_throttled_is_noted_once() -> None:
    pipeline = opened()
    noted: list[Sequence[str]] = []
    note = pipeline.catalog.note_hot

    def noting(window: str, keys: Sequence[str], throttled: Sequence[str] = ()) -> None:
        noted.append(keys)
        note(window, keys, throttled)

    pipeline.catalog.note_hot = noting  # type: ignore[method-assign]
    writer = pipeline.writer()
    for number in range(3):
        pipeline.store.script = [Outcome(Verdict.THROTTLED)]
        message = pipeline.message({"id": f"e{number}", "key": "k", "ts": NOW})
        assert writer.write([message], TIME_LEFT).events == 1
    assert noted == [["k"]]
    assert pipeline.catalog.hot(WINDOW) == ["k"]


def test_a_note_that_cannot_be_written_is_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = opened()
    detector = HotKeyDetector(
        pipeline.settings, pipeline.catalog, pipeline.store.metering_of, pipeline.effects
    )

    def refuse(*_: object) -> None:
        raise Throttled("slow down")

    with monkeypatch.context() as patch:
        patch.setattr(pipeline.catalog, "note_hot", refuse)
        detector.observe([], [(WINDOW, "k")])
    assert pipeline.catalog.hot(WINDOW) == []
    detector.observe([], [(WINDOW, "k")])
    assert pipeline.catalog.hot(WINDOW) == ["k"]


def test_a_key_that_was_noted_is_noted_again_once_it_is_throttled() -> None:
    pipeline = opened()
    pipeline.effects.chance = Drawn(0.0)
    detector = HotKeyDetector(
        pipeline.settings, pipeline.catalog, pipeline.store.metering_of, pipeline.effects
    )
    detector.observe([(SPEC, record_with("e1", "k")), (SPEC, record_with("e2", "k"))], [])
    assert (pipeline.catalog.hot(WINDOW), pipeline.catalog.throttled(WINDOW)) == (["k"], [])
    detector.observe([], [(WINDOW, "k"), (WINDOW, "l")])
    assert pipeline.catalog.throttled(WINDOW) == ["k", "l"]
    assert throttled_lately(pipeline.catalog, calendar_of(pipeline), NOW + HOUR) == {"k", "l"}
    assert throttled_lately(pipeline.catalog, calendar_of(pipeline), NOW + 2 * HOUR) == set()


def calendar_of(pipeline: Pipeline) -> Calendar:
    calendar = pipeline.catalog.calendar()
    assert calendar
    return calendar


def test_keys_keep_their_shards_if_their_load_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = opened(replace(SMALL, hot_shards={"k": 64}))
    pipeline.settings = SMALL

    def refuse(*_: object) -> None:
        raise Throttled("slow down")

    monkeypatch.setattr(pipeline.store, "tallies", refuse)
    pipeline.effects.pass_by(HOUR)
    assert pipeline.roller().run(TIME_LEFT).problems == []
    pipeline.roller().run(TIME_LEFT)
    assert pipeline.spec(hour(9)).hot == {"k": 64}
    assert f"window {hour(9)}: keys keep their shards: slow down" in caplog.messages
    monkeypatch.undo()
    pipeline.effects.pass_by(HOUR)
    pipeline.roller().run(TIME_LEFT)
    pipeline.roller().run(TIME_LEFT)
    assert pipeline.spec(hour(10)).hot == {"k": 32}


def test_the_higher_peak_of_two_windows_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The current window may have just begun, or the load may have just come."""
    pipeline = opened()
    calendar = pipeline.catalog.calendar()
    assert calendar
    busy, quiet = (Tally("k", n, 0, ((0, n),), 2 * n) for n in (240_000, 1))
    for past, current in ((busy, quiet), (quiet, busy)):
        tallies = {hour(7): {"k": past}, hour(8): {"k": current}}
        monkeypatch.setattr(pipeline.store, "tallies", lambda spec, _, of=tallies: of[spec.window])
        ports = (pipeline.catalog, pipeline.store, pipeline.settings)
        assert hot_shards(pipeline.state(hour(10)), calendar, *ports, NOW, {}) == {"k": 16}


def test_a_window_follows_the_one_before_it_which_may_be_ahead_of_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = opened()
    calendar = pipeline.catalog.calendar()
    assert calendar
    specs = pipeline.catalog.specs

    def hot_ahead(windows: Sequence[str]) -> dict[str, Spec]:
        found = specs(windows)
        found[hour(9)] = replace(found[hour(8)], window=hour(9), hot={"k": 32})
        return {window: found[window] for window in windows if window in found}

    monkeypatch.setattr(pipeline.catalog, "specs", hot_ahead)
    ports = (pipeline.catalog, pipeline.store, pipeline.settings)
    assert hot_shards(pipeline.state(hour(10)), calendar, *ports, NOW, {}) == {"k": 16}
    assert hot_shards(pipeline.state(hour(9)), calendar, *ports, NOW, {}) == {}


def test_a_key_without_an_n_of_its_own_is_noted_as_if_it_had_sixteen_shards() -> None:
    spec = spec_of(shards=256, hot={"hot": 256})
    few = note_chance(spec_of(shards=16), "k", 100, 500)
    assert note_chance(spec, "k", 100, 500) == few == 16 * note_chance(spec, "hot", 100, 500)
