"""The CDK's command, pinned: fetched by npm and run by Node, both out of a Python wheel.

    python -m release.cdk_command install        unpacks it into `.engine/` in the clone, once
    python -m release.cdk_command run deploy     runs it, here and with this environment

What is fetched is what the hash in the clone's package-lock.json says; `aws-cdk@latest` of npm is
another, broken line. `npm ci && npx cdk` gets the same command without make.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import MutableMapping
from pathlib import Path

from release import npm
from release.node import provide_node
from release.npm import CACHE

ROOT = Path(__file__).resolve().parents[1]


class CommandError(Exception):
    """The command could not be fetched, or failed; the message ends with its output."""


class CommandMissingError(CommandError):
    """The command has not been fetched yet."""


def install(cache: Path = CACHE) -> Path:
    """Fetch the command into `cache` unless it is there; return its script.

    Raises:
        CommandError: npm failed.
    """
    if not _home(cache).is_dir():
        print("Fetching the CDK's command (8 MB, once) ...", flush=True)  # noqa: T201
        try:
            npm.fetch(ROOT, _home(cache))
        except npm.NpmError as error:
            raise CommandError(f"the CDK's command could not be fetched: {error}") from error
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
    return npm.home(ROOT, "aws-cdk", cache)


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
