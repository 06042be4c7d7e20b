"""Laws of archives of windows of which events were retracted: nothing of it can be left out."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tallyroll.adapters.dynamodb.items import Item
from tests.harness.archives import Archived
from tests.harness.retracted_archives import retracted_archive
from tests.tiers import examples
from tests.unit.archive.test_recount import findings

WHOLE: Archived = retracted_archive(proven=False)
ITEMS = WHOLE.items()
STONES = [at for at, item in enumerate(ITEMS) if item["sk"]["S"][:2] in ("r#", "p#")]
OTHERS: dict[str, list[dict[str, Any]]] = {
    "n": [{"N": "0"}, {"N": "2"}, {"N": "-1"}],
    "v": [{"N": "0"}, {"N": "3.5"}, {"N": "-0.000001"}],
    "h": [{"B": ""}, {"B": "YWJj"}],
    "pk": [{"S": "k0.9"}, {"S": "k9.1"}],
    "sk": [{"S": "r#none"}, {"S": "p#none#0"}, {"S": "p#q#0"}, {"S": "r#p"}],
}
"""What no tombstone of it can have. An equal event of the same packet could stand in for one."""


def told(items: list[Item]) -> list[str]:
    WHOLE.rewrite(items)
    return findings(WHOLE.pipeline, WHOLE.window)


def named(*sks: str) -> set[int]:
    return {at for at, item in enumerate(ITEMS) if item["sk"]["S"] in sks}


@settings(max_examples=examples(60))
@given(st.sets(st.integers(0, len(ITEMS) - 1), min_size=1))
@example(named("e#e4", "r#e4"))
@example(named("e#both", "r#both"))
@example(named("p#p#1", "p#p#3"))
@example({at for at, item in enumerate(ITEMS) if "k2" in item["pk"]["S"] + item["sk"]["S"]})
def test_nothing_can_be_left_out(gone: set[int]) -> None:
    assert told([item for at, item in enumerate(ITEMS) if at not in gone])


@settings(max_examples=examples(60))
@given(st.sampled_from(STONES), st.data())
def test_no_tombstone_can_be_another(at: int, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(OTHERS)))
    other = data.draw(st.sampled_from(OTHERS[name]))
    changed = {**ITEMS[at], name: other}
    assert changed != ITEMS[at]
    assert told([*ITEMS[:at], changed, *ITEMS[at + 1 :]])


def test_it_is_whole_as_it_is() -> None:
    assert told(ITEMS) == []
