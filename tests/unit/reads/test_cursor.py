"""Cursors of another version are told apart from damaged ones."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tallyroll.errors import UsageError
from tallyroll.model.formats.json_texts import canonical
from tallyroll.reads import cursor as cursors
from tallyroll.reads.cursor import Position, cursor_of, read_cursor
from tests.harness.pipeline import WINDOW


def test_a_cursor_of_another_version_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(cursors, "CURSOR_VERSION", 99)
        cursor = cursor_of(WINDOW, "k", Position("e1", 0), packed=False)
    with pytest.raises(UsageError, match=r"^cursor of version 99: begin again without it$"):
        read_cursor(cursor, WINDOW, "k", packed=False)


def forged(fields: Any) -> str:
    body = canonical(fields).encode()
    return base64.urlsafe_b64encode(cursors._check(body) + body).decode().rstrip("=")


PLACES: list[list[Any]] = [
    *([5, None], [None, None], [[], None]),
    *(["e1", "a"], ["e1", []], ["e1", -1], ["e1", 1.5]),
]


@pytest.mark.parametrize(
    "fields",
    [
        *([], {}, 5, None, "x", [1], [1, WINDOW, "k", False]),
        [1, WINDOW, "k", False, "e1", None, 0],
        *([1, WINDOW, "k", False, *place] for place in PLACES),
    ],
    ids=repr,
)
def test_a_forged_cursor_is_refused(fields: Any) -> None:
    with pytest.raises(UsageError, match=r"^cursor .* (damaged; give one|begin again)"):
        read_cursor(forged(fields), WINDOW, "k", packed=False)
