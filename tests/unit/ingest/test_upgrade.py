"""A deployment replaces writers and roller one after the other, and may be taken back.

Old writers know no heartbeats and no notes of batches; an old roller reads neither. What both know
are the notes on windows, which keep their place and form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from moto import mock_aws

from tallyroll.adapters.aws.client import Caller, make_client
from tallyroll.adapters.aws.create_requests import table_request
from tallyroll.adapters.dynamodb.catalog import DynamoCatalog
from tallyroll.model.states import Status
from tallyroll.ports.queue import Backlog
from tallyroll.ports.writer_notes import Heartbeat, Reception
from tallyroll.resources import declare
from tallyroll.settings import Settings
from tests.contract.engines import START, WINDOW, SteadyEffects
from tests.harness.pipeline import MINUTE, TIME_LEFT, Pipeline, hour, opened

OLD_DATAPOINTS = 3


def drained_before(
    accept_until: int,
    backlog: Backlog,
    empty_counts: int,
    straggler: int | None,
    now: int,
    settings: Settings,
) -> bool:
    """The rule of rollers that knew neither heartbeats nor notes of batches."""
    if straggler is not None and straggler > now - 2 * settings.visibility_ms:
        return False
    if backlog.empty and empty_counts >= OLD_DATAPOINTS:
        return True
    newest = sorted(backlog.ages)[-OLD_DATAPOINTS:]
    return len(newest) == OLD_DATAPOINTS and all(
        at - age > accept_until + settings.drain_margin_ms for at, age in newest
    )


class OldCatalog:
    """The catalog as old writers know it: they call nothing that is new."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._catalog = pipeline.catalog

    def __getattr__(self, name: str) -> Any:
        if name in ("note_received", "clear_received", "beat", "receptions", "heartbeat"):
            return lambda *_, **__: []
        return getattr(self._catalog, name)


def traffic(pipeline: Pipeline, minutes: int, *, old_writers: bool, roll: bool = True) -> None:
    """A message in flight at every look at the queue: it never counts as empty."""
    writer = pipeline.writer()
    if old_writers:
        writer._notes.catalog = OldCatalog(pipeline)
    roller = pipeline.roller()
    for _ in range(minutes):
        pipeline.queue.send('{"key": "k"}')
        messages = pipeline.queue.receive()
        if roll:
            roller.run(TIME_LEFT)
        report = writer.write(messages, TIME_LEFT)
        pipeline.queue.invoked(failed=False)
        for message in messages:
            if message.id not in report.failures:
                pipeline.queue.delete(message.receipt)
        pipeline.effects.pass_by(MINUTE)


def test_old_writers_beside_a_new_roller_keep_windows_open_until_they_are_replaced() -> None:
    """Unknown is not drained: a busy queue drains by its ages only where writers are known to live.
    Nothing else waits, and an idle queue closes windows as ever.
    """
    pipeline = opened()
    traffic(pipeline, 30, old_writers=True)
    assert pipeline.state(hour(6)).status is Status.OPEN
    assert pipeline.tally("k", hour(8))[0] == 30
    traffic(pipeline, 10, old_writers=False)
    assert pipeline.state(hour(6)).status is Status.SEALED

    idle = opened()
    traffic(idle, 1, old_writers=True)
    roller = idle.roller()
    for _ in range(4):
        roller.run(TIME_LEFT)
        idle.effects.pass_by(MINUTE)
    assert idle.state(hour(6)).status is Status.SEALED


def test_an_old_roller_finds_the_notes_on_windows_of_new_writers() -> None:
    """Taken back, the roller goes by what it knew: a note still holds its window."""
    pipeline = opened()
    six = pipeline.spec(hour(6)).start
    message = pipeline.message({"id": "e", "key": "k", "ts": six}, sent=six, receives=2)
    assert pipeline.writer().write([message], TIME_LEFT).events == 1
    now = pipeline.effects.now()
    straggler = pipeline.catalog.stragglers([hour(6)])[hour(6)]
    fresh = Backlog(1, 0, 0, tuple((now - n * MINUTE, 0) for n in range(3)))
    until = pipeline.spec(hour(6)).accept_until
    assert not drained_before(until, fresh, 0, straggler, now, pipeline.settings)
    later = now + 2 * pipeline.settings.visibility_ms
    fresh = replace(fresh, ages=tuple((later - n * MINUTE, 0) for n in range(3)))
    assert drained_before(until, fresh, 0, straggler, later, pipeline.settings)


def stored(client: Any, table: str) -> Sequence[dict[str, Any]]:
    found: Sequence[dict[str, Any]] = client.scan(TableName=table)["Items"]
    return found


def test_what_is_stored_stays_as_it_was_and_what_is_new_lies_apart() -> None:
    with mock_aws():
        resources, client, effects = declare(Settings()), make_client("dynamodb"), SteadyEffects()
        client.create_table(**table_request(resources.catalog))
        table = resources.catalog.name
        catalog = DynamoCatalog(Caller(client, effects), effects, table)

        catalog.note_straggler(WINDOW, START)
        straggler = {
            "pk": {"S": "2026-11"},
            "sk": {"S": f"{WINDOW}#straggler"},
            "at": {"N": str(START)},
        }
        assert stored(client, table) == [straggler]

        catalog.beat(START, finished=True)
        catalog.note_received(Reception("a", START, START - 1, START, b"1234"))
        new = [item for item in stored(client, table) if item != straggler]
        assert {item["pk"]["S"] for item in new} == {"~writers"}
        assert catalog.windows(0, 2 * START) == []
        assert catalog.stragglers([WINDOW]) == {WINDOW: START}

        for item in new:  # a catalog that never had any
            client.delete_item(TableName=table, Key={"pk": item["pk"], "sk": item["sk"]})
        assert catalog.heartbeat() == Heartbeat(None, None)
        assert catalog.receptions(0, 2 * START, 99) == []
