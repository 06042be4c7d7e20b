"""Writers that meet on a stripe of a tally give the key more of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.errors import Unknown
from tallyroll.ports.store import Answer, Element, Outcome, Verdict
from tallyroll.settings import Settings
from tests.harness.pipeline import SMALL, Pipeline, opened

FINE, CONTENDED = Element(Answer.FINE), Element(Answer.CONTENDED)
ROOMY = replace(SMALL, shards=64)
MET = Outcome(Verdict.CANCELLED, (FINE,), (CONTENDED,))
MET_AT_THE_RECORD = Outcome(Verdict.CANCELLED, (CONTENDED,), (FINE,))


def busy(settings: Settings = ROOMY) -> Pipeline:
    """A pipeline with events on all stripes of `k`."""
    pipeline = opened(settings)
    for number in range(60):
        pipeline.write({"key": "k", "id": f"b{number}"})
    return pipeline


def stripes(pipeline: Pipeline) -> int:
    """The number to which the stripes of `k` were raised."""
    return pipeline.store.tallies(pipeline.spec(), ["k"])["k"].raised


def test_a_commit_that_meets_others_twice_doubles_the_stripes() -> None:
    pipeline = busy()
    for times, raised in [(1, 0), (2, 16), (3, 64), (4, 64)]:
        pipeline.store.script += [MET] * times
        assert pipeline.write({"key": "k", "id": f"c{times}"}).single_events == 1
        assert stripes(pipeline) == raised
    assert pipeline.tally("k")[0] == 64


def test_what_meets_at_a_record_gets_no_stripes() -> None:
    pipeline = busy()
    pipeline.store.script += [MET_AT_THE_RECORD] * 3
    assert pipeline.write({"key": "k", "id": "c"}).single_events == 1
    assert stripes(pipeline) == 0


@pytest.mark.parametrize("settings", [SMALL, replace(ROOMY, stripes_rule="shards")])
def test_where_there_is_no_room_the_store_is_not_asked(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = busy(settings)
    monkeypatch.setattr(pipeline.store, "widen", None)
    pipeline.store.script += [MET] * 3
    assert pipeline.write({"key": "k", "id": "c"}).single_events == 1


def test_an_event_counts_though_no_stripes_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = busy()

    def fail(*_: object) -> None:
        raise Unknown("no answer")

    monkeypatch.setattr(pipeline.store, "widen", fail)
    pipeline.store.script += [MET] * 3
    assert pipeline.write({"key": "k", "id": "c"}).single_events == 1
