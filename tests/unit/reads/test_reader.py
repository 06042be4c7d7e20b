from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from tallyroll.errors import Missing, Throttled, UsageError
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status
from tallyroll.model.tallies import Tally
from tallyroll.model.totals import Total
from tallyroll.reads.counts import Count, Gathering
from tests.harness.pipeline import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    SMALL,
    START,
    TIME_LEFT,
    WINDOW,
    Pipeline,
    StillEffects,
    hour,
    opened,
)


def event(record_id: str, ts: int, **fields: Any) -> dict[str, Any]:
    return {"id": record_id, "key": "k", "ts": ts, **fields}


def counted() -> Pipeline:
    """Key k has 1 event in window 06, which is sealed, 2 in 07 and 3 in 08; l has others."""
    pipeline = opened()
    six = START - 2 * HOUR
    pipeline.writer().write([pipeline.message(event("e0", six), sent=six)], TIME_LEFT)
    pipeline.write(event("e1", NOW - HOUR), event("e2", NOW - HOUR, value=-0.5))
    pipeline.write(*(event(f"e{n}", NOW) for n in range(3, 6)), event("e6", NOW, key="l"))
    roller = pipeline.roller()
    for _ in range(3):
        roller.run(TIME_LEFT)
    assert pipeline.state(hour(6)).status is Status.SEALED
    return pipeline


def count(
    pipeline: Pipeline, since: int | None = None, until: int | None = None, key: str = "k"
) -> Count:
    return pipeline.reader().count(key, since, until, TIME_LEFT)


def by_window(answer: Count) -> dict[str, int]:
    return {window.window[9:11]: window.events for window in answer.windows}


def test_sealed_and_live_windows_together() -> None:
    pipeline = counted()
    answer = count(pipeline)
    assert (answer.events, answer.amount, answer.complete) == (6, 4_500_000, True)
    assert by_window(answer) == {"06": 1, "07": 2, "08": 3}
    assert [window.status for window in answer.windows] == ["sealed", "open", "open"]
    assert answer.as_of == NOW
    assert pipeline.state(hour(9)).status is Status.CREATING  # and so not in the answer


def test_a_key_alone_asks_for_everything() -> None:
    answer = counted().reader().count("k")
    assert (answer.events, answer.value, answer.complete) == (6, Decimal("4.5"), True)
    assert (answer.amount, str(answer.value)) == (4_500_000, "4.5")


def test_what_was_gathered_is_told() -> None:
    pipeline = counted()
    aggregator = pipeline.reader()

    def told(since: int | None, until: int | None) -> Gathering | None:
        return aggregator.count("k", since, until, TIME_LEFT).gathering

    assert told(None, None) == Gathering(stripes=2 * SMALL.stripes_min, took_ms=0)
    assert told(None, None) is None  # from the cache
    assert told(START - 2 * HOUR, START - HOUR) is None  # sealed: its totals


def test_a_range_takes_whole_windows() -> None:
    pipeline = counted()
    assert by_window(count(pipeline, since=START - HOUR)) == {"07": 2, "08": 3}
    assert by_window(count(pipeline, until=START)) == {"06": 1, "07": 2}
    assert by_window(count(pipeline, START - HOUR, START)) == {"07": 2}
    assert by_window(count(pipeline, START - 2 * HOUR, START - HOUR)) == {"06": 1}
    assert count(pipeline, START + 10 * HOUR, START + 11 * HOUR).events == 0


def test_a_key_that_nobody_sent() -> None:
    answer = count(counted(), key="nobody")
    assert (answer.events, answer.amount, answer.complete) == (0, 0, True)


def test_before_the_first_roll_there_is_nothing() -> None:
    answer = count(Pipeline(), START + 1, START + 2)
    assert (answer.events, answer.windows, answer.complete) == (0, (), True)


def test_a_window_that_is_closing_is_counted_once() -> None:
    """Its totals may stand already while its state still says closing."""
    pipeline = counted()
    advance = pipeline.catalog.advance
    pipeline.catalog.advance = lambda window: (  # type: ignore[method-assign]
        window if window.status is Status.SEALED else advance(window)
    )
    pipeline.move(Status.CLOSING)
    pipeline.roller().run(TIME_LEFT)
    assert pipeline.state().status is Status.CLOSING
    assert pipeline.totals.of_window(WINDOW, ["k"])["k"].n == 3
    answer = count(pipeline)
    assert (answer.events, by_window(answer)["08"]) == (6, 3)


