from __future__ import annotations

from collections.abc import Iterator

import pytest

from tallyroll.testing import Tallyroll, running


@pytest.fixture(params=["memory", "moto"])
def tallyroll(request: pytest.FixtureRequest) -> Iterator[Tallyroll]:
    with running(engine=request.param) as pipeline:
        yield pipeline


@pytest.fixture
def memory() -> Iterator[Tallyroll]:
    with running(engine="memory") as pipeline:
        yield pipeline
