"""Lambda's runtime for Python on this machine: AWS's own runtime client, without Docker.

The interpreter is this one, cut off from everything else: of the installed packages a function sees
those that Lambda's runtime brings, and what is in its asset.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path

# boto3 with its needs, and the runtime client with its own.
_BROUGHT_BY_LAMBDA = (
    "boto3",
    "botocore",
    "jmespath",
    "python-dateutil",
    "s3transfer",
    "six",
    "urllib3",
    "awslambdaric",
    "simplejson",
    "snapshot-restore-py",
)
_START = """
import sys
sys.path[:0] = sys.argv[2:]
from awslambdaric.__main__ import main
main(["awslambdaric", sys.argv[1]])
"""
REGION = "us-east-1"


def lay_out_runtime(target: Path) -> None:
    """Put what Lambda's runtime brings into a directory, as links to the installed packages.

    Raises PackageNotFoundError where one is missing: AWS's client is there on Linux only.
    """
    target.mkdir()
    for name in _BROUGHT_BY_LAMBDA:
        package = distribution(name)
        tops = {file.parts[0] for file in package.files or ()}
        for top in sorted(tops - {"..", "__pycache__"}):
            (target / top).symlink_to(str(package.locate_file(top)))


def start_command(handler: str, *folders: Path) -> list[str]:
    """The command that starts the runtime client for a handler (`module.function`), which finds
    modules in `folders`, in this order, and in the standard library.
    """
    return [sys.executable, "-I", "-S", "-c", _START, handler, *map(str, folders)]


def reserved(
    name: str, handler: str, memory_mb: int, *, api: str, task: Path, runtime: Path
) -> Mapping[str, str]:
    """The variables that Lambda sets for the function `name`; `api` is its Runtime API's address.

    Source: AWS Lambda Developer Guide, "Defined runtime environment variables".
    """
    return {
        "_HANDLER": handler,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EXECUTION_ENV": f"AWS_Lambda_python3.{sys.version_info.minor}",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(memory_mb),
        "AWS_LAMBDA_FUNCTION_NAME": name,
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{name}",
        "AWS_LAMBDA_LOG_STREAM_NAME": "2026/11/20/[$LATEST]local",
        "AWS_LAMBDA_RUNTIME_API": api,
        "AWS_REGION": REGION,
        "AWS_SECRET_ACCESS_KEY": "testing",
        "LAMBDA_RUNTIME_DIR": str(runtime),
        "LAMBDA_TASK_ROOT": str(task),
        "LANG": "en_US.UTF-8",
        "TZ": ":UTC",
    }
