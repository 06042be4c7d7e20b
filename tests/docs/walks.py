"""The code blocks of the documents, and the reader who runs them from top to bottom.

A comment above a block says how it is run:

    <!-- walk: start -->             in the background, until it says that Ctrl-C ends it
    <!-- walk: shell -->             by bash
    <!-- walk: python -->            by the clone's Python
    <!-- walk: aws -->               by bash, before there is a clone, by tests/e2e against moto
    <!-- not walked: why -->

`<!-- walk: shell; NAME=votes; prints: X -->` puts `votes` in the place of NAME, and wants X in what
is printed.
`<!-- before: COMMAND -->` brings about, unseen, the state in which the reader is.

The reader has a clone with the command on the path, an empty home, and a bare environment; and once
there is a file local.env, its variables.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.harness.processes import ran

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = ("sh", "python", "")  # what people run; others are outputs and formats
PORT = "8700"  # that of the documents; the walk takes a free one
TAKES_S = 1_200
# Where a machine finds packages, and what it trusts: an installation needs them.
INDEXES = ("pip_", "npm_", "node_extra_ca_certs", "ssl_cert", "requests_ca", "http_", "https_")
_MARK = re.compile(
    r"<!-- (?:walk: (?P<how>\w+)(?P<places>(?:; \w+=[^;]+)*)(?:; prints: (?P<prints>.+))?"
    r"|not walked: (?P<why_not>.+)|before: (?P<before>.+)) -->"
)


@dataclass(frozen=True)
class Block:
    """A code block, with its document's name, its line, and what the comment above it says."""

    document: str
    line: int
    language: str
    text: str
    how: str | None = None
    places: str | None = None
    prints: str | None = None
    why_not: str | None = None

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"


def blocks_of(path: Path) -> list[Block]:
    """The code blocks of a document, in their order."""
    found, mark = [], None
    for token in MarkdownIt().parse(path.read_text(encoding="utf-8")):
        if token.type == "html_block":
            for line in token.content.splitlines():
                mark = _MARK.fullmatch(line)
                if mark and mark["before"]:
                    how = "start" if mark["before"].startswith("make local") else "shell"
                    found.append(Block(path.name, _line(token), "sh", mark["before"], how))
                    mark = None
        elif token.type in ("fence", "code_block"):
            known = mark.groupdict() if mark else {}
            known.pop("before", None)
            found.append(Block(path.name, _line(token), token.info, token.content, **known))
            mark = None
        elif token.type not in ("paragraph_open", "paragraph_close"):
            mark = None
    return found


def _line(token: Token) -> int:
    assert token.map
    return token.map[0] + 1


class Reader:
    """Runs the blocks of a document in a clone: the one that is given, or links to this one."""

    def __init__(self, home: Path, port: int, clone: Path | None = None) -> None:
        self._clone = clone or home / "tallyroll"
        if clone is None:
            _check_installed()
            self._clone.mkdir()
            for entry in (".venv", ".engine", *tracked()):
                (self._clone / entry).symlink_to(ROOT / entry)
        self._port = str(port)
        self._environment = {
            "HOME": str(home),
            "PATH": os.pathsep.join(
                (
                    str(self._clone / ".venv" / "bin"),
                    *dict.fromkeys(_folders("python3", "make", "curl", "sh")),
                )
            ),
            "LANG": "C.UTF-8",
            **of_indexes(),
        }
        self._running: list[subprocess.Popen[str]] = []

    def run(self, block: Block) -> str:
        """Run a block; its output. Raises AssertionError if it fails or prints something else."""
        text = block.text.replace(PORT, self._port)
        for place in (block.places or "").split("; ")[1:]:
            name, _, value = place.partition("=")
            text = re.sub(rf"\b{name}\b", value, text)
        if block.how == "start":
            self._start(text)
            return ""
        command = [*self._interpreter(block), text]
        done = subprocess.run(
            command,
            cwd=self._clone,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TAKES_S,
            check=False,
        )
        assert done.returncode == 0, f"{block.place} ended with {done.returncode}:\n{done.stdout}"
        assert (block.prints or "") in done.stdout, f"{block.place} printed:\n{done.stdout}"
        return done.stdout

    def _interpreter(self, block: Block) -> list[str]:
        take = "[ ! -e local.env ] || . ./local.env"
        run = 'exec .venv/bin/python -c "$0"' if block.how == "python" else 'eval "$0"'
        return ["bash", "-eo", "pipefail", "-c", f"{take}; {run}"]

    def _start(self, command: str) -> None:
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=self._clone,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._running.append(process)
        assert process.stdout
        said = []
        for line in process.stdout:
            said.append(line)
            if "Ctrl-C ends it" in line:
                return
        raise AssertionError(f"{command} ended:\n{''.join(said)}")

    def stop(self) -> None:
        """End what runs in the background, as Ctrl-C does."""
        for process in self._running:
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.communicate(timeout=TAKES_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise


@contextmanager
def reading(home: Path, port: int, clone: Path | None = None) -> Iterator[Reader]:
    """A reader, whose background ends with the block."""
    reader = Reader(home, port, clone)
    try:
        yield reader
    finally:
        reader.stop()


def _check_installed() -> None:
    """Else a walk would have make install into an environment that is linked, not its own."""
    fresh = subprocess.run(["make", "--question", ".venv/local.stamp"], cwd=ROOT, check=False)
    assert fresh.returncode == 0, "the environment is older than what it is made of: run make test"


def of_indexes() -> dict[str, str]:
    """The variables of this environment by which pip and npm reach their indexes."""
    return {name: text for name, text in os.environ.items() if name.lower().startswith(INDEXES)}


def tracked() -> list[str]:
    """What a clone has at its top."""
    listed = ran(["git", "ls-tree", "--name-only", "HEAD"], cwd=ROOT, check=True)
    return listed.stdout.split()


def _folders(*programs: str) -> Iterator[str]:
    for program in programs:
        found = shutil.which(program)
        assert found, f"{program} is not installed"
        yield str(Path(found).parent)