@pytest.mark.parametrize("status", [Status.SEALED, Status.DROPPED])
def test_a_window_that_was_sealed_meanwhile_is_counted_once(status: Status) -> None:
    pipeline = counted()
    _meanwhile(pipeline, lambda: _to_its_end(pipeline, status))
    answer = count(pipeline)
    assert (answer.events, answer.complete) == (6, True)
    assert pipeline.state().status is status


def test_a_table_that_went_away_before_its_seal_is_missing_not_zero() -> None:
    pipeline = counted()
    table = pipeline.state().table
    _meanwhile(pipeline, lambda: pipeline.store.drop_table(table))
    answer = count(pipeline)
    assert (answer.events, answer.complete, answer.missing) == (3, False, (WINDOW,))
    assert answer.why_missing[WINDOW].startswith("it is not sealed, and its table is gone: ")


def test_a_total_that_cannot_be_read_is_missing_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Like a tally that cannot be read: the other windows count."""
    pipeline = counted()
    _meanwhile(pipeline, lambda: _to_its_end(pipeline, Status.DROPPED))

    of_key = pipeline.totals.of_key

    def throttled(key: str, since: str, until: str) -> list[Total]:
        if since == WINDOW:
            raise Throttled("slow down")
        return of_key(key, since, until)

    monkeypatch.setattr(pipeline.totals, "of_key", throttled)
    answer = count(pipeline)
    assert (answer.complete, answer.why_missing[WINDOW]) == (False, "slow down")


def test_a_key_without_events_in_a_window_that_was_dropped_meanwhile() -> None:
    pipeline = counted()
    _meanwhile(pipeline, lambda: _to_its_end(pipeline, Status.DROPPED))
    answer = count(pipeline, key="nobody")
    assert (answer.events, answer.complete) == (0, True)


def _to_its_end(pipeline: Pipeline, status: Status) -> None:
    pipeline.move(Status.CLOSING)
    pipeline.roller().run(TIME_LEFT)
    if status is Status.DROPPED:
        pipeline.store.drop_table(pipeline.state().table)
        pipeline.move(Status.DROPPED)


def _meanwhile(pipeline: Pipeline, happens: Callable[[], object]) -> None:
    """Let something happen after the aggregator has read the windows' states and the totals."""
    of_key = pipeline.totals.of_key

    def read(key: str, since: str, until: str) -> Any:
        found = of_key(key, since, until)
        happens()
        return found

    pipeline.totals.of_key = read  # type: ignore[method-assign]


# --- ranges off the bounds


