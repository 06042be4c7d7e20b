"""The page of AWS's guides: each row is there, and its commands, options and tests exist."""

from __future__ import annotations

import ast
import re
from dataclasses import fields

import pytest

from benchmarks.guide import of_guide
from tallyroll.settings.options import Options
from tests.docs.commands import check, of_sentences
from tests.docs.walks import ROOT

PAGE = (ROOT / "docs" / "guide.md").read_text("utf-8")
ROWS_MAX = 85
_ROW = re.compile(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def wrong(page: str) -> list[str]:
    """What is wrong with the rows of a page."""
    rows = _ROW.findall(page.partition("## The worked examples")[0])
    numbers = [int(number) for number, *_ in rows]
    found = [] if numbers == [*range(1, ROWS_MAX + 1)] else ["rows are missing, or out of order"]
    for number, guide, here, test in rows:
        if not re.match(r"(?:[WPTKC](?:, )?)+: ", guide):
            found.append(f"{number}: of which guide?")
        if here.startswith("No: ") and not re.search(r"\d", here):
            found.append(f"{number}: no number decides")
        if "computed below" in here and f"| {number} |" not in page.partition("<!-- guide")[2]:
            found.append(f"{number}: not computed below")
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", test)
        found += [f"{number}: no test"] if not named else []
        found += [f"{number}: no {path} {name}" for path, name in named if not exists(path, name)]
    return found


def exists(path: str, name: str) -> bool:
    file = ROOT / "tests" / path
    if not file.exists():
        return False
    made = ast.walk(ast.parse(file.read_text("utf-8")))
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in made)


def test_each_row_has_its_command_or_reason_and_a_test_that_exists() -> None:
    assert wrong(PAGE) == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("| 40 | T: ", "| 41 | T: ", "rows are missing"),
        ("::test_known_vectors", "::test_unknown_vectors", "5: no unit/model/test_sharding.py"),
        ("0 reads could use it", "no read could use it", "77: no number decides"),
        ("| 29 | 400 units", "| 30 | 400 units", "29: not computed below"),
    ],
)
def test_what_is_wrong_is_found(old: str, new: str, told: str) -> None:
    assert old in PAGE
    assert any(told in each for each in wrong(PAGE.replace(old, new)))


def test_its_options_and_commands_exist() -> None:
    options = {option.name for option in fields(Options)}
    named = set(re.findall(r"`tallyroll:(\w+)", PAGE))
    assert {"suffix", "shards", "write_rate"} <= named <= options
    commands = [*of_sentences("guide.md", PAGE)]
    assert len(commands) >= 25
    for command in commands:
        check(command)


def test_the_guides_figures_come_out_of_the_planners_code() -> None:
    computed = dict.fromkeys((row, result) for row, _, result in of_guide())
    guides = [
        ("29", "50, 50, 50, 150"),
        ("35", "1, each 1,000 RCU and 500 WCU"),
        ("36", "2, each 500 RCU and 500 WCU"),
        ("37", "4, each 1,250 RCU and 500 WCU"),
        ("38", "8, each 1,000 RCU and 250 WCU"),
        ("41", "9 partitions"),
        ("42", "1250/500; 1250/500; 1250/500; 625/250; 625/250"),
        ("44", "11,111 units, rounded 11,000: 11 partitions"),
        ("45", "18.2 units a partition"),
        ("47", "1,852 units, rounded 1,900: 2 partitions"),
    ]
    assert [each for each in guides if each not in computed] == []
