"""docs/reasons.md explains each reason, and docs/glossary.md is in order."""

from __future__ import annotations

import re
from pathlib import Path

from tallyroll.reasons import Reason

DOCS = Path(__file__).parents[2] / "docs"
ROW = re.compile(r"^\| (.+?) \| (.+?) \|(?: (.+?) \|)?$", re.MULTILINE)


def test_each_reason_is_explained_with_a_remedy() -> None:
    page = (DOCS / "reasons.md").read_text(encoding="utf-8")
    rows = [row for row in ROW.findall(page) if row[0].startswith("`")]
    assert sorted(name.strip("`") for name, _, _ in rows) == sorted(Reason)
    for name, wrong, remedy in rows:
        assert wrong.endswith("."), name
        assert remedy.endswith("."), name


def test_the_glossary_is_in_alphabetical_order() -> None:
    page = (DOCS / "glossary.md").read_text(encoding="utf-8")
    terms = [term for term, _, _ in ROW.findall(page) if term not in ("term", "---")]
    assert terms == sorted(terms)
    assert len(terms) == len(set(terms)) > 30
