"""Rare states are counted, a long run fails without them, and a run can be stopped and goes on."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallyroll import limits
from tests.simulation import marking, marking_heat, marking_retractions, marking_windows, run
from tests.simulation.handlers import handlers_of
from tests.simulation.lanes import run_seeds
from tests.simulation.marks import MARKS, Marks, never_met, table
from tests.simulation.pipeline import Result, System, simulate
from tests.simulation.resuming import revision

SEERS = (marking, marking_heat, marking_retractions, marking_windows)
SEEN_IN = "\n".join(Path(str(module.__file__)).read_text() for module in SEERS)
# Names that are put together where they are seen.
# These do not run in a function.
NO_FUNCTIONS = ("tallyroll.cli", "tallyroll.cdk", "tallyroll.operations", "tallyroll.planning")
PUT_TOGETHER = ("rejected-", "looked-up-a", "ranged-", "ill-", "model-")


def test_there_are_many_marks_and_each_says_what_it_means() -> None:
    assert len(MARKS) >= 60
    assert all(len(told) > 15 for told in MARKS.values())
    assert len(dict.fromkeys(MARKS.values())) == len(MARKS)


def test_every_mark_is_looked_for() -> None:
    named = [name for name in MARKS if not name.startswith(PUT_TOGETHER)]
    assert [name for name in named if f'"{name}"' not in SEEN_IN] == []


def test_a_mark_that_is_not_known_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        Marks().hit("nonsense")


def test_a_few_seeds_come_to_half_of_the_marks() -> None:
    met = simulate(31).marks + simulate(32).marks + simulate(38).marks
    assert len(never_met(met)) < len(MARKS) / 2
    assert f"{met['pointer-moved']:,}" in table(met)


def test_a_roller_may_sleep_until_its_window_is_dropped() -> None:
    result = simulate(126)
    assert result.marks["table-made-again"]
    assert result.marks["model-make-table-late"]
    assert not result.violation


def test_a_limit_that_is_made_small_is_small_wherever_a_function_reads_it() -> None:
    """A module that imported the number itself would go on with that of a real deployment."""
    usual = dict(vars(limits))
    with handlers_of(System(0)):
        small = [name for name, number in vars(limits).items() if number != usual[name]]
        copies = [
            f"{module.__name__}.{name}"
            for module in list(sys.modules.values())
            for name in small
            if module.__name__.startswith("tallyroll.") and module is not limits
            if name in vars(module) and not module.__name__.startswith(NO_FUNCTIONS)
        ]
    assert "VISIBILITY_SECONDS_MAX" in small
    assert not copies


def test_nothing_is_watched_any_more_when_a_simulation_is_over() -> None:
    """What was patched is as it was: the next one is not counted with it."""
    first = simulate(34).marks
    assert simulate(34).marks == first


def ran(*arguments: str) -> int:
    return run.main(["--jobs", "1", *arguments])


def test_a_long_run_fails_if_a_mark_was_never_met_and_a_short_one_tells_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran("--seeds", "1", "--from", "34") == 0
    assert "never met: " in capsys.readouterr().out
    monkeypatch.setattr(run, "MARKED_SEEDS", 1)
    assert ran("--seeds", "1", "--from", "34") == 1
    assert ran("--seeds", "1", "--from", "34", "--weather", "crash=0") == 0


def test_a_run_goes_on_where_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "run.json"
    fresh = [simulate(seed) for seed in (34, 35)]
    assert ran("--seeds", "1", "--from", "34", "--resume", str(kept)) == 0
    began: list[int] = []

    def run_watched(seeds: list[int], *rest: Any) -> Iterator[Result]:
        began.extend(seeds)
        return run_seeds(seeds, *rest)

    monkeypatch.setattr(run, "run_seeds", run_watched)
    assert ran("--seeds", "2", "--from", "34", "--resume", str(kept)) == 0
    assert began == [35]
    found = json.loads(kept.read_text())
    assert found["seeds"] == [34, 35]
    assert found["marks"] == dict(fresh[0].marks + fresh[1].marks)
    assert found["messages"] == sum(result.messages for result in fresh)
    assert "2 seeds in" in capsys.readouterr().out


@pytest.mark.parametrize("broken", ["{}", "nonsense", '{"revision": "another"}'])
def test_a_file_of_something_else_is_refused(
    broken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "run.json"
    kept.write_text(broken)
    assert ran("--seeds", "1", "--resume", str(kept)) == run.WRONG_USE
    assert "no file of a run" in capsys.readouterr().out
    assert kept.read_text() == broken


def test_a_run_of_another_revision_or_weather_is_not_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "run.json"
    assert ran("--seeds", "1", "--from", "34", "--resume", str(kept)) == 0
    assert revision() in kept.read_text()
    arguments = ("--seeds", "2", "--from", "34", "--resume", str(kept), "--weather", "crash=0")
    assert ran(*arguments) == run.WRONG_USE
    assert "was begun with" in capsys.readouterr().out
