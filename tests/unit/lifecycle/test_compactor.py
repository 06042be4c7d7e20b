"""The compactor, killed before every write and gone on: no false proof, and nothing expires without
a proven archive as Parquet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.adapters.dynamodb.items import CODEC
from tallyroll.adapters.memory import MemoryBucket
from tallyroll.archive.corrections import copy_corrections
from tallyroll.archive.inventory import Archive, best, find, named
from tallyroll.archive.layout import alone_key, progress_dir, proof_key, superseded_by
from tallyroll.archive.parquet.files import ParquetWriter
from tallyroll.archive.parquet.source import ParquetItems
from tallyroll.archive.proof import check_proof
from tallyroll.archive.verification import ArchiveReading
from tallyroll.errors import Refused, StoreError, Unknown, UsageError
from tallyroll.lifecycle.compactor import KILLED_MAX, RESERVE_MS, Compactor
from tallyroll.lifecycle.runner import Rolled
from tallyroll.model.states import Status
from tallyroll.ports.bucket import PassingBucket, ticket_of
from tallyroll.settings import Settings
from tests.harness.archives import Archived
from tests.harness.pipeline import HOUR, MINUTE, WINDOW
from tests.harness.retracted_archives import correction_of, retracted_archive

TIME = 15 * MINUTE
CALLS = ("put", "get", "stream", "list", "sizes", "stamps", "let_pass", "delete")
TICKET, PARKED = (ticket_of("tallyroll", at + WINDOW) for at in ("", "parked/"))


class Killed(BaseException):
    """The end of a process."""


class Watched:
    """A bucket that is asked before each call."""

    def __init__(
        self,
        of: MemoryBucket,
        before: Callable[[str, Any], object],
        calls: Sequence[str] = CALLS,
    ) -> None:
        self._of, self._before, self._calls, self.name = of, before, calls, of.name

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._of, name)
        if name not in self._calls:
            return call

        def asked(*given: Any, **more: Any) -> Any:
            self._before(name, given)
            return call(*given, **more)

        return asked


@pytest.fixture
def whole() -> Archived:
    return ticketed()


def ticketed() -> Archived:
    """A dropped window with retractions, of which one came after the seal, and its ticket."""
    made = retracted_archive()
    made.pipeline.totals.correct([correction_of(made, "e#e0")])
    copy_corrections(made.window, made.pipeline.totals, made.bucket)
    made.bucket.put(TICKET, b"")
    return moved(made, Status.DROPPED)


def moved(made: Archived, status: Status) -> Archived:
    """Its window in another state."""
    times = {**made.window.times, status: made.pipeline.effects.now()}
    state = replace(made.window, status=status, times=times)
    return Archived(made.pipeline, made.pipeline.catalog.advance(state))


def run(whole: Archived, bucket: Any = None, layout: str = "parquet", time: int = TIME) -> Rolled:
    pipeline = whole.pipeline
    settings = replace(pipeline.settings, archive=layout)
    held: PassingBucket = bucket or whole.bucket
    return Compactor(settings, pipeline.catalog, held, CODEC, pipeline.effects).run(time)


def parquet(whole: Archived) -> list[Archive]:
    found = find(whole.bucket, whole.pipeline.effects, whole.prefix)
    return [each for each in found if each.parquet]


def source_keys(whole: Archived) -> set[str]:
    """What there is of the archive in DynamoDB's layout, without notes, which expire anyway."""
    notes = progress_dir(whole.prefix)
    return {key for key in whole.bucket.list(f"{whole.prefix}/") if not key.startswith(notes)}


def judge(whole: Archived) -> None:
    """What must hold at any time."""
    bucket = whole.bucket
    assert all(key.startswith(f"{whole.prefix}/") for key in bucket.passing)
    proven = [each for each in parquet(whole) if each.proven]
    for each in proven:
        items = ParquetItems(bucket, each.prefix, CODEC)
        assert ArchiveReading(bucket, each, CODEC, None, items).verified().findings.first == []
    if bucket.passing:
        assert [each.prefix for each in proven if each.alone] == [
            superseded_by(bucket, whole.prefix)
        ]
    else:
        check_proof(whole.window, bucket)
    if not bucket.list(TICKET):
        assert proven
        assert bucket.passing == source_keys(whole)


def calls(whole: Archived, layout: str = "parquet") -> list[str]:
    made: list[str] = []
    run(whole, Watched(whole.bucket, lambda name, _: made.append(name)), layout)
    return made


