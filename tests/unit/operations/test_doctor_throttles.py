"""The doctor's check of throttles: of permanent tables, and of open windows' tables."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import pytest

from tallyroll.operations.doctor.checkup import Level
from tallyroll.ports.table_listing import TableFacts, TableLoad, TableStatus
from tests.harness.doctoring import grown
from tests.harness.pipeline import WINDOW, Pipeline
from tests.unit.operations.test_doctor_deployment import looked, only, whole

WARM = TableFacts(TableStatus.ACTIVE, protected=True, warm=4_000)


@pytest.fixture
def pipeline() -> Pipeline:
    return grown(2)


def test_throttles(pipeline: Pipeline) -> None:
    once = whole(throttles={"tallyroll-totals": [(0, 0), (60_000, 3)]})
    short = only(looked(pipeline, once), "throttles", Level.WARNING)
    assert "3 requests were throttled in 1 of the last 15 minutes" in short.text
    long = whole(throttles={"tallyroll-catalog": [(at, 2) for at in range(5)]})
    sign = only(looked(pipeline, long), "throttles")
    assert sign.text.startswith("tallyroll-catalog: 10 requests")


@pytest.mark.parametrize(
    ("load", "facts", "limit", "remedy"),
    [
        (
            TableLoad(3_900, 40),
            WARM,
            "the table has not grown to its load (3,900 write units a second of 4,000)",
            f"`tallyroll windows warm {WINDOW} --units 8000`",
        ),
        (
            TableLoad(1_900, 40),
            WARM,
            "a key is hot (1,900 write units a second of 4,000)",
            f"`tallyroll top --window {WINDOW}`",
        ),
        (TableLoad(3_900, 40, 40), WARM, "a limit of the whole table", "table-throttles"),
        (TableLoad(3_900, 40), replace(WARM, warm=None), "a key or the table", "windows warm"),
        (TableLoad(900, 40), replace(WARM, provisioned=True), "a key or the table", "pack"),
    ],
)
def test_throttles_of_a_key_and_of_a_windows_table_are_told_apart(
    pipeline: Pipeline, load: TableLoad, facts: TableFacts, limit: str, remedy: str
) -> None:
    deployed = whole(loads={f"tallyroll-{WINDOW}": load})
    with patch.object(pipeline.store, "describe_table", return_value=facts):
        sign = only(looked(pipeline, deployed), "throttles", Level.WARNING)
    assert f"{WINDOW}: 40 writes were throttled in the last 5 minutes: {limit}" in sign.text
    assert remedy in sign.remedy
    assert sign.window == WINDOW
