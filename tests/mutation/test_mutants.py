"""How mutants are read, told apart and judged; none is made here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.mutation import run
from tests.mutation.mutants import (
    Argued,
    Change,
    Tally,
    change_in,
    judge,
    kind_of,
    read_argued,
    read_modules,
    statuses_in,
    table,
)
from tests.mutation.run import ROOT, MutmutFailed, main

RESULTS = """
    tallyroll.ingest.transactions.x_plan__mutmut_1: killed
    tallyroll.ingest.transactions.xǁCommitǁ__post_init____mutmut_2: survived
    tallyroll.ingest.transactions.x__later__mutmut_13: not checked
"""
SHOWN = """# tallyroll.ingest.transactions.x__later__mutmut_13: survived
--- src/tallyroll/ingest/transactions.py
+++ src/tallyroll/ingest/transactions.py
@@ -1,4 +1,4 @@
 def _later(commit):
-    most = min(
-        1, 2)
+    most = min(
+        1, 3)
     return most
"""
LATER = Change("ingest.transactions", "_later", "most = min( 1, 2)", "most = min( 1, 3)")
OTHER = Change("ingest.transactions", "plan", "a", "b")
ARGUED = Argued({LATER: "no matter"}, {"words": "for people"})


def test_mutants_are_told_by_what_they_change() -> None:
    assert statuses_in(RESULTS) == {
        "tallyroll.ingest.transactions.x_plan__mutmut_1": "killed",
        "tallyroll.ingest.transactions.xǁCommitǁ__post_init____mutmut_2": "survived",
        "tallyroll.ingest.transactions.x__later__mutmut_13": "not checked",
    }
    assert change_in("tallyroll.ingest.transactions.x__later__mutmut_13", SHOWN) == LATER
    of_class = change_in("tallyroll.ingest.transactions.xǁCommitǁ__post_init____mutmut_2", SHOWN)
    assert of_class.function == "Commit.__post_init__"


@pytest.mark.parametrize(
    ("was", "now", "kind"),
    [
        ('_bisected(commit, "no time left")', '_bisected(commit, "XXno time leftXX")', "words"),
        ('_bisected(commit, "no time left")', '_bisected(commit, "NO TIME LEFT")', "words"),
        ('_bisected(commit, "no time left")', "_bisected(commit, None)", ""),
        ('f("no time left")', 'f("")', ""),
        ('catalog.get("closing")', 'catalog.get("XXclosingXX")', ""),
        ('f("a b", "c d")', 'f("A B", "C D")', ""),
        ("for a, b in zip(c, d, strict=True):", "for a, b in zip(c, d, strict=None):", "strict"),
        ("for a, b in zip(c, d, strict=True):", "for a, b in zip(c, d, strict=False):", "strict"),
        ("for a, b in zip(c, d, strict=True):", "for a, b in zip(c, d, ):", "strict"),
        ("for a, b in zip(c, d, strict=True):", "for a, b in zip(c, None, strict=True):", ""),
        ("zip(c, d, strict=False)", "zip(c, d, strict=None)", "strict"),
        ("zip(c, d, strict=False)", "zip(c, d, )", "strict"),
        ("zip(c, d, strict=False)", "zip(c, d, strict=True)", ""),
        ("a + 1", "a - 1", ""),
    ],
)
def test_kinds_that_are_argued_together(was: str, now: str, kind: str) -> None:
    assert kind_of(Change("m", "f", was, now)) == kind


def test_a_survivor_needs_a_reason_and_a_reason_a_survivor() -> None:
    words = Change("ingest.transactions", "plan", 'f("a b")', 'f("A B")')
    tally = Tally("ingest.transactions", 7, [LATER, words])
    assert judge([tally], ARGUED) == ([], [])
    assert judge([Tally("ingest.transactions", 7, [LATER, OTHER])], ARGUED) == ([OTHER], [])
    assert judge([Tally("ingest.transactions", 7, [])], ARGUED) == ([], [LATER])
    assert judge([Tally("rolling", 7, [])], ARGUED) == ([], []), "another module was not mutated"
    assert table([tally], ARGUED).splitlines()[1].split() == [
        *("ingest.transactions", "9", "7", "2", "2", "77.8")
    ]


def test_a_reason_is_given_once_and_says_something(tmp_path: Path) -> None:
    entry = '[[survivor]]\nmodule = "m"\nfunction = "f"\nwas = "a"\nnow = "b"\nreason = "{}"\n'
    path = tmp_path / "survivors.toml"
    path.write_text(entry.format("why"))
    assert read_argued(path).reason(Change("m", "f", "a", "b")) == "why"
    for bad in (entry.format(" "), entry.format("why") * 2):
        path.write_text(bad)
        with pytest.raises(ValueError, match="given twice or without a reason"):
            read_argued(path)


@pytest.mark.parametrize(
    ("survivors", "status"), [([], 0), ([OTHER], 1), (MutmutFailed("no mutants"), 2)]
)
def test_the_status_to_exit_with(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    survivors: list[Change] | MutmutFailed,
    status: int,
) -> None:
    def mutated(module: str, tests: list[str], jobs: int) -> Tally:
        if isinstance(survivors, MutmutFailed):
            raise survivors
        return Tally(module, 7, survivors)

    monkeypatch.setattr(run, "BUILD", tmp_path)
    monkeypatch.setattr(run, "mutated", mutated)
    monkeypatch.setattr(run, "read_argued", lambda: Argued({}, {}))
    assert main(["ingest.transactions"]) == status


def test_modules_and_their_tests_are_there() -> None:
    modules = read_modules()
    for module, tests in modules.items():
        assert (ROOT / f"src/tallyroll/{module.replace('.', '/')}.py").is_file()
        assert tests
        assert all((ROOT / each).is_file() for each in tests), module


def test_what_is_argued_still_stands_in_the_code() -> None:
    modules = read_modules()
    for change in read_argued().changes:
        assert change.module in modules
        path = ROOT / f"src/tallyroll/{change.module.replace('.', '/')}.py"
        source = path.read_text(encoding="utf-8")
        assert _bare(change.was) in _bare(source), change


def _bare(code: str) -> str:
    return re.sub(r"\s+", "", code)
