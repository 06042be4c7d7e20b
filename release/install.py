"""Installs a lock file by pip, and shows how far it is.

    python -m release.install requirements/local.txt

Needs the standard library and pip alone: nothing else is installed yet. pip says at once all that
it fetches, or nothing (--quiet); here it is one line that changes at a terminal, elsewhere one
every ten seconds.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

TELL_EVERY_S = {True: 1.0, False: 10.0}  # at a terminal, and elsewhere
LINES_KEPT = 40  # of pip's output, shown when it fails
_LOCKED = re.compile(r"^[A-Za-z0-9._-]+==", re.MULTILINE)
_COLLECTED = re.compile(r"Collecting |Requirement already satisfied: ")
_INSTALLING = "Installing collected packages"


@dataclass(slots=True)
class Course:
    """How far pip is with `whole` packages, by the lines that it prints."""

    whole: int
    fetched: int = 0
    installing: bool = False
    last: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_KEPT))

    def follow(self, lines: Iterable[str]) -> None:
        """Read pip's lines until they end."""
        for line in lines:
            self.last.append(line)
            self.fetched += bool(_COLLECTED.match(line))
            self.installing = self.installing or line.startswith(_INSTALLING)

    def shown(self, seconds: float) -> str:
        """One line on where it is after so many seconds."""
        if self.installing:
            doing = f"unpacking {self.whole} packages"
        else:
            doing = f"fetching {self.fetched} of {self.whole} packages"
        return f"  {doing}, {seconds:.0f} s"


def install(lock: Path, out: TextIO) -> int:
    """Install a lock file, telling how far it is; pip's exit status. Its last lines are shown if it
    fails.
    """
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
    command += ["--progress-bar", "off", "--require-hashes", "-r", str(lock)]
    began = shown = time.monotonic()
    course = Course(len(_LOCKED.findall(lock.read_text(encoding="utf-8"))))
    terminal = out.isatty()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pip:
        assert pip.stdout
        reader = threading.Thread(target=course.follow, args=(pip.stdout,))
        reader.start()
        while reader.is_alive():
            reader.join(0.2)
            now = time.monotonic()
            if now - shown >= TELL_EVERY_S[terminal]:
                shown = now
                text = course.shown(now - began)
                out.write(f"\r\x1b[K{text}" if terminal else f"{text}\n")
                out.flush()
    if terminal:
        out.write("\r\x1b[K")
    if pip.returncode:
        out.writelines(course.last)
    else:
        out.write(f"  installed in {time.monotonic() - began:.0f} s\n")
    return pip.returncode


def main() -> None:
    """Install the lock file that is named."""
    try:
        status = install(Path(sys.argv[1]), sys.stderr)
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)


if __name__ == "__main__":
    main()
