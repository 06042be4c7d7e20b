"""Every call of AWS has met everything that can happen to it, by what really struck."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from tests.faults.kinds import IMPOSSIBLE, RULES, Kind
from tests.faults.matrix import holes, rendered
from tests.faults.results import Strikes
from tests.faults.scenarios import MORE_SEEDS, SEEDS, Scenarios
from tests.faults.sites import (
    CORE,
    DOOR,
    JUDGED,
    LOOKED_AT,
    Site,
    UnreadableSite,
    all_sites,
    sites_in,
    within,
)
from tests.faults.summary import PROPERTY

CALLED = re.compile(r"(?:[cC]aller|metrics)\.(?:call|read)\(")


@pytest.mark.engine
def test_the_sites_in_the_core_are_all_found() -> None:
    texts = {within(path): path.read_text(encoding="utf-8") for path in CORE.rglob("*.py")}
    calls = {file: len(CALLED.findall(text)) for file, text in texts.items()}
    apart = {DOOR, JUDGED, *LOOKED_AT}
    found = Counter(site.file for site in all_sites())
    assert found == {file: n for file, n in calls.items() if n and file not in apart}


@pytest.mark.proof
def test_every_call_has_met_everything_that_can_happen_to_it(
    scenarios: Scenarios, record_property: Callable[[str, object], None]
) -> None:
    strikes: Strikes = Counter()
    for kind in RULES["TransactWriteItems"]:  # a busy life takes few events back
        result = scenarios.retract_under(kind)
        strikes += result.strikes
        assert not result.problems
    for kind in RULES["PutItem"]:
        result = scenarios.wish_under(kind)
        strikes += result.strikes
        assert not result.problems
    for kind in RULES["PutObjectTagging"]:
        result = scenarios.compact_under(kind)
        strikes += result.strikes
        assert not result.problems
    for kind in RULES["Query"]:
        result = scenarios.log_under(kind)
        strikes += result.strikes
        assert not result.problems
    for seed in (*SEEDS, *MORE_SEEDS):
        if seed in SEEDS or holes(all_sites(), strikes):
            result = scenarios.busy(seed)
            strikes += result.strikes
            assert not result.problems
    record_property(PROPERTY, rendered(all_sites(), strikes))
    assert holes(all_sites(), strikes) == []


PLANTED = Site("planted.py", "Store.take", "GetItem")


def _full(*sites: Site) -> Strikes:
    return Counter({(str(site), kind): 1 for site in sites for kind in RULES[site.operation]})


def test_an_empty_cell_is_found() -> None:
    rules = {"GetItem": RULES["GetItem"]}
    strikes = _full(PLANTED)
    assert holes([PLANTED], strikes, rules) == []
    del strikes[str(PLANTED), Kind.RESET]
    assert holes([PLANTED], strikes, rules) == [f"{PLANTED}: never reset"]
    another = Site("planted.py", "Store.give", "GetItem")
    assert len(holes([PLANTED, another], _full(PLANTED), rules)) == len(RULES["GetItem"])


def test_a_call_without_rules_is_found() -> None:
    stranger = Site("planted.py", "Store.ask", "DescribeLimits")
    found = holes([PLANTED, stranger], _full(PLANTED), {"GetItem": RULES["GetItem"]})
    assert found == [f"{stranger}: no rules say what can happen there"]


def test_rules_without_a_call_and_faults_against_the_rules_are_found() -> None:
    strikes = _full(PLANTED)
    strikes[str(PLANTED), Kind.TRUNCATED] = 1
    found = holes([PLANTED], strikes, {"GetItem": RULES["GetItem"], "Scan": RULES["Scan"]})
    assert found == ["Scan: rules, and no call", f"{PLANTED}: truncated is against the rules"]


def test_the_matrix_shows_counts_and_what_cannot_happen() -> None:
    strikes = _full(PLANTED)
    strikes[str(PLANTED), Kind.SLOW] = 12
    scan = Site("planted.py", "Store.look", "Scan")
    lines = rendered([PLANTED, scan], strikes, RULES).splitlines()
    assert lines[-3].split()[2:] == ["1", "1", "1", "1", "1", "1", "12", "."]
    assert lines[-2].split()[2:] == ["0"] * 8
    assert lines[-1] == "18 faults in 7 cells"


def test_what_is_called_impossible_is_allowed_by_the_rules_of_a_call() -> None:
    cells = {(site.file, site.function, kind) for site in all_sites() for kind in kinds_of(site)}
    assert IMPOSSIBLE.keys() <= cells


def kinds_of(site: Site) -> Sequence[Kind]:
    return RULES.get(site.operation, ())


def test_calls_are_found_in_the_source() -> None:
    source = """
class Store:
    def take(self):
        self._caller.read("GetItem", Key=1)
        return [self._caller.read("GetItem", Key=2) for _ in body.read(3)]

def page(caller):
    def more():
        return caller.call("Query")
    return more()
"""
    assert list(map(str, sites_in(source, "planted.py"))) == [
        "planted.py:Store.take GetItem",
        "planted.py:Store.take GetItem #2",
        "planted.py:page.<locals>.more Query",
    ]


@pytest.mark.parametrize(
    "line", ["caller.call(name)", "partial(self._caller.read, 'GetItem')", "ask = caller.read"]
)
def test_a_call_that_the_source_does_not_name_is_refused(line: str) -> None:
    with pytest.raises(UnreadableSite):
        sites_in(line, "planted.py")
