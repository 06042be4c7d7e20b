"""What every totals table promises: a total, once put, never changes."""

from __future__ import annotations

import pytest

from tallyroll.errors import ProofMismatch
from tallyroll.model.totals import Total
from tallyroll.model.windows import window_id
from tests.contract.engines import HOUR, START, Engine

WINDOWS = [window_id(START + index * HOUR) for index in range(4)]


def test_totals_are_put_once_and_may_be_put_again(engine: Engine) -> None:
    totals = [Total(f"key-{index}", WINDOWS[0], index, -index) for index in range(150)]
    engine.totals.put(totals[:120])
    engine.totals.put(totals)
    engine.totals.put([])

    found = engine.totals.of_window(WINDOWS[0], [total.key for total in totals] + ["none"])
    assert found == {total.key: total for total in totals}
    assert engine.totals.of_window(WINDOWS[1], ["key-1"]) == {}
    assert engine.totals.of_window(WINDOWS[0], []) == {}


def test_another_value_is_a_mismatch_and_changes_nothing(engine: Engine) -> None:
    stands = Total("a", WINDOWS[0], 3, 4_500_000)
    engine.totals.put([stands])

    others = [Total("a", WINDOWS[0], 4, 4_500_000), Total("b", WINDOWS[0], 1, 1)]
    with pytest.raises(ProofMismatch) as caught:
        engine.totals.put(others)

    (finding,) = caught.value.findings
    assert "'a'" in finding
    assert WINDOWS[0] in finding
    found = engine.totals.of_window(WINDOWS[0], ["a", "b"])
    assert found == {"a": stands, "b": others[1]}
    with pytest.raises(ProofMismatch):
        engine.totals.put([Total("a", WINDOWS[0], 3, 4_500_001)])


def test_totals_of_a_key_are_ascending_and_end_before_until(engine: Engine) -> None:
    totals = [Total("a", window, 1, 10**24) for window in WINDOWS]
    engine.totals.put([*reversed(totals), Total("ab", WINDOWS[1], 9, 9)])

    assert engine.totals.of_key("a", WINDOWS[0], WINDOWS[3]) == totals[:3]
    assert engine.totals.of_key("a", WINDOWS[1], WINDOWS[2]) == totals[1:2]
    assert engine.totals.of_key("a", WINDOWS[1], WINDOWS[1]) == []
    assert engine.totals.of_key("none", WINDOWS[0], WINDOWS[3]) == []
