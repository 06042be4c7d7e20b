"""A month's whole life, in memory and on DynamoDB Local, by a clock that is told."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import pytest

from tallyroll.adapters.aws.client import make_client
from tallyroll.adapters.aws.create_requests import table_request
from tallyroll.adapters.dynamodb.items import CODEC
from tallyroll.archive.inventory import find
from tallyroll.archive.verification import ArchiveReading
from tallyroll.model.states import Status
from tallyroll.model.windows import DAY_MS, window_start
from tallyroll.pipeline import Pipeline as Made
from tallyroll.reasons import Reason
from tallyroll.resources import declare
from tests.harness.pipeline import HOUR, MINUTE, SMALL, TIME_LEFT, Pipeline

NOVEMBER, DECEMBER, JANUARY = (f"{month}01T000000Z" for month in ("202611", "202612", "202701"))
MONTHS = replace(SMALL, window="month", retention_ms=DAY_MS, cache_live_ms=0)


@pytest.fixture(params=["memory", pytest.param("dynamodb-local", marks=pytest.mark.engine)])
def pipeline(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """A pipeline of months; its queue and its bucket are in memory."""
    made = Pipeline(replace(MONTHS, name=f"t{uuid4().hex[:8]}"))
    if request.param == "dynamodb-local":
        endpoint = request.getfixturevalue("dynamodb_endpoint")
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", endpoint)
        for table in declare(made.settings).permanent:
            make_client("dynamodb").create_table(**table_request(table))
        ports = Made(made.settings, made.effects)
        made.store, made.catalog, made.totals = ports.store, ports.catalog, ports.totals  # type: ignore[assignment]
    return made


def rolled(pipeline: Pipeline) -> None:
    roller = pipeline.roller()  # which counts how often the queue was empty
    for _ in range(5):
        assert roller.run(TIME_LEFT).problems == []
        pipeline.effects.pass_by(2 * MINUTE)


def test_a_month_is_made_written_sealed_archived_proven_and_dropped(pipeline: Pipeline) -> None:
    rolled(pipeline)
    first, next_first = window_start(NOVEMBER), window_start(DECEMBER)
    november = pipeline.state(NOVEMBER)
    assert (november.start, november.end) == (first, next_first)
    assert [each.id for each in pipeline.catalog.windows(0, 10**14)] == [
        NOVEMBER,
        DECEMBER,
        JANUARY,
    ]

    early = [{"key": "k", "id": f"e{n}", "ts": first + n * DAY_MS} for n in range(20)]
    assert pipeline.write(*early).events == 20
    assert pipeline.write(*early[:5]).duplicates == 5
    too_early = {"key": "k", "id": "october", "ts": first - 1}
    assert pipeline.write(too_early).events == 0
    assert pipeline.reasons() == [Reason.TOO_LATE]

    # Early acceptance: the next month's window is open before it begins.
    pipeline.effects.pass_by(next_first - pipeline.effects.now() - 2 * MINUTE)
    rolled(pipeline)
    assert pipeline.state(DECEMBER).status is Status.OPEN
    last_and_first = [
        {"key": "k", "id": "last", "ts": next_first - 1},
        {"key": "k", "id": "first", "ts": next_first},
    ]
    assert pipeline.write(*last_and_first).events == 2

    pipeline.effects.pass_by(MONTHS.accept_for_ms + HOUR)
    assert pipeline.write({"key": "k", "id": "late", "ts": next_first - 2}).events == 0
    rolled(pipeline)
    assert pipeline.state(NOVEMBER).status is Status.SEALED
    assert pipeline.state(DECEMBER).status is Status.OPEN
    count = pipeline.reader().count("k", first, next_first, TIME_LEFT, consistent=True)
    assert (count.complete, count.events) == (True, 21)

    pipeline.effects.pass_by(2 * DAY_MS)
    for _ in range(6):
        assert pipeline.cleanup().run(TIME_LEFT).problems == []
        assert pipeline.dropper().run(TIME_LEFT).problems == []
        pipeline.effects.pass_by(MINUTE)
    dropped = pipeline.state(NOVEMBER)
    assert dropped.status is Status.DROPPED
    assert pipeline.store.describe_table(dropped.table) is None
    [archive] = find(pipeline.bucket, pipeline.effects, dropped.attempt.archive)
    reading = ArchiveReading(pipeline.bucket, archive, CODEC, pipeline.totals).verified()
    assert (reading.findings.first, reading.counted.sums[0]) == ([], 21)
    count = pipeline.reader().count("k", first, None, TIME_LEFT, consistent=True)
    assert (count.complete, count.events) == (True, 22)
