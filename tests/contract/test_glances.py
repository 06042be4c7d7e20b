"""One look at all tables gives what each read by itself does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.dynamodb.store import DynamoStore
from tallyroll.adapters.glances import DynamoGlances, glances_on
from tallyroll.errors import Missing
from tallyroll.model.states import Calendar
from tallyroll.model.totals import Correction
from tallyroll.model.windows import Grid, window_id
from tallyroll.ports.counting.glances import Glance, Glances
from tallyroll.reads.counting.singly import SingleGlances
from tallyroll.reads.reader import PortReader
from tallyroll.settings import Settings
from tests.contract.engines import HOUR, START, WINDOW, Engine, counted, record

KEYS = [f"key {number}é" for number in range(30)]
MONTHS = ["month#202611", "month#202612"]
UNKNOWN = window_id(START + 5 * HOUR)


def looks(engine: Engine) -> Glances:
    found = glances_on(engine.store, engine.catalog, engine.totals)
    assert (found is None) is not isinstance(engine.store, DynamoStore)
    return found or singly(engine)


def singly(engine: Engine) -> Glances:
    return SingleGlances(engine.store, engine.catalog, engine.totals, engine.effects)


def test_a_look_gives_what_single_reads_do(engine: Engine) -> None:
    """Of 240 stripes and more: three requests."""
    spec = engine.opened()
    engine.catalog.found(Calendar(Grid.of(3600), START))
    for key in KEYS[::2]:
        counted(engine.store, spec, record(spec, key, "e1"))
    correction = Correction(WINDOW, "e1", (KEYS[0],), 1, 1, b"d" * 16, START)
    engine.totals.correct([correction])
    engine.catalog.put_spec(spec)
    at = Glance(KEYS, MONTHS, [WINDOW, UNKNOWN], [WINDOW, UNKNOWN], [spec])
    seen = looks(engine).look(at)
    assert seen == singly(engine).look(at)
    assert seen == looks(engine).look(replace(at, eventual=True))  # nothing changes meanwhile
    assert seen.pointer
    assert seen.calendar
    assert seen.revisions == {MONTHS[0]: 1, MONTHS[1]: 0}
    assert list(seen.windows) == [WINDOW]
    assert seen.specs == {WINDOW: spec}
    assert [tally.n for tally in seen.tallies[WINDOW].values()] == [1, 0] * 15


def test_an_eventual_look_asks_no_table_for_consistency(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = engine.opened()
    found = looks(engine)
    assert found.has_eventual is isinstance(found, DynamoGlances)
    asked: list[bool] = []
    read = Caller.read

    def noted(caller: Caller, operation: str, /, **given: Any) -> Any:
        asked.extend(one.get("ConsistentRead", False) for one in given["RequestItems"].values())
        return read(caller, operation, **given)

    monkeypatch.setattr(Caller, "read", noted)
    found.look(Glance(KEYS[:1], MONTHS, [WINDOW], [WINDOW], [spec], eventual=True))
    if found.has_eventual:
        assert asked == [False] * 3  # catalog, totals, window


def test_a_cold_count_takes_six_requests(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two in each of its three rounds, while its windows are of one month."""
    monkeypatch.setattr(engine.effects, "now", lambda: START + HOUR // 2)
    spec = engine.opened()
    engine.catalog.found(Calendar(Grid.of(3600), START))
    engine.catalog.put_spec(spec)
    counted(engine.store, spec, record(spec, "k", "e1"))
    ports = (engine.store, engine.catalog, engine.totals, engine.effects, looks(engine))
    asked: list[str] = []
    read = Caller.read

    def noted(caller: Caller, operation: str, /, **given: Any) -> Any:
        asked.append(operation)
        return read(caller, operation, **given)

    monkeypatch.setattr(Caller, "read", noted)
    count = PortReader(Settings(name="contract"), *ports).count("k", consistent=True)
    assert (count.events, count.complete) == (1, True)
    assert sorted(asked) in ([], ["BatchGetItem"] * 2 + ["Query"] * 4)  # in memory none


def test_all_revisions_are_those_of_each_month(engine: Engine) -> None:
    assert engine.totals.revisions() == {}
    engine.totals.correct([Correction(WINDOW, "e1", ("k",), 1, 1, b"d" * 16, START)])
    assert engine.totals.revisions() == {MONTHS[0]: 1}


def test_a_look_at_nothing_but_versions(engine: Engine) -> None:
    seen = looks(engine).look(Glance(["k"], [], [], [], []))
    assert (seen.pointer, seen.calendar, dict(seen.tallies)) == (None, None, {})


def test_a_look_at_a_table_that_is_gone_fails(engine: Engine) -> None:
    gone = replace(engine.spec(), table=f"{engine.prefix}-20261120T090000Z")
    with pytest.raises(Missing):
        looks(engine).look(Glance(["k"], [], [], [], [gone]))


def test_a_look_by_an_old_number_of_stripes_gives_all(engine: Engine) -> None:
    spec = replace(engine.spec(shards=16, stripes_min=2), suffix="calculated+s1")
    engine.opened(spec)
    at = Glance(["k", "other"], [], [], [], [spec])
    stale, store = looks(engine), engine.store
    if isinstance(store, DynamoStore):
        store = DynamoStore(store._caller, store._effects, store._settings)
    events = 0
    for _ in range(3):
        for _ in range(20):
            counted(store, spec, record(spec, "k", f"e{events}"))
            events += 1
        assert stale.look(at).tallies[WINDOW]["k"].n == events
        store.widen(spec, "k")
