"""Ids that stay taken beyond their window, on every engine with transactions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.adapters.aws.client import make_client
from tallyroll.adapters.memory import MemoryStore
from tallyroll.errors import Absent, Missing
from tallyroll.model.ids import IdentityItem, identity_names
from tallyroll.model.records import Record
from tallyroll.model.specs import IdentityScope, Spec
from tallyroll.model.states import Calendar, Status
from tallyroll.model.windows import Grid
from tallyroll.reads.lookups import Lookups
from tallyroll.resources import identities_table
from tests.contract.engines import HOUR, START, Engine, counted, record

PIPELINE = IdentityScope.PIPELINE


@pytest.fixture
def spec(engine: Engine) -> Spec:
    """An open window of this scope; the table of identities is there."""
    if not engine.store.metering_of(engine.spec().table).tallied:
        pytest.skip("the engine has no transactions")
    if not isinstance(engine.store, MemoryStore):
        make_client("dynamodb").create_table(
            TableName=identities_table(engine.prefix),
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
    engine.catalog.found(Calendar(Grid.of(HOUR // 1_000), START))
    plain = replace(engine.spec(), suffix="calculated+id1")
    spec = engine.opened(replace(plain, identity=PIPELINE, identity_days=31, genesis=START))
    engine.catalog.put_spec(spec)
    state = engine.catalog.window(spec.window)
    assert state
    engine.catalog.advance(replace(state, status=Status.OPEN))
    return spec


def taken(spec: Spec, key: str, record_id: str) -> Record:
    made = record(spec, key, record_id)
    [name] = identity_names(spec, (key,), record_id)
    identity = IdentityItem(name, spec.window, key, made.digest, START // 1_000 + 10**8)
    return replace(made, identities=(identity,))


def test_what_was_put_is_read(engine: Engine, spec: Spec) -> None:
    stored = [taken(spec, "k", f"id-{number}") for number in range(130)]
    for first in range(0, len(stored), 40):
        counted(engine.store, spec, *stored[first : first + 40])
    items = [identity for each in stored for identity in each.identities]
    [absent] = identity_names(spec, ("k",), "other")
    found = engine.store.identities([*(item.name for item in items), absent, items[0].name])
    assert found == {item.name: item for item in items}


def test_an_event_is_found_by_its_id_alone(engine: Engine, spec: Spec) -> None:
    counted(engine.store, spec, taken(spec, "k", "a"), taken(spec, "l", "b"))
    ports = (engine.store, engine.catalog, engine.totals, engine.effects)
    lookups = Lookups(*ports, PIPELINE)
    found = lookups.event("k", "a", None, None)
    assert (found.what.id, found.window, found.status) == ("a", spec.window, Status.OPEN)
    with pytest.raises(Absent, match="there its id is taken under key 'l'"):
        lookups.event("k", "b", None, None)
    with pytest.raises(Absent, match="is not taken"):
        lookups.event("k", "c", None, None)


def test_without_their_table_identities_are_missing(engine: Engine) -> None:
    if isinstance(engine.store, MemoryStore):
        pytest.skip("memory needs no table of them")
    if not engine.store.metering_of(engine.spec().table).tallied:
        assert engine.store.identities(["a"]) == {}
        return
    with pytest.raises(Missing):
        engine.store.identities(["a"])
