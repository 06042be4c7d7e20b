"""The command `tallyroll`: send events, read counts, see and open windows.

It works against AWS or the local engine, by AWS's usual environment. Tables for people by default,
JSON on stdout with --json, messages on stderr. Exit statuses: 0 done, 1 done in part, 2 wrong use,
3 AWS could not be reached or something is not there, 130 interrupted, 141 the reader went away.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import util
from types import FrameType

from tallyroll.errors import (
    Absent,
    Archived,
    Missing,
    StoreError,
    TallyrollError,
    Throttled,
    Unknown,
    UsageError,
)

DONE_IN_PART, WRONG_USE, NOT_REACHED, INTERRUPTED, READER_GONE = 1, 2, 3, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (sys.argv's by default); give its exit status."""
    try:
        if util.find_spec("cyclopts") is None:
            _say("the command needs cyclopts: pip install 'tallyroll[cli]', in a clone '.[cli]'")
            return NOT_REACHED
        from tallyroll.cli import app  # the extra may be missing

        with _terminable():
            status = app.run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes stdout once more when it ends: the rest goes to /dev/null.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except SystemExit:
        return READER_GONE  # rich ends a process whose help nobody reads
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    except TallyrollError as error:
        _say(_message(error))
        if isinstance(error, UsageError):
            return WRONG_USE
        return NOT_REACHED if isinstance(error, StoreError | Absent | Archived) else DONE_IN_PART
    return status


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, also where SIGINT is ignored, as in a shell's background."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):
            raise KeyboardInterrupt
        handler(number, frame)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _message(error: TallyrollError) -> str:
    if isinstance(error, StoreError):
        said = [str(error), _remedy(error)]
        if error.of_environment:  # without AWS set up, the remedy comes first
            said.reverse()
        return "\n".join(said).strip()
    if isinstance(error, Archived):
        return f"{error}\nRead it with: tallyroll archive read {error.window}"
    return str(error)


def _remedy(error: StoreError) -> str:
    code = error.code
    if "Region" in code:
        return "Set AWS_REGION, or a region in the profile that AWS_PROFILE names."
    if error.of_environment:
        return "Check the credentials: AWS_PROFILE, or AWS_ACCESS_KEY_ID and its secret."
    if "AccessDenied" in code:
        return "This identity may not do that: is it the right one (AWS_PROFILE)?"
    if isinstance(error, Throttled):
        return "The load is too high at the moment: try again later."
    if isinstance(error, Unknown):
        return (
            "Is the local engine running (AWS_ENDPOINT_URL), or the network and AWS_REGION right?"
        )
    if isinstance(error, Missing):
        return "Is --name right? Is the pipeline deployed there, or the local engine running?"
    return ""


def _say(message: str) -> None:
    for line in message.splitlines():
        print(f"tallyroll: {line}", file=sys.stderr)
