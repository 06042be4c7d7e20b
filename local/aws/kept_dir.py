"""The directory of `make local ARGS="--keep DIR"`: whose it is, and that one pipeline uses it."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path

from local.aws.guard import GRACE_S
from tallyroll.settings import Settings
from tallyroll.settings.texts import PREFIX, text_of

_PIPELINE, _LOCK = "pipeline.json", "lock"
_SHOWN = 2
_LOOK_S = 0.05


class KeptDirError(Exception):
    """The directory cannot be used; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class KeptDir:
    """A directory that this process has locked. Descendants that hold the file descriptor `lock`
    keep it locked after this process has ended. `goes_on`: a pipeline was kept there before.
    """

    path: Path
    lock: int
    goes_on: bool = False

    @property
    def tables(self) -> Path:
        """The directory of DynamoDB Local."""
        return self.path / "dynamodb"

    @property
    def queues_and_bucket(self) -> Path:
        """The file of moto's server."""
        return self.path / "queues-and-bucket.sqlite"


@contextmanager
def kept_dir(path: Path, settings: Settings) -> Iterator[KeptDir]:
    """Lock a directory for the pipeline of these settings, inside the `with` block.

    Makes it if it is not there. Raises KeptDirError if another process uses it, or if it holds
    something else: another pipeline, or this one with other options.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise KeptDirError(
            f"--keep {path}: it is a file, or lies in one; give a new or an empty directory"
        ) from None
    path = path.resolve()
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _lock(lock, path)
        kept = KeptDir(path, lock, goes_on=_check(path, settings))
        kept.tables.mkdir(exist_ok=True)
        yield kept
    finally:
        os.close(lock)


def _lock(lock: int, path: Path) -> None:
    """Take the lock, and write this process's id into it.

    The emulators of a killed process hold the lock until they have ended, a few seconds.
    """
    until = time.monotonic() + 2 * GRACE_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 20, 0).decode()
            if _runs(holder) or time.monotonic() > until:
                raise KeptDirError(
                    f"--keep {path}: the process {holder} uses it; end that one, or give another"
                    " directory"
                ) from None
            time.sleep(_LOOK_S)
        else:
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
            return


def _runs(pid: str) -> bool:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(int(pid or os.getpid()), 0)
        return True
    return False


def _check(path: Path, settings: Settings) -> bool:
    """Whether the directory keeps this pipeline already; if not, write that it does from now on."""
    file = path / _PIPELINE
    if not file.exists():
        if others := {each.name for each in path.iterdir()} - {_LOCK}:
            raise KeptDirError(
                f"--keep {path}: it holds {min(others)} and no pipeline; give a new or an empty"
                " directory"
            )
        made = file.with_suffix(".new")
        made.write_text(json.dumps(settings.to_env(), indent=1) + "\n", encoding="utf-8")
        made.rename(file)
        return False
    kept = Settings.from_env(json.loads(file.read_text(encoding="utf-8")))
    differing = [
        f"{PREFIX}{setting.name.upper()} is {text_of(there)} there and {text_of(here)} here"
        for setting in fields(Settings)
        if (there := getattr(kept, setting.name)) != (here := getattr(settings, setting.name))
    ]
    if differing:
        more = len(differing) - _SHOWN
        shown = ", ".join((*differing[:_SHOWN], *([f"{more} more"] if more > 0 else [])))
        raise KeptDirError(
            f"--keep {path}: it keeps a pipeline of other options ({shown}); give its options, or"
            " another directory"
        )
    return True
