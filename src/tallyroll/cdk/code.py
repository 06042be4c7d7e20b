"""The functions' code: the asset that the package carries, or in a clone a new one of its sources.

`make dist` builds the package's asset into the folder `asset` beside this module: a zip with the
functions, the core and the packages that these import, and `asset.json`, which names the runtime
that the byte-code in the zip is for. A clone never uses that folder, so its code is never stale.
"""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_

from tallyroll.cdk.options import Options
from tallyroll.cdk.options.rules import PREFIX, OptionsError
from tallyroll.errors import UsageError

if TYPE_CHECKING:
    from constructs import IConstruct

ASSET = Path(__file__).parent / "asset"
CODE, ABOUT = "functions.zip", "asset.json"
_CLONE = Path(__file__).parents[3]
_BUILD = "infra.build.prebuilt"


class CodeMissingError(UsageError):
    """There is no code of the functions; the message says why, and what to do."""


def functions_code(scope: IConstruct, options: Options) -> lambda_.Code:
    """The code of all functions. Raises CodeMissingError, and OptionsError for a package that
    has no asset with its own boto3.
    """
    with_boto3 = options.boto3 == "pinned"
    if (_CLONE / f"{_BUILD.replace('.', '/')}.py").is_file():
        asset = _built(with_boto3=with_boto3)
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
            " a wheel, or a source distribution, that `make dist` built, or hand in code="
        )
    built_for = json.loads((asset / ABOUT).read_text(encoding="utf-8"))["runtime"]
    tell_colder_starts(scope, options, built_for)
    return lambda_.Code.from_asset(str(asset / CODE))


def tell_colder_starts(scope: IConstruct, options: Options, built_for: str) -> None:
    """Tell at synthesis if the runtime is not the one that the asset's byte-code is for."""
    if options.runtime != built_for:
        cdk.Annotations.of(scope).add_info(
            f"The functions' byte-code is for {built_for}: with {PREFIX}runtime {options.runtime}"
            " they run as well, but each cold start compiles them anew."
        )


@cache
def _built(*, with_boto3: bool) -> Path:
    """The folder of an asset of the clone's own sources, built once in a process, for as long as
    the process lives: the CDK copies it.
    """
    folder = Path(tempfile.mkdtemp(prefix="tallyroll-asset-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    command = [sys.executable, "-m", _BUILD, str(folder), *(["--boto3"] if with_boto3 else [])]
    done = subprocess.run(command, cwd=_CLONE, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CodeMissingError(f"the functions' asset could not be built: {done.stderr.strip()}")
    return folder
