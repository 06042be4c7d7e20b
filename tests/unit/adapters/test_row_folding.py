"""Folding a window on single rows: one list wins, and stripes are the sums of what it has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tallyroll.adapters.rows import folding, statements
from tallyroll.adapters.rows.metering import METERING
from tallyroll.errors import Refused
from tallyroll.model.records import Record
from tests.harness.row_stage import RowStage as Stage
from tests.harness.row_stage import opened_rows, row

KEYS = [f"k{number}" for number in range(40)]


@pytest.fixture
def stage() -> Stage:
    return opened_rows()


def test_stripes_are_the_sums_of_shards(stage: Stage) -> None:
    records = [row(f"e{n}", key, n=2, amount=n) for n, key in enumerate(KEYS * 3)]
    for at in range(0, len(records), 30):
        stage.commit(*records[at : at + 30])
    live = stage.store.tallies(stage.spec, KEYS)
    stage.shut()
    stage.fold()
    assert stage.store.tallies(stage.spec, KEYS) == live
    assert live["k7"].n == 6
    assert live["k7"].cost == sum(map(METERING.record_cost, records[7::40]))
    stripes = [
        stripe
        for bucket in range(1, stage.spec.buckets + 1)
        for page in stage.store.stripes(stage.spec, bucket, "", 5)
        for stripe in page
    ]
    assert sorted(stripe.place for stripe in stripes) == sorted(
        {f"{one.key}.{one.shard}" for one in records}
    )


def test_a_folding_that_is_cut_off_goes_on(stage: Stage) -> None:
    stage.commit(*(row(f"e{n}", key) for n, key in enumerate(KEYS)))
    stage.shut()
    progress = next(stage.store.fold(stage.spec, ""))
    assert progress == "1"
    assert not stage.rows.folded(stage.spec.table)
    rest = list(stage.store.fold(stage.spec, progress))
    assert rest == [str(n) for n in range(2, statements.SEGMENTS + 1)]
    assert list(stage.store.fold(stage.spec, rest[-1])) == []
    assert sum(tally.n for tally in stage.store.tallies(stage.spec, KEYS).values()) == len(KEYS)


def test_of_two_lists_one_wins_and_both_runs_sum_up_that_one(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row comes between the two listings."""
    stage.commit(*(row(f"e{n}", key) for n, key in enumerate(KEYS)))
    stage.shut()
    put_seal = stage.rows.put_seal

    def other_first(table: str, segment: int, seal: statements.Seal) -> statements.Seal:
        monkeypatch.setattr(stage.rows, "put_seal", put_seal)
        for number in range(200):
            late = row(f"late{number}", KEYS[number % 40])
            if stage.rows.segment(late.key, late.shard) == segment:
                stage.rows.insert(table, late)
        next(stage.store.fold(stage.spec, str(segment)))
        stands = put_seal(table, segment, seal)
        assert stands.attempt != seal.attempt
        assert stands.count > seal.count
        return stands

    monkeypatch.setattr(stage.rows, "put_seal", other_first)
    stage.fold()
    scanned = sum(isinstance(one, Record) for one in stage.scanned())
    assert scanned > len(KEYS)
    counted = stage.store.tallies(stage.spec, KEYS).values()
    assert sum(tally.n for tally in counted) == scanned


def test_a_list_of_many_parts_is_asked_part_by_part(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "PART_MARKS", 2)
    stage.commit(*(row(f"e{n}") for n in range(60)))
    stage.shut()
    stage.fold()
    seals = [stage.rows.seal(stage.spec.table, at) for at in range(statements.SEGMENTS)]
    assert max(seal.parts for seal in seals if seal) > 3
    asked: list[int] = []
    part = stage.rows.list_part

    def noted(table: str, segment: int, attempt: str, number: int) -> bytes:
        asked.append(number)
        return part(table, segment, attempt, number)

    monkeypatch.setattr(stage.rows, "list_part", noted)
    assert stage.store.record(stage.spec, "k", "e7")
    assert len(asked) == 1
    assert len(stage.ids("k")) == 60


def test_rows_that_are_gone_are_never_summed_up(stage: Stage) -> None:
    """As a run would find them that slept until the table was dropped and made again."""
    stage.commit(row("a"))
    stage.shut()
    stage.fold()
    spec = stage.spec
    lists = {
        at: folding.listed_marks(stage.rows, spec.table, at, seal)
        for at in range(statements.SEGMENTS)
        if (seal := stage.rows.seal(spec.table, at))
    }
    for _ in range(2):
        stage.store.drop_table(spec.table)
    stage.store.make_table(spec.table, {})
    for at, marks in lists.items():
        seal = stage.rows.seal(spec.table, at)
        assert seal
        for part in range(seal.parts):
            stage.rows.put_list(spec.table, at, seal.attempt, part, b"".join(marks))
    with pytest.raises(Refused, match="0 of 1 rows"):
        list(stage.store.fold(spec, ""))


def test_a_run_that_wins_reads_each_segment_once(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.commit(*(row(f"e{n}", key) for n, key in enumerate(KEYS)))
    stage.shut()
    listed: list[int] = []
    scan = stage.rows.listed

    def noted(table: str, segment: int) -> Iterator[list[Record]]:
        listed.append(segment)
        return scan(table, segment)

    monkeypatch.setattr(stage.rows, "listed", noted)
    stage.fold()
    assert listed == list(range(statements.SEGMENTS))
    stage.fold()
    assert listed == list(range(statements.SEGMENTS)) * 2
