"""The functions' asset as the package carries it: its zip, what is in it, the licences, and
the lock files of what is in layers.

    python -m release.prebuilt FOLDER [--boto3] [--tracer] [--cache]

writes them into the folder. `make dist` writes those of the package, which has two more zips:
what Powertools' Tracer needs beside the first, and the client of a shared cache.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from importlib.metadata import Distribution
from pathlib import Path

from release.bundle import ROOT, RUNTIME, BundleError, assemble, gather, packages
from release.package import zip_folder

# The names by which `tallyroll.cdk.code` finds them.
FOLDER = ROOT / "src" / "tallyroll" / "cdk" / "asset"
CODE, TRACER, CACHE = "functions.zip", "tracer.zip", "cache.zip"
ABOUT, LICENCES = "asset.json", "LICENSES.txt"
LOCKS = ("keyspaces.txt", "duckdb.txt")
_LICENCE = re.compile(r"(LICEN[CS]E|NOTICE|COPYING|COPYRIGHT|AUTHORS)\b.*", re.IGNORECASE)
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


def build(
    folder: Path, *, with_boto3: bool = False, with_tracer: bool = False, with_cache: bool = False
) -> None:
    """Write the asset into a folder, which is made if need be.

    Raises BundleError for a package that is not installed, that another version is locked of, or
    that has no text of its licence.
    """
    found = packages(with_boto3=with_boto3, with_tracer=with_tracer, with_cache=with_cache)
    _describe(folder, found)
    with tempfile.TemporaryDirectory() as made:
        assemble(Path(made), with_boto3=with_boto3, with_tracer=with_tracer, with_cache=with_cache)
        zip_folder(Path(made), folder / CODE)


def build_for_package(folder: Path) -> None:
    """Write the asset, and beside it what the tracer needs, and the shared cache's client. Raises
    BundleError as `build` does.
    """
    build(folder)
    _describe(folder, packages(with_tracer=True, with_cache=True))
    there = {each.name for each in packages()}
    for name, whole in {
        TRACER: packages(with_tracer=True),
        CACHE: packages(with_cache=True),
    }.items():
        with tempfile.TemporaryDirectory() as made:
            gather(Path(made), [each for each in whole if each.name not in there])
            zip_folder(Path(made), folder / name)


def _describe(folder: Path, found: list[Distribution]) -> None:
    """Write which packages are in the asset, their licences, and the lock files."""
    _check_locked(found)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LICENCES).write_text(licences(found), encoding="utf-8")
    about = {"runtime": RUNTIME, "packages": {each.name: each.version for each in found}}
    (folder / ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    for lock in LOCKS:
        shutil.copyfile(ROOT / "requirements" / lock, folder / lock)


def licences(found: list[Distribution]) -> str:
    """The licences of packages, one after another. Raises BundleError for one without."""
    return "\n".join(map(_licence, found))


def _licence(package: Distribution) -> str:
    about = package.metadata.json
    told = str(about.get("license_expression") or about.get("license") or "see below")
    report = told.splitlines()[0]  # some give the whole text
    paths = [
        Path(str(package.locate_file(file)))
        for file in sorted(package.files or ())
        if file.parts[0].endswith(".dist-info") and _LICENCE.fullmatch(file.name)
    ]
    if not paths:
        raise BundleError(f"{package.name} {package.version} comes without its licence's text")
    texts = "\n".join(path.read_text(encoding="utf-8").rstrip() + "\n" for path in paths)
    heading = f"{package.name} {package.version} ({report})"
    return f"{heading}\n{'=' * len(heading)}\n\n{texts}"


def _check_locked(found: list[Distribution]) -> None:
    """Check that what is installed is what the lock file says."""
    lock = ROOT / "requirements" / "runtime.txt"
    locked = dict(_PINNED.findall(lock.read_text(encoding="utf-8")))
    for package in found:
        name = re.sub(r"[-_.]+", "-", package.name).lower()
        if locked.get(name) != package.version:
            raise BundleError(
                f"{name} {package.version} is installed in {sys.prefix}, and {lock.name} locks"
                f" {locked.get(name, 'none')}: install requirements/{lock.name}"
            )


def main() -> None:
    """Write it."""
    parser = argparse.ArgumentParser(prog="python -m release.prebuilt", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--boto3", action="store_true", help="with a boto3 of its own")
    parser.add_argument("--tracer", action="store_true", help="with what the tracer needs")
    parser.add_argument("--cache", action="store_true", help="with the shared cache's client")
    options = parser.parse_args()
    try:
        build(
            options.folder,
            with_boto3=options.boto3,
            with_tracer=options.tracer,
            with_cache=options.cache,
        )
    except BundleError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
