"""Each verb goes to the store of its table."""

from __future__ import annotations

import inspect
from typing import Any
from unittest.mock import create_autospec

import pytest

from tallyroll.adapters.dynamodb.throughput import METERING as TRANSACTIONS
from tallyroll.adapters.memory import MemoryStore
from tallyroll.adapters.routed import FAILURE_KEPT_MS, RoutedStore
from tallyroll.adapters.rows.metering import METERING as ROWS
from tallyroll.adapters.rows.row_store import RowStore
from tallyroll.errors import Refused, StoreError, Unknown
from tallyroll.ports.store import Store, Verdict
from tests.harness.pipeline import StillEffects, record_with, spec_of

HERE, THERE = "votes-20261120T080000Z", "keyspaces:votes-20261120T080000Z"
VERBS = sorted(
    name
    for name, verb in inspect.getmembers(Store, inspect.isfunction)
    if not name.startswith("_")
    and name not in ("metering_of", "identities", "lookup_across")  # not of one window's table
)


def arguments(verb: str, table: str) -> dict[str, Any]:
    """Some value for each argument of a verb; its table, or that of its spec, is `table`."""
    names = list(inspect.signature(getattr(Store, verb)).parameters)[1:]
    given: dict[str, Any] = {name: name for name in names}
    return given | ({"spec": spec_of(table=table)} if "spec" in given else {"table": table})


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_goes_to_the_store_of_its_table(verb: str) -> None:
    dynamodb, keyspaces = (create_autospec(MemoryStore, instance=True) for _ in range(2))
    store: Store = RoutedStore(dynamodb, lambda: keyspaces, StillEffects())
    for table, theirs, others in ((HERE, dynamodb, keyspaces), (THERE, keyspaces, dynamodb)):
        given = arguments(verb, table)
        answer = getattr(store, verb)(*given.values())
        mine = getattr(theirs, verb)
        mine.assert_called_once()
        bound = inspect.signature(getattr(MemoryStore, verb)).bind(None, *mine.call_args.args)
        assert list(bound.arguments.values())[1:] == list(given.values())
        if inspect.signature(getattr(Store, verb)).return_annotation != "None":
            assert answer is mine.return_value
        assert [call for call in others.method_calls if table in str(call)] == []


def test_records_of_several_windows_are_looked_up_in_the_stores_of_their_tables() -> None:
    dynamodb, keyspaces = (create_autospec(MemoryStore, instance=True) for _ in range(2))
    here, there = spec_of(table=HERE), spec_of(table=THERE, window="20261120T090000Z")
    names = [("k", "a")]
    for store, spec in ((dynamodb, here), (keyspaces, there)):
        store.lookup_across.return_value = {spec.window: {names[0]: record_with("a")}}

    found = RoutedStore(dynamodb, lambda: keyspaces, StillEffects()).lookup_across(
        [here, there], names
    )

    assert found.keys() == {here.window, there.window}
    dynamodb.lookup_across.assert_called_once_with([here], names)
    keyspaces.lookup_across.assert_called_once_with([there], names)


def test_what_writes_cost_is_known_without_a_connection() -> None:
    def never() -> Store:
        raise AssertionError

    store = RoutedStore(MemoryStore(StillEffects(), None), never, StillEffects())  # type: ignore[arg-type]
    assert store.metering_of(HERE) is TRANSACTIONS
    assert store.metering_of(THERE) is ROWS
    assert not store.transactional


def test_a_keyspace_that_cannot_be_reached_is_tried_again_a_little_later() -> None:
    tries: list[int] = []
    effects = StillEffects()
    keyspaces = create_autospec(RowStore, instance=True)

    def opened() -> Store:
        tries.append(effects.now())
        if len(tries) < 3:
            raise Refused("no such keyspace", "NoKeyspace")
        return keyspaces  # type: ignore[no-any-return]

    store = RoutedStore(create_autospec(MemoryStore, instance=True), opened, effects)
    for _ in range(3):
        with pytest.raises(Refused, match="no such keyspace") as failed:
            store.describe_table(THERE)
        assert failed.value.code == "NoKeyspace"
    assert len(tries) == 1
    effects.pass_by(FAILURE_KEPT_MS)
    with pytest.raises(Refused):
        store.describe_table(THERE)
    effects.pass_by(FAILURE_KEPT_MS)
    store.describe_table(THERE)
    store.describe_table(THERE)
    assert len(tries) == 3


@pytest.mark.parametrize("error", [Unknown("no node"), Refused("no driver")])
def test_a_commit_that_finds_no_keyspace_is_of_unknown_outcome(error: StoreError) -> None:
    def opened() -> Store:
        raise error

    store = RoutedStore(create_autospec(MemoryStore, instance=True), opened, StillEffects())
    outcome = store.commit(spec_of(table=THERE), [record_with("a")], [])
    assert (outcome.verdict, outcome.detail) == (Verdict.UNKNOWN, str(error))
