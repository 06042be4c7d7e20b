from __future__ import annotations

import pytest

from tests.functions.invocation import Invocations
from tests.harness.pipeline import opened


@pytest.fixture
def functions(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Invocations:
    """The functions of a pipeline whose windows 06 to 08 stand open; it is half past eight."""
    return Invocations(opened(), monkeypatch, capsys)
