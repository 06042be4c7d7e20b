from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle

import pytest

from tallyroll.errors import Throttled
from tallyroll.lifecycle.sweeping import DAYS_SWEPT, sweep
from tallyroll.limits import REFERENCE_MS_MAX, SWEPT_AFTER_MS
from tallyroll.model.formats.references import DAY_MS, object_key
from tests.harness.pipeline import HOUR, NOW, SMALL, TIME_LEFT, Pipeline, opened

DUE = NOW - SWEPT_AFTER_MS


def uploaded(pipeline: Pipeline, at: int, count: int, *, name: str = "tallyroll") -> list[str]:
    keys = [object_key(name, at, "0" * 64, f"{number}") for number in range(count)]
    for key in keys:
        pipeline.bucket.put(key, b"x")
    return keys


def test_what_nothing_references_is_deleted_when_it_is_due() -> None:
    pipeline = opened()
    young = uploaded(pipeline, DUE + DAY_MS, 3)
    others = uploaded(pipeline, DUE, 3, name="votes")
    due = uploaded(pipeline, DUE, 250)
    late = uploaded(pipeline, DUE - (DAYS_SWEPT - 1) * DAY_MS, 2)
    pipeline.catalog.marks.update(due[::2])
    report = pipeline.cleanup().run(TIME_LEFT)
    assert report.problems == []
    left = set(pipeline.bucket.list("payloads/"))
    assert left == {*young, *others, *due[::2]}
    assert late


def test_it_is_done_once_a_day_and_again_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = opened()
    cleanup = pipeline.cleanup()
    [first] = uploaded(pipeline, DUE, 1)
    marked = pipeline.catalog.marked

    def fails(_: object) -> set[str]:
        raise Throttled("too many")

    monkeypatch.setattr(pipeline.catalog, "marked", fails)
    [problem] = cleanup.run(TIME_LEFT).problems
    assert problem == "uploaded payloads are not swept: too many"
    monkeypatch.setattr(pipeline.catalog, "marked", marked)
    assert cleanup.run(TIME_LEFT).problems == []
    assert list(pipeline.bucket.list(first)) == []
    [second] = uploaded(pipeline, DUE, 1)
    cleanup.run(TIME_LEFT)
    assert list(pipeline.bucket.list(second)) == [second]
    pipeline.effects.pass_by(DAY_MS)
    cleanup.run(TIME_LEFT)
    assert list(pipeline.bucket.list(second)) == []


def test_without_time_nothing_is_deleted_and_the_next_run_goes_on() -> None:
    pipeline = opened()
    [key] = uploaded(pipeline, DUE, 1)
    ports = (pipeline.bucket, pipeline.catalog, pipeline.effects)
    assert sweep("tallyroll", *ports, deadline=pipeline.effects.now()).left
    cleanup = pipeline.cleanup()
    cleanup.run(0)
    assert list(pipeline.bucket.list("payloads/")) == [key]
    cleanup.run(TIME_LEFT)
    assert list(pipeline.bucket.list("payloads/")) == []


def test_a_sweep_that_ran_out_of_time_goes_on_where_it_stopped() -> None:
    """And is not done for the day: else what it did not reach would wait, and never be reached."""
    pipeline = opened()
    for ago in range(3):
        uploaded(pipeline, DUE - ago * DAY_MS, 150)
    pipeline.catalog.marks.update(pipeline.bucket.list("payloads/"))
    looked: list[list[str]] = []
    marked = pipeline.catalog.marked

    def slow(keys: Sequence[str]) -> set[str]:
        looked.append(list(keys))
        pipeline.effects.pass_by(TIME_LEFT)
        return marked(keys)

    pipeline.catalog.marked = slow  # type: ignore[method-assign]
    cleanup = pipeline.cleanup()
    for _ in range(5):
        cleanup.run(TIME_LEFT)
    assert [len(keys) for keys in looked] == [100, 100, 100, 100, 50]
    assert sorted(key for keys in looked for key in keys) == [*pipeline.bucket.list("payloads/")]
    cleanup.run(TIME_LEFT)
    assert len(looked) == 5, "done for the day"


def test_a_sweep_that_an_error_stopped_goes_on_after_what_it_looked_at() -> None:
    """Else an error that comes back would keep it at the same objects for ever."""
    pipeline = opened()
    uploaded(pipeline, DUE, 450)
    pipeline.catalog.marks.update(pipeline.bucket.list("payloads/"))
    looked: list[str] = []
    failing = cycle([False, True])
    marked = pipeline.catalog.marked

    def fails_each_second_time(keys: Sequence[str]) -> set[str]:
        if next(failing):
            raise Throttled("too many")
        looked.extend(keys)
        return marked(keys)

    pipeline.catalog.marked = fails_each_second_time  # type: ignore[method-assign]
    cleanup = pipeline.cleanup()
    problems = [cleanup.run(TIME_LEFT).problems for _ in range(5)]
    assert problems[:4] == [["uploaded payloads are not swept: too many"]] * 4
    assert problems[4] == []
    assert sorted(looked) == [*pipeline.bucket.list("payloads/")]


def test_processes_that_never_finish_begin_at_different_places() -> None:
    pipeline = opened()
    ports = (pipeline.bucket, pipeline.catalog, pipeline.effects)
    for ago in range(DAYS_SWEPT):
        uploaded(pipeline, DUE - ago * DAY_MS, 1)
    begun: set[str] = set()
    for _ in range(60):
        stopped = sweep("tallyroll", *ports, deadline=pipeline.effects.now()).left
        assert stopped
        begun.add(stopped.begun.split("/")[2])
        pipeline.effects.pass_by(HOUR)
    assert len(begun) >= DAYS_SWEPT


def test_no_message_that_may_count_references_what_is_swept() -> None:
    """A reference is taken until so long after its upload; its message leaves the queue after the
    longest retention that SQS has.
    """
    longest = 14 * DAY_MS
    assert replace(SMALL, queue_retention_ms=1_209_600_000).queue_retention_ms == longest
    assert REFERENCE_MS_MAX + longest + DAY_MS < SWEPT_AFTER_MS
