from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest

from tallyroll.adapters.memory import MemoryBucket
from tallyroll.archive import layout
from tallyroll.archive.corrections import corrections_copied
from tallyroll.errors import StateConflict, Unknown
from tallyroll.lifecycle.runner import Rolled
from tallyroll.lifecycle.state_machine import CLEANUP_STEPS, DROPPER_STEPS, ROLLER_STEPS, Step
from tallyroll.model.states import Status, Window
from tallyroll.model.totals import Correction
from tallyroll.ports.table_listing import TableStatus
from tallyroll.resources import TAG_PROVEN
from tests.harness.pipeline import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    SMALL,
    TIME_LEFT,
    Pipeline,
    hour,
    opened,
)

COLD = hour(6)
DAY = 24 * HOUR
TO_THE_END = [Step.DROP, Step.DELETE, Step.FINISH]


def sealed(deleting_ms: int = 0, retraction: str = "operator") -> Pipeline:
    """A pipeline whose window of six o'clock, with two events, is sealed and past retention."""
    pipeline = opened(replace(SMALL, retention_ms=DAY, retraction=retraction))
    pipeline.store._deleting_ms = deleting_ms
    ts = pipeline.state(COLD).start
    messages = [pipeline.message({"id": f"e{n}", "key": "k", "ts": ts}, sent=ts) for n in range(2)]
    assert pipeline.writer().write(messages, TIME_LEFT).events == 2
    roller = pipeline.roller()
    for _ in range(3):
        roller.run(TIME_LEFT)
    assert pipeline.state(COLD).status is Status.SEALED
    pipeline.effects.pass_by(DAY)
    return pipeline


def run(pipeline: Pipeline) -> Rolled:
    """One run of cleanup, and one of the dropper; what both did."""
    rolled = pipeline.cleanup().run(TIME_LEFT)
    dropped = drop(pipeline)
    rolled.steps.update(dropped.steps)
    rolled.problems += dropped.problems
    rolled.mismatches += dropped.mismatches
    rolled.states = Counter(dict.fromkeys(states(pipeline), 1))
    return rolled


def drop(pipeline: Pipeline) -> Rolled:
    return pipeline.dropper().run(TIME_LEFT)


def states(pipeline: Pipeline) -> list[Status]:
    found = pipeline.catalog.windows(0, pipeline.effects.now())
    return [window.status for window in found]


