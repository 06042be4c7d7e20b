"""Attempts at an archive: slices, kills, runs at once; states that must never lead to a drop."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.adapters.dynamodb.items import Item
from tallyroll.adapters.memory import MemoryBucket
from tallyroll.adapters.memory.store import MemoryStore
from tallyroll.archive.layout import data_dir, proof_key
from tallyroll.errors import Throttled
from tallyroll.lifecycle.runner import Rolled
from tallyroll.lifecycle.state_machine import Step
from tallyroll.model.states import Status, Window
from tallyroll.resources import TAG_PROVEN
from tests.harness.pipeline import MINUTE, SMALL, TIME_LEFT, Pipeline, hour
from tests.unit.lifecycle.test_cleanup import COLD, TO_THE_END, proven, run, sealed, tags


class Killed(BaseException):
    """No code survives it."""


def kill(*_: object) -> None:
    raise Killed


def killed(pipeline: Pipeline, verb: str = "scan", owner: Any = MemoryStore) -> Window:
    """A run that is killed at a verb of the store; the state that it leaves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, verb, kill)
        with pytest.raises(Killed):
            run(pipeline)
    return pipeline.state(COLD)


def is_there(pipeline: Pipeline) -> bool:
    """Whether the table stands, untagged."""
    table = pipeline.state(COLD).table
    return table in pipeline.store.tables() and TAG_PROVEN not in tags(pipeline)


def slow_scans(pipeline: Pipeline, ms: int) -> Callable[..., Iterator[list[Item]]]:
    """Scans whose every segment takes that long."""

    def scan(store: MemoryStore, table: str, segment: int, segments: int) -> Any:
        pipeline.effects.pass_by(ms)
        return MEMORY_SCAN(store, table, segment, segments)

    return scan


MEMORY_SCAN = MemoryStore.scan


# --- slices


def test_a_run_that_was_killed_is_taken_up_when_its_time_is_over() -> None:
    pipeline = sealed()
    first = killed(pipeline)
    assert (first.status, first.attempt.busy_until) == (
        Status.EXPORTING,
        pipeline.effects.now() + TIME_LEFT,
    )
    assert run(pipeline).steps.total() == 0
    pipeline.effects.pass_by(TIME_LEFT)
    assert [*run(pipeline).steps] == [Step.COPY, Step.PROVE, *TO_THE_END]
    assert pipeline.state(COLD).attempt.id == first.attempt.id


def test_an_export_goes_on_from_run_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = sealed()
    pipeline.settings = replace(pipeline.settings, export_segments=6, export_lease_ms=2 * MINUTE)
    monkeypatch.setattr(MemoryStore, "scan", slow_scans(pipeline, 25_000))
    attempts, runs = set(), 0
    while pipeline.state(COLD).status is not Status.DROPPED:
        run(pipeline)
        pipeline.effects.pass_by(5 * MINUTE)  # well over the lease, but each run gets on
        attempts.add(pipeline.state(COLD).attempt.id)
        runs += 1
    assert runs >= 3
    assert len(attempts) == 1


def test_what_a_killed_run_got_done_counts_as_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = sealed()
    pipeline.settings = replace(pipeline.settings, export_segments=4, export_lease_ms=MINUTE)
    seen: list[int] = []

    def scan(store: MemoryStore, table: str, segment: int, segments: int) -> Any:
        seen.append(segment)
        if len(seen) % 2 == 0:
            raise Killed
        return MEMORY_SCAN(store, table, segment, segments)

    monkeypatch.setattr(MemoryStore, "scan", scan)
    attempts = set()
    while pipeline.state(COLD).status is not Status.DROPPED:
        try:
            run(pipeline)
        except Killed:
            pipeline.effects.pass_by(10 * MINUTE)
        attempts.add(pipeline.state(COLD).attempt.id)
    assert len(attempts) == 1
    assert len(seen) == 4 + 3


