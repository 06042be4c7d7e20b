from __future__ import annotations

import pytest

from tallyroll import sealing
from tallyroll.errors import OutOfTime, ProofMismatch
from tallyroll.ports import Tally, Total, Verdict
from tallyroll.sealing import Sealed, add_up, seal
from tests.unit.pipeline import NOW, SECOND, WINDOW, Pipeline, opened, record_with


def counted() -> Pipeline:
    """A pipeline whose current window holds ten events of k and one of l."""
    pipeline = opened()
    events = [{"id": f"e{n}", "key": "k", "ts": NOW, "value": n} for n in range(10)]
    report = pipeline.write(*events, {"id": "e", "key": "l", "ts": NOW, "value": -0.5})
    assert report.events == 11
    return pipeline


def sealed(pipeline: Pipeline, seconds: int = 60) -> Sealed:
    deadline = NOW + seconds * SECOND
    pipeline.store.shut_gates(pipeline.spec())
    return seal(pipeline.spec(), pipeline.store, pipeline.totals, pipeline.effects, deadline)


def totals(pipeline: Pipeline) -> dict[str, tuple[int, int]]:
    return {total.key: (total.n, total.amount) for total in pipeline.totals.listed()}


def test_sealing_puts_the_totals_and_says_what_the_window_holds() -> None:
    pipeline = counted()
    assert sealed(pipeline) == Sealed(2, 11, 44_500_000)
    assert totals(pipeline) == {"k": (10, 45_000_000), "l": (1, -500_000)}
    assert {total.window for total in pipeline.totals.listed()} == {WINDOW}


def test_after_sealing_no_commit_succeeds() -> None:
    pipeline = counted()
    sealed(pipeline)
    for n in range(20):
        outcome = pipeline.store.commit(pipeline.spec(), [record_with(f"late{n}")], [])
        assert outcome.verdict is Verdict.GATE_SHUT


def test_sealing_again_changes_nothing() -> None:
    pipeline = counted()
    first, before = sealed(pipeline), totals(pipeline)
    assert sealed(pipeline) == first
    assert totals(pipeline) == before


def test_an_empty_window() -> None:
    pipeline = opened()
    assert sealed(pipeline) == Sealed(0, 0, 0)
    assert totals(pipeline) == {}


def test_another_total_that_stands_is_an_alarm() -> None:
    pipeline = counted()
    pipeline.totals.put([Total("k", WINDOW, 9, 45_000_000)])
    with pytest.raises(ProofMismatch, match="differs"):
        sealed(pipeline)


def test_out_of_time_the_next_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "TOTALS_PER_PUT", 1)
    pipeline = counted()
    put = pipeline.totals.put

    def slow(rows: list[Total]) -> None:
        put(rows)
        pipeline.effects.pass_by(SECOND)

    monkeypatch.setattr(pipeline.totals, "put", slow)
    with pytest.raises(OutOfTime, match="1 of 2 totals put"):
        sealed(pipeline, seconds=1)
    assert len(totals(pipeline)) == 1
    assert sealed(pipeline).keys == len(totals(pipeline)) == 2


def test_stripes_add_up_by_key() -> None:
    stripes = [Tally("k", 1, 5, ((0, 1),)), Tally("l", 2, 7), Tally("k", 3, -6)]
    assert add_up(stripes) == {"k": Tally("k", 4, -1), "l": Tally("l", 2, 7)}
