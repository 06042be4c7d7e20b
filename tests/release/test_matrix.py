"""The suites on other Pythons, with commands that only say what they would do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from release import matrix
from release.matrix import ABSENT, FAILED, LOCKED, PASSED, SUITES, Matrix


@dataclass
class Machine:
    """Pythons that are installed, those that uv can fetch, and commands that fail."""

    installed: set[str]
    fetched: set[str] = field(default_factory=set)
    fails: Callable[[Sequence[str]], bool] = lambda _command: False
    ran: list[list[str]] = field(default_factory=list)

    def __call__(self, command: Sequence[str], **_options: Any) -> subprocess.CompletedProcess[str]:
        self.ran.append(list(command))
        status, out = int(self.fails(command)), ""
        if "uv" in command:
            version = command[-1]
            if "install" in command and version in self.fetched:
                self.installed.add(version)
            status = int(version not in self.installed)
            out = f"/pythons/{version}\n"
        elif "venv" in command:
            Path(command[-1]).mkdir(parents=True, exist_ok=True)
        return subprocess.CompletedProcess(list(command), status, out, "")

    def made(self, word: str) -> list[list[str]]:
        """The commands with a word."""
        return [command for command in self.ran if word in command]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    (tmp_path / "requirements").mkdir()
    for name in (*(f"requirements/{name}.txt" for name in LOCKED), "pyproject.toml"):
        (tmp_path / name).touch()
    return tmp_path


def test_every_python_that_is_found_or_fetched_runs_the_suites(clone: Path) -> None:
    machine = Machine({"3.11"}, fetched={"3.13"})
    results = Matrix(clone, machine).results(["3.11", "3.12", "3.13"])

    assert results == {"3.11": PASSED, "3.12": ABSENT, "3.13": PASSED}
    assert [command[0] for command in machine.made("venv")] == ["/pythons/3.11", "/pythons/3.13"]
    suites = machine.made("pytest")
    assert [command[0] for command in suites] == [
        str(clone / "build" / "matrix" / version / "bin" / "python") for version in ("3.11", "3.13")
    ]
    assert all(command[-2:] == list(SUITES) for command in suites)


def test_packages_are_installed_once_and_again_after_a_lock_changed(clone: Path) -> None:
    machine = Machine({"3.12"})
    for _ in range(2):
        Matrix(clone, machine).result("3.12")
    assert len(machine.made("--require-hashes")) == len(LOCKED)  # once
    os.utime(clone / "build" / "matrix" / "3.12" / "installed", (0, 0))
    Matrix(clone, machine).result("3.12")
    assert len(machine.made("--require-hashes")) == 2 * len(LOCKED)


def test_packages_that_cannot_be_installed_and_suites_that_fail_are_told(clone: Path) -> None:
    broken = Machine({"3.12"}, fails=lambda command: "--require-hashes" in command)
    assert Matrix(clone, broken).result("3.12") == f"{FAILED}: its packages cannot be installed"
    assert not broken.made("pytest")

    failing = Machine({"3.13"}, fails=lambda command: "pytest" in command)
    assert Matrix(clone, failing).result("3.13") == FAILED


@pytest.mark.parametrize(
    ("results", "status"),
    [
        ({"3.11": PASSED, "3.12": ABSENT}, 0),
        ({"3.11": PASSED, "3.12": FAILED}, 1),
        ({"3.11": ABSENT, "3.12": ABSENT}, 1),
    ],
)
def test_the_status_tells_whether_all_that_ran_passed(
    results: dict[str, str], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Sequence[str]] = []

    def told(_self: Matrix, versions: Sequence[str]) -> dict[str, str]:
        asked.append(versions)
        return results

    monkeypatch.setattr(Matrix, "results", told)
    monkeypatch.setattr(sys, "argv", ["matrix"])
    assert matrix.main() == status
    assert asked == [["3.11", "3.12", "3.13", "3.14"]]
