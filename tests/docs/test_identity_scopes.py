"""docs/messages.md: what counts as the same event under each scope is so."""

from __future__ import annotations

import json
import re

import boto3
import pytest

from tallyroll.limits import IDENTITY_COPIES_DAYS
from tallyroll.model.specs import IdentityScope
from tallyroll.testing import DEFAULTS, running
from tests.docs.walks import ROOT

_PART = re.compile(r"<!-- counted-by-identity -->\n(.*?)<!-- /counted-by-identity -->", re.DOTALL)


def _rows() -> tuple[list[str], list[tuple[list[str], list[int]]]]:
    """The scopes of the table's columns; of each row the bodies that are sent, and the counts."""
    [table] = _PART.findall((ROOT / "docs" / "messages.md").read_text("utf-8"))
    heads, _, *rows = [line.strip("| ").split(" | ") for line in table.strip().splitlines()]
    scopes = [re.findall(r"`(.+)`", head)[0] for head in heads[1:]]
    found = []
    for what, *counts in rows:
        bodies = re.findall(r"`(\{.+?\})`", what)
        assert "9:01" in what, "the second one is sent in another hour"
        found.append((bodies if len(bodies) > 1 else bodies * 2, [int(each) for each in counts]))
    return scopes, found


def test_the_table_has_every_scope_and_two_examples() -> None:
    scopes, rows = _rows()
    assert scopes == [*IdentityScope]
    assert len(rows) == 2


def test_the_days_of_the_pages_are_those_of_the_code() -> None:
    messages, exactness = (
        " ".join((ROOT / "docs" / page).read_text("utf-8").split())
        for page in ("messages.md", "exactness.md")
    )
    assert f"for `identity_days` ({DEFAULTS.identity_days}) after" in messages
    assert f"and for {IDENTITY_COPIES_DAYS} days more" in messages
    assert f"expires `identity_days` + {IDENTITY_COPIES_DAYS} days after" in exactness


@pytest.mark.parametrize("scope", IdentityScope)
@pytest.mark.parametrize("row", [0, 1])
def test_an_example_counts_as_the_table_says(row: int, scope: str) -> None:
    scopes, rows = _rows()
    bodies, counts = rows[row]
    with running(engine="memory", identity=scope) as tallyroll:
        for body in bodies:
            boto3.client("sqs").send_message(QueueUrl=tallyroll.queue_url, MessageBody=body)
            tallyroll.advance(hours=1)
        keys = {json.loads(body)["key"] for body in bodies}
        assert sum(map(tallyroll.count, keys)) == counts[scopes.index(scope)]
