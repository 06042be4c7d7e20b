"""Scenarios on this process's DynamoDB Local, their results shared by all processes of the run."""

from __future__ import annotations

import os

import pytest

from tests.faults.results import Results
from tests.faults.scenarios import Scenarios


@pytest.fixture(scope="session")
def scenarios(dynamodb_endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Scenarios:
    """The scenarios of this test run."""
    base = tmp_path_factory.getbasetemp()
    # Each xdist worker has a folder of its own, in one that they share.
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    return Scenarios(dynamodb_endpoint, Results(shared / "fault-results"))
