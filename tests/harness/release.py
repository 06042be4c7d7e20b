"""The release before, in one archive: its template, and the code of its functions.

    make release-template REF=v0.1.0

writes the archive anew, from a commit of this repository. It holds `template.json`, as that
commit's app synthesizes it for a pipeline `updated`, and the sources of `tallyroll` and `functions`
that were deployed then. The packages that these import are the installed ones, so that a release
takes some 170 KB. `release.json` says which commit it was.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from release.bundle import ROOT, SOURCES, assemble, sources_of
from tests.harness.processes import ran

ARCHIVE = Path(__file__).with_name("release.tar.xz")
NAME = "updated"  # the pipeline's
TEMPLATE, ABOUT, CODE = "template.json", "release.json", "code"

Json = dict[str, Any]


class Release:
    """What an archive holds."""

    def __init__(self, archive: Path = ARCHIVE) -> None:
        self._archive = archive

    @cached_property
    def template(self) -> Json:
        """The template of the release's pipeline `NAME`."""
        return self._json(TEMPLATE)

    @cached_property
    def about(self) -> Json:
        """Its `version`, `commit` and `date`."""
        return self._json(ABOUT)

    @cached_property
    def names(self) -> list[str]:
        """The paths of its files."""
        with tarfile.open(self._archive) as tar:
            return tar.getnames()

    def unpack(self, target: Path) -> Path:
        """Fill a new directory with all that its functions import; return that directory."""
        with tempfile.TemporaryDirectory() as folder, tarfile.open(self._archive) as tar:
            tar.extractall(folder, filter="data")
            code = Path(folder) / CODE
            assemble(target, sources=[code / source.name for source in SOURCES])
        return target

    def _json(self, name: str) -> Json:
        with tarfile.open(self._archive) as tar:
            file = tar.extractfile(name)
            assert file
            found: Json = json.load(file)
        return found


def zipped(folder: Path) -> bytes:
    """A zip of a directory's files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                file.write(path, path.relative_to(folder))
    return buffer.getvalue()


def write(clone: Path, about: Mapping[str, str], archive: Path) -> None:
    """Write the archive of a clone. The same clone gives the same bytes."""
    files = {TEMPLATE: _synthesized(clone), ABOUT: json.dumps(about, indent=1).encode()}
    for source in SOURCES:
        there = clone / source.relative_to(ROOT)
        for path, inside in sources_of(there):
            files[f"{CODE}/{source.name}/{inside.as_posix()}"] = path.read_bytes()
    with tarfile.open(archive, "w:xz", format=tarfile.PAX_FORMAT, preset=9) as tar:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))


def _synthesized(clone: Path) -> bytes:
    """The template that a clone's own app writes, without the asset."""
    context = {"tallyroll:name": NAME, "aws:cdk:bundling-stacks": []}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "app.py"],
            cwd=clone,
            env={
                **os.environ,
                "PYTHONPATH": str(clone / "src"),
                "CDK_OUTDIR": folder,
                "CDK_CONTEXT_JSON": json.dumps(context),
            },
            check=True,
        )
        template = json.loads((Path(folder) / f"{NAME}.template.json").read_text())
    return json.dumps(template, indent=1).encode()


@contextmanager
def _checked_out(commit: str) -> Iterator[Path]:
    """A commit's files in a directory of their own."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(clone), commit], check=True)
        try:
            yield clone
        finally:
            subprocess.run([*git, "remove", "--force", str(clone)], check=True)


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return ran(command, check=True).stdout.strip()


def main() -> None:
    """Write the archive of the commit that is named."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.release")
    parser.add_argument("ref", help="tag or commit of the release")
    ref = parser.parse_args().ref
    commit = _git("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    date = _git("log", "-1", "--format=%cI", commit)
    with _checked_out(commit) as clone:
        project = tomllib.loads((clone / "pyproject.toml").read_text())["project"]
        write(clone, {"version": project["version"], "commit": commit, "date": date}, ARCHIVE)
    print(f"wrote {ARCHIVE.relative_to(ROOT)}, {ARCHIVE.stat().st_size:,} bytes, of {commit}")  # noqa: T201


if __name__ == "__main__":
    main()