def proven(pipeline: Pipeline) -> Window:
    """Run until the archive is proven, and no further."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tallyroll.lifecycle.proven.check_proof", broken)
        run(pipeline)
    assert pipeline.state(COLD).status is Status.PROVEN
    return pipeline.state(COLD)


def broken(*_: object) -> None:
    raise Unknown("no answer")


def tags(pipeline: Pipeline) -> Mapping[str, str]:
    return pipeline.store.tags(pipeline.state(COLD).table)


def test_the_functions_share_out_all_steps() -> None:
    shares = (ROLLER_STEPS, CLEANUP_STEPS, DROPPER_STEPS)
    assert sorted(step for share in shares for step in share) == sorted(Step)


def test_a_cold_window_is_exported_proven_and_dropped() -> None:
    pipeline = sealed()
    rolled = run(pipeline)
    assert [*rolled.steps] == [Step.EXPORT, Step.COPY, Step.PROVE, *TO_THE_END]
    assert (rolled.problems, rolled.mismatches) == ([], 0)
    window = pipeline.state(COLD)
    assert window.status is Status.DROPPED
    assert window.table not in pipeline.store.tables()
    assert window.attempt.archive.startswith(
        "archive/tallyroll/date=2026-11-20/hour=06/20261120T060000Z/"
    )
    assert layout.proof_key(window.attempt.archive) in pipeline.bucket.list(window.attempt.archive)
    assert rolled.states[Status.DROPPED] == 1
    assert run(pipeline).steps.total() == 0


def test_nothing_happens_before_retention() -> None:
    pipeline = sealed()
    pipeline.effects.pass_by(-SECOND)
    assert run(pipeline).steps.total() == 0
    assert list(pipeline.bucket.list("")) == []


def test_a_pipeline_that_never_rolled() -> None:
    assert run(Pipeline()) == Rolled()


def test_a_table_takes_its_time_to_go() -> None:
    pipeline = sealed(deleting_ms=5 * MINUTE)
    run(pipeline)
    assert pipeline.state(COLD).status is Status.DROPPING
    facts = pipeline.store.describe_table(pipeline.state(COLD).table)
    assert facts
    assert facts.status is TableStatus.DELETING
    assert run(pipeline).steps.total() == 0
    pipeline.effects.pass_by(5 * MINUTE)
    assert [*run(pipeline).steps] == [Step.FINISH]


def test_the_tag_is_set_before_the_drop(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = sealed()
    done: list[str] = []
    tag_table, drop_table = pipeline.store.tag_table, pipeline.store.drop_table

    def tag(table: str, given: Mapping[str, str]) -> None:
        assert pipeline.state(COLD).status in (Status.PROVEN, Status.DROPPING)
        done.append(f"tag {given[TAG_PROVEN]}")
        tag_table(table, given)

    def drop(table: str) -> None:
        assert pipeline.state(COLD).status is Status.DROPPING
        assert tags(pipeline)[TAG_PROVEN] == pipeline.state(COLD).attempt.id
        done.append("drop")
        drop_table(table)

    monkeypatch.setattr(pipeline.store, "tag_table", tag)
    monkeypatch.setattr(pipeline.store, "drop_table", drop)
    run(pipeline)
    assert done == [f"tag {pipeline.state(COLD).attempt.id}", "drop"]


def test_an_archive_that_does_not_agree_is_never_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = sealed()
    put = MemoryBucket.put

    def corrupt(bucket: MemoryBucket, key: str, body: bytes) -> None:
        put(bucket, key, body[:-3] if "data/" in key else body)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryBucket, "put", corrupt)
        rolled = run(pipeline)
    assert [*rolled.steps] == [Step.EXPORT, Step.COPY]
    assert rolled.mismatches == 1
    assert "truncated" in rolled.problems[0]
    window = pipeline.state(COLD)
    assert (window.status, window.table in pipeline.store.tables()) == (Status.EXPORTING, True)
    assert "truncated" in window.attempt.problem
    assert TAG_PROVEN not in tags(pipeline)
    # the same archive is not tried again; a new attempt begins after the lease
    pipeline.effects.pass_by(SMALL.export_lease_ms - 1)
    assert run(pipeline).steps.total() == 0
    pipeline.effects.pass_by(1)
    assert run(pipeline).mismatches == 0
    after = pipeline.state(COLD)
    assert (after.status, after.attempt.problem) == (Status.DROPPED, "")
    assert after.attempt.archive != window.attempt.archive


def test_a_table_that_changed_after_sealing_is_never_dropped() -> None:
    pipeline = sealed()
    items = pipeline.store.items(pipeline.state(COLD).table)
    del items[next(primary for primary in items if primary[1].startswith("e#"))]
    rolled = run(pipeline)
    assert (rolled.mismatches, pipeline.state(COLD).status) == (1, Status.EXPORTING)
    assert "by records (1, 1, 1000000), when sealed (1, 2, 2000000)" in rolled.problems[0]


def test_a_crash_between_tag_and_drop_is_repaired() -> None:
    pipeline = sealed()

    def crash(table: str) -> None:
        raise Unknown("no answer")

    drop_table = pipeline.store.drop_table
    pipeline.store.drop_table = crash  # type: ignore[method-assign]
    rolled = run(pipeline)
    assert "(dropping): no answer" in rolled.problems[0]
    assert pipeline.state(COLD).table in pipeline.store.tables()
    pipeline.store.drop_table = drop_table  # type: ignore[method-assign]
    assert [*run(pipeline).steps] == [Step.DELETE, Step.FINISH]


def test_another_run_that_was_faster_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = sealed()

    def conflict(window: Window) -> Window:
        raise StateConflict("another version")

    monkeypatch.setattr(pipeline.catalog, "advance", conflict)
    rolled = run(pipeline)
    assert (rolled.steps.total(), rolled.problems) == (0, [])


def test_one_windows_trouble_does_not_keep_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = sealed()
    roller = pipeline.roller()
    for _ in range(4):
        roller.run(TIME_LEFT)
    pipeline.effects.pass_by(DAY)
    scan = pipeline.store.scan
    bad = pipeline.state(COLD).table
    monkeypatch.setattr(
        pipeline.store,
        "scan",
        lambda table, segment, segments: (
            broken() if table == bad else scan(table, segment, segments)
        ),
    )
    rolled = run(pipeline)
    assert len(rolled.problems) == 1
    assert pipeline.state(hour(7)).status is Status.DROPPED


def test_without_time_nothing_is_begun() -> None:
    pipeline = sealed()
    rolled = pipeline.cleanup().run(time_left_ms=5_000)
    assert rolled.steps.total() == 0
    assert rolled.states[Status.SEALED] == 1


def test_a_proven_table_that_another_hand_deleted_is_done_with() -> None:
    pipeline = sealed()
    pipeline.store.drop_table(proven(pipeline).table)
    run(pipeline)
    assert pipeline.state(COLD).status is Status.DROPPED


def test_tags_are_given_time_before_the_drop() -> None:
    pipeline = sealed()
    pipeline.settings = replace(pipeline.settings, settle_ms=60_000)
    run(pipeline)
    assert pipeline.state(COLD).status is Status.DROPPING
    assert pipeline.store.describe_table(pipeline.state(COLD).table)
    pipeline.effects.pass_by(60_000)
    run(pipeline)
    assert pipeline.state(COLD).status is Status.DROPPED


# --- corrections


def corrected(pipeline: Pipeline, record_id: str) -> Correction:
    """The correction, made now, of an event of the window."""
    made = Correction(COLD, record_id, ("k",), 1, 1_000_000, b"digest", NOW, "ann", "late")
    pipeline.totals.correct([made])
    return made


def copied(pipeline: Pipeline) -> list[Correction]:
    return [*corrections_copied(pipeline.bucket, pipeline.state(COLD).attempt.archive, COLD)]


def test_corrections_between_proof_and_drop_are_copied_beside_the_archive() -> None:
    pipeline = sealed(deleting_ms=5 * MINUTE)
    first = corrected(pipeline, "e0")
    proven(pipeline)
    assert copied(pipeline) == []
    second = corrected(pipeline, "e1")
    run(pipeline)
    assert pipeline.state(COLD).status is Status.DROPPING
    assert copied(pipeline) == [first, second]
    corrected(pipeline, "e2")
    pipeline.effects.pass_by(5 * MINUTE)
    run(pipeline)
    assert pipeline.state(COLD).status is Status.DROPPED
    assert copied(pipeline) == [first, second], "those that come later are in the totals alone"


def test_corrections_are_not_looked_for_where_nobody_may_retract(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cleanup may not query the totals then; the corrections stand in them."""
    pipeline = sealed(retraction="off")
    corrected(pipeline, "e0")
    proven(pipeline)
    monkeypatch.setattr(pipeline.totals, "corrected", broken)
    assert not run(pipeline).problems
    assert copied(pipeline) == []
    assert pipeline.state(COLD).status is Status.DROPPED


@pytest.mark.parametrize("call", ["revision", "corrected", "corrections"])
def test_no_table_is_dropped_before_its_corrections_are_copied(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = sealed()
    proven(pipeline)
    made = corrected(pipeline, "e0")
    with monkeypatch.context() as patch:
        patch.setattr(pipeline.totals, call, broken)
        [problem] = run(pipeline).problems
        assert "no answer" in problem
    assert pipeline.state(COLD).status is Status.PROVEN
    assert TAG_PROVEN not in tags(pipeline)
    run(pipeline)
    assert (pipeline.state(COLD).status, copied(pipeline)) == (Status.DROPPED, [made])


def test_a_copy_that_waited_for_the_drop_is_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = sealed()
    proven(pipeline)
    made = [corrected(pipeline, "e0")]
    for record_id in ("e1", "e2"):
        with monkeypatch.context() as patch:
            patch.setattr(pipeline.store, "tag_table", broken)
            assert run(pipeline).problems
        assert {*copied(pipeline)} == {*made}
        made.append(corrected(pipeline, record_id))
    run(pipeline)
    assert pipeline.state(COLD).status is Status.DROPPED
    assert sorted(each.id for each in copied(pipeline)) == ["e0", "e1", "e2"]
