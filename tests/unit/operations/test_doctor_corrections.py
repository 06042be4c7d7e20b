"""The doctor on corrections of sealed windows, and their sums by window, day and month."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.ingest.writer import BatchReport
from tallyroll.model.periods import day_of
from tallyroll.model.states import Status
from tallyroll.model.totals import Correction, Corrections
from tallyroll.model.windows import window_start
from tallyroll.operations.doctor import correction_checks
from tests.harness.doctoring import CLEAN, bad, examined, first, grown, only, states
from tests.harness.pipeline import HOUR, NOW, Pipeline, StillEffects
from tests.harness.retracting import retraction

MILLION = 1_000_000


@pytest.fixture
def pipeline() -> Pipeline:
    """Days of an hourly pipeline: events of its oldest and newest sealed windows are retracted."""
    pipeline = grown(34, Pipeline(CLEAN, StillEffects(NOW - 34 * HOUR)))
    for window in (oldest(pipeline), newest(pipeline)):
        events = [taken(window, "x", "k0"), taken(window, "y", "k0", "k1")]
        pipeline.totals.correct(events)
        pipeline.totals.put_retracted(window, {"k2": (3, 1)})
    return pipeline


def taken(window: str, id_: str, *keys: str) -> Correction:
    return Correction(window, id_, keys, 1, MILLION, b"", NOW)


def oldest(pipeline: Pipeline) -> str:
    return first(pipeline, Status.DROPPED)


def newest(pipeline: Pipeline) -> str:
    windows = pipeline.catalog.windows(0, NOW)
    return [window.id for window in windows if window.listed][-1]


def test_nothing_is_wrong(pipeline: Pipeline) -> None:
    assert bad(pipeline) == {}
    # The corrections are of events that no archive has, which another check finds.
    assert bad(pipeline, deep=True).keys() == {"archives"}
    text = "sealed windows (the newest) with the sums of their corrections: 5"
    assert examined(pipeline)["corrections"].text == text
    assert bad(grown(3)) == {}


def spoil_sums(pipeline: Pipeline, window: str) -> None:
    found = pipeline.totals._corrected["k1", window]
    pipeline.totals._corrected["k1", window] = found._replace(n=7)


def lose_sums(pipeline: Pipeline, window: str) -> None:
    del pipeline.totals._corrected["k1", window]


def lose_a_correction(pipeline: Pipeline, window: str) -> None:
    del pipeline.totals._corrections["k0", window, "y", None]


@pytest.mark.parametrize("spoil", [spoil_sums, lose_sums, lose_a_correction])
@pytest.mark.parametrize("deep", [False, True])
def test_sums_that_are_not_those_of_the_corrections(
    pipeline: Pipeline, spoil: Callable[[Pipeline, str], None], *, deep: bool
) -> None:
    window = newest(pipeline)
    spoil(pipeline, window)
    texts = bad(pipeline, deep=deep)["corrections"]
    assert f"{window}: key 'k1': corrected by" in str(texts)


def test_an_older_window_s_sums_are_left_to_a_deep_look(pipeline: Pipeline) -> None:
    lose_a_correction(pipeline, oldest(pipeline))
    assert "corrections" not in bad(pipeline)
    assert "corrections" in bad(pipeline, deep=True)


def test_many_corrected_keys_are_left_to_a_deep_look(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_a_correction(pipeline, newest(pipeline))
    monkeypatch.setattr(correction_checks, "CORRECTED_KEYS", 2)
    assert "corrections" not in bad(pipeline)
    assert "corrections" in bad(pipeline, deep=True)


def test_sums_that_grow_meanwhile_are_no_finding(pipeline: Pipeline) -> None:
    window, corrections = newest(pipeline), pipeline.totals.corrections

    def meanwhile(*given: Any) -> list[Correction]:
        found = corrections(*given)
        pipeline.totals.correct([taken(window, "late", "k1")])
        return found

    pipeline.totals.corrections = meanwhile  # type: ignore[assignment, method-assign]
    assert "corrections" not in bad(pipeline)


def test_a_day_whose_corrections_are_not_those_of_its_windows(pipeline: Pipeline) -> None:
    window = first(pipeline, Status.DROPPED)
    day = day_of(window_start(window)).name
    sums = pipeline.totals._corrected
    sums["k1", day] = replace_n(sums["k1", day])
    sign = only(pipeline, "rollups")
    assert "key 'k1': corrections [(8, " in sign.text


def replace_n(sums: Corrections) -> Corrections:
    return sums._replace(n=8)


# --- what was retracted before the seal


@pytest.fixture
def retracted() -> Pipeline:
    """An hourly pipeline: of each window an event is retracted before it closes."""
    made = Pipeline(replace(CLEAN, retraction="queue"), StillEffects(NOW - 34 * HOUR))
    write = made.write

    def retracting(*bodies: Any) -> BatchReport:
        report = write(*bodies)
        [body] = bodies
        if body["key"] == "k1":
            assert write(retraction(key="k1", id=body["id"], ts=made.effects.now())).retracted == 1
        return report

    made.write = retracting  # type: ignore[method-assign]
    return grown(34, made)


def sealed(pipeline: Pipeline) -> str:
    """The newest window that is sealed and has its table."""
    return [name for name, status in states(pipeline).items() if status is Status.SEALED][-1]


@pytest.mark.parametrize("deep", [False, True])
def test_tables_totals_and_archives_with_retractions(retracted: Pipeline, *, deep: bool) -> None:
    assert bad(retracted, deep=deep) == {}
    assert Status.DROPPED in states(retracted).values()
    assert retracted.totals.of_window(sealed(retracted), ["k1"])["k1"].n == 0


def test_what_is_noted_must_be_what_the_tallies_say(retracted: Pipeline) -> None:
    window, sums = sealed(retracted), retracted.totals._corrected
    sums["k1", window] = sums["k1", window]._replace(before=(1, 7))
    told = bad(retracted, deep=True)["totals"]
    assert told == [f"{window}: key 'k1': retracted by tallies (1, 1500000), as noted (1, 7)"]


def test_until_the_proof_it_may_be_missing(retracted: Pipeline) -> None:
    window, sums = sealed(retracted), retracted.totals._corrected
    sums["k1", window] = sums["k1", window]._replace(before=(0, 0))
    assert "totals" not in bad(retracted, deep=True)
