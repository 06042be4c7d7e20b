"""What `make bench` says of retractions."""

from __future__ import annotations

import os

import pytest

from benchmarks.retracting import ALONE, SETTINGS, measure
from local.aws.embedded import Embedded


@pytest.mark.proof
def test_events_are_taken_back_for_little_more_than_they_cost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Together, retractions share the actions of a transaction; alone, nothing is shared."""
    monkeypatch.setattr(os, "environ", os.environ.copy())
    with Embedded(SETTINGS) as aws:
        os.environ.update(aws.environment)
        _, *rows = measure(aws.settings, 4 * ALONE)
    counted, opened, alone, sealed, sealed_alone = (float(row[2]) for row in rows)
    assert [row[1] for row in rows] == ["400", "100", "100", "100", "100"]
    assert (alone, sealed_alone) == (6, 12)
    assert counted < opened < sealed < 2.5
