from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from random import Random
from typing import Any

import pytest

from tallyroll.adapters.dynamodb.throughput import METERING
from tallyroll.errors import ProofMismatch
from tallyroll.lifecycle import sealing
from tallyroll.lifecycle.sealing import Sealing, seal
from tallyroll.model.records import Increment
from tallyroll.model.specs import Spec
from tallyroll.model.tallies import Stripe, Sum, Tally
from tallyroll.model.totals import Corrections, PeriodTotal, Total
from tallyroll.ports.paging import listed_tallies
from tallyroll.ports.store import Verdict
from tests.harness.pipeline import NOW, WINDOW, Pipeline, opened, record_with, spec_of


def counted() -> Pipeline:
    """A pipeline whose current window holds ten events of k and one of l."""
    pipeline = opened()
    events = [{"id": f"e{n}", "key": "k", "ts": NOW, "value": n} for n in range(10)]
    report = pipeline.write(*events, {"id": "e", "key": "l", "ts": NOW, "value": -0.5})
    assert report.events == 11
    return pipeline


def sealed(pipeline: Pipeline, begun: Sealing | None = None, most: int | None = None) -> Sealing:
    """How far sealing comes from `begun` on, in at most so many slices."""
    pipeline.store.shut_gates(pipeline.spec())
    ports = (pipeline.store, pipeline.totals, pipeline.effects)
    steps = seal(pipeline.spec(), *ports, begun or Sealing())
    *_, last = islice(steps, most)
    return last


def totals(pipeline: Pipeline) -> dict[str, tuple[int, int]]:
    return {total.key: (total.n, total.amount) for total in pipeline.totals.listed()}


def added(pipeline: Pipeline, keys: Sequence[str], times: int = 1) -> dict[str, tuple[int, int]]:
    """Add to the keys' tallies, each time on a random stripe; what each key has then."""
    for number in range(times):
        for key in keys:
            record = record_with(f"{key}-{number}", key, shard=1, size=300)
            increment = Increment(key, 1, 1_500_000, ((number % 60, 1),))
            outcome = pipeline.store.commit(pipeline.spec(), [record], [increment])
            assert outcome.verdict is Verdict.COMMITTED
    return dict.fromkeys(keys, (times, times * 1_500_000))


def test_sealing_puts_the_totals_and_says_what_the_window_holds() -> None:
    pipeline = counted()
    last = sealed(pipeline)
    assert (last.done, last.keys, last.events, last.amount) == (True, 2, 11, 44_500_000)
    assert last.begun == ()
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
    assert sealed(pipeline) == Sealing(done=True)
    assert totals(pipeline) == {}


def test_another_total_that_stands_is_an_alarm() -> None:
    pipeline = counted()
    pipeline.totals.put([Total("k", WINDOW, 9, 45_000_000)])
    with pytest.raises(ProofMismatch, match="differs"):
        sealed(pipeline)


NESTED = ["a", "a.1", "a.1.5", "a.10", "a.2.3", "a-b", "ab", "b", "1", "1.1", "é.1", "日.2", "日"]


