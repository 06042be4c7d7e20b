"""What totals cost, beside the requests that seal and roll up; what is stored; and the model of
writers.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.dynamodb.items import SLOT_NAMES, tally_key
from tallyroll.adapters.dynamodb.totals_table import DynamoTotals
from tallyroll.lifecycle.state_machine import freeze
from tallyroll.limits import IN_FLIGHT_MAX, UNIT_BYTES
from tallyroll.model.states import Window
from tallyroll.model.totals import PeriodTotal, Total
from tallyroll.model.windows import WindowId
from tallyroll.planning import prices
from tallyroll.planning.costs import (
    SECONDS_A_MONTH,
    TALLY_ITEM_BYTES,
    TOTAL_ITEM_BYTES,
    StoredSize,
    dollars_of,
    idle_month,
    month_of,
    totalled,
    warm_dollars,
)
from tallyroll.planning.load import PeakLoad
from tallyroll.planning.plan import planned
from tallyroll.planning.writers import batch_seconds, message_ms, sustained
from tallyroll.planning.writes import (
    DAY_UNITS,
    MONTH_UNITS,
    TOTAL_UNITS,
    KeysTotalled,
    batch_writes,
)
from tallyroll.settings import Settings
from tests.harness.item_sizes import item_bytes
from tests.harness.pipeline import StillEffects

WINDOW = WindowId("20261120T080000Z")
MILLION = 1_000_000


class Recorded:
    """A client that keeps the items that transactions put."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []

    def transact_write_items(self, *, TransactItems: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        self.items += [action["Put"]["Item"] for action in TransactItems]
        return {}


@pytest.fixture
def recorded() -> tuple[DynamoTotals, Recorded]:
    """The table of totals on a client that keeps what is put."""
    client, effects = Recorded(), StillEffects()
    return DynamoTotals(Caller(client, effects), effects, "totals"), client


def units_of(items: list[dict[str, Any]]) -> int:
    """The write units of putting these items in a transaction."""
    return sum(2 * -(-item_bytes(item) // UNIT_BYTES) for item in items)


def test_a_total_takes_the_units_and_bytes_that_are_planned(
    recorded: tuple[DynamoTotals, Recorded],
) -> None:
    totals, client = recorded
    totals.put([Total("order-1234", WINDOW, 1, MILLION)])
    assert units_of(client.items) == TOTAL_UNITS
    sizes = [item_bytes(item) for item in client.items]
    assert sum(sizes) / len(sizes) == pytest.approx(TOTAL_ITEM_BYTES, rel=0.35)


@pytest.mark.parametrize(
    ("period", "units"), [("day#20261120", DAY_UNITS), ("month#202611", MONTH_UNITS)]
)
def test_a_rolled_up_total_takes_the_units_that_are_planned(
    period: Any, units: int, recorded: tuple[DynamoTotals, Recorded]
) -> None:
    totals, client = recorded
    totals.roll([PeriodTotal("order-1234", period, 1, MILLION, 1, 24, "d" * 16)])
    assert units_of(client.items) == units


def test_a_stripe_takes_the_bytes_that_are_planned() -> None:
    spec = freeze(Window(WINDOW, "", 0, 3_600_000), Settings())
    numbers = {name: {"N": "1"} for name in ("n", "v", "u", SLOT_NAMES[30])}
    found = item_bytes({**tally_key(spec, "order-1234", 60), **numbers})
    assert found == pytest.approx(TALLY_ITEM_BYTES, rel=0.5)


def test_every_event_its_own_key_costs_more_in_totals_than_in_events() -> None:
    keys = KeysTotalled(MILLION, MILLION, MILLION)
    assert keys.sealing_units * prices.WRITE_UNIT == pytest.approx(2.50)
    assert keys.rollup_units * prices.WRITE_UNIT == pytest.approx(3.75)


def test_a_plan_has_no_more_keys_than_events() -> None:
    """A key that nothing repeats: each window, day and month has as many keys as events."""
    load = PeakLoad(events_per_second=10, hottest_per_second=0.001, keys=10**12, mean_per_second=2)
    keys, events = totalled(planned(load)), 2 * SECONDS_A_MONTH
    assert [keys.windows, keys.days, keys.months] == pytest.approx([events] * 3, rel=0.02)
    found = dollars_of(planned(load))
    assert found["sealing"] == pytest.approx(events * 4 * 0.625e-6, rel=0.02)
    assert found["roll-ups"] == pytest.approx(events * 6 * 0.625e-6, rel=0.02)


def test_keys_that_return_are_rolled_up_once_a_day() -> None:
    load = PeakLoad(events_per_second=1_000, hottest_per_second=1, keys=1_000)
    keys = totalled(planned(load))
    assert keys.windows == pytest.approx(730 * 1_000)
    assert keys.days == pytest.approx(730 / 24 * 1_000)
    assert keys.months == pytest.approx(1_000)


def test_without_roll_ups_there_are_no_costs_of_any() -> None:
    load = PeakLoad(events_per_second=10, hottest_per_second=1, keys=100)
    on, off = (dollars_of(planned(load, Settings(rollups=each))) for each in (True, False))
    assert off["roll-ups"] == 0 < on["roll-ups"]
    assert off["totals, of one month"] < on["totals, of one month"]
    assert off["sealing"] == on["sealing"]


def test_what_is_stored_is_charged_with_its_overhead_until_it_is_dropped() -> None:
    settings = Settings(retention_ms=0, accept_for_ms=0, window_seconds=SECONDS_A_MONTH // 5)
    kept = StoredSize(table_bytes=10e9, table_items=1e8, total_items=0, archived_share=0.5)
    assert kept.stored_gb(settings) == pytest.approx(2)  # 20 GB, for a tenth of a month each
    found = {cost.name: cost.dollars for cost in kept.costs(settings)}
    assert found["tables"] == pytest.approx(2 * 0.25)
    assert found["point-in-time recovery"] == pytest.approx(2 * 0.20)
    assert found["archives, of one month"] == pytest.approx(5 * 0.023)
    off = kept.costs(replace(settings, point_in_time_recovery=False))
    assert {cost.name: cost.dollars for cost in off}["point-in-time recovery"] == 0


def test_an_idle_month_has_polling_and_warm_throughput() -> None:
    found = idle_month(Settings())
    assert found["polling"] == pytest.approx(5 * SECONDS_A_MONTH / 20 * 0.40e-6)
    assert found["warm throughput"] == 0
    warm = Settings(warm_units=10_000)
    assert idle_month(warm)["warm throughput"] == pytest.approx(730 * 6_000 * 0.00065)
    assert warm_dollars(replace(warm, window_seconds=86_400), 10_000) == pytest.approx(
        730 / 24 * 6_000 * 0.00065
    )


LOAD = PeakLoad(events_per_second=1_000, hottest_per_second=1)
PACKED = replace(LOAD, packed=1_000)


def rate(writers: int, batch_size: int, load: PeakLoad = LOAD) -> float:
    found = sustained(load, writers=writers, batch_size=batch_size, settings=Settings())
    return found.events_per_second


def test_writers_of_full_batches_count_what_the_plan_says() -> None:
    plan = planned(replace(LOAD, events_per_second=5_000, hottest_per_second=5))
    assert rate(4, plan.batch.records) == pytest.approx(4 * plan.writers.each_per_second)


def test_more_writers_and_larger_batches_count_more_until_a_limit_of_aws() -> None:
    assert rate(8, 100) == pytest.approx(2 * rate(4, 100))
    assert rate(4, 10) < rate(4, 100) < rate(4, 1_000)
    most = sustained(LOAD, writers=1_000, batch_size=1_000, settings=Settings())
    assert most.busy * most.messages == pytest.approx(IN_FLIGHT_MAX)
    fits = sustained(LOAD, writers=1, batch_size=10_000, settings=Settings())
    assert fits.messages < 10_000  # 6 MB
    assert rate(4, 100, PACKED) == rate(4, 1_000, PACKED)


def test_a_packet_takes_a_writer_longer_than_an_event() -> None:
    assert message_ms(1) == 0.2
    assert message_ms(1_000) == pytest.approx(5.2)
    one, thousand = batch_writes(LOAD, messages=10), batch_writes(PACKED, messages=10)
    assert batch_seconds(one, at_once=8) == pytest.approx(0.022)
    assert batch_seconds(thousand, at_once=8) == pytest.approx(0.072)


COMPUTED = {
    *("writes of events", "sealing", "roll-ups", "SQS", "writers", "counts read", "HTTP API"),
    *("aggregator", "exports", "gates of new tables", "warm throughput", "polling"),
    *("reads of scheduled functions", "scheduled functions", "dashboard"),
}
IN_FORMULAS = {"x": "*", "a million": "*1e-6"}


def test_a_line_can_be_computed_again_from_its_formula() -> None:
    """But for storage and alarms."""
    load = replace(LOAD, hottest_per_second=900, reads_per_second=200, mean_per_second=300)
    costs = {cost.name: cost for cost in month_of(planned(load))}
    assert costs.keys() >= COMPUTED
    for name in COMPUTED:
        text = re.sub(r" \(the larger.*?\)", "", costs[name].formula.partition(": ")[0])
        found = re.findall(r"\d[\d,.]*|\bx\b|[+()]|a million", text)
        terms = "".join(IN_FORMULAS.get(each, each.replace(",", "")) for each in found)
        assert eval(terms) == pytest.approx(costs[name].dollars, rel=2e-3), terms
