"""What `make bench` says of reads of ranges: each way finds the same, by few requests."""

from __future__ import annotations

import os

import pytest

from benchmarks.reading_ranges import (
    SETTINGS,
    Filled,
    event_ways,
    measured,
    rows_of,
    series_requests,
    stream_ways,
)
from local.aws.embedded import Embedded

RECORDS = 240


@pytest.mark.proof
def test_reads_of_ranges_take_few_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", os.environ.copy())
    with Embedded(SETTINGS) as aws:
        os.environ.update(aws.environment)
        of = Filled(aws.settings, RECORDS, days=2)
        assert [way() for way in stream_ways(of).values()] == [RECORDS, RECORDS]
        assert series_requests(of) == {
            "a series of 2 days, warm": 2,
            "a sealed range, warm": 1,
            "a sealed range, kept": 0,
        }
        ways = event_ways(of)
        rows = rows_of(measured(ways, rounds=1))
        assert [row[0] for row in rows[1:]] == list(ways)
        for way in list(ways.values())[:2]:
            of.requests.clear()
            assert way() == 1
            assert sorted(of.requests) in (
                ["BatchGetItem", "BatchGetItem", "GetItem", "Query"],  # of an open window
                ["BatchGetItem", "GetItem", "Query", "Query"],
            )