def test_both_layouts_stay(whole: Archived) -> None:
    rolled = run(whole, layout="both")
    assert (rolled.steps["compact"], rolled.problems, rolled.stuck_ms) == (1, [], 0)
    [made] = parquet(whole)
    assert (made.proven, made.alone, whole.bucket.passing) == (True, False, set())
    assert not whole.bucket.list("compacting/")
    assert best(find(whole.bucket, whole.pipeline.effects, "archive/"))[0].prefix == whole.prefix


def test_the_source_expires_and_the_parquet_is_read_in_its_place(whole: Archived) -> None:
    assert run(whole).problems == []
    [made] = parquet(whole)
    judge(whole)
    assert whole.bucket.passing == source_keys(whole)
    ports = (whole.bucket, whole.pipeline.effects)
    assert [each.prefix for each in best(find(*ports, "archive/"))] == [made.prefix]
    assert named(*ports, "tallyroll", WINDOW) == made
    for key in sorted(whole.bucket.passing):  # the rule deletes them in any order
        whole.remove(key)
        assert named(*ports, "tallyroll", WINDOW) == made
    judged = [*whole.bucket.list("")]
    whole.bucket.put(TICKET, b"")  # a cleanup that was slow puts it again
    assert run(whole).problems == []
    assert [*whole.bucket.list("")] == judged


def test_windows_that_are_not_dropped_wait(whole: Archived) -> None:
    whole.pipeline.move(Status.DROPPING)
    rolled = run(whole)
    assert (rolled.steps["compact"], rolled.problems, rolled.stuck_ms) == (0, [], 0)
    assert whole.bucket.list(TICKET)
    assert parquet(whole) == []


def writes(names: Sequence[str]) -> list[int]:
    """The numbers of the calls that change something: a run can end in no other states than before
    each. Of the tags the first two and the last.
    """
    changing = [at for at, name in enumerate(names) if name in ("put", "let_pass", "delete")]
    tags = [at for at in changing if names[at] == "let_pass"]
    return [at for at in changing if at not in tags[2:-1]]


def test_killed_before_every_write_it_goes_on(whole: Archived) -> None:
    names = calls(retracted_like(whole))
    assert {"put", "let_pass", "delete"} <= set(names)
    for at in writes(names):
        made = retracted_like(whole)
        left = at

        def dies(_: str, __: Any) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed

        with pytest.raises(Killed):
            run(made, Watched(made.bucket, dies))
        judge(made)
        assert run(made).problems == []
        assert not made.bucket.list("compacting/")
        assert made.bucket.passing == source_keys(made)
        assert len(parquet(made)) == 1


def retracted_like(whole: Archived) -> Archived:
    """The same window in a bucket of its own."""
    other = Archived(replace(whole.pipeline), whole.window)
    for name in ("catalog", "store", "totals"):
        setattr(other.pipeline, name, getattr(whole.pipeline, name))
    for key in whole.bucket.list(""):
        other.bucket.put(key, whole.bucket.get(key))
    return other


def test_failing_at_every_kind_of_call_it_goes_on(whole: Archived) -> None:
    names = calls(retracted_like(whole))
    for name in sorted(set(names)):
        made = retracted_like(whole)

        def fails(called: str, given: Any, name: str = name) -> None:
            if called == name and not (called == "list" and given[0].startswith("compacting/")):
                raise Unknown(f"{called} failed", "InternalError")

        try:
            assert run(made, Watched(made.bucket, fails)).problems
        except StoreError:
            assert name == "list"
        judge(made)
        assert run(made).problems == []
        judge(made)


def test_an_archive_that_has_changed_is_parked_and_stays(whole: Archived) -> None:
    whole.spoil()
    rolled = run(whole)
    assert rolled.mismatches == 1
    assert [*whole.bucket.list("compacting/")] == [PARKED]
    again = run(whole)
    assert again.mismatches == 0
    assert "it gets no Parquet" in again.problems[0]
    whole.pipeline.effects.sleep(2 * HOUR)
    assert run(whole).stuck_ms >= 2 * HOUR
    assert not whole.bucket.passing


