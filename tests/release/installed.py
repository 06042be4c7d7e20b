"""The built package installed into an environment of its own, beside a CDK of some version."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from email import message_from_bytes
from importlib.metadata import distribution
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from packaging.requirements import Requirement

from release.bundle import ROOT
from release.node import provide_node
from tests.harness.processes import ran

OLDEST = ROOT / "requirements" / "lowest.txt"
_PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
_FETCH_TIMEOUT_S = 600.0
_PASSED_ON = ("HOME", "PATH", "SystemRoot")


def newest_packages() -> Path:
    """Where the packages lie that the tests run on, with the newest CDK."""
    return Path(sysconfig.get_path("purelib"))


def oldest_packages(cache: Path = ROOT / ".engine") -> Path:
    """Where the locked oldest CDK lies, and what it needs: fetched by pip unless it is there.

    Two processes may do it at once: the first to rename its directory into place wins.
    """
    name = hashlib.sha256(OLDEST.read_bytes()).hexdigest()[:12]
    home = cache / f"oldest-cdk-3.{sys.version_info.minor}-{name}"
    if not home.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=cache) as staging:
            fetched = Path(staging) / "packages"
            wanted = ["--require-hashes", "--requirement", str(OLDEST)]
            command = [*_PIP, "install", "--target", str(fetched), *wanted]
            subprocess.run(command, check=True, timeout=_FETCH_TIMEOUT_S)
            with contextlib.suppress(OSError):
                fetched.rename(home)
    return home


def declared_packages(wheel: Path, extra: str, folder: Path) -> Path:
    """Links in a folder to the packages that a wheel declares for an extra, and to what these
    declare, of those that the tests run on. Nothing else can be imported from there.
    """
    folder.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        about = message_from_bytes(archive.read(name))
    wanted = _needed(about.get_all("Requires-Dist") or [], {extra})
    seen = set()
    while wanted:
        need = wanted.pop()
        if (need.name, *sorted(need.extras)) in seen:
            continue
        seen.add((need.name, *sorted(need.extras)))
        found = distribution(need.name)
        wanted += _needed(found.requires or [], need.extras)
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            if not (folder / top).exists():
                (folder / top).symlink_to(Path(str(found.locate_file(top))).resolve())
    return folder


def _needed(declared: Iterable[str], extras: Collection[str]) -> list[Requirement]:
    """The requirements of a package with these extras on this machine."""
    found = map(Requirement, declared)
    return [
        need
        for need in found
        if not need.marker or any(need.marker.evaluate({"extra": one}) for one in (*extras, ""))
    ]


@dataclass(frozen=True)
class Ran:
    """What a program printed, its exit status, and the processor time that it took."""

    status: int
    out: str
    err: str
    cpu_seconds: float


@dataclass(frozen=True)
class Installed:
    """An environment that holds the wheel; `packages` are found there too, unless it is None."""

    python: Path
    site: Path
    packages: Path | None

    @classmethod
    def of(cls, wheel: Path, home: Path, packages: Path | None) -> Installed:
        """Make one in the directory `home`."""
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
        python = home / "bin" / "python"
        from_here = ["install", "--no-index", "--no-deps", str(wheel)]
        subprocess.run([*_PIP, "--python", str(python), *from_here], check=True)
        [package] = home.glob("lib/python*/site-packages/tallyroll")
        if packages is not None:
            # A line adds its folder to the path, and reads no .pth file there: an editable
            # installation of this clone stays unseen.
            (package.parent / "packages.pth").write_text(f"{packages}\n")
        return cls(python, package.parent, packages)

    def run(self, *arguments: str, folder: Path, **environment: str) -> Ran:
        """Run its Python in a folder, with an environment that has nothing of this clone."""
        given = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        given |= environment
        provide_node(given)
        before = getrusage(RUSAGE_CHILDREN)
        done = ran([str(self.python), *arguments], cwd=folder, env=given)
        after = getrusage(RUSAGE_CHILDREN)
        took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Ran(done.returncode, done.stdout, done.stderr, took)
