"""The stripes of a tally may be raised while its window is open: no read misses one."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from tallyroll.adapters.dynamodb.attributes import expressed
from tallyroll.adapters.dynamodb.items import tally_key
from tallyroll.adapters.dynamodb.store import DynamoStore, Widths
from tallyroll.model.specs import Spec
from tallyroll.ports.paging import listed_tallies
from tallyroll.ports.store import Store
from tests.contract.engines import Engine, counted, record

FIRST, MOST = 2, 16
NUMBERS = count()


@pytest.fixture
def spec(engine: Engine) -> Spec:
    """A window whose tallies begin with 2 stripes and may have 16."""
    spec = replace(engine.spec(shards=MOST, stripes_min=FIRST), suffix="calculated+s1")
    return engine.opened(spec)


def another(engine: Engine) -> Store:
    """The same tables as another process has them."""
    store = engine.store
    if isinstance(store, DynamoStore):
        return DynamoStore(store._caller, store._effects, store._settings)
    return store


def put(store: Store, spec: Spec, events: int = 30, key: str = "k") -> int:
    for _ in range(events):
        counted(store, spec, record(spec, key, f"e{next(NUMBERS)}"))
    return events


def used(engine: Engine, spec: Spec) -> set[int]:
    """The stripes of `k` that are there."""
    items = [item for page in engine.store.scan(spec.table, 0, 1) for item in page]
    return {int(item.sk.rpartition(".")[2]) for item in items if item.sk.startswith("t#k.")}


def test_a_reader_that_knows_fewer_stripes_reads_them_all(engine: Engine, spec: Spec) -> None:
    stale, other = engine.store, another(engine)
    events = put(stale, spec)
    assert used(engine, spec) == {1, 2}
    assert stale.tallies(spec, ["k"])["k"].n == events
    for most in (4, 8, 16, 16):
        other.widen(spec, "k")
        events += put(other, spec) + put(stale, spec, 3)
        assert max(used(engine, spec)) <= most
        for reader in (stale, another(engine)):
            assert reader.tallies(spec, ["other", "k"])["k"].n == events
    assert len(used(engine, spec)) > 8

    # The release before reads as many stripes as there may ever be; sealing lists all.
    before = replace(spec, suffix="calculated")
    assert another(engine).tallies(before, ["k"])["k"].n == events
    listed = [each for number in range(1, 5) for each in listed_tallies(engine.store, spec, number)]
    assert sum(each.n for each in listed) == events


def test_stripes_are_never_lowered(engine: Engine, spec: Spec) -> None:
    stale, other = another(engine), another(engine)
    events = put(other, spec)
    for _ in range(3):
        other.widen(spec, "k")
    stale.widen(spec, "k")  # to 4, as far as it knows
    assert other.tallies(spec, ["k"])["k"].raised == MOST
    events += put(stale, spec)  # which has learned it
    assert another(engine).tallies(spec, ["k"])["k"].n == events
    assert max(used(engine, spec)) > 4


def test_a_key_without_events_stays_away(engine: Engine, spec: Spec) -> None:
    """A stripe without events would be a key of the window's totals."""
    engine.store.widen(spec, "nobody")
    items = [item for page in engine.store.scan(spec.table, 0, 1) for item in page]
    assert {item.pk[:2] for item in items} == {"~g"}


def test_where_nothing_is_to_be_raised_nothing_is_asked(engine: Engine) -> None:
    if not isinstance(engine.store, DynamoStore):
        return
    store = DynamoStore(None, engine.effects, engine.store._settings)  # type: ignore[arg-type]
    for shards, stripes, suffix in [(16, 64, "+s1"), (16, 16, "+s1"), (256, 8, "")]:
        spec = engine.spec(shards=shards, stripes_min=stripes)
        store.widen(replace(spec, suffix=f"calculated{suffix}"), "k")


# --- broken on purpose


@pytest.fixture
def raised(engine: Engine, spec: Spec) -> tuple[Spec, int]:
    """A window with 16 stripes, and its events."""
    if not isinstance(engine.store, DynamoStore):
        pytest.skip("every process asks the one store in memory")
    events = put(engine.store, spec)
    for _ in range(3):
        engine.store.widen(spec, "k")
    return spec, events + put(engine.store, spec)


def test_a_reader_that_believes_what_it_knows_would_miss_events(
    engine: Engine, raised: tuple[Spec, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, events = raised
    reader = another(engine)
    monkeypatch.setattr(Widths, "note", lambda *_: None)
    assert reader.tallies(spec, ["k"])["k"].n < events


def test_a_lowered_number_would_hide_events(engine: Engine, raised: tuple[Spec, int]) -> None:
    spec, events = raised
    assert another(engine).tallies(spec, ["k"])["k"].n == events
    store = engine.store
    assert isinstance(store, DynamoStore)
    store._table(spec.table).update_if(
        {"Key": tally_key(spec, "k", 1)} | expressed("SET #w = :w", w=4)
    )
    assert another(engine).tallies(spec, ["k"])["k"].n < events


def test_more_stripes_than_the_release_before_asks_for_would_hide_events_from_it(
    engine: Engine, raised: tuple[Spec, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, events = raised
    monkeypatch.setattr(Spec, "stripes_most", lambda *_: 4 * MOST)
    for _ in range(2):
        engine.store.widen(spec, "k")
    events += put(engine.store, spec, 60)
    monkeypatch.undo()
    assert another(engine).tallies(spec, ["k"])["k"].n == events
    before = replace(spec, suffix="calculated")
    reader = another(engine)
    monkeypatch.setattr(Widths, "note", lambda *_: None)  # it knows no raised numbers
    assert reader.tallies(before, ["k"])["k"].n < events
