"""Cursors of another version are told apart from damaged ones."""

from __future__ import annotations

import pytest

from tallyroll.errors import UsageError
from tallyroll.reads import cursor as cursors
from tallyroll.reads.cursor import Position, cursor_of, read_cursor
from tests.harness.pipeline import WINDOW


def test_a_cursor_of_another_version_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(cursors, "CURSOR_VERSION", 99)
        cursor = cursor_of(WINDOW, "k", Position("e1", 0), packed=False)
    with pytest.raises(UsageError, match=r"^cursor of version 99: begin again without it$"):
        read_cursor(cursor, WINDOW, "k", packed=False)
