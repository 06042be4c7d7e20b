"""Layers of packages that have machine code for one runtime and architecture: pip fetches their
wheels while the CDK bundles, by the versions and hashes of a lock.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
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

_ARCHITECTURES = {"arm64": "aarch64", "x86_64": "x86_64"}
# The oldest C library that a runtime has: python3.11 runs on Amazon Linux 2, newer ones on Amazon
# Linux 2023. Source: AWS Lambda Developer Guide, "Lambda runtimes".
_OLDEST, _NEWER = ("2014", "_2_17", "_2_26"), ("_2_28", "_2_34")
# Sources of machine code, and what differs from machine to machine.
_NEEDLESS = ("*.c", "*.h", "*.pxd", "*.pyx", "RECORD", "INSTALLER", "REQUESTED", "direct_url.json")
Run = Callable[[list[str]], "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True, slots=True)
class Packages:
    """What a layer holds: the name of its lock file, and for users what it is, the option that asks
    for it and what they can do without it.
    """

    lock: str
    text: str
    asked_by: str
    else_: str

    def file(self) -> Path:
        """The lock file of this clone, or the one that the package carries. Raises
        CodeMissingError.
        """
        for folder in (CLONE / "requirements", ASSET):
            if (folder / self.lock).is_file():
                return folder / self.lock
        raise CodeMissingError(
            f"this tallyroll was installed without the lock file of {self.text}"
            f" ({ASSET / self.lock}): install a wheel that `make dist` built, or {self.else_}"
        )


DRIVER = Packages(
    "keyspaces.txt",
    "the driver of Amazon Keyspaces",
    "store keyspaces",
    "pass in driver= with a layer of your own",
)


def layer(scope: Construct, id_: str, options: Options, packages: Packages) -> lambda_.LayerVersion:
    """A new layer. Raises CodeMissingError if the package has no lock file, or pip fails."""
    text = packages.text.removeprefix("the ")
    return lambda_.LayerVersion(
        scope,
        id_,
        code=_code(options, packages),
        description=f"{text[:1].upper()}{text[1:]} for {options.runtime} on {options.architecture}",
    )


def _code(options: Options, packages: Packages) -> lambda_.Code:
    lock = packages.file()
    about = f"{lock.read_text()}{options.architecture}{options.runtime}"
    bundling = cdk.BundlingOptions(
        image=cdk.DockerImage.from_registry("unused"),  # required, though nothing starts it
        local=_LocalBundling(packages, options),
    )
    return lambda_.Code.from_asset(
        str(lock.parent),
        bundling=bundling,
        asset_hash=hashlib.sha256(about.encode()).hexdigest(),
        asset_hash_type=cdk.AssetHashType.CUSTOM,
    )


@jsii.implements(cdk.ILocalBundling)
class _LocalBundling:
    """Fetches in this process; an error ends the synthesis, so that Docker is never asked."""

    def __init__(self, packages: Packages, options: Options) -> None:
        self._packages = packages
        self._options = options

    def try_bundle(self, output_dir: str, *_whole: Any, **_named: Any) -> bool:
        # The options, of which none is needed: typed as keywords, but passed in one piece.
        options = self._options
        fetch(Path(output_dir), self._packages, options.architecture, options.runtime)
        return True


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def fetch(
    folder: Path, packages: Packages, architecture: str, runtime: str, run: Run = _run
) -> None:
    """Put packages into a folder, for a runtime of Lambda. Raises CodeMissingError if pip fails."""
    target = folder / "python"  # where layers have packages
    version = runtime.removeprefix("python")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-input", "--no-compile", "--only-binary", ":all:", "--implementation", "cp"]
    command += ["--python-version", version, "--target", str(target)]
    for platform in _platforms(architecture, version):
        command += ["--platform", platform]
    done = run([*command, "--require-hashes", "--requirement", str(packages.file())])
    if done.returncode:
        raise CodeMissingError(
            f"{PREFIX}{packages.asked_by}: pip could not fetch {packages.text} for {runtime} on"
            f" {architecture}; {packages.else_}, or look why: {done.stderr.strip()}"
        )
    for pattern in _NEEDLESS:
        for path in sorted(target.rglob(pattern)):
            path.unlink()
    shutil.rmtree(target / "bin", ignore_errors=True)


def _platforms(architecture: str, version: str) -> list[str]:
    machine = _ARCHITECTURES[architecture]
    versions = _OLDEST if version == "3.11" else (*_OLDEST, *_NEWER)
    return [f"manylinux{each}_{machine}" for each in versions]
