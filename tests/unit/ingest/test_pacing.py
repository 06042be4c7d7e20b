"""Writers that share a write rate: what they write in a time, and what becomes of the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyroll.adapters.memory import MemoryCatalog
from tallyroll.errors import StoreError, Throttled, Unknown
from tallyroll.ingest.pacing import (
    CLOCKS_APART_MS,
    LEASE_MS,
    PATIENCE_MS,
    WriteAllowance,
    affordable,
    lease_turn,
    return_turn,
    returned,
    span_of,
)
from tallyroll.ingest.transactions import plan
from tallyroll.ports.rate import RateLine
from tallyroll.ports.store import Answer, Element, Outcome, Verdict
from tests.harness.pipeline import (
    NOW,
    SECOND,
    SMALL,
    TIME_LEFT,
    Pipeline,
    opened,
    record_with,
    spec_of,
)

US = 1_000  # in a ms
COLD = 6.0  # write units of an event of a key that no other event of its commit has
CONTENDED = Element(Answer.CONTENDED)


def paced(rate: int) -> Pipeline:
    return opened(replace(SMALL, write_rate=rate))


def events(number: int, key: str = "k") -> list[dict[str, Any]]:
    return [{"id": f"e{n}", "key": key, "ts": NOW} for n in range(number)]


# --- decisions


def test_a_span_is_never_too_short() -> None:
    assert span_of(6, 1_000) == 6_000
    assert span_of(1, 3) == 333_334


def test_a_lease_begins_within_the_patience_or_the_time_left() -> None:
    turn = lease_turn(10, 100, NOW, NOW + 60 * SECOND)
    assert (turn.line, turn.span) == (RateLine.WRITES, 100_000)
    assert (turn.earliest, turn.latest) == (NOW * US, (NOW + PATIENCE_MS) * US)
    assert lease_turn(10, 100, NOW, NOW + 9).latest == (NOW + 9) * US


def test_a_line_is_believed_as_far_as_writers_may_have_reserved_it() -> None:
    by_the_second = lease_turn(1, 1_000_000, NOW, NOW + 60 * SECOND)
    ahead = by_the_second.believed - by_the_second.earliest
    assert ahead == (PATIENCE_MS + CLOCKS_APART_MS + LEASE_MS) * US
    by_the_transaction = lease_turn(1, 1, NOW, NOW + 60 * SECOND)
    assert by_the_transaction.believed - by_the_transaction.earliest > 10_000 * SECOND * US


def test_a_batch_is_cut_where_a_second_is_full() -> None:
    assert affordable([4, 4, 4], 8) == 2
    assert affordable([4, 4, 4], 12) == 3
    assert affordable([9, 1], 8) == 1, "else a large transaction would never run"


def test_what_is_handed_back_comes_when_there_is_room_for_it() -> None:
    commits = plan(
        spec_of(), [record_with(f"e{n}") for n in range(250)], opened().store.metering_of("")
    )
    fates = [fate for _, fate in returned(commits, [200, 200, 100], 100, NOW * US)]
    assert [fate.due for fate in fates] == [NOW, NOW + 2 * SECOND, NOW + 4 * SECOND]


def test_nothing_comes_back_later_than_a_message_can_be_hidden() -> None:
    turn = return_turn(1_000_000, 1, NOW, (NOW + 9_000 * SECOND) * US)
    assert turn.earliest == turn.latest == (NOW + 300 * SECOND) * US
    assert turn.span == 300 * SECOND * US


def test_a_budget_is_spent_once() -> None:
    budget = WriteAllowance(10)
    assert [budget.pay(4), budget.pay(4), budget.pay(4), budget.pay(2)] == [True, True, False, True]


ASKS = st.lists(
    st.tuples(
        st.integers(0, 3),  # the writer
        st.integers(0, 900),  # ms until it asks
        st.floats(0.5, 400),  # units
    ),
    min_size=1,
    max_size=60,
)


@given(ASKS, st.lists(st.integers(0, CLOCKS_APART_MS), min_size=4, max_size=4), st.integers(1, 500))
def test_writers_never_get_more_than_the_rate_and_one_burst(
    asks: list[tuple[int, int, float]], ahead: list[int], rate: int
) -> None:
    """Whatever their clocks say, as long as these are apart by no more than is allowed."""
    catalog, now, got = MemoryCatalog(), NOW, 0.0
    burst = max(rate * LEASE_MS / 1_000, 400)
    for writer, pause, units in asks:
        now += pause
        clock = now + ahead[writer]
        turn = lease_turn(units, rate, clock, clock + 60 * SECOND)
        start = catalog.take_turn(turn)
        if start <= turn.latest:
            got += units
            latest = max(clock, start / US)
            assert got <= rate * (latest - NOW) / 1_000 + burst


# --- writers


def test_a_batch_waits_for_its_turns_and_is_counted() -> None:
    pipeline = paced(100)
    began = pipeline.effects.now()
    report = pipeline.write(*events(250))
    assert (report.events, report.failures, report.paced) == (250, [], 0)
    spent = (pipeline.effects.now() - began) / SECOND
    assert spent == pytest.approx((report.cost.total - 112) / 100), "until the last one began"


def test_without_a_rate_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(MemoryCatalog, "take_turn")
    assert opened().write(*events(250)).events == 250


def test_writers_take_turns_on_one_line() -> None:
    pipeline = paced(100)
    assert pipeline.write(*events(80)).cost.total == 164.0
    began = pipeline.effects.now()
    assert pipeline.write(*events(10, "other")).events == 10
    assert pipeline.effects.now() - began == 1_640


def test_what_has_no_room_soon_comes_back_when_it_has() -> None:
    pipeline = paced(10)
    assert pipeline.write(*events(50)).events == 50, "104 units: the line is full for 10.4 s"
    report = pipeline.write(*events(20, "other"))
    assert (report.events, report.paced, len(report.failures)) == (0, 20, 20)
    assert {seconds for _, seconds in pipeline.queue.delays} == {11}
    pipeline.queue.delays.clear()
    pipeline.write(*events(30, "third"))
    assert {seconds for _, seconds in pipeline.queue.delays} == {15}, "behind the 44 units before"
    assert pipeline.queue.dead_letters == []


def test_it_comes_back_after_a_while_if_the_line_of_returns_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = paced(10)
    pipeline.write(*events(50))
    take_turn = MemoryCatalog.take_turn

    def failing(self: MemoryCatalog, turn: Any) -> int:
        if turn.line is RateLine.RETURNS:
            raise Throttled("simulated")
        return take_turn(self, turn)

    monkeypatch.setattr(MemoryCatalog, "take_turn", failing)
    pipeline.write(*events(20, "other"))
    assert {seconds for _, seconds in pipeline.queue.delays} == {11}


def test_no_lease_is_taken_in_the_second_half_of_the_time() -> None:
    pipeline = paced(100)
    began = pipeline.effects.now()
    report = pipeline.write(*events(3_000))
    assert report.events + report.paced == 3_000
    assert report.events > 500
    assert pipeline.effects.now() - began < TIME_LEFT / 2


@pytest.mark.parametrize("error", [Throttled("simulated"), Unknown("simulated")])
def test_without_an_answer_nothing_is_written(
    error: StoreError, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = paced(100)

    def failing(self: MemoryCatalog, turn: Any) -> int:
        raise error

    monkeypatch.setattr(MemoryCatalog, "take_turn", failing)
    report = pipeline.write(*events(3))
    assert (report.events, len(report.failures), report.paced) == (0, 3, 0)
    assert pipeline.store.commits == []
    assert {seconds for _, seconds in pipeline.queue.delays} == {5}


def test_each_attempt_is_paid() -> None:
    pipeline = paced(100)
    report = pipeline.write(*events(1))
    began = pipeline.effects.now()
    contended = Outcome(Verdict.CANCELLED, (CONTENDED,), (CONTENDED,))
    pipeline.store.script += [contended, contended]
    again = pipeline.write({"id": "other", "key": "k", "ts": NOW})
    assert (report.cost.total, again.cost.total, again.events) == (COLD, 3 * COLD, 1)
    assert pipeline.effects.now() - began >= 180, "its own turn, after three of six units"


def test_a_transaction_larger_than_a_second_runs_and_the_others_wait() -> None:
    pipeline = paced(1)
    assert pipeline.write(*events(10)).events == 10
    began = pipeline.effects.now()
    report = pipeline.write(*events(10, "other"))
    assert (report.events, report.paced) == (0, 10)
    assert {seconds for _, seconds in pipeline.queue.delays} == {24}
    pipeline.effects.pass_by(24 * SECOND)
    assert pipeline.write(*events(10, "other")).events == 10
    assert pipeline.effects.now() - began == 24 * SECOND
