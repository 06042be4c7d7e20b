"""DynamoDB's own export, by a double that keeps its documented rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.adapters.memory import MemoryStore
from tallyroll.archive.layout import find_summary
from tallyroll.archive.recount import ArchivePass
from tallyroll.errors import Refused, Throttled, Unknown
from tallyroll.lifecycle.state_machine import Step
from tallyroll.model.states import Status
from tests.harness.native_exports import MemoryExports
from tests.harness.pipeline import HOUR, MINUTE, SECOND, TIME_LEFT, Pipeline
from tests.unit.lifecycle.test_cleanup import COLD, TO_THE_END, proven, run, sealed


def native(taking_ms: int = 10 * MINUTE) -> Pipeline:
    """A pipeline whose cold window is to be exported by DynamoDB."""
    pipeline = sealed()
    pipeline.settings = replace(pipeline.settings, exporter="native")
    pipeline.exports._taking_ms = taking_ms
    return pipeline


def arns(pipeline: Pipeline) -> list[str]:
    return [export.arn for export in pipeline.exports.exports.values()]


def test_dynamodb_exports_and_the_same_proof_is_made() -> None:
    pipeline = native()
    assert [*run(pipeline).steps] == [Step.EXPORT, Step.COPY]
    window = pipeline.state(COLD)
    assert (window.status, window.attempt.exporter, window.attempt.segments) == (
        Status.EXPORTING,
        "native",
        0,
    )
    assert [window.attempt.export_arn] == arns(pipeline)
    pipeline.effects.pass_by(5 * MINUTE)
    assert [*run(pipeline).steps] == [Step.COPY]
    pipeline.effects.pass_by(5 * MINUTE)
    assert [*run(pipeline).steps] == [Step.COPY, Step.PROVE, *TO_THE_END]
    window = pipeline.state(COLD)
    reading = ArchivePass(pipeline.bucket, window.attempt.archive, pipeline.store.codec)
    assert len(list(reading)) == window.attempt.items
    assert reading.findings.first == []
    assert (
        find_summary(window.attempt.archive, pipeline.bucket.list(""))
        != f"{window.attempt.archive}/AWSDynamoDB"
    )
    assert len(arns(pipeline)) == 1


def test_the_exported_state_is_one_after_the_gates_were_shut() -> None:
    pipeline = native()
    sealed_at = pipeline.state(COLD).times[Status.SEALED]
    run(pipeline)
    window = pipeline.state(COLD)
    assert window.attempt.export_at >= sealed_at + 5 * MINUTE
    assert window.attempt.export_at % SECOND == 0


def test_a_time_that_cannot_be_restored_yet_is_awaited() -> None:
    pipeline = native(taking_ms=0)
    table = pipeline.state(COLD).table
    since = pipeline.effects.now() + 20 * MINUTE
    pipeline.exports.protected_since[table] = since
    for _ in range(4):
        run(pipeline)
        assert arns(pipeline) == []
        pipeline.effects.pass_by(6 * MINUTE)
    run(pipeline)
    assert pipeline.state(COLD).attempt.export_at == since
    assert pipeline.state(COLD).attempt.number == 1
    pipeline.effects.pass_by(5 * MINUTE)
    for _ in range(3):
        run(pipeline)
    assert pipeline.state(COLD).status is Status.DROPPED


def test_a_time_that_cannot_be_restored_for_hours_ends_the_attempt() -> None:
    """DynamoDB may forget its token, and after a lost reply make a second export."""
    pipeline = native()
    pipeline.exports.protected_since[pipeline.state(COLD).table] = pipeline.effects.now() + 9 * HOUR
    run(pipeline)
    for _ in range(7 * 6 - 1):
        pipeline.effects.pass_by(10 * MINUTE)
        assert run(pipeline).problems == []
    pipeline.effects.pass_by(10 * MINUTE)
    assert "could not be begun for hours" in run(pipeline).problems[0]
    assert pipeline.state(COLD).attempt.problem
    assert arns(pipeline) == []


@pytest.mark.parametrize("days", [34.9, 35, 60, 365])
def test_a_window_that_is_older_than_the_recovery_period_is_exported(
    days: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept longer than 35 days, or met late by a cleanup that stood still."""
    pipeline = native()
    pipeline.effects.pass_by(round(days * 24 * HOUR))
    restorable = MemoryExports.restorable

    def slowly(exports: MemoryExports, table: str) -> tuple[int, int] | None:
        pipeline.effects.pass_by(2 * SECOND)  # by which the earliest time moves on, too
        return restorable(exports, table)

    monkeypatch.setattr(MemoryExports, "restorable", slowly)
    run(pipeline)
    window = pipeline.state(COLD)
    assert window.attempt.export_at > window.times[Status.SEALED] + 5 * MINUTE
    for _ in range(2):
        pipeline.effects.pass_by(10 * MINUTE)
        assert run(pipeline).problems == []
    window = pipeline.state(COLD)
    assert (window.status, window.attempt.exporter, window.attempt.number) == (
        Status.DROPPED,
        "native",
        1,
    )


