"""A pipeline that changes its store from one window to the next, and back: in memory, and on
DynamoDB Local with a node of Cassandra.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from local.cassandra.node import Node
from tallyroll import pipeline as core
from tallyroll.adapters.aws.client import make_client
from tallyroll.adapters.aws.create_requests import table_request
from tallyroll.adapters.dynamodb.items import CODEC
from tallyroll.archive.inventory import find
from tallyroll.archive.verification import ArchiveReading
from tallyroll.lifecycle.runner import Rolled
from tallyroll.model.states import Status
from tallyroll.model.stored import StoredEvent
from tallyroll.model.windows import DYNAMODB, KEYSPACES, store_of, window_start
from tallyroll.resources import declare
from tests.harness.both_stores import KEPT, BothStores
from tests.harness.cassandra import new_keyspace
from tests.harness.pipeline import HOUR, MINUTE, TIME_LEFT, Pipeline, hour

KEYS = ("ada", "grace", "edsger")
EVENTS = 12  # of each window
STORES = {8: DYNAMODB, 9: DYNAMODB, 10: KEYSPACES, 11: KEYSPACES, 12: DYNAMODB}


class OnEngines(Pipeline):
    """The ports of a real pipeline; queue and bucket are in memory."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.connections: list[Any] = []
        self.deploy()

    def deploy(self) -> None:
        made = core.Pipeline(self.settings, self.effects)
        self.connections.append(made.store)
        self.store: Any = made.store
        self.catalog: Any = made.catalog
        self.totals: Any = made.totals

    def change_store(self, store: str) -> None:
        self.settings = replace(self.settings, store=store)
        self.deploy()


@pytest.fixture(
    params=["memory", pytest.param("engines", marks=[pytest.mark.engine, pytest.mark.cassandra])]
)
def pipeline(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[BothStores | OnEngines]:
    """A pipeline whose next window is the only one ahead; its windows are in DynamoDB so far."""
    settings = replace(KEPT, ahead_windows=1, cache_live_ms=0)
    if request.param == "memory":
        yield BothStores(settings)
        return
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", request.getfixturevalue("dynamodb_endpoint"))
    node: Node = request.getfixturevalue("cassandra")
    name = f"t{uuid4().hex[:8]}"
    settings = replace(
        settings,
        name=name,
        keyspace=new_keyspace(node.port).keyspace,
        cassandra=f"127.0.0.1:{node.port}",
    )
    resources = declare(settings)
    client = make_client("dynamodb")
    for table in resources.permanent:
        client.create_table(**table_request(table))
    made = OnEngines(settings)
    yield made
    for store in made.connections:
        if store._keyspaces:
            store._keyspaces._rows._connection.close()


def rolled(pipeline: Pipeline, *, apart_ms: int = 0) -> None:
    roller = pipeline.roller()  # which counts how often the queue was empty
    for _ in range(4):
        assert roller.run(TIME_LEFT).problems == []
        pipeline.effects.pass_by(apart_ms)


def events_of(number: int) -> list[dict[str, Any]]:
    """The events of the window of an hour."""
    start = window_start(hour(number))
    return [
        {"key": KEYS[n % len(KEYS)], "id": f"e{n}", "ts": start + n * MINUTE, "value": n}
        for n in range(EVENTS)
    ]


def written(pipeline: Pipeline, number: int) -> None:
    """Send the events of a window, and some of them once more."""
    events = events_of(number)
    report = pipeline.write(*events)
    assert (report.events, report.failures) == (EVENTS, []), number
    again = pipeline.write(*events[:5])
    assert (again.duplicates, again.failures) == (5, [])


def counts(pipeline: Pipeline) -> dict[str, dict[str, tuple[int, int, Status]]]:
    """The counts of all keys in all windows that have events."""
    reader = pipeline.reader()
    found = {}
    for key in KEYS:
        count = reader.count(key, None, None, TIME_LEFT, consistent=True, by_window=True)
        assert count.complete
        found[key] = {
            each.window: (each.events, each.amount, each.status)
            for each in count.windows
            if each.events
        }
    return found


def until_nothing_is_left(pipeline: Pipeline) -> Rolled:
    """Let cleanup and dropper run until they find nothing to do."""
    every = Rolled()
    while True:
        cleaned = pipeline.cleanup().run(TIME_LEFT)
        dropped = pipeline.dropper().run(TIME_LEFT)
        assert cleaned.problems == dropped.problems == []
        every.steps.update(cleaned.steps + dropped.steps)
        if not cleaned.steps + dropped.steps:
            return every


def test_windows_live_and_end_in_the_store_they_were_made_in(
    pipeline: BothStores | OnEngines,
) -> None:
    rolled(pipeline)
    for number, store in STORES.items():
        if number == 9:
            pipeline.change_store(KEYSPACES)
        if number == 11:
            pipeline.change_store(DYNAMODB)
        rolled(pipeline)
        assert store_of(pipeline.state(hour(number)).table) == store, number
        assert pipeline.spec(hour(number)).table == pipeline.state(hour(number)).table
        written(pipeline, number)
        pipeline.effects.pass_by(HOUR)

    live = counts(pipeline)
    for at, key in enumerate(KEYS):
        assert list(live[key]) == [hour(number) for number in STORES]
        amount = sum(range(at, EVENTS, len(KEYS))) * 1_000_000
        assert {each[:2] for each in live[key].values()} == {(4, amount)}
    for number in (9, 11):
        events = pipeline.reader().events("grace", hour(number), TIME_LEFT)
        assert [each.id for each in events.found] == ["e1", "e10", "e4", "e7"]
        found = pipeline.reader().event("ada", "e3", hour(number), None).what
        assert isinstance(found, StoredEvent)
        assert (found.ts, found.amount) == (window_start(hour(number)) + 3 * MINUTE, 3_000_000)

    pipeline.effects.pass_by(2 * HOUR)  # no window accepts events any more
    rolled(pipeline, apart_ms=2 * MINUTE)
    sealed = counts(pipeline)
    for key in KEYS:
        assert {window: each[:2] for window, each in sealed[key].items()} == {
            window: each[:2] for window, each in live[key].items()
        }
        assert {each[2] for each in sealed[key].values()} == {Status.SEALED}
    for number in STORES:
        top = pipeline.reader().top(hour(number), 2, TIME_LEFT)
        assert top.complete
        assert (top.keys, top.events) == (len(KEYS), EVENTS)

    pipeline.effects.pass_by(2 * HOUR)
    done = until_nothing_is_left(pipeline)
    assert done.mismatches == 0
    for number in STORES:
        window = pipeline.state(hour(number))
        assert window.status is Status.DROPPED
        assert pipeline.store.describe_table(window.table) is None
        verify(pipeline, window.attempt.archive)
    assert counts(pipeline) == sealed


def verify(pipeline: Pipeline, prefix: str) -> None:
    """Recount an archive, and compare it with the totals."""
    [archive] = find(pipeline.bucket, pipeline.effects, prefix)
    reading = ArchiveReading(pipeline.bucket, archive, CODEC, pipeline.totals).verified()
    assert reading.findings.first == []
    assert reading.counted.sums[0] == EVENTS