@pytest.mark.parametrize("name", ["record lost", "retracted kept"])
def test_a_planted_mistake_lets_nothing_expire(
    whole: Archived, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    add, retract = ParquetWriter.add, ParquetWriter.retract
    with monkeypatch.context() as patch:
        if name == "record lost":
            patch.setattr(
                ParquetWriter,
                "add",
                lambda self, made: None if made.rows[0].record == "e0" else add(self, made),
            )
        else:
            patch.setattr(ParquetWriter, "retract", lambda self, *event: None)
        assert run(whole).mismatches == 1
    assert (ParquetWriter.add, ParquetWriter.retract) == (add, retract)
    assert not any(each.proven for each in parquet(whole))
    assert not whole.bucket.passing


def test_made_by_hand_after_it_was_parked(whole: Archived) -> None:
    whole.bucket.put(PARKED, b"it takes longer than a run may")
    whole.bucket.delete(TICKET)
    made = retracted_like(whole)
    made.bucket.put(TICKET, b"")
    run(made, layout="both")
    [there] = parquet(made)
    for key in made.bucket.list(there.prefix):
        whole.bucket.put(key, made.bucket.get(key))
    assert run(whole).problems == []
    judge(whole)


def test_parquet_that_lacks_a_file_or_its_proof_replaces_nothing(whole: Archived) -> None:
    run(whole, layout="both")
    [made] = parquet(whole)
    kept = dict(whole.bucket._objects)
    for key in (f"{made.prefix}/events/0000.parquet", proof_key(made.prefix)):
        whole.bucket._objects = {**kept, TICKET: b""}
        whole.remove(key)
        rolled = run(whole)
        if key == proof_key(made.prefix):
            assert rolled.problems == []  # proven anew
        else:
            assert f"{key}: missing" in rolled.problems[0]
            assert not whole.bucket.passing
            assert not whole.bucket.list(alone_key(made.prefix))


def test_what_takes_too_long_is_parked_and_what_began_late_comes_again(
    whole: Archived, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects = whole.pipeline.effects

    def slow(name: str, _: Any) -> None:
        if name == "stream":
            effects.sleep(TIME)

    rolled = run(whole, Watched(whole.bucket, slow))
    assert "takes longer than a run may" in rolled.problems[0]
    assert [*whole.bucket.list("compacting/")] == [PARKED]
    whole.bucket.delete(PARKED)
    whole.bucket.put(TICKET, b"")

    def late(name: str, given: Any) -> None:
        if name == "sizes" or (name, given) == ("get", (TICKET,)):
            effects.sleep(MINUTE)
        slow(name, given)

    other = ticket_of("tallyroll", "20260101T000000Z")
    whole.bucket.put(other, b"")
    compactor = Watched(whole.bucket, late)
    ask = whole.pipeline.catalog.window

    def window(asked: str) -> Any:
        effects.sleep(TIME // 5 if asked != WINDOW else 0)
        return ask(asked)

    monkeypatch.setattr(whole.pipeline.catalog, "window", window)
    assert run(whole, compactor).problems == []
    assert whole.bucket.get(TICKET) == b""
    assert not run(whole, time=RESERVE_MS).steps["compact"]


def test_a_window_at_which_runs_are_killed_does_not_hold_the_others_up(whole: Archived) -> None:
    def dies(name: str, given: Any) -> None:
        if name == "put" and given[0].startswith("archive/"):
            raise Killed

    for _ in range(KILLED_MAX):
        with pytest.raises(Killed):
            run(whole, Watched(whole.bucket, dies))
    assert f"{KILLED_MAX} runs were killed at it" in run(whole).problems[0]
    assert [*whole.bucket.list("compacting/")] == [PARKED]


def test_without_room_on_disk_it_is_parked(
    whole: Archived, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: Any) -> Any:
        raise Refused("DuckDB: no space left on device", "DuckDB")

    monkeypatch.setattr(ParquetWriter, "finish", full)
    assert "no space left" in run(whole).problems[0]
    assert [*whole.bucket.list("compacting/")] == [PARKED]


def test_without_duckdb_it_waits(whole: Archived, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any) -> Any:
        raise UsageError("Parquet needs DuckDB")

    with monkeypatch.context() as patch:
        patch.setattr("tallyroll.archive.parquet.files.connected", missing)
        for _ in range(KILLED_MAX + 1):
            assert "needs DuckDB" in run(whole).problems[0]
    assert run(whole).problems == []


def test_cleanup_puts_tickets_only_where_they_are_asked_for() -> None:
    for layout, wanted in (("dynamodb", []), ("both", [TICKET])):
        made = moved(retracted_archive(), Status.PROVEN)
        pipeline = made.pipeline
        pipeline.settings = replace(pipeline.settings, archive=layout)
        assert pipeline.cleanup().run(TIME).problems == []
        assert [*made.bucket.list("compacting/")] == wanted


def test_the_default_makes_no_parquet() -> None:
    assert (Settings().archive, Settings().compacts) == ("dynamodb", False)
    with pytest.raises(Exception, match="ARCHIVE"):
        Settings(archive="json")