def test_the_time_to_export_stays_restorable_while_an_export_may_wait() -> None:
    pipeline = native()
    pipeline.effects.pass_by(40 * 24 * HOUR)

    def busy(*_: object) -> str:
        raise Throttled("too many exports at once", "LimitExceededException")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryExports, "start", busy)
        for _ in range(6):
            assert "too many exports" in run(pipeline).problems[0]
            pipeline.effects.pass_by(2 * MINUTE)
    assert run(pipeline).problems == []
    assert len(arns(pipeline)) == 1
    assert pipeline.state(COLD).attempt.number == 1


def test_recovery_switched_on_after_sealing_exports_the_latest_state_there_is() -> None:
    pipeline = native()
    since = pipeline.effects.now()
    pipeline.exports.protected_since[pipeline.state(COLD).table] = since
    pipeline.effects.pass_by(HOUR)
    run(pipeline)
    export_at = pipeline.state(COLD).attempt.export_at
    assert export_at
    assert since <= export_at <= pipeline.effects.now() - 5 * MINUTE
    assert len(arns(pipeline)) == 1


def test_without_point_in_time_recovery_the_table_is_scanned() -> None:
    pipeline = native()
    pipeline.exports._always = False
    run(pipeline)
    window = pipeline.state(COLD)
    assert (window.status, window.attempt.exporter) == (Status.DROPPED, "scan")
    assert arns(pipeline) == []


@pytest.mark.parametrize("hours", [0, 7])
def test_a_lost_reply_does_not_lead_to_two_exports(hours: int) -> None:
    pipeline = native()
    start = MemoryExports.start

    def lost(exports: MemoryExports, *args: object) -> str:
        start(exports, *args)  # type: ignore[arg-type]
        raise Unknown("no answer")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryExports, "start", lost)
        rolled = run(pipeline)
    assert "no answer" in rolled.problems[0]
    first = pipeline.state(COLD).attempt.id
    assert pipeline.state(COLD).attempt.export_arn == ""
    pipeline.effects.pass_by(hours * HOUR + TIME_LEFT)
    for _ in range(6):
        run(pipeline)
        pipeline.effects.pass_by(10 * MINUTE)
    if hours:  # the token may be forgotten by then: another attempt, another prefix
        pipeline.effects.pass_by(HOUR)
        for _ in range(6):
            run(pipeline)
            pipeline.effects.pass_by(10 * MINUTE)
    window = pipeline.state(COLD)
    assert window.status is Status.DROPPED
    assert (window.attempt.id == first) is (hours == 0)
    exported = [export.asked[2] for export in pipeline.exports.exports.values()]
    assert len(exported) == len(set(exported)) == (2 if hours else 1)


def test_an_export_that_failed_is_named_and_tried_again_later() -> None:
    pipeline = native()
    table = pipeline.state(COLD).table
    pipeline.exports.fails = {table: "S3AccessDenied"}
    run(pipeline)
    pipeline.effects.pass_by(10 * MINUTE)
    assert "failed: S3AccessDenied" in run(pipeline).problems[0]
    window = pipeline.state(COLD)
    assert "failed: S3AccessDenied" in window.attempt.problem
    assert window.status is Status.EXPORTING
    pipeline.exports.fails = {}
    pipeline.effects.pass_by(pipeline.settings.export_lease_ms)
    for _ in range(6):
        run(pipeline)
        pipeline.effects.pass_by(10 * MINUTE)
    assert pipeline.state(COLD).status is Status.DROPPED
    assert pipeline.state(COLD).attempt.number == 2


