"""What is advised for measured facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tallyroll.limits import PACKET_BYTES_MAX
from tallyroll.planning.facts import Measurements, load_of, said
from tallyroll.planning.feedback import Advice, Feedback, feedback
from tallyroll.settings import Settings
from tallyroll.settings.options import Options

DEPLOYED = Options(shards=16).settings()
CALM = Measurements(
    settings=DEPLOYED,
    windows=24,
    events=864_000,
    peak_per_second=100.0,
    mean_per_second=10.0,
    keys=50,
    hot={"hot": 40.0, "warm": 10.0},
    shards_of={"hot": 16, "warm": 16},
    stripes=128,
    item_bytes=144.0,
    tables=80,
    window_tables=76,
    tables_quota=2_500.0,
    table_units_quota=40_000.0,
    functions_quota=1_000.0,
    batch_size=1_000,
    batch_window_seconds=1,
    max_concurrency=4,
    messages=1_000.0,
    throttled=0.0,
    throttled_key_range=0.0,
    writers=2.0,
    writers_throttled=0.0,
    oldest_s=2.0,
)


def found(**changes: Any) -> Feedback:
    return feedback(replace(CALM, **changes), 0.0, 1.0)


def advice(of: Feedback) -> dict[str, Advice]:
    return {each.setting: each for each in of.advice}


def changed(**changes: Any) -> dict[str, Any]:
    """What is to be changed, by setting."""
    return {each.setting: each.planned for each in found(**changes).advice if each.change}


def test_a_calm_pipeline_is_left_alone() -> None:
    assert changed() == {}
    assert found().context == {}
    assert all(each.why for each in found().advice)


def test_hot_keys_get_the_shards_of_their_peaks() -> None:
    hot = {"peak_per_second": 1_500.0, "hot": {"hot": 900.0, "cool": 5.0}}
    result = found(**hot, shards_of={"hot": 2, "cool": 2}, settings=replace(DEPLOYED, shards=2))
    configured = result.context["tallyroll:hot_shards"]
    assert result.plan
    assert result.plan.start_shards
    assert set(configured) == {"hot"}
    assert configured["hot"] == result.plan.start_shards > 2
    assert "'hot' had 900.0 events/s on 2 shards" in advice(result)["shards of hot keys"].why
    # N that is there already, by traffic or by wish, is enough.
    enough = {"hot": configured["hot"], "cool": 2}
    again = found(**hot, shards_of=enough, settings=replace(DEPLOYED, shards=2))
    assert "tallyroll:hot_shards" not in again.context


def test_wished_shards_are_kept_beside_new_ones() -> None:
    settings = replace(DEPLOYED, shards=2, hot_shards={"other": 50})
    result = found(
        hot={"hot": 500.0}, shards_of={"hot": 2}, peak_per_second=900.0, settings=settings
    )
    assert result.context["tallyroll:hot_shards"]["other"] == 50


def test_throttles_of_one_partition_double_the_shards() -> None:
    assert changed(throttled=500.0, throttled_key_range=11.0) == {"shards of hot keys": {"hot": 32}}
    assert changed(throttled=500.0, throttled_key_range=10.0) == {}  # a hundredth is absorbed


def test_most_shards_of_a_key_grow_with_what_is_needed() -> None:
    settings = replace(DEPLOYED, shards_max=20)
    result = found(throttled_key_range=900.0, settings=settings)
    assert result.context == {"tallyroll:hot_shards": {"hot": 32}, "tallyroll:shards_max": 32}
    fixed = found(throttled_key_range=900.0, settings=replace(DEPLOYED, shards_max=16))
    assert fixed.context == {"tallyroll:hot_shards": {"hot": 32}}


def test_warm_throughput_is_raised_for_a_peak_and_lowered_where_it_costs() -> None:
    busy = {"peak_per_second": 5_000.0, "hot": {"hot": 1_000.0}}
    raised = changed(**busy)["warm throughput"]
    assert raised > 10_000
    lowered = found(settings=replace(DEPLOYED, warm_units=30_000))
    assert lowered.context == {"tallyroll:warm_units": 0}
    assert "charged for each table" in advice(lowered)["warm throughput"].why


def test_warm_throughput_that_follows_peaks_gets_a_higher_bound() -> None:
    busy = {"peak_per_second": 5_000.0, "hot": {"hot": 1_000.0}}
    assert changed(**busy, settings=replace(DEPLOYED, warm_units_max=100_000)).keys() <= {
        "shards of hot keys",
        "most writers at once",
        "stripes of a tally",
        "gates of a window",
    }
    low = changed(**busy, settings=replace(DEPLOYED, warm_units_max=5_000))
    assert low["most warm throughput"] == changed(**busy)["warm throughput"]


def test_provisioned_capacity_follows_the_peak() -> None:
    given = {"write": 100, "read": 50, "cold_write": 1, "cold_read": 1}
    result = found(settings=replace(DEPLOYED, provisioned=given), table_units=700)
    planned = result.context["tallyroll:provisioned"]
    assert planned == {**given, "write": 700}
    assert Options.from_context(result.context).provisioned == planned
    assert "warm throughput" not in advice(result)


def test_writers_by_what_one_of_them_was_measured_to_do() -> None:
    # 100 messages in 500 ms each: 200 a second; the peak of 100 takes one, at least two are run.
    slow = {"batch_ms": 5_000.0, "batch_messages": 100.0}
    assert changed(**slow)["most writers at once"] == 7  # 100 a second / 20 x 1.25
    assert "20 a writer measured" in advice(found(**slow))["most writers at once"].why
    # Of small batches nothing is concluded.
    small = advice(found(batch_ms=5_000.0, batch_messages=3.0))["most writers at once"]
    assert not small.change
    assert "assumed" in small.why


def test_writers_that_all_work_while_messages_wait_are_doubled() -> None:
    busy = changed(writers=4.0, oldest_s=300.0)
    assert busy == {"most writers at once": 8, "stripes of a tally": 256, "gates of a window": 512}
    assert changed(writers=3.0, oldest_s=300.0) == {}
    assert changed(writers=4.0, oldest_s=60.0) == {}


def test_what_is_not_known_is_not_changed() -> None:
    blind = found(max_concurrency=None, batch_size=None, batch_window_seconds=None)
    assert blind.context == {}
    assert advice(blind)["most writers at once"].now is None


def test_batches_are_as_large_as_the_load() -> None:
    small = {"batch_size": 10, "batch_window_seconds": 0}
    assert changed(**small) == {"batch size": 100, "batch window, s": 1}
    assert changed(**small, peak_per_second=10.0, hot={}) == {}
    assert changed(batch_window_seconds=5) == {}
    unknown = advice(found(batch_size=None, batch_window_seconds=None))
    assert (unknown["batch size"].planned, unknown["batch window, s"].planned) == (1_000, 1)


def test_quotas() -> None:
    assert changed(tables_quota=5_000.0) == {"quota of tables": 5_000}
    full = found(tables=2_100, window_tables=76)
    assert full.context == {}
    [more] = [each for each in full.advice if each.setting == "Service Quotas: tables"]
    assert (more.now, more.planned) == (2_500, 2_625)
    assert "lower the retention" in more.why


def test_the_quota_of_a_tables_write_units() -> None:
    big = {"peak_per_second": 30_000.0, "hot": {"hot": 50.0}, "keys": 10_000}
    line = "Service Quotas: write units of a table"
    assert changed(**big)[line] > 60_000
    assert "(the default)" in advice(found(**big, table_units_quota=None))[line].why
    assert line not in changed(**big, table_units_quota=1e6)


def test_the_throughput_of_the_table_of_identities() -> None:
    once = Settings(identity="pipeline")
    name, quota = "warm throughput of identities", "Service Quotas: write units of a table"
    assert name not in advice(found(settings=once))
    busy = found(settings=once, peak_per_second=6_000.0, keys=10_000)
    line = advice(busy)[name]
    assert (line.now, line.planned) == (None, 15_000)
    assert "12,000 write units a second at the peak, of all windows together" in line.why
    assert name not in advice(found(peak_per_second=6_000.0, keys=10_000))
    packed = {"peak_per_second": 400_000.0, "keys": 10_000, "packed_share": 1.0}
    packed |= {"packet_events": 10.0, "packet_event_bytes": 10.0}
    full = found(settings=once, **packed, table_units_quota=79_000.0)
    assert full.plan
    assert quota in advice(full)


def test_writers_that_did_not_start() -> None:
    result = found(writers_throttled=3.0, functions_quota=10.0)
    line = advice(result)["Service Quotas: functions at once"]
    assert (line.now, line.planned) == (10, 20)
    assert result.context == {}


def test_a_load_that_no_pipeline_takes_gets_no_plan() -> None:
    result = found(peak_per_second=1e8, hot={"hot": 1e8}, keys=1)
    assert result.plan is None
    assert result.notes[0].startswith("no plan: hottest_per_second")
    assert result.as_json()["plan"] is None


def load(**changes: Any) -> Any:
    return load_of(replace(CALM, **changes), reads_per_second=1.0, staleness_seconds=1.0)


def test_the_load_of_facts() -> None:
    made = load()
    assert (made.events_per_second, made.hottest_per_second, made.mean) == (100.0, 40.0, 10.0)
    assert (made.keys, made.event_bytes, made.packed) == (50, 128, 1)
    assert made.hot == {"hot": 40.0, "warm": 10.0}
    assert load(peak_per_second=None) is None
    assert load(keys=1).hottest_per_second == 100.0
    assert load(reads_per_second=7.0).reads_per_second == 7.0
    assert load().reads_per_second == 1.0
    assert load(mean_per_second=300.0).mean == 100.0


def test_the_load_of_packets() -> None:
    packed = {"packed_share": 1.0, "packet_events": 1_000.0, "packet_event_bytes": 22.4}
    made = load(**packed)
    assert (made.packed, made.event_bytes) == (1_000, 60 + 50)
    assert made.item_bytes == 110 + 1_000 * 22.4
    # Half of the events: two messages for 1.998 events, less than two each.
    assert load(**{**packed, "packed_share": 0.5}).packed == 1
    assert load(**{**packed, "packed_share": 0.9}).packed == 9
    # Sizes never come to a packet that cannot be.
    large = load(**{**packed, "packet_event_bytes": 250.0})
    assert large.message_bytes - 100 <= PACKET_BYTES_MAX


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "not known here"),
        (0.0, "0"),
        (20.5, "20.5"),
        (0.0123456, "0.0123"),
        (1_234.5, "1,234"),
        (1_234, "1,234"),
        ("hot", "hot"),
    ],
)
def test_values_in_words(value: float | str | None, text: str) -> None:
    assert said(value) == text


def test_default_settings_are_valid_facts() -> None:
    assert feedback(Measurements(settings=Settings()), 0.0, 1.0).plan is None
