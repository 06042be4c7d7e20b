"""What all the functions run: our sources and the pure-Python packages that they import.

Copied out of the running environment, so that it needs neither Docker nor a network, and what is
deployed is what the tests ran on. boto3 is left out unless it is asked for: Lambda's runtimes bring
one, which AWS keeps up to date. So are what Powertools' Tracer needs, and the client of a shared
cache. The same sources, packages and
interpreter give the same bytes, hence the same asset hash.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePath

ROOT = Path(__file__).resolve().parents[1]
BROUGHT_BY_LAMBDA = frozenset({"boto3", "botocore", "s3transfer"})
TRACER = "aws-xray-sdk"  # what the extra `tracer` adds
CACHE = "valkey"  # and the extra `cache`
RUNTIME = f"python3.{sys.version_info.minor}"  # Lambda's name of what the byte-code is for
UNPACKED_AT = "/var/task"  # where Lambda unpacks a function's code

SOURCES = (ROOT / "src" / "tallyroll", ROOT / "functions")
_LEFT_OUT = (
    "cdk/",
    "cli/",
    "console/",
    "testing/",
    "planning/",
    "operations/",
    "adapters/memory/",
    "client/",
    "locking/",
    "settings/options/",
    *(f"adapters/{name}" for name in ("aws/account.py", "aws/metered.py", "directory.py")),
    *("adapters/journal.py", "adapters/dynamodb/tools/", "ports/account.py"),
    *(f"archive/{name}.py" for name in ("diff", "evidence", "parquet/queries")),
    "model/formats/zstandard_frames.py",
    *(f"pipeline/{name}.py" for name in ("archived_ranges", "buckets", "inspection")),
    *(f"pipeline/{name}.py" for name in ("producer", "queue_urls", "reading")),
)  # no function imports them
_SOURCE_SUFFIXES = frozenset({".py", ".typed", ".json"})
# What an installer writes into a package's metadata: it differs from machine to machine.
_INSTALLER_FILES = frozenset({"INSTALLER", "RECORD", "REQUESTED", "direct_url.json"})
_BINARY_SUFFIXES = frozenset({".so", ".pyd", ".dll", ".dylib"})
# Time zones in other forms; the pages of Powertools' Swagger UI, which no function serves.
_UNREAD_SUFFIXES = frozenset({".tab", ".zi", ".js", ".css"})
_FASTER_WITH_BINARIES = frozenset({"wrapt"})  # it has the same in Python, for where they are not
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)[^;]*(?:;(.*))?")


class BundleError(Exception):
    """The running environment cannot be bundled; the message says what is wrong with it."""


def assemble(
    target: Path,
    *,
    with_boto3: bool = False,
    with_tracer: bool = False,
    with_cache: bool = False,
    sources: Sequence[Path] = SOURCES,
) -> None:
    """Fill the directory `target`, which is made if need be, with all that the functions import.

    Raises BundleError for a package that is not installed, or has machine code in it (the bundle
    must run on another machine's architecture).
    """
    for source in sources:
        for path, inside in sources_of(source):
            _copy(path, target / source.name / inside)
    found = packages(with_boto3=with_boto3, with_tracer=with_tracer, with_cache=with_cache)
    gather(target, found)


def gather(target: Path, found: Sequence[Distribution]) -> None:
    """Copy packages into the directory `target`, and compile all that is there.

    Raises BundleError for a package that has machine code in it.
    """
    for package in found:
        for file in package.files or ():
            if _wanted(package, file):
                _copy(Path(str(package.locate_file(file))), target / file)
    _compile(target)


def sources_of(folder: Path) -> Iterator[tuple[Path, PurePath]]:
    """The files below a package's folder that functions may import: where each is, and its path
    within the folder.
    """
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.suffix in _SOURCE_SUFFIXES and not inside.as_posix().startswith(_LEFT_OUT):
            yield path, inside


def packages(
    *, with_boto3: bool = False, with_tracer: bool = False, with_cache: bool = False
) -> list[Distribution]:
    """The installed packages that pyproject.toml names and what these need, sorted by name; without
    what Lambda brings, what the tracer needs and the shared cache's client, unless asked for.

    Raises BundleError for one that is not installed.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    left = [name for name, _ in map(_requirement, project["dependencies"])]
    left += [TRACER] if with_tracer else []
    left += [CACHE] if with_cache else []
    found: dict[str, Distribution] = {}
    while left:
        name = left.pop()
        if name in found or (name in BROUGHT_BY_LAMBDA and not with_boto3):
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            raise BundleError(f"{name} is not installed in {sys.prefix}") from None
        needs = map(_requirement, found[name].requires or ())
        left += [need for need, marker in needs if _applies(need, marker)]
    return [found[name] for name in sorted(found)]


def _requirement(text: str) -> tuple[str, str]:
    """The normalised name and the environment marker of a requirement."""
    match = _REQUIREMENT.match(text)
    assert match, text
    return re.sub(r"[-_.]+", "-", match[1]).lower(), match[2] or ""


def _applies(name: str, marker: str) -> bool:
    """Whether a need holds here: the installer left out those whose marker says otherwise."""
    if not marker:
        return True
    if "extra" in marker:
        return False
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _wanted(package: Distribution, file: PurePath) -> bool:
    if file.suffix in _BINARY_SUFFIXES:
        if package.name in _FASTER_WITH_BINARIES:
            return False
        raise BundleError(f"{package.name} is not pure Python: it has {file}")
    outside = file.is_absolute() or ".." in file.parts  # scripts
    metadata = file.parts[0].endswith(".dist-info")
    installers = metadata and file.name in _INSTALLER_FILES
    unread = file.suffix in _UNREAD_SUFFIXES or "__pycache__" in file.parts
    return not (outside or installers or unread)


def _copy(source: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, to)
    to.chmod(0o644)  # Lambda runs as another user than the one who unpacked


def _compile(target: Path) -> None:
    """Put byte-code beside the sources, or every cold start would compile them anew.

    Nothing of this machine gets into it: no time stamps, Lambda's paths, a fixed hash seed, and a
    fresh process (what an interpreter has interned changes the byte-code that it writes).
    """
    command = [sys.executable, "-s", "-P", "-m", "compileall", "-q", "-f", "-o", "0"]
    paths = ["-s", str(target), "-p", UNPACKED_AT, str(target)]
    done = subprocess.run(
        [*command, "--invalidation-mode", "unchecked-hash", *paths],
        env={"PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BundleError(f"compileall failed: {done.stdout}{done.stderr}")