@pytest.mark.parametrize("held", [1, 4, 40, 4_000])
@pytest.mark.parametrize("slice_", [1, 3, 1_000])
def test_a_sealing_goes_on_wherever_it_was_cut_off(
    held: int, slice_: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every state that it gives is enough to go on from, also among keys that begin each other."""
    monkeypatch.setattr(sealing, "STRIPES_HELD", held)
    monkeypatch.setattr(sealing, "STRIPES_PER_SLICE", slice_)
    pipeline = opened()
    truth = added(pipeline, NESTED, times=7)
    state, steps = Sealing(), 0
    while not state.done:
        state = Sealing.parse(sealed(pipeline, state, most=1).text())
        steps += 1
        assert len(state.begun) <= 3
    assert totals(pipeline) == truth
    assert (state.keys, state.events) == (len(NESTED), 7 * len(NESTED))
    assert state == sealed(pipeline)
    stripes = sum(
        len(list(listed_tallies(pipeline.store, pipeline.spec(), n))) for n in range(1, 5)
    )
    assert steps >= 1 + stripes // min(slice_, 10_000)


def test_a_stale_run_beside_another_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "STRIPES_PER_SLICE", 2)
    pipeline = opened()
    truth = added(pipeline, NESTED, times=5)
    states = [Sealing(), Sealing()]
    chance = Random(3)
    while not all(state.done for state in states):
        one = chance.randrange(2)
        if not states[one].done:
            states[one] = sealed(pipeline, states[one], most=1)
    assert totals(pipeline) == truth
    assert states[0] == states[1]


def test_what_the_state_item_keeps_is_short() -> None:
    text = Sealing("日.1", begun=(Sum("日", 1, 2),)).text()
    assert '"begun":[["日",1,2]]' in text
    assert " " not in text


@pytest.mark.parametrize(("held", "a_page"), [(64, 16), (3, 1)])
def test_only_pages_are_in_memory(held: int, a_page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "STRIPES_HELD", held)
    pipeline = opened()
    added(pipeline, [f"key-{n}" for n in range(500)])
    stripes = pipeline.store.stripes
    asked = []
    buckets = []

    def watched(spec: object, number: int, after: str, limit: int) -> object:
        buckets.append(number)
        for page in stripes(pipeline.spec(), number, after, limit):
            asked.append(len(page))
            yield page

    monkeypatch.setattr(pipeline.store, "stripes", watched)
    put = pipeline.totals.put
    read_and_put = []

    def noted(rows: Sequence[Total]) -> None:
        read_and_put.append(sum(asked) - len(pipeline.totals.listed()))
        put(rows)

    monkeypatch.setattr(pipeline.totals, "put", noted)
    assert sealed(pipeline).keys == 500
    assert buckets == [1, 2, 3, 4]
    assert max(asked) == a_page
    assert max(read_and_put) <= 4 * (a_page + 8) + 64


def test_the_peak_is_that_of_all_keys_in_the_busiest_sixtieth() -> None:
    """Sixtieths of a minute; single records pay two units for themselves and two for the tally."""
    pipeline = opened()
    for number in range(6):
        slot = 7 if number < 4 else 8
        increments = [Increment(f"k{number}", 60, 0, ((slot, 60),))]
        records = [record_with(f"e{number}", f"k{number}", shard=1, size=60 * 1_024)]
        outcome = pipeline.store.commit(pipeline.spec(), records, increments)
        assert outcome.verdict is Verdict.COMMITTED
    last = sealed(pipeline)
    assert (last.units[7], last.units[8]) == (480, 240)
    assert (last.additions[7], last.additions[8]) == (240, 120)
    assert last.peak(pipeline.spec(), METERING) == (480 + 2 * 240 + 2 * 5 + 59) // 60


def test_records_that_fill_transactions_share_them() -> None:
    """A second's additions beside those of full transactions: 60 and 1,000 of 98,000 records."""
    spec = spec_of()
    units, additions = [0] * 60, [0] * 60
    busy = Tally("k", 98_000, 0, ((3, 98_000),), 196_000)
    sealing._weigh(busy, spec, METERING, units, additions)
    assert (units[3], additions[3]) == (196_000, 1_060)
    packed = Tally("p", 50_000, 0, ((4, 50_000),), 100)
    sealing._weigh(packed, spec, METERING, units, additions)
    assert (units[4], additions[4]) == (100, 50)


def test_a_short_window_s_sixtieth_is_no_second() -> None:
    spec = spec_of()
    short = replace(spec, end=spec.start + 6_000)
    state = Sealing(units=(20, *[0] * 59))
    assert state.peak(short, METERING) == 220
    assert Sealing().peak(spec, METERING) == 0


def test_a_sixtieth_s_peak_is_rounded_up_to_whole_transactions() -> None:
    """A window of a minute: 99 actions share a gate, 100 take two. Records may take odd units, as
    averages do.
    """
    spec = spec_of()
    minute = replace(spec, end=spec.start + 60_000)
    for units, gates in ((196, 1), (197, 1), (198, 2)):
        state = Sealing(units=(units, *[0] * 59), additions=(1, *[0] * 59))
        assert state.peak(minute, METERING) == units + 2 * (1 + gates)


def test_a_stripe_s_units_are_shared_among_its_events_and_rounded_up() -> None:
    """In a window of a minute, whose sixtieth has one second."""
    spec = spec_of()
    minute = replace(spec, end=spec.start + 60_000)
    units, additions = [0] * 60, [0] * 60
    sealing._weigh(Tally("k", 3, 0, ((5, 2), (6, 1)), 4), minute, METERING, units, additions)
    assert (units[5:7], additions[5:7]) == ([3, 2], [2, 1])
    sealing._weigh(Tally("k", 50, 0, ((7, 50),), 100), minute, METERING, units, additions)
    assert (units[7], additions[7]) == (100, 2)
    sealing._weigh(Tally("k", 0, 0, ((8, 0),), 0), minute, METERING, units, additions)
    assert (units[8], additions[8]) == (0, 0)


def test_a_store_that_folds_does_so_first_and_goes_on_from_its_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline, asked = counted(), []

    def fold(_: Spec, progress: str) -> Iterator[str]:
        asked.append(progress)
        yield from ["1", "2"][int(progress or 0) :]

    monkeypatch.setattr(pipeline.store, "fold", fold)
    half = sealed(pipeline, most=1)
    assert (half.fold, half.place, totals(pipeline)) == ("1", "", {})
    assert Sealing.parse(half.text()) == half
    last = sealed(pipeline, half)
    assert asked == ["", "1"]
    assert (last.fold, last.done, last.keys) == ("2", True, 2)
    assert sealed(pipeline, last).events == 11


def test_the_progress_of_a_store_that_does_not_fold_is_told_as_always() -> None:
    assert "fold" not in sealed(counted(), most=1).text()


def retracting(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, keys: Sequence[str]
) -> dict[str, tuple[int, int]]:
    """Let each stripe of these keys say that some of its events were retracted; what the keys have
    retracted then.
    """
    spec, store = pipeline.spec(), pipeline.store
    truth = dict.fromkeys(keys, (0, 0))
    stripes, tallies = store.stripes, store.tallies
    for number in range(1, spec.buckets + 1):
        for tally in listed_tallies(store, spec, number):
            if tally.key in truth:
                n, amount = truth[tally.key]
                truth[tally.key] = (n + 2, amount - 7)

    def changed(*given: Any) -> Iterator[list[Stripe]]:
        for page in stripes(*given):
            yield [
                replace(each, tally=replace(each.tally, retracted=(2, -7)))
                if each.tally.key in truth
                else each
                for each in page
            ]

    def gathered(*given: Any) -> dict[str, Tally]:
        found = tallies(*given)
        return {key: replace(each, retracted=truth.get(key, (0, 0))) for key, each in found.items()}

    monkeypatch.setattr(store, "stripes", changed)
    monkeypatch.setattr(store, "tallies", gathered)
    return truth


@pytest.mark.parametrize("slice_", [1, 3, 1_000])
def test_what_was_retracted_is_noted_once_wherever_sealing_was_cut_off(
    slice_: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its progress is that of a window without retractions, which every release can read."""
    monkeypatch.setattr(sealing, "STRIPES_PER_SLICE", slice_)
    pipeline = opened()
    added(pipeline, NESTED, times=7)
    truth = retracting(pipeline, monkeypatch, NESTED[::2])
    state = Sealing()
    while not state.done:
        again = sealed(pipeline, state, most=1).text()
        state = Sealing.parse(sealed(pipeline, state, most=1).text())
        assert again == state.text()
        assert all(len(each) == 3 for each in json.loads(again)["begun"])
    for period in ("day#20261120", "month#202611"):
        pipeline.totals.roll([PeriodTotal(key, period, 7, 7, 1, 1, "") for key in NESTED])
    for key in NESTED:
        [total] = pipeline.totals.of_key(key, WINDOW, "99999999T999999Z")
        assert (total.n, total.corrections) == (7, Corrections(before=truth.get(key, (0, 0))))
        for period in ("day#20261120", "month#202611"):
            [summed] = pipeline.totals.periods_of_key(key, period, period)
            assert summed.corrections == total.corrections


def test_what_was_retracted_is_noted_before_its_total_is_put(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = counted()
    truth = retracting(pipeline, monkeypatch, ["k"])
    put = pipeline.totals.put

    def watched(totals: Sequence[Total]) -> None:
        put(totals)
        for total in pipeline.totals.of_key("k", WINDOW, "99999999T999999Z"):
            assert total.retracted == truth["k"]

    monkeypatch.setattr(pipeline.totals, "put", watched)
    assert sealed(pipeline).done
    [total] = pipeline.totals.of_key("k", WINDOW, "99999999T999999Z")
    assert total.retracted == truth["k"] != (0, 0)
    assert pipeline.totals.revision("month#202611") == 1
