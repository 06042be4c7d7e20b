"""`make costs`: its rows add up, and have what was left out before."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from benchmarks.costs import (
    of_a_month,
    of_events,
    of_identities,
    of_keeping,
    of_writers,
    writer_ms,
)
from benchmarks.sizing import Timed, of_times
from benchmarks.tables import Rows
from tallyroll.lifecycle.state_machine import freeze
from tallyroll.model.states import Window
from tallyroll.model.windows import WindowId
from tallyroll.planning.costs import idle_month
from tallyroll.settings import Settings


@pytest.fixture(scope="module")
def events() -> Rows:
    return of_events(Settings())


def numbers(row: tuple[str, ...]) -> list[float]:
    return [float(text.replace(",", "")) for text in row[1:]]


def row_of(rows: Rows, name: str) -> dict[str, float]:
    [row] = [row for row in rows if row[0] == name]
    return dict(zip(rows[0][1:], numbers(row), strict=True))


def test_every_row_adds_up(events: Rows) -> None:
    for rows, skipped in ((events, 1), (of_keeping(Settings()), 0)):
        for row in rows[1:]:
            *costs, total = numbers(row)[skipped:]
            assert sum(costs) == pytest.approx(total, abs=0.0035)


def test_every_event_its_own_key_costs_what_its_totals_cost_too(events: Rows) -> None:
    found = row_of(events, "every event its own key")
    assert (found["sealing"], found["roll-ups"]) == (2.5, 3.75)
    assert found["in all"] == pytest.approx(8.90, abs=0.005)
    hot = row_of(events, "one hot key, own ids")
    assert hot["sealing"] == hot["roll-ups"] == 0


def test_ids_that_count_once_beyond_their_window_cost_two_units_a_message() -> None:
    rows = of_identities(Settings())
    hot = row_of(rows, "one hot key, own ids")
    assert hot["units each"] == pytest.approx((49 * 4 + 4) / 49, abs=0.001)
    assert (hot["of these for ids"], hot["events a transaction"]) == (2, 49)
    assert row_of(rows, "one hot key, packets of 10")["of these for ids"] == pytest.approx(0.2)


def test_without_roll_ups_they_cost_nothing() -> None:
    found = row_of(of_events(Settings(rollups=False)), "every event its own key")
    assert found["roll-ups"] == 0
    assert found["in all"] == pytest.approx(5.15, abs=0.005)
    kept = row_of(of_keeping(Settings(rollups=False)), "every event its own key")
    totals = row_of(of_keeping(Settings()), "every event its own key")["totals, of one month"]
    assert kept["totals, of one month"] == pytest.approx(totals * 2 / 5)


def test_point_in_time_recovery_is_there_and_can_be_off() -> None:
    name = "every event its own key"
    on = row_of(of_keeping(Settings()), name)["point-in-time recovery"]
    off = row_of(of_keeping(Settings(point_in_time_recovery=False)), name)
    assert off["point-in-time recovery"] == 0 < on


def test_the_idle_month_is_that_of_the_plan() -> None:
    settings = replace(Settings(), warm_units=5_000)
    printed = {name: text for name, text in of_a_month(settings)[1:]}  # noqa: C416 - typed
    for name, dollars in idle_month(settings).items():
        assert float(printed[name]) == pytest.approx(dollars, abs=0.005)
    assert {"polling", "alarms", "warm throughput"} <= printed.keys()


def test_lambda_is_charged_while_it_waits_for_transactions() -> None:
    spec = freeze(Window(WindowId("20261120T080000Z"), "", 0, 3_600_000), Settings())
    bodies = [f'{{"id": "a{n}", "key": "k", "ts": 1795161600000}}' for n in range(9_800)]
    assert writer_ms(spec, bodies, 8) == pytest.approx(9_800 * 0.2 + 10 * 2 * 20)


def test_more_writers_count_no_less() -> None:
    for rows in (of_writers(Settings()), of_writers(Settings(), 1_000)):
        counted = [numbers(row) for row in rows[1:-2]]
        for fewer, more in pairwise(counted):
            assert all(one <= other for one, other in zip(fewer, more, strict=True))


def test_measured_times_stand_beside_the_assumed_ones() -> None:
    rows = of_times([Timed("single", 1, 980, 0.08), Timed("packet", 1_000, 40, 2.85)])
    assert rows[1:] == [
        ("single", "1", "980", "0.08", "0.20"),
        ("packet", "1,000", "40", "2.85", "5.20"),
    ]
