"""The layer with the driver of Amazon Keyspaces, which has machine code for one runtime and
architecture: pip fetches its wheels while the CDK bundles, by the versions and hashes of a lock.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aws_cdk as cdk
import jsii
from aws_cdk import aws_lambda as lambda_

from tallyroll.cdk.code import ASSET, CLONE, CodeMissingError
from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import PREFIX

if TYPE_CHECKING:
    from constructs import Construct

LOCK = "keyspaces.txt"
_ARCHITECTURES = {"arm64": "aarch64", "x86_64": "x86_64"}
# The oldest C library that a runtime has: python3.11 runs on Amazon Linux 2, newer ones on Amazon
# Linux 2023. Source: AWS Lambda Developer Guide, "Lambda runtimes".
_OLDEST, _NEWER = ("2014", "_2_17"), ("_2_28", "_2_34")
# Sources of machine code, and what differs from machine to machine.
_NEEDLESS = ("*.c", "*.h", "*.pxd", "*.pyx", "RECORD", "INSTALLER", "REQUESTED", "direct_url.json")
Run = Callable[[list[str]], "subprocess.CompletedProcess[str]"]


def driver_layer(
    scope: Construct, options: Options, given: lambda_.ILayerVersion | None
) -> lambda_.ILayerVersion:
    """The layer that is given, or a new one. Raises CodeMissingError if the package has no lock
    file.
    """
    if given is not None:
        return given
    return lambda_.LayerVersion(
        scope,
        "Driver",
        code=_code(options),
        description=f"Driver of Amazon Keyspaces for {options.runtime} on {options.architecture}",
    )


def _code(options: Options) -> lambda_.Code:
    lock = lock_file()
    about = f"{lock.read_text()}{options.architecture}{options.runtime}"
    bundling = cdk.BundlingOptions(
        image=cdk.DockerImage.from_registry("unused"),  # required, though nothing starts it
        local=_LocalBundling(lock, options),
    )
    return lambda_.Code.from_asset(
        str(lock.parent),
        bundling=bundling,
        asset_hash=hashlib.sha256(about.encode()).hexdigest(),
        asset_hash_type=cdk.AssetHashType.CUSTOM,
    )


def lock_file() -> Path:
    """The lock file of this clone, or the one that the package carries. Raises CodeMissingError."""
    for folder in (CLONE / "requirements", ASSET):
        if (folder / LOCK).is_file():
            return folder / LOCK
    raise CodeMissingError(
        f"this tallyroll was installed without the driver's lock file ({ASSET / LOCK}): install a"
        " wheel that `make dist` built, or pass in driver="
    )


@jsii.implements(cdk.ILocalBundling)
class _LocalBundling:
    """Fetches in this process; an error ends the synthesis, so that Docker is never asked."""

    def __init__(self, lock: Path, options: Options) -> None:
        self._lock = lock
        self._options = options

    def try_bundle(self, output_dir: str, *_whole: Any, **_named: Any) -> bool:
        # The options, of which none is needed: typed as keywords, but passed in one piece.
        fetch(Path(output_dir), self._lock, self._options.architecture, self._options.runtime)
        return True


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def fetch(folder: Path, lock: Path, architecture: str, runtime: str, run: Run = _run) -> None:
    """Put what a lock file names into a folder, for a runtime of Lambda. Raises CodeMissingError if
    pip cannot.
    """
    target = folder / "python"  # where layers have packages
    version = runtime.removeprefix("python")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-input", "--no-compile", "--only-binary", ":all:", "--implementation", "cp"]
    command += ["--python-version", version, "--target", str(target)]
    for platform in _platforms(architecture, version):
        command += ["--platform", platform]
    done = run([*command, "--require-hashes", "--requirement", str(lock)])
    if done.returncode:
        raise CodeMissingError(
            f"{PREFIX}store keyspaces: pip could not fetch the driver for {runtime} on"
            f" {architecture}; pass in driver= with a layer of your own, or look why:"
            f" {done.stderr.strip()}"
        )
    for pattern in _NEEDLESS:
        for path in sorted(target.rglob(pattern)):
            path.unlink()
    shutil.rmtree(target / "bin", ignore_errors=True)


def _platforms(architecture: str, version: str) -> list[str]:
    machine = _ARCHITECTURES[architecture]
    versions = _OLDEST if version == "3.11" else (*_OLDEST, *_NEWER)
    return [f"manylinux{each}_{machine}" for each in versions]
