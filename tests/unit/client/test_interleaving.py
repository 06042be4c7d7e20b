"""One item of each key in turn."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tallyroll.client.interleaving import Turns, interleaved


def test_keys_take_turns() -> None:
    items = ["a1", "a2", "a3", "b1", "c1", "c2"]
    turned = list(interleaved(items, lambda item: item[0], 100))
    assert turned == ["a1", "b1", "c1", "a2", "c2", "a3"]
    assert list(interleaved(items, lambda item: item[0], 3)) == ["a1", "a2", "a3", "b1", "c1", "c2"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers())), st.integers(1, 10))
def test_nothing_is_lost_and_a_key_keeps_its_order(
    items: list[tuple[str, int]], at_once: int
) -> None:
    turned = list(interleaved(items, lambda item: item[0], at_once))
    for key in "abc":
        assert [each for each in turned if each[0] == key] == [
            each for each in items if each[0] == key
        ]


def test_peek_is_what_take_gives() -> None:
    turns = Turns[int]()
    for number, key in enumerate("aab"):
        turns.put(key, number)
    taken = []
    while turns:
        taken.append(turns.peek())
        assert turns.take() == taken[-1]
    assert taken == [0, 2, 1]