def test_recovery_that_is_switched_off_before_its_export_began() -> None:
    pipeline = native()
    table = pipeline.state(COLD).table
    pipeline.exports.protected_since[table] = pipeline.effects.now()
    run(pipeline)
    del pipeline.exports.protected_since[table]
    pipeline.exports._always = False
    assert "was switched off" in run(pipeline).problems[0]
    assert "was switched off" in pipeline.state(COLD).attempt.problem
    pipeline.effects.pass_by(pipeline.settings.export_lease_ms)
    run(pipeline)
    assert (pipeline.state(COLD).status, pipeline.state(COLD).attempt.exporter) == (
        Status.DROPPED,
        "scan",
    )


def test_a_bucket_that_may_not_be_written_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = native()

    def denied(*_: object) -> str:
        raise Refused("ExportTableToPointInTime: AccessDeniedException: s3", "AccessDenied")

    monkeypatch.setattr(MemoryExports, "start", denied)
    assert "AccessDenied" in run(pipeline).problems[0]
    assert "AccessDeniedException: s3" in pipeline.state(COLD).attempt.problem


def test_an_export_that_takes_hours_is_not_given_up() -> None:
    pipeline = native(taking_ms=9 * HOUR)
    while pipeline.state(COLD).status is not Status.DROPPED:
        assert run(pipeline).problems == []
        pipeline.effects.pass_by(5 * MINUTE)
    assert len(arns(pipeline)) == 1


def test_an_export_that_is_not_known_any_more_ends_the_attempt() -> None:
    pipeline = native()
    run(pipeline)
    pipeline.exports.exports.clear()
    rolled = run(pipeline)
    assert "there is no export" in rolled.problems[0]
    assert "gone: there is no export" in pipeline.state(COLD).attempt.problem


def test_a_completed_export_whose_summary_is_gone() -> None:
    pipeline = native(taking_ms=0)
    run(pipeline)
    arn = pipeline.state(COLD).attempt.export_arn
    assert arn
    pipeline.exports.state(arn)
    for key in [*pipeline.bucket.list("archive/")]:
        del pipeline.bucket._objects[key]
    rolled = run(pipeline)
    assert rolled.mismatches == 1
    assert "its summary is not there" in rolled.problems[0]


def test_a_table_deleted_before_its_export_could_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = native()
    with monkeypatch.context() as patch:
        patch.setattr(MemoryExports, "start", lambda *_: (_ for _ in ()).throw(Unknown("lost")))
        run(pipeline)
    pipeline.effects.pass_by(TIME_LEFT)
    pipeline.store.drop_table(pipeline.state(COLD).table)
    assert "there is no table" in run(pipeline).problems[0]
    assert "gone: there is no table" in pipeline.state(COLD).attempt.problem


def test_an_export_of_another_table_is_never_proven() -> None:
    pipeline = native(taking_ms=0)
    items = MemoryStore.items

    def other(store: MemoryStore, table: str) -> object:
        return items(store, table.replace(COLD, "20261120T080000Z"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryStore, "items", other)
        run(pipeline)
    rolled = run(pipeline)
    assert rolled.mismatches == 1
    assert pipeline.state(COLD).status is Status.EXPORTING


def test_a_native_archive_is_looked_at_again_before_the_drop() -> None:
    pipeline = native(taking_ms=0)
    run(pipeline)
    window = proven(pipeline)
    key = next(key for key in pipeline.bucket.list(window.attempt.archive) if "/data/" in key)
    pipeline.bucket.put(key, b"another")
    assert "changed since they were proven" in run(pipeline).problems[0]


def test_the_double_keeps_the_services_rules() -> None:
    pipeline = native()
    table, at = pipeline.state(COLD).table, pipeline.effects.now() - HOUR
    at -= at % SECOND
    start = pipeline.exports.start
    arn = start(table, "b", "p", at, "t")
    assert start(table, "b", "p", at, "t") == arn
    with pytest.raises(Refused, match="was used otherwise"):
        start(table, "b", "q", at, "t")
    with pytest.raises(Refused, match="cannot be exported"):
        start(table, "b", "p", pipeline.effects.now(), "u")
    pipeline.exports._always = False
    with pytest.raises(Refused, match="no point-in-time recovery"):
        start(table, "b", "p", at, "u")
