"""Plans of pipelines whose ids count once beyond their windows, against the writer's own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.costs import EVENTS, HOUR_MS, START_MS, store_cost
from tallyroll.adapters.dynamodb.items import identity_item
from tallyroll.adapters.dynamodb.throughput import METERING
from tallyroll.ingest.transactions import plan as transactions_of
from tallyroll.lifecycle.state_machine import freeze
from tallyroll.limits import ID_BYTES_MAX, IDENTITY_UNITS, KEY_BYTES_MAX, TABLE_UNITS_QUOTA
from tallyroll.model.events import Event, decode, event_body
from tallyroll.model.messages import Message
from tallyroll.model.records import Record, record_of
from tallyroll.model.specs import IdentityScope, Spec
from tallyroll.model.states import Window
from tallyroll.planning.costs import dollars_of, month_of
from tallyroll.planning.identities import ITEM_BYTES, identities_of
from tallyroll.planning.lines import PlanLine, lines_of
from tallyroll.planning.load import PeakLoad
from tallyroll.planning.plan import Plan, planned
from tallyroll.planning.writes import batch_writes
from tallyroll.settings import Settings
from tallyroll.settings.options import Options
from tests.harness.item_sizes import item_bytes
from tests.unit.planning.test_plan import BATCH, EVENTS_ALONE, WORKLOADS

ONCE = Settings(identity=IdentityScope.PIPELINE)
HOT = PeakLoad(events_per_second=980, hottest_per_second=980, keys=1, mean_per_second=100)


def spec_of(scope: IdentityScope = IdentityScope.PIPELINE) -> Spec:
    window = Window("20261120T080000Z", "", START_MS, START_MS + HOUR_MS)
    return freeze(window, Settings(identity=scope), genesis=START_MS)


def record(event: Event, spec: Spec) -> Record:
    body = event_body(event)
    return record_of(decode(body), Message("m", body, START_MS, 1, ""), spec)


def line(plan: Plan, name: str) -> PlanLine:
    [found] = [each for each in lines_of(plan) if each.name == name]
    return found


@pytest.mark.parametrize("name", WORKLOADS)
def test_write_units_are_those_of_the_writer(name: str) -> None:
    load, bodies = WORKLOADS[name]()
    real = store_cost(spec_of(), bodies).total / (EVENTS if load.packed > 1 else EVENTS_ALONE)
    found = batch_writes(load, messages=min(BATCH, len(bodies)), with_ids=True).per_event.each
    ids = identities_of(load, ONCE)
    assert ids
    assert found + ids.each == pytest.approx(real, rel=0.05)


def test_a_full_transaction_of_a_hot_key() -> None:
    """A check of a gate, an addition to a tally, 49 records and 49 ids are 100 actions."""
    plan, spec = planned(HOT, ONCE), spec_of()
    assert plan.batch.records / plan.batch.transactions == 49
    assert plan.identities
    units = plan.batch.per_event.each + plan.identities.each
    assert units == pytest.approx((49 * 4 + 4) / 49, rel=1e-4)
    assert line(plan, "events a transaction").value == 49
    assert line(plan, "write units of an event's id").value == 2
    records = [record(Event("k", f"e{n}", START_MS, 1, None), spec) for n in range(98)]
    assert [len(each.records) for each in transactions_of(spec, records, METERING)] == [49, 49]


@pytest.mark.parametrize("scope", [IdentityScope.KEY, IdentityScope.PIPELINE])
def test_an_id_takes_two_units_however_long_it_is(scope: IdentityScope) -> None:
    long = record(Event("k" * KEY_BYTES_MAX, "i" * ID_BYTES_MAX, START_MS, 1, None), spec_of(scope))
    [identity] = long.identities
    assert item_bytes(identity_item(identity)) <= identity.size < 1_024
    assert METERING.identities_cost(long) == IDENTITY_UNITS


def test_the_bytes_of_an_item() -> None:
    [identity] = record(Event("order-1234", "e1", START_MS, 1, None), spec_of()).identities
    assert item_bytes(identity_item(identity)) == pytest.approx(ITEM_BYTES, rel=0.1)


def test_what_a_month_costs() -> None:
    plan = planned(HOT, ONCE)
    found, plain = dollars_of(plan), dollars_of(planned(HOT))
    events = 100 * 730 * 3_600
    assert found["writes of their ids"] == pytest.approx(events * 2 * 0.625e-6)
    assert found["writes of events"] > plain["writes of events"]  # more gates and tallies
    stored = 100 * 86_400 * (31 + 43) * (ITEM_BYTES + 100) / 1e9
    assert found["ids that stay taken"] == pytest.approx(stored * 0.45)
    assert all(each.formula for each in month_of(plan))
    assert not {"writes of their ids", "ids that stay taken"} & plain.keys()
    longer = dollars_of(planned(HOT, replace(ONCE, identity_days=105)))
    assert longer["ids that stay taken"] == pytest.approx(2 * found["ids that stay taken"])


def test_packets_have_one_id_each() -> None:
    found = identities_of(replace(HOT, packed=100), ONCE)
    assert found
    assert found.each == 0.02
    assert found.units == pytest.approx(19.6)


def test_the_throughput_of_their_table_is_that_of_all_windows() -> None:
    cold = planned(PeakLoad(events_per_second=2_000, hottest_per_second=50), ONCE)
    assert cold.identities
    assert (cold.identities.units, cold.identities.warm_units) == (4_000, 0)
    assert not line(cold, "warm throughput of identities").warning
    warm = planned(PeakLoad(events_per_second=8_000, hottest_per_second=50), ONCE)
    assert warm.identities
    assert warm.identities.warm_units == 20_000
    told = line(warm, "warm throughput of identities")
    assert (
        "set by UpdateTable on NAME-identities, and charged once: 16,000 units above a new table's"
        in told.warning
    )
    assert not line(warm, "write units of ids a second").warning
    full = planned(PeakLoad(events_per_second=20_001, hottest_per_second=50), ONCE)
    assert full.identities
    assert full.identities.units > TABLE_UNITS_QUOTA
    assert (
        "20,000 messages a second of all windows"
        in line(full, "write units of ids a second").warning
    )


def test_the_context_deploys_the_scope() -> None:
    context = planned(HOT, ONCE).context()
    assert Options.from_context(context).identity == "pipeline"
    assert "tallyroll:identity" not in planned(HOT).context()


def test_ids_that_count_once_in_their_window_are_no_line() -> None:
    assert identities_of(HOT, Settings()) is None
    kept = planned(HOT, Settings(keep_identities=True))
    assert kept.identities is None
    assert not [each for each in lines_of(kept) if "id" in each.name.split()]
