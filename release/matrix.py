"""Runs the fast suites on every Python that Lambda has: `make test-matrix`.

An interpreter comes from this machine, else uv fetches it, if it can. Each gets a virtual
environment of its own below `build/matrix`, with the locked packages, which is kept for the next
run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tallyroll.settings.options.rules import RUNTIMES

ROOT = Path(__file__).resolve().parents[1]
SUITES = ("tests/unit", "tests/properties")
LOCKED = ("pip", "local", "dev")
PASSED, FAILED, ABSENT = "passed", "failed", "not found, and uv cannot fetch it"

Run = Callable[..., "subprocess.CompletedProcess[str]"]
"""Runs a command, as `subprocess.run` does."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """The suites on every Python.

    Args:
        root: The clone.
        run: Runs a command.
        jobs: How many processes run the tests of one Python.
    """

    root: Path = ROOT
    run: Run = subprocess.run
    jobs: int = 2

    def results(self, versions: Sequence[str]) -> dict[str, str]:
        """What became of each version."""
        found = {}
        for version in versions:
            found[version] = self.result(version)
            print(f"Python {version}: {found[version]}", flush=True)  # noqa: T201
        return found

    def result(self, version: str) -> str:
        """Run the suites on one version."""
        interpreter = self.interpreter(version)
        if interpreter is None:
            return ABSENT
        python = self.environment(version, interpreter)
        if python is None:
            return f"{FAILED}: its packages cannot be installed"
        command = [python, "-m", "pytest", "-q", "-n", str(self.jobs), *SUITES]
        unhooked = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = self.run(command, cwd=self.root, env=unhooked, check=False)
        return FAILED if done.returncode else PASSED

    def interpreter(self, version: str) -> str | None:
        """The path of a Python: one of this machine, else one that uv fetches."""
        uv = [sys.executable, "-m", "uv", "python"]
        find = [*uv, "find", "--no-project", "--system", "--no-python-downloads", version]
        for attempt in (0, 1):
            if attempt and self._fails([*uv, "install", "--quiet", version]):
                return None
            done = self.run(find, env=self._path(), capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return done.stdout.strip()
        return None

    def environment(self, version: str, interpreter: str) -> str | None:
        """The Python of the version's virtual environment, which has the locked packages; None if
        they cannot be installed.
        """
        home = self.root / "build" / "matrix" / version
        python, stamp = home / "bin" / "python", home / "installed"
        locks = [self.root / "requirements" / f"{name}.txt" for name in LOCKED]
        newest = max(lock.stat().st_mtime for lock in (*locks, self.root / "pyproject.toml"))
        if stamp.exists() and stamp.stat().st_mtime >= newest:
            return str(python)
        home.parent.mkdir(parents=True, exist_ok=True)
        pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
        commands = [
            [interpreter, "-m", "venv", "--clear", str(home)],
            *([*pip, "install", "--require-hashes", "-r", str(lock)] for lock in locks),
            [*pip, "install", "--no-deps", "--no-build-isolation", "-e", str(self.root)],
        ]
        if any(self._fails(command) for command in commands):
            return None
        stamp.touch()
        return str(python)

    @staticmethod
    def _path() -> dict[str, str]:
        """The environment with the Pythons of pyenv, whose own commands run only chosen ones."""
        pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
        folders = [os.environ.get("PATH", ""), *map(str, sorted(pyenv.glob("versions/*/bin")))]
        return {**os.environ, "PATH": os.pathsep.join(folders)}

    def _fails(self, command: Sequence[str]) -> bool:
        return self.run(command, check=False).returncode != 0


def main() -> int:
    """Run the suites; 1 if a version failed, or if there is none to run them on."""
    parser = argparse.ArgumentParser(description="Run the fast suites on every Python.")
    parser.add_argument("--jobs", type=int, default=2, help="processes that run the tests")
    parser.add_argument("versions", nargs="*", help="3.12, for instance; all of Lambda's if none")
    given = parser.parse_args()
    versions = given.versions or [runtime.removeprefix("python") for runtime in RUNTIMES]
    results = Matrix(jobs=given.jobs).results(versions)
    ran = [result for result in results.values() if result != ABSENT]
    return int(not ran or any(result != PASSED for result in ran))


if __name__ == "__main__":
    sys.exit(main())
