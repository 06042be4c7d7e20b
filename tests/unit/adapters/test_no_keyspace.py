"""A pipeline on DynamoDB alone that meets a window in Keyspaces asks DynamoDB nothing about it, and
loses nothing.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.dynamodb.store import DynamoStore
from tallyroll.errors import Refused
from tallyroll.model.states import Status
from tallyroll.model.windows import KEYSPACES
from tallyroll.pipeline import Pipeline as Core
from tallyroll.pipeline.stores import metering
from tallyroll.ports.store import Verdict
from tallyroll.settings import Settings
from tests.harness.both_stores import BothStores
from tests.harness.pipeline import HOUR, SMALL, TIME_LEFT, StillEffects, record_with, spec_of
from tests.harness.processes import ran
from tests.unit.adapters.test_routed import THERE, VERBS, arguments

REMEDY = "set TALLYROLL_KEYSPACE to that of its windows"
ROOT = Path(__file__).parents[3]
COLD = """
import importlib, json, os, sys
from tallyroll.settings import Settings
for function in ("aggregator", "cleanup", "dropper", "roller", "writer"):
    importlib.import_module(f"functions.{function}.handler").use_case()
print(json.dumps(sorted(sys.modules)))
"""


class Unasked:
    """A client that must not be called."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def in_dynamodb_alone() -> DynamoStore:
    effects = StillEffects()
    units = {"write": 9, "read": 9, "cold_write": 1, "cold_read": 1}
    settings = replace(SMALL, provisioned=units)
    return DynamoStore(Caller(Unasked(), effects), effects, settings)


GIVEN: dict[str, Any] = {"names": [("k", "a")], "keys": ["k"], "count": 1, "peak": 0, "tags": {}}


@pytest.mark.parametrize(
    "verb", [verb for verb in VERBS if verb not in ("commit", "retract", "fold")]
)
def test_dynamodb_is_asked_nothing_about_a_table_in_keyspaces(verb: str) -> None:
    given = arguments(verb, THERE)
    given |= {name: GIVEN[name] for name in given if name in GIVEN}
    if verb == "tombstones":
        given["names"] = [("k", "a", None)]

    def ask() -> None:
        answer = getattr(in_dynamodb_alone(), verb)(**given)
        next(answer)  # of a verb that yields

    with pytest.raises(Refused, match=REMEDY) as refused:
        ask()
    assert refused.value.code == "NoKeyspace"


def test_dynamodb_is_not_asked_for_records_of_windows_in_keyspaces() -> None:
    with pytest.raises(Refused, match=REMEDY) as refused:
        in_dynamodb_alone().lookup_across([spec_of(table=THERE)], [("k", "a")])
    assert refused.value.code == "NoKeyspace"


def test_a_commit_to_a_table_in_keyspaces_is_no_invalid_one() -> None:
    store, spec = in_dynamodb_alone(), spec_of(table=THERE)
    for outcome in (store.commit(spec, [record_with("a")], []), store.retract(spec, [])):
        assert outcome.verdict is Verdict.UNKNOWN
        assert REMEDY in outcome.detail


def bereft() -> BothStores:
    """A pipeline with an open window in Keyspaces, deployed without its keyspace."""
    pipeline = BothStores(replace(SMALL, store=KEYSPACES, retention_ms=HOUR))
    for _ in range(3):
        pipeline.roller().run(TIME_LEFT)
    assert pipeline.write({"key": "k", "id": "early"}).events == 1
    pipeline.settings = SMALL
    pipeline.store = DynamoStore(Caller(Unasked(), pipeline.effects), pipeline.effects, SMALL)
    return pipeline


def test_messages_of_its_windows_are_handed_back_and_counted_once_there_is_a_keyspace() -> None:
    pipeline = bereft()
    messages = [pipeline.message({"key": "k", "id": name}) for name in ("early", "late")]
    writer = pipeline.writer()
    again = [replace(message, receives=2) for message in messages]
    for batch in (messages, again):
        report = writer.write(batch, TIME_LEFT)
        assert report.failures == [message.id for message in batch]
        assert (report.rejected, report.events) == ({}, 0)
    assert pipeline.reasons() == []

    whole = BothStores(replace(SMALL, keyspace="votes"), pipeline.effects)
    whole.catalog, whole.rows = pipeline.catalog, pipeline.rows
    report = whole.writer().write(again, TIME_LEFT)
    assert (report.events, report.duplicates, report.failures) == (1, 1, [])


def test_its_windows_keep_their_states() -> None:
    pipeline = bereft()
    pipeline.move(Status.CLOSING)
    for use_case in (pipeline.roller, pipeline.cleanup, pipeline.dropper):
        use_case().run(TIME_LEFT)
    rolled = pipeline.roller().run(TIME_LEFT)
    assert any(REMEDY in problem for problem in rolled.problems)
    assert pipeline.state().status is Status.CLOSING
    pipeline.move(Status.DROPPING)
    dropped = pipeline.dropper().run(TIME_LEFT)
    assert any(REMEDY in problem for problem in dropped.problems)
    assert pipeline.state().status is Status.DROPPING


def test_a_cold_start_without_a_keyspace_loads_neither_the_driver_nor_the_room_of_rows() -> None:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT), *sys.path])
    done = ran(
        [sys.executable, "-c", COLD],
        env={**os.environ, "PYTHONPATH": paths, "POWERTOOLS_METRICS_NAMESPACE": "t"},
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert "tallyroll.adapters.dynamodb.store" in loaded
    forbidden = ("cassandra", "tallyroll.adapters.cassandra", "tallyroll.adapters.rows")
    assert [name for name in loaded if name.startswith(forbidden)] == []
    assert "tallyroll.adapters.routed" not in loaded


def test_without_the_driver_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "tallyroll.adapters.cassandra.opened", raising=False)
    for name in [name for name in sys.modules if name.split(".")[0] == "cassandra"]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.startswith("tallyroll.adapters.cassandra")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cassandra", None)
    made = Core(Settings(name="votes", store=KEYSPACES), StillEffects())
    with pytest.raises(Refused, match=r"pip install 'tallyroll\[keyspaces\]'") as refused:
        made.store.describe_table(THERE)
    assert refused.value.code == "NoDriver"


def test_a_plan_is_made_with_the_cost_in_dynamodb() -> None:
    assert metering().tallied
