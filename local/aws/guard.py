"""A process guard: what a parent starts dies with the parent, even with one that gets SIGKILL.

The guard is a small process between a parent and a command. The parent alone holds the write end of
the guard's stdin, so the kernel closes it whenever and however the parent ends, and the guard then
kills the command. Guard and command run in sessions of their own: Ctrl-C in a terminal reaches only
the parent, which can shut down in order.

    python -m local.aws.guard -- sleep 1000

runs the command until it ends, stdin reaches its end, or the guard gets SIGTERM, SIGHUP or SIGINT.
The exit status is the command's (128 + N if signal N ended it, 127 if it could not be started).
POSIX only.

This file imports nothing but the standard library, so that `spawn_guarded` can run it by path in an
isolated interpreter, which starts quickly whatever is installed.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import functools
import os
import select
import signal
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

GRACE_S = 3.0
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_PR_SET_PDEATHSIG = 1  # Linux, prctl(2)


class GuardedProcess(subprocess.Popen[bytes]):
    """A `Popen` of the guard, plus what a parent needs of the command behind it.

    `pid` is the guard's process id and `child_pid` the command's (0 if it could not be started).
    Calling `drop_lifeline()` lets the guard believe that this process has died, and returns at
    once; so does dropping the last reference to this object.
    """

    def __init__(
        self,
        cmd: Sequence[str],
        *,
        grace_s: float = GRACE_S,
        held: Sequence[int] = (),
        **popen: Any,
    ) -> None:
        """Start `cmd` under a guard; `popen` are the arguments of `subprocess.Popen`."""
        alive_r, alive_w = os.pipe()
        started_r, started_w = os.pipe()
        self.drop_lifeline = weakref.finalize(self, os.close, alive_w)
        self._grace_s = grace_s
        _keep_from_forks(self)
        options = ["--grace", str(grace_s), "--report-fd", str(started_w)]
        guard = [sys.executable, "-I", "-S", str(Path(__file__).resolve()), *options, "--", *cmd]
        with os.fdopen(started_r, "rb") as started:
            try:
                super().__init__(
                    guard,
                    **popen,
                    stdin=alive_r,
                    start_new_session=True,
                    pass_fds=(started_w, *held),
                )
            finally:
                os.close(alive_r)
                os.close(started_w)
            self.child_pid = int(started.readline() or 0)

    def stop(self) -> int:
        """End the command (SIGTERM, after the grace SIGKILL) and return its exit status."""
        self.drop_lifeline()
        return self.wait(self._grace_s + 10)

    def kill(self) -> None:
        """Send SIGKILL to the command itself, as if there were no guard."""
        if self.poll() is None and self.child_pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.child_pid, signal.SIGKILL)


def spawn_guarded(
    cmd: Sequence[str], *, grace_s: float = GRACE_S, held: Sequence[int] = (), **popen: Any
) -> GuardedProcess:
    """Start `cmd` so that it ends when this process does, in whatever way.

    Args:
        cmd: The command and its arguments.
        grace_s: How long the command has, in seconds, between SIGTERM and SIGKILL.
        held: File descriptors that the guard keeps open, and so those of a lock locked, until the
            command has ended. The command does not get them.
        **popen: Further arguments of `subprocess.Popen`, such as `env`, `cwd`, `stdout`. Not
            `stdin`, which is the lifeline (the command reads from the null device), nor
            `start_new_session` and `pass_fds`.

    Returns:
        A `Popen` whose `returncode` is the command's exit status (128 + N if signal N ended it, 127
        if it could not be started, with the reason on stderr).
    """
    return GuardedProcess(cmd, grace_s=grace_s, held=held, **popen)


_guarded: weakref.WeakSet[GuardedProcess] = weakref.WeakSet()


def _keep_from_forks(process: GuardedProcess) -> None:
    """Keep the lifeline out of plain forks; an exec closes it anyway (pipes are close-on-exec)."""
    _guarded.add(process)
    _hook_forks()


@functools.cache
def _hook_forks() -> None:
    os.register_at_fork(after_in_child=_drop_lifelines)


def _drop_lifelines() -> None:
    for process in _guarded:
        process.drop_lifeline()


def guard(cmd: Sequence[str], *, grace_s: float = GRACE_S, report_fd: int | None = None) -> int:
    """Run `cmd` and return its exit status; see the module's description.

    Args:
        cmd: The command and its arguments.
        grace_s: Seconds between SIGTERM and SIGKILL.
        report_fd: A file descriptor to which the command's process id is written once it runs.
    """
    wake_r, wake_w = os.pipe()
    os.set_blocking(wake_w, False)
    signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
    for number in (*_STOP_SIGNALS, signal.SIGCHLD):
        signal.signal(number, _wake_only)
    try:
        child = subprocess.Popen(
            cmd,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_die_with_parent(),  # noqa: PLW1509  (the guard has one thread)
        )
    except OSError as error:
        print(f"guard: cannot start {cmd[0]}: {error}", file=sys.stderr)
        return 127
    if report_fd is not None:
        with contextlib.suppress(BrokenPipeError), os.fdopen(report_fd, "wb") as report:
            report.write(b"%d\n" % child.pid)
    _wait(child, wake_r)
    return _end(child, grace_s)


def _wake_only(_number: int, _frame: object) -> None:
    """Do nothing: a handler is what makes Python write to the wake-up pipe."""


def _wait(child: subprocess.Popen[bytes], wake_r: int) -> None:
    """Return when the child has ended, a stop signal came, or stdin reached its end."""
    stdin = sys.stdin.fileno()
    while child.poll() is None:
        ready, _, _ = select.select([stdin, wake_r], [], [])
        if wake_r in ready and any(number in _STOP_SIGNALS for number in os.read(wake_r, 512)):
            return
        if stdin in ready and _at_end(stdin):
            return


def _at_end(fd: int) -> bool:
    try:
        return not os.read(fd, 4096)
    except OSError:  # a terminal that went away
        return True


def _end(child: subprocess.Popen[bytes], grace_s: float) -> int:
    """End the child and what is left of its process group; return its status in the shell's way."""
    if child.poll() is None:
        _signal_group(child.pid, signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        while child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
    _signal_group(child.pid, signal.SIGKILL)
    status = child.wait()
    return status if status >= 0 else 128 - status


def _signal_group(group: int, number: signal.Signals) -> None:
    # PermissionError is how macOS answers for a group that holds only a zombie.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _die_with_parent() -> Callable[[], None] | None:
    """On Linux: what makes the command die even if the guard itself is killed with SIGKILL."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def set_death_signal() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    return set_death_signal


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and guard the command; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m local.aws.guard", description="Run a command that ends when stdin does."
    )
    parser.add_argument("--grace", type=float, default=GRACE_S, metavar="SECONDS")
    parser.add_argument("--report-fd", type=int, help=argparse.SUPPRESS)
    parser.add_argument("command", nargs="+", help="after --: the command and its arguments")
    options = parser.parse_args(arguments)
    return guard(options.command, grace_s=options.grace, report_fd=options.report_fd)


if __name__ == "__main__":
    sys.exit(main())
