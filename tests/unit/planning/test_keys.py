"""The score of a partition key: the guide's five choices, two good ones and three bad ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tallyroll.errors import UsageError
from tallyroll.planning.keys import KeyScore, KeyVerdict, scored_key

ITEMS = 20_000


def items() -> Iterator[dict[str, Any]]:
    """Orders of many users, with few statuses, a date, and readings of devices."""
    chance = Random(6)
    for number in range(ITEMS):
        yield {
            "user": f"u-{chance.randrange(5_000)}",
            "status": chance.choice(["new", "paid", "sent", "done"]),
            "day": f"2026-11-{1 + number // 1_000:02}",
            "device": f"d-{chance.randrange(800)}",
            "popular": "d-0" if chance.random() < 0.6 else f"d-{chance.randrange(800)}",
            "number": number,
            "nonce": chance.random(),
        }


def score(by: str, sort: str | None = None) -> KeyScore:
    return scored_key(items(), by=by, sort=sort)


@pytest.mark.parametrize(
    ("by", "verdict", "why"),
    [
        ("user", KeyVerdict.GOOD, "fills a partition at"),
        ("status", KeyVerdict.BAD, "few values, 4"),
        ("day", KeyVerdict.BAD, "which moves on"),
        ("device", KeyVerdict.GOOD, "fills a partition at"),
        ("popular", KeyVerdict.BAD, "60.* of the items"),
    ],
)
def test_the_five_choices_of_the_guide(by: str, verdict: KeyVerdict, why: str) -> None:
    found = score(by)
    assert found.verdict is verdict, found
    assert any(re.search(why, reason) for reason in found.reasons), found.reasons


def test_what_a_score_follows_from() -> None:
    found = score("status")
    assert (found.items, found.values) == (ITEMS, 4)
    assert found.effective_values == pytest.approx(4, rel=0.01)
    assert found.write_units == pytest.approx(1_000 / found.hottest_share_at_once)
    assert found.ascending_sort_keys is None


def test_ascending_sort_keys_cannot_be_split() -> None:
    ascending = score("popular", sort="number")
    assert ascending.ascending_sort_keys is True
    assert "sort keys ascend" in ascending.reasons[-1]
    assert score("popular", sort="nonce").ascending_sort_keys is False


def test_unique_values_do_not_move_on() -> None:
    found = score("number")
    assert not found.moves_on
    assert found.score == 100


def test_nonsense_is_named() -> None:
    with pytest.raises(UsageError, match="item 1 has no field 'colour': it has day, device"):
        scored_key(items(), by="colour")
    with pytest.raises(UsageError, match="no field 'colour'"):
        scored_key(items(), by="user", sort="colour")
    with pytest.raises(UsageError, match="nothing to score"):
        scored_key([], by="user")
    mixed = scored_key([{"k": 1, "s": 1}, {"k": 1, "s": "a"}], by="k", sort="s")
    assert mixed.ascending_sort_keys is True
