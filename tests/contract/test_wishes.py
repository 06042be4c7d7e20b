"""What every catalog promises of wishes: they change by version, and no spec misses one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from threading import Barrier, Thread

import pytest
from moto import mock_aws

from tallyroll.adapters.aws.create_requests import table_request
from tallyroll.adapters.dynamodb.catalog import DynamoCatalog
from tallyroll.errors import StateConflict, Throttled, Unknown
from tallyroll.limits import HOT_KEYS_MAX, KEY_BYTES_MAX
from tallyroll.model.specs import Spec
from tallyroll.model.states import Wish, Wishes
from tallyroll.model.windows import window_id
from tallyroll.resources import declare
from tallyroll.settings import Settings
from tests.contract.engines import HOUR, START, Engine
from tests.contract.faults import Faults, error_reply
from tests.harness.pipeline import spec_of

WISH = Wish(1_024, START, None, START - HOUR)
ENDING = Wish(64, START, START + HOUR, START - HOUR)
ROUNDS, ROUNDS_SERVED = 2, 12
WAIT_S_MAX = 30


def test_wishes_change_only_as_they_were_read(engine: Engine) -> None:
    none = engine.catalog.wishes()
    assert none == Wishes()
    first = engine.catalog.put_wishes(none, {"k": WISH, "käse 🧀#.": ENDING})
    assert first == Wishes({"k": WISH, "käse 🧀#.": ENDING}, 1)
    assert engine.catalog.wishes() == first
    with pytest.raises(StateConflict):
        engine.catalog.put_wishes(none, {"late": WISH})
    second = engine.catalog.put_wishes(first, {})
    assert engine.catalog.wishes() == second == Wishes({}, 2), "a version is never used twice"
    with pytest.raises(StateConflict):
        engine.catalog.put_wishes(first, {"late": WISH})


def test_a_spec_is_put_only_with_the_wishes_that_it_takes(engine: Engine) -> None:
    spec = engine.spec()
    with pytest.raises(StateConflict):
        engine.catalog.put_spec(spec, 1)
    wishes = engine.catalog.put_wishes(Wishes(), {"k": WISH})
    with pytest.raises(StateConflict):
        engine.catalog.put_spec(spec, 0)
    assert engine.catalog.specs([spec.window]) == {}
    with_wish = replace(spec, hot={"k": 1_024}, why={"k": "wish"})
    assert engine.catalog.put_spec(with_wish, wishes.version) == with_wish
    assert engine.catalog.put_spec(spec, 0) == with_wish, "the one that stands, at any version"
    assert engine.catalog.put_spec(spec) == with_wish
    assert engine.catalog.specs([spec.window]) == {spec.window: with_wish}


def test_the_first_spec_without_any_wish(engine: Engine) -> None:
    spec = engine.spec()
    assert engine.catalog.put_spec(spec, 0) == spec


def test_the_most_wishes_and_their_spec_fit_their_items(engine: Engine) -> None:
    keys = [f"{n:03}" + "ü" * ((KEY_BYTES_MAX - 3) // 2) for n in range(HOT_KEYS_MAX)]
    wishes = engine.catalog.put_wishes(Wishes(), dict.fromkeys(keys, ENDING))
    assert engine.catalog.wishes() == wishes
    spec = replace(
        engine.spec(), hot=dict.fromkeys(keys, 10_000), why=dict.fromkeys(keys, "throttles")
    )
    assert engine.catalog.put_spec(spec, wishes.version) == spec


def test_a_wish_and_a_spec_at_once(engine: Engine) -> None:
    """Released together, one of both is first: the spec has the wish, or who wished sees it."""
    lost = raced(engine, checked=True)
    assert not lost


def test_without_the_check_a_wish_is_lost(engine: Engine) -> None:
    assert raced(engine, checked=False)


def raced(engine: Engine, *, checked: bool) -> list[str]:
    """Put a wish after a roller's read and before its spec; the windows that lost it, though who
    wished saw no spec. In the odd rounds both are put at the same time, which only a server can.
    """
    lost = []
    served = engine.name == "dynamodb-local"
    for number in range(ROUNDS_SERVED if served else ROUNDS):
        spec = replace(engine.spec(), window=window_id(START + number * HOUR))
        barrier = Barrier(2)
        roller = Thread(target=partial(_freeze, engine, spec, barrier, checked=checked))
        roller.start()
        barrier.wait(WAIT_S_MAX)  # the roller has read the wishes
        if served and number % 2:
            barrier.wait(WAIT_S_MAX)
        key = f"k{number}"
        _wish(engine, key)
        frozen = engine.catalog.specs([spec.window])
        if not (served and number % 2):
            barrier.wait(WAIT_S_MAX)
        roller.join(WAIT_S_MAX)
        stands = engine.catalog.specs([spec.window])[spec.window]
        if not frozen and key not in stands.hot:
            lost.append(spec.window)
    return lost


def _wish(engine: Engine, key: str) -> None:
    read = engine.catalog.wishes()
    engine.catalog.put_wishes(read, {**read.of, key: WISH})


def _freeze(engine: Engine, spec: Spec, barrier: Barrier, *, checked: bool) -> None:
    """Freeze as the roller does; the first time it waits after its read."""
    waits = 2
    while True:
        wishes = engine.catalog.wishes()
        for _ in range(waits):
            barrier.wait(WAIT_S_MAX)
        waits = 0
        hot = {key: wish.shards for key, wish in wishes.of.items()}
        version = wishes.version if checked else None
        try:
            engine.catalog.put_spec(replace(spec, hot=hot), version)
        except StateConflict:
            continue
        return


@pytest.fixture
def faults() -> Iterator[Faults]:
    with mock_aws():
        made = Faults()
        made.client.create_table(**table_request(declare(Settings()).catalog))
        yield made


def catalog_of(faults: Faults) -> DynamoCatalog:
    return DynamoCatalog(faults.caller, faults.effects, declare(Settings()).catalog.name)


def test_wishes_whose_reply_is_lost_stand(faults: Faults) -> None:
    catalog = catalog_of(faults)
    faults.put(Faults.LOST)
    first = catalog.put_wishes(Wishes(), {"k": WISH})
    assert catalog.wishes() == first == Wishes({"k": WISH}, 1)
    faults.put(error_reply("TransactionConflictException"), Faults.LOST)
    assert catalog.put_wishes(first, {}).version == 2
    assert catalog.wishes() == Wishes({}, 2)


def test_a_spec_whose_reply_is_lost_stands(faults: Faults) -> None:
    catalog = catalog_of(faults)
    faults.put(Faults.LOST)
    assert catalog.put_spec(spec_of(), 0) == spec_of()


def test_wishes_and_specs_that_nobody_answers(faults: Faults) -> None:
    catalog = catalog_of(faults)
    faults.put(*[error_reply("InternalServerError", 500)] * 10)
    with pytest.raises(Unknown):
        catalog.put_wishes(Wishes(), {"k": WISH})
    faults.put(*[error_reply("ThrottlingException")] * 10)
    with pytest.raises(Throttled):
        catalog.put_spec(spec_of(), 0)
    assert catalog.wishes() == Wishes()