def test_an_attempt_that_never_gets_on_is_begun_anew_in_more_segments() -> None:
    pipeline = sealed()
    first = killed(pipeline)
    pipeline.effects.pass_by(SMALL.export_lease_ms - 1)
    again = killed(pipeline)
    assert again.attempt.id == first.attempt.id
    pipeline.effects.pass_by(TIME_LEFT)
    anew = killed(pipeline)
    assert anew.attempt.id != first.attempt.id
    assert (first.attempt.segments, anew.attempt.segments) == (2, 4)
    pipeline.effects.pass_by(TIME_LEFT)
    assert [*run(pipeline).steps] == [Step.COPY, Step.PROVE, *TO_THE_END]


def test_a_proof_goes_on_from_run_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = sealed()
    monkeypatch.setattr("tallyroll.archive.proof.NOTE_EVERY_MS", 0)
    monkeypatch.setattr("tallyroll.archive.proof.CLOCK_EVERY_ITEMS", 1)
    stream = MemoryBucket.stream

    def slow(bucket: MemoryBucket, key: str) -> Iterator[bytes]:
        pipeline.effects.pass_by(30_000)
        return stream(bucket, key)

    monkeypatch.setattr(MemoryBucket, "stream", slow)
    runs = 0
    while pipeline.state(COLD).status is not Status.DROPPED:
        rolled = run(pipeline)
        assert rolled.problems == []
        pipeline.effects.pass_by(5 * MINUTE)
        runs += 1
    assert runs >= 2
    assert pipeline.state(COLD).attempt.number == 1


def test_a_proof_that_never_gets_on_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = sealed()
    first = killed(pipeline, "stream", MemoryBucket)
    stream = MemoryBucket.stream

    def endless(bucket: MemoryBucket, key: str) -> Iterator[bytes]:
        pipeline.effects.pass_by(TIME_LEFT)
        return stream(bucket, key)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryBucket, "stream", endless)
        for _ in range(30):
            run(pipeline)
            pipeline.effects.pass_by(TIME_LEFT)
    assert pipeline.state(COLD).attempt.number > 1
    pipeline.effects.pass_by(TIME_LEFT)
    run(pipeline)
    assert pipeline.state(COLD).status is Status.DROPPED
    assert pipeline.state(COLD).attempt.id != first.attempt.id


def test_a_proof_that_was_throttled_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = sealed()

    def throttled(*_: object) -> None:
        raise Throttled("SlowDown")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryBucket, "stream", throttled)
        assert "SlowDown" in run(pipeline).problems[0]
    assert [*run(pipeline).steps] == [Step.PROVE, *TO_THE_END]
    assert pipeline.state(COLD).attempt.number == 1


# --- two at once, one of them hours behind


