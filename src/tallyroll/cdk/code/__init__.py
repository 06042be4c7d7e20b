"""The functions' code: the asset that the package carries, or in a clone a new one of its sources.

`make dist` builds the package's asset into the folder `asset` beside this package: a zip with the
functions, the core and the packages that these import, a zip with what the tracer needs, one with
the client of a shared cache, and `asset.json`, which names the runtime that their byte-code is for.
A clone never uses that folder, so its code is never stale.
"""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_

from tallyroll.errors import UsageError
from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import PREFIX, OptionsError

if TYPE_CHECKING:
    from constructs import IConstruct

ASSET = Path(__file__).parents[1] / "asset"
CODE, TRACER, CACHE, ABOUT = "functions.zip", "tracer.zip", "cache.zip", "asset.json"
CLONE = Path(__file__).parents[4]
_BUILD = "release.prebuilt"


class CodeMissingError(UsageError):
    """There is no code of the functions; the message says why, and what to do."""


def functions_code(scope: IConstruct, options: Options) -> lambda_.Code:
    """The code of all functions. Raises CodeMissingError, and OptionsError for a package that
    has no asset with its own boto3.
    """
    with_boto3 = options.boto3 == "pinned"
    if (CLONE / f"{_BUILD.replace('.', '/')}.py").is_file():
        asset = _built(
            with_boto3=with_boto3,
            with_tracer=options.tracer,
            with_cache=bool(options.cache_url),
        )
    elif with_boto3:
        raise OptionsError(
            f"{PREFIX}boto3 'pinned': the package's asset holds no boto3; give 'runtime', or hand"
            " in code= with an asset of your own"
        )
    else:
        asset = ASSET
    if not (asset / CODE).is_file():
        raise CodeMissingError(
            f"this tallyroll was installed without the functions' asset ({asset / CODE}): install"
            " a wheel, or a source distribution, that `make dist` built, or pass in code="
        )
    built_for = json.loads((asset / ABOUT).read_text(encoding="utf-8"))["runtime"]
    tell_colder_starts(scope, options, built_for)
    more = [*([TRACER] if options.tracer else []), *([CACHE] if options.cache_url else [])]
    code = _joined(asset, *more) if more and asset == ASSET else asset / CODE
    return lambda_.Code.from_asset(str(code))


def tell_colder_starts(scope: IConstruct, options: Options, built_for: str) -> None:
    """Tell at synthesis if the runtime is not the one that the asset's byte-code is for."""
    if options.runtime != built_for:
        cdk.Annotations.of(scope).add_info(
            f"The functions' byte-code is for {built_for}: with {PREFIX}runtime {options.runtime}"
            " they run as well, but each cold start compiles them anew."
        )


@cache
def _joined(asset: Path, *names: str) -> Path:
    """A zip of the package's asset and of its zips of these names, all as they were built."""
    whole = _folder() / CODE
    shutil.copyfile(asset / CODE, whole)
    for name in names:
        with zipfile.ZipFile(asset / name) as more, zipfile.ZipFile(whole, "a") as both:
            for entry in more.infolist():
                both.writestr(entry, more.read(entry))
    return whole


def _folder() -> Path:
    """A folder for as long as the process lives: the CDK copies what is there."""
    folder = Path(tempfile.mkdtemp(prefix="tallyroll-asset-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _built(*, with_boto3: bool, with_tracer: bool, with_cache: bool) -> Path:
    """The folder of an asset of the clone's own sources, built once in a process."""
    folder = _folder()
    flags = {"--boto3": with_boto3, "--tracer": with_tracer, "--cache": with_cache}
    command = [sys.executable, "-m", _BUILD, str(folder)]
    command += [flag for flag, wanted in flags.items() if wanted]
    done = subprocess.run(command, cwd=CLONE, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CodeMissingError(f"the functions' asset could not be built: {done.stderr.strip()}")
    return folder