@pytest.mark.parametrize(
    ("since", "until", "message"),
    [
        (START + 1, None, "since .*08:00:00.001Z .* nearest bound is 2026-11-20T08:00:00.000Z"),
        (START + 30 * MINUTE, None, "nearest bound is 2026-11-20T08:00:00.000Z"),
        (None, START + 30 * MINUTE + 1, "until .* nearest bound is 2026-11-20T09:00:00.000Z"),
        (START, START, "is not before until"),
        (START, START - HOUR, "is not before until"),
    ],
)
def test_a_range_off_the_bounds_names_the_nearest(
    since: int | None, until: int | None, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        count(counted(), since, until)


# --- time and trouble


def test_past_the_deadline_the_answer_is_not_complete() -> None:
    pipeline = counted()
    answer = pipeline.reader().count("k", None, None, time_left_ms=0)
    assert (answer.events, answer.complete) == (1, False)
    assert answer.missing == (hour(7), hour(8))


def test_the_deadline_may_pass_between_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = counted()
    tallies = pipeline.store.tallies

    def slow(spec: Spec, keys: list[str]) -> dict[str, Tally]:
        pipeline.effects.pass_by(SECOND)
        return tallies(spec, keys)

    monkeypatch.setattr(pipeline.store, "tallies", slow)
    answer = pipeline.reader().count("k", None, None, time_left_ms=SECOND)
    assert (answer.events, answer.missing) == (3, (WINDOW,))


@pytest.mark.parametrize("error", [Throttled("slow down"), Missing("gone")])
def test_a_window_that_cannot_be_read_is_named(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = counted()
    tallies = pipeline.store.tallies

    def fail(spec: Spec, keys: list[str]) -> dict[str, Tally]:
        if spec.window == hour(7):
            raise error
        return tallies(spec, keys)

    monkeypatch.setattr(pipeline.store, "tallies", fail)
    answer = count(pipeline)
    assert (answer.events, answer.missing) == (4, (hour(7),))


# --- the cache


def test_an_answer_is_kept_for_a_second_unless_consistency_is_asked_for() -> None:
    pipeline = counted()
    aggregator = pipeline.reader()

    def ask(consistent: bool = False) -> int:
        return aggregator.count("k", None, None, TIME_LEFT, consistent=consistent).events

    assert ask() == 6
    pipeline.write(event("e9", NOW))
    pipeline.effects.pass_by(SMALL.cache_live_ms - 1)
    assert (ask(), ask(consistent=True), ask()) == (6, 7, 7)
    pipeline.write(event("e10", NOW))
    pipeline.effects.pass_by(SMALL.cache_live_ms)
    assert ask() == 8


def test_other_questions_are_not_answered_from_the_cache() -> None:
    pipeline = counted()
    aggregator = pipeline.reader()
    assert aggregator.count("k", None, None, TIME_LEFT).events == 6
    assert aggregator.count("l", None, None, TIME_LEFT).events == 1
    assert aggregator.count("k", START, None, TIME_LEFT).events == 3


def test_an_incomplete_answer_is_not_kept() -> None:
    aggregator = counted().reader()
    assert not aggregator.count("k", None, None, time_left_ms=0).complete
    assert aggregator.count("k", None, None, TIME_LEFT).complete


def test_old_answers_do_not_pile_up() -> None:
    pipeline = counted()
    aggregator = pipeline.reader()
    for n in range(50):
        aggregator.count(f"k{n}", None, None, TIME_LEFT)
        pipeline.effects.pass_by(SMALL.cache_live_ms // 2)
    assert len(aggregator._kept._counts) <= 3


def test_the_cache_can_be_switched_off() -> None:
    pipeline = counted()
    pipeline.settings = replace(SMALL, cache_live_ms=0)
    aggregator = pipeline.reader()
    assert aggregator.count("k", None, None, TIME_LEFT).events == 6
    pipeline.write(event("e9", NOW))
    assert aggregator.count("k", None, None, TIME_LEFT).events == 7


def test_many_live_windows_are_read_in_parts() -> None:
    settings = replace(SMALL, window_seconds=60, gates=1)
    pipeline = Pipeline(settings, StillEffects(NOW - 150 * MINUTE))
    pipeline.roller().run(TIME_LEFT)
    pipeline.effects.pass_by(150 * MINUTE)
    pipeline.roller().run(TIME_LEFT)
    pipeline.write(event("e1", NOW), event("e2", NOW - 50 * MINUTE))
    answer = count(pipeline)
    assert (answer.events, answer.complete) == (2, True)
    assert len(answer.windows) > 150


# --- several keys


def test_several_keys_are_what_each_is_alone() -> None:
    pipeline = counted()
    keys = ["l", "nobody", "k"]
    together = pipeline.reader().counts(keys)
    assert [(answer.key, answer.events) for answer in together] == [
        ("l", 1),
        ("nobody", 0),
        ("k", 6),
    ]
    alone = [pipeline.reader().count(key) for key in keys]
    assert together == alone


def test_of_several_keys_those_that_are_kept_are_not_read_again() -> None:
    pipeline = counted()
    aggregator = pipeline.reader()
    aggregator.count("k")
    pipeline.write(event("e9", NOW), event("e10", NOW, key="l"))
    assert [answer.events for answer in aggregator.counts(["k", "l"])] == [6, 2]
    assert [answer.events for answer in aggregator.counts(["k", "l"], consistent=True)] == [7, 2]


def test_several_keys_share_what_a_window_is_missing_for() -> None:
    answers = counted().reader().counts(["k", "l"], None, None, time_left_ms=0)
    assert [answer.missing for answer in answers] == 2 * [(hour(7), hour(8))]


def test_keys_of_a_window_that_was_dropped_meanwhile_have_their_totals() -> None:
    pipeline = counted()
    _meanwhile(pipeline, lambda: _to_its_end(pipeline, Status.DROPPED))
    answers = pipeline.reader().counts(["k", "l", "nobody"])
    assert [(answer.events, answer.complete) for answer in answers] == [
        (6, True),
        (1, True),
        (0, True),
    ]


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ([], "0 keys: one read counts from 1 to 100"),
        ([f"k{n}" for n in range(101)], "101 keys"),
        (["a", "b", "a"], "key 'a' comes twice: give each key once"),
    ],
)
def test_wrong_numbers_of_keys_are_refused(keys: list[str], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        counted().reader().counts(keys)
