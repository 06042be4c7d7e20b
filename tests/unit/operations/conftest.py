"""A stage for the checks of an endpoint, on a store in memory."""

from __future__ import annotations

import pytest

from tallyroll.operations.conform.stage import Stage
from tests.unit.operations.staged import Commit, made


@pytest.fixture
def stage() -> Stage:
    stage = made()
    stage.make()
    return stage


@pytest.fixture
def commit(stage: Stage) -> Commit:
    """The store's own commit."""
    return stage.store.commit
