from __future__ import annotations

import pytest

from tests.cli.desk import Desk
from tests.unit.pipeline import opened


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    """A desk before a pipeline whose windows 06 to 08 of 20 November 2026 stand open, at 08:30."""
    return Desk(opened(), monkeypatch, capsys)