@pytest.mark.parametrize("hours", [0, 5])
@pytest.mark.parametrize(
    "verb", ["scan", "put_once", "start_upload", "put_part", "complete_upload", "list", "stamps"]
)
def test_a_run_that_sleeps_while_another_carries_the_window_to_its_end(
    verb: str, hours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner: Any = MemoryStore if verb == "scan" else MemoryBucket
    perform, number, slept = getattr(owner, verb), 0, True
    while slept:
        number += 1
        pipeline, calls, slept = sealed(), 0, False

        def sleepy(port: Any, *args: Any, **named: Any) -> Any:
            nonlocal calls, slept
            calls += 1
            if calls == number:  # noqa: B023 - used at once
                slept = True
                pipeline.effects.pass_by(hours * 60 * MINUTE + TIME_LEFT)  # noqa: B023
                for _ in range(3):
                    run(pipeline)  # noqa: B023
            return perform(port, *args, **named)

        with monkeypatch.context() as patch:
            patch.setattr(owner, verb, sleepy)
            late = run(pipeline)
        assert late.mismatches == 0
        run(pipeline)
        window = pipeline.state(COLD)
        assert window.status is Status.DROPPED
        stood = json.loads(pipeline.bucket.get(proof_key(window.attempt.archive)))
        assert (stood["events"], stood["attempt"]) == (2, window.attempt.id)
    assert number > 1


# --- what must never lead to a drop


def never_drops(pipeline: Pipeline, finding: str) -> Rolled:
    """Run for a while; the first run, which names what is wrong."""
    first = run(pipeline)
    assert any(finding in problem for problem in first.problems), first.problems
    for _ in range(3):
        pipeline.effects.pass_by(MINUTE)
        run(pipeline)
    assert pipeline.state(COLD).status is not Status.DROPPED
    return first


def test_a_table_deleted_behind_our_back_while_it_is_exported() -> None:
    pipeline = sealed()
    killed(pipeline)
    pipeline.effects.pass_by(TIME_LEFT)
    pipeline.store.drop_table(pipeline.state(COLD).table)
    never_drops(pipeline, "there is no table")
    assert "gone: there is no table" in pipeline.state(COLD).attempt.problem


def test_a_table_that_was_deleted_and_made_again() -> None:
    pipeline = sealed()
    table = pipeline.state(COLD).table
    pipeline.store.drop_table(table)
    pipeline.store.make_table(table, {})
    assert never_drops(pipeline, "gates: 0 shut").mismatches == 1
    assert is_there(pipeline)


@pytest.mark.parametrize("name", ["keys", "events", "amount"])
def test_an_edited_state_says_other_counts(name: str) -> None:
    pipeline = sealed()
    killed(pipeline)
    pipeline.effects.pass_by(TIME_LEFT)
    window = pipeline.state(COLD)
    pipeline.catalog.advance(replace(window, **{name: getattr(window, name) + 1}))
    assert never_drops(pipeline, "when sealed").mismatches == 1
    assert is_there(pipeline)


@pytest.mark.parametrize("status", [Status.EXPORTING, Status.PROVEN, Status.DROPPING])
def test_an_edited_state_names_another_archive(status: Status) -> None:
    pipeline = sealed()
    window = proven(pipeline)
    edited = window.attempt.archive.replace("hour=06", "hour=07")
    pipeline.move(status, COLD, attempt=replace(window.attempt, archive=edited))
    assert never_drops(pipeline, "the state names the archive").mismatches == 1
    assert is_there(pipeline)


@pytest.mark.parametrize("status", [Status.PROVEN, Status.DROPPING])
def test_an_edited_state_says_that_it_is_proven(status: Status) -> None:
    pipeline = sealed()
    killed(pipeline)
    pipeline.move(status, COLD)
    assert never_drops(pipeline, "not proven: there is no").mismatches == 1
    assert is_there(pipeline)


def truncated(body: bytes) -> bytes:
    return body[:-1]


@pytest.mark.parametrize("change", [None, truncated, lambda body: body + b"x", lambda _: b""])
@pytest.mark.parametrize("when", ["copied", "proven"])
def test_a_file_that_is_missing_truncated_or_replaced(
    when: str, change: Callable[[bytes], bytes] | None
) -> None:
    pipeline = sealed()
    window = proven(pipeline)
    if when == "copied":
        pipeline.move(Status.EXPORTING, COLD)
        for key in [*pipeline.bucket.list(f"{window.attempt.archive}/p")]:
            if "segment-" not in key:
                del pipeline.bucket._objects[key]
    key = next(iter(pipeline.bucket.list(data_dir(window.attempt.archive))))
    if change:
        pipeline.bucket.put(key, change(pipeline.bucket.get(key)))
    else:
        del pipeline.bucket._objects[key]
    assert never_drops(pipeline, "data/").mismatches == 1
    assert is_there(pipeline)


def test_the_export_of_another_windows_table() -> None:
    pipeline = sealed()
    with pytest.MonkeyPatch.context() as patch:

        def scan(store: MemoryStore, table: str, segment: int, segments: int) -> Any:
            return MEMORY_SCAN(store, table.replace(COLD, hour(8)), segment, segments)

        patch.setattr(MemoryStore, "scan", scan)
        assert never_drops(pipeline, "when sealed").mismatches == 1
    assert is_there(pipeline)


def test_a_drop_goes_on_when_the_archive_is_again_as_it_was() -> None:
    pipeline = sealed()
    window = proven(pipeline)
    key = next(iter(pipeline.bucket.list(data_dir(window.attempt.archive))))
    body = pipeline.bucket.get(key)
    pipeline.bucket.put(key, b"another")
    never_drops(pipeline, "changed since they were proven")
    assert "changed since they were proven" in pipeline.state(COLD).attempt.problem
    pipeline.bucket.put(key, body)
    run(pipeline)
    assert (pipeline.state(COLD).status, pipeline.state(COLD).attempt.problem) == (
        Status.DROPPED,
        "",
    )
