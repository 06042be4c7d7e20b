"""Mutates the modules that decide, and runs their tests on each mutant: `make mutate`, or
`make mutate MODULE=ingest.transactions`.

mutmut does so in a copy below `build/mutation`. Ends with 1 if a mutant survives that
`survivors.toml` gives no reason for, or if one of those there survives no more.
"""

# ruff: noqa: T201 (a program that people start: printing is its output)

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.harness.processes import ran
from tests.mutation.mutants import (
    KILLED,
    SURVIVED,
    SURVIVORS,
    Argued,
    Tally,
    change_in,
    judge,
    read_argued,
    read_modules,
    statuses_in,
    table,
)

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "mutation"
COPIED = ("src", "tests", "functions", "local")
# Drawn examples are the same in every run, or a mutant might survive by luck.
PYTEST_ARGUMENTS = ("-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0")
FAILED = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Mutate one module, or all that decide; the status to exit with."""
    known = read_modules()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module", nargs="*", help=f"of {', '.join(known)}; all if none is named")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    options = parser.parse_args(arguments)
    if unknown := set(options.module) - known.keys():
        parser.error(f"no module that decides: {', '.join(sorted(unknown))}")
    argued = read_argued()
    tallies: list[Tally] = []
    broken: list[str] = []
    for module in options.module or known:
        print(f"{module}: mutating, log in {BUILD / module}/log.txt", flush=True)
        try:
            tallies.append(mutated(module, known[module], options.jobs))
        except MutmutFailed as failed:
            print(f"{module}: {failed}", file=sys.stderr)
            broken.append(module)
            continue
        print(table(tallies[-1:], argued), flush=True)
    wanting = _found_wanting(tallies, argued)
    if broken:
        print(f"\nnot mutated: {', '.join(broken)}")
        return FAILED
    return 1 if wanting else 0


def _found_wanting(tallies: Sequence[Tally], argued: Argued) -> bool:
    """Print what the modules came to; whether a survivor has no reason, or a reason no survivor."""
    unargued, stale = judge(tallies, argued)
    survivors = sorted(change for tally in tallies for change in tally.survivors)
    listed = BUILD / "survivors.txt"
    listed.write_text(
        "".join(f"{change}\n  {argued.reason(change) or 'NO REASON'}\n" for change in survivors),
        encoding="utf-8",
    )
    print(f"\n{table(tallies, argued)}\n\nall survivors: {listed}")
    for change in unargued:
        print(f"\nsurvived, and {SURVIVORS.name} says not why: {change}")
    for change in stale:
        print(f"\nsurvives no more, take it out of {SURVIVORS.name}: {change}")
    return bool(unargued or stale)


class MutmutFailed(Exception):
    """The mutants of a module could not be made or run; the text says why."""


def mutated(module: str, tests: Sequence[str], jobs: int) -> Tally:
    """Run a module's tests on all its mutants. Raises MutmutFailed."""
    folder = BUILD / module
    _copy(folder, module, tests)
    with (folder / "log.txt").open("w", encoding="utf-8") as log:
        done = subprocess.run(
            _mutmut("run", "--max-children", str(jobs)),
            cwd=folder,
            env=_environment(),
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode:
        raise MutmutFailed(f"mutmut ended with {done.returncode}: see {folder}/log.txt")
    statuses = statuses_in(_said(folder, "results", "--all", "true"))
    unknown = {*statuses.values()} - KILLED - SURVIVED
    if unknown or not statuses:
        raise MutmutFailed(
            f"{len(statuses)} mutants, some {', '.join(sorted(unknown))}: see {folder}/log.txt"
        )
    survived = [name for name, status in statuses.items() if status in SURVIVED]
    tally = Tally(module, killed=len(statuses) - len(survived))
    tally.survivors = [change_in(name, _said(folder, "show", name)) for name in survived]
    return tally


def _copy(folder: Path, module: str, tests: Sequence[str]) -> None:
    """A copy of what the tests need, with mutmut's settings."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in COPIED:
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules")
        )
    settings = {
        "source_paths": ["src"],
        "only_mutate": [f"src/tallyroll/{module.replace('.', '/')}.py"],
        "also_copy": [name for name in COPIED if name not in ("src", "tests")],
        "pytest_add_cli_args": list(PYTEST_ARGUMENTS),
        "pytest_add_cli_args_test_selection": list(tests),
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    text = "\n".join([project, "[tool.mutmut]", *lines, ""])
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")


def _said(folder: Path, *arguments: str) -> str:
    return ran(_mutmut(*arguments), cwd=folder, env=_environment(), check=True).stdout


def _mutmut(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "mutmut", *arguments]


def _environment() -> dict[str, str]:
    """This process's environment, without what would lead imports past the mutants."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


if __name__ == "__main__":
    sys.exit(main())
