"""Apache Cassandra's jars, fetched with what the package index carries.

`jars.lock` names each of them as `group:artifact:version SHA-256 bytes`. A client of Maven's
repository, written in Python, fetches them into `.engine/` in the clone, once.

    python -m local.cassandra.jars
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

LOCK = Path(__file__).with_name("jars.lock")
CACHE = Path(__file__).parents[2] / ".engine"
TIMEOUT_S = 60
AT_ONCE = 8


class JarsError(Exception):
    """The jars could not be fetched; the message says why."""


class NoAnswerError(JarsError):
    """Maven's repository does not answer on this machine."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of the lock."""

    group: str
    artifact: str
    version: str
    classifier: str
    sha256: str

    @classmethod
    def of(cls, line: str) -> Jar:
        """The jar that a line of the lock names."""
        coordinate, sha256, _ = line.split()
        group, artifact, version, *classifier = coordinate.split(":")
        return cls(group, artifact, version, "".join(classifier), sha256)


def fetched(cache: Path = CACHE, lock: Path = LOCK) -> Path:
    """The directory with the jars, which are fetched unless they are there.

    Repeating it is cheap, and two processes may do it at once: each fetches into a directory of its
    own, and the first to rename it into place wins.

    Raises NoAnswerError, and JarsError for a jar that is not there or not the locked one.
    """
    text = lock.read_bytes()
    home = cache / f"cassandra-{hashlib.sha256(text).hexdigest()[:12]}"
    if home.is_dir():
        return home
    print("Fetching Apache Cassandra (38 MiB, once) ...", file=sys.stderr, flush=True)
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=cache) as staging:
        target = Path(staging, "jars")
        target.mkdir()
        repository = _repository(Path(staging, "maven"))
        jars = map(Jar.of, text.decode().splitlines())
        with ThreadPoolExecutor(AT_ONCE) as pool:
            errors = list(pool.map(partial(_fetch, repository, target), jars))
        if all(errors):
            raise NoAnswerError(f"Maven's repository does not answer: {errors[0]}")
        if report := "; ".join(filter(None, errors)):
            raise JarsError(f"Apache Cassandra is not complete: {report}")
        # Renaming a directory onto one that is not empty fails, and does so atomically.
        with contextlib.suppress(OSError):
            target.rename(home)
    return home


def _repository(cache: Path) -> Any:
    from jgo.maven import MavenContext, PythonResolver  # noqa: PLC0415  (starting needs no client)

    return MavenContext(repo_cache=cache, resolver=PythonResolver(), timeout=TIMEOUT_S)


def _fetch(repository: Any, target: Path, jar: Jar) -> str:
    """Fetch a jar into `target`; what went wrong, or nothing."""
    name = f"{jar.group}:{jar.artifact}:{jar.version}"
    project = repository.project(jar.group, jar.artifact)
    artifact = project.at_version(jar.version).artifact(jar.classifier)
    try:
        found: Path = artifact.resolve()
    except (OSError, RuntimeError) as error:  # those of requests are OSErrors
        return f"{name}: {error}"
    with found.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 != jar.sha256:
        return f"{name} is not the locked jar: its SHA-256 is {sha256}, not {jar.sha256}"
    shutil.copy(found, target / artifact.filename)
    return ""


def main() -> int:
    """Fetch the jars; without an answer of the repository, say so and go on."""
    try:
        fetched()
    except NoAnswerError as error:
        print(f"{error}. What needs Cassandra is left out.", file=sys.stderr)
    except JarsError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
