"""Runs the CDK's command for a test, with little of this environment and no longer than it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from local.aws.guard import spawn_guarded
from release.cdk_command import CommandError, provide_python, script
from release.node import provide_node

# What a command of a shell needs; the rest of the environment stays out.
_PASSED_ON = ("HOME", "LANG", "PATH", "TMPDIR")


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
    provide_python(variables)
    provide_node(variables)
    command = [variables["JSII_NODE"], str(script()), *arguments]
    return finish(
        command,
        " ".join(("cdk", *arguments)),
        folder=folder,
        environment=variables,
        timeout_s=timeout_s,
    )


def finish(
    command: Sequence[str],
    called: str,
    *,
    folder: Path,
    environment: Mapping[str, str],
    timeout_s: float,
) -> str:
    """Run a command in a folder, with this environment; return its output.

    It ends with this process at the latest. Raises CommandError, which says what was `called`.
    """
    with tempfile.TemporaryFile() as output:
        process = spawn_guarded(
            command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT
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
        raise CommandError(f"{called}: {ended}\n{said}")
    return said


def written_to(file: IO[bytes]) -> str:
    """What a process that still runs has written to a file."""
    # Not by seeking: the process writes where the shared position stands.
    number = file.fileno()
    return os.pread(number, os.fstat(number).st_size, 0).decode(errors="replace")
