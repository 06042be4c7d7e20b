"""How many shards the next window gives a key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyroll.ingest.hot_keys import note_chance
from tallyroll.lifecycle.resharding import Why, asked_shards, next_shards, peak_cost, why_hot
from tallyroll.limits import HOT_KEYS_MAX, HOT_LIST_BYTES_MAX
from tallyroll.model.tallies import Tally
from tests.harness.pipeline import spec_of

shards = st.integers(1, 2_000)
loads = st.dictionaries(st.text(max_size=3), st.floats(0, 20_000), max_size=8)
given_shards = st.dictionaries(st.text(max_size=3), shards, max_size=8)


def test_the_peak_counts_and_not_the_sum() -> None:
    steady = Tally("k", 60_000, 0, tuple((slot, 1_000) for slot in range(60)), cost=120_000)
    bursty = Tally("k", 60_000, 0, ((7, 60_000),), cost=120_000)
    assert peak_cost(steady, spec_of()) == pytest.approx(2_000 / 60)
    assert peak_cost(bursty, spec_of()) == pytest.approx(2_000)


def test_a_packet_weighs_what_it_costs_and_not_what_it_counts() -> None:
    packed = Tally("k", 500_000, 0, ((7, 500_000),), cost=4_000)
    assert peak_cost(packed, spec_of()) == pytest.approx(4_000 / 60)


def test_what_was_retracted_does_not_make_the_rest_heavier() -> None:
    left = Tally("k", 1, 10**6, ((30, 1),), cost=400, retracted=(99, 99 * 10**6))
    assert peak_cost(left, spec_of()) == pytest.approx(400 / 100 / 60)
    unlucky = Tally("k", -1, -(10**6), ((30, -1),), cost=2, retracted=(1, 10**6))
    assert peak_cost(unlucky, spec_of()) == 0


def test_a_key_without_events_weighs_nothing() -> None:
    assert peak_cost(Tally("k", 0, 0), spec_of()) == 0
    assert peak_cost(Tally("k", 5, 0, (), cost=10), spec_of()) == 0, "by no slot of its time"


@pytest.mark.parametrize(
    ("load", "before", "after"),
    [
        (0, 8, None),  # cold, and was never hot
        (8, 8, None),
        (8.001, 8, 9),
        (100, 8, 100),  # at once
        (50, 100, 100),  # half of it is no reason yet
        (49, 100, 50),
        (0, 100, 50),  # by half a window
        (0, 101, 50),
        (0, 15, None),
        (10**6, 8, 1_000),
    ],
)
def test_a_key_gets_more_at_once_and_fewer_by_halves(
    load: float, before: int, after: int | None
) -> None:
    chosen = next_shards({"k": load}, {"k": before}, {}, 8, 1_000).get("k")
    assert (chosen, type(chosen)) == (after, type(after))


def test_what_the_operator_wishes_is_the_least() -> None:
    configured = {"k": 40, "l": 4}
    assert next_shards({"k": 0}, {}, configured, 8, 20) == {"k": 40, "l": 8}
    assert next_shards({"k": 50}, {}, configured, 8, 60)["k"] == 50


@given(loads, given_shards, given_shards, st.integers(1, 64), st.integers(64, 10_000))
def test_bounds_hold(
    loads: dict[str, float],
    before: dict[str, int],
    configured: dict[str, int],
    least: int,
    most: int,
) -> None:
    for key, n in next_shards(loads, before, configured, least, most).items():
        assert least <= n <= max(most, configured.get(key, 0))
        assert loads.get(key, 0.0) <= n or n >= most


def test_the_list_fits_its_item_and_keeps_the_hottest() -> None:
    hot = {f"{n:04d}": float(n) for n in range(9, 1_000)}
    chosen = next_shards(hot, {}, {"mine": 9}, 8, 10_000)
    assert len(chosen) == HOT_KEYS_MAX
    assert chosen["mine"] == 9
    assert min(n for key, n in chosen.items() if key != "mine") == 1_000 - HOT_KEYS_MAX + 1

    long = {f"{n:04d}" * 128: 9.0 for n in range(HOT_KEYS_MAX)}
    assert sum(map(len, next_shards(long, {}, {}, 8, 100))) <= HOT_LIST_BYTES_MAX


def test_the_list_is_cut_at_the_byte() -> None:
    """Of equally hot keys, the first by name stay."""
    count = HOT_KEYS_MAX // 2
    keys = [f"{n:03}".ljust(HOT_LIST_BYTES_MAX // count, "x") for n in range(count)]
    assert sum(map(len, keys)) == HOT_LIST_BYTES_MAX
    assert next_shards({}, {}, dict.fromkeys(keys, 9), 8, 100).keys() == {*keys}
    keys[0] += "x"
    chosen = next_shards({}, {}, dict.fromkeys(reversed(keys), 9), 8, 100)
    assert [*chosen] == keys[:-1]


def test_a_key_of_more_shards_is_noted_as_seldom_as_it_can_take_more() -> None:
    spec = spec_of(hot={"k": 8})
    assert note_chance(spec, "l", 50, 500) == 2 * note_chance(spec, "k", 50, 500)


def test_a_key_that_fills_its_shards_is_sure_to_be_noted() -> None:
    spec = spec_of()
    full = 500 * spec.shards * 60
    noted = sum(note_chance(spec, "k", 200, 500) for _ in range(full // 200))
    assert noted == pytest.approx(16)
    assert note_chance(spec, "k", full, 500) == 1


def test_what_an_operator_asks_for_is_the_larger_of_wish_and_option() -> None:
    wished, configured = {"wish": 64, "both": 32, "few": 2}, {"both": 48, "option": 4}
    asked = asked_shards(wished, configured, 16)
    assert asked == {"wish": 64, "both": 48, "few": 16, "option": 4}
    assert asked_shards({}, configured, 16) == configured
    assert asked_shards({"both": 64}, configured, 16)["both"] == 64


def test_why_a_key_has_its_shards_is_the_first_that_asks_for_as_much() -> None:
    hot = {"all": 64, "wish": 64, "option": 64, "more": 65, "throttled": 65, "before": 64}
    wished = {"all": 64, "wish": 64, "option": 63, "more": 64, "throttled": 64}
    configured = {"all": 64, "option": 64, "more": 64}
    assert why_hot(hot, wished, configured, {"all", "throttled"}) == {
        "all": Why.WISH,
        "wish": Why.WISH,
        "option": Why.OPTION,
        "more": Why.RATE,
        "throttled": Why.THROTTLES,
        "before": Why.RATE,
    }


@given(loads, given_shards, given_shards, given_shards, st.integers(1, 64), st.integers(64, 1_000))
def test_no_wish_is_undercut_and_traffic_may_exceed_it(
    loads: dict[str, float],
    before: dict[str, int],
    wished: dict[str, int],
    configured: dict[str, int],
    least: int,
    most: int,
) -> None:
    asked = asked_shards(wished, configured, least)
    hot = next_shards(loads, before, asked, least, most, wished)
    alone = next_shards(loads, before, {}, least, most)
    for key in {*loads, *before, *wished, *configured}:
        asked_for = max(wished.get(key, 0), configured.get(key, 0))
        assert hot.get(key, least) == max(asked_for, alone.get(key, least))


def test_wishes_come_first_where_there_is_no_room_for_all() -> None:
    wished = {f"w{n}": 2 for n in range(HOT_KEYS_MAX - 1)}
    asked = asked_shards(wished, {"option": 9, "option too": 8}, 8)
    chosen = next_shards({"hottest": 900.0}, {}, asked, 8, 1_000, wished)
    assert len(chosen) == HOT_KEYS_MAX
    assert chosen.keys() == {*wished, "option"}
