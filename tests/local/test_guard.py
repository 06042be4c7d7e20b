from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from local.aws.guard import spawn_guarded
from tests.harness.processes import ran

if TYPE_CHECKING:
    from collections.abc import Callable

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
IGNORE_SIGTERM = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(600)
"""
ROOT = Path(__file__).parents[2]
# A parent that starts a guarded sleeper, tells its process ids, and waits.
PARENT = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored below a shell's `&`
from local.aws.guard import spawn_guarded
process = spawn_guarded([sys.executable, "-c", "import time; time.sleep(600)"])
print(process.pid, process.child_pid, flush=True)
time.sleep(600)
"""

# A parent whose fork lives on while it stops the guarded sleeper.
FORKING_PARENT = """
import os, signal, sys, time
from local.aws.guard import spawn_guarded
process = spawn_guarded([sys.executable, "-c", "import time; time.sleep(600)"])
fork = os.fork()
if not fork:
    time.sleep(60)
    os._exit(0)
print(process.stop())
os.kill(fork, signal.SIGKILL)
"""


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with contextlib.suppress(OSError):  # on Linux, a zombie that waits to be collected
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True


def eventually(condition: Callable[[], bool], within_s: float = 120) -> bool:
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def start_parent() -> tuple[subprocess.Popen[str], int, int]:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert parent.stdout is not None
    guard, child = map(int, parent.stdout.readline().split())
    return parent, guard, child


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_child_dies_with_its_parent(number: signal.Signals) -> None:
    parent, guard, child = start_parent()
    with parent:
        assert is_running(guard)
        assert is_running(child)
        parent.send_signal(number)
    assert eventually(lambda: not is_running(child))
    assert eventually(lambda: not is_running(guard))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_to_the_guard_ends_the_child(number: signal.Signals) -> None:
    process = spawn_guarded(SLEEP)
    process.send_signal(number)
    assert process.wait(10) == 128 + signal.SIGTERM
    assert not is_running(process.child_pid)


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_the_child_dies_even_if_the_guard_is_killed() -> None:
    process = spawn_guarded(SLEEP)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(10) == -signal.SIGKILL
    assert eventually(lambda: not is_running(process.child_pid))


def test_stop_kills_a_child_that_ignores_the_polite_signal() -> None:
    process = spawn_guarded(
        [sys.executable, "-c", IGNORE_SIGTERM], grace_s=0.1, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"deaf\n"
        assert process.stop() == 128 + signal.SIGKILL
    assert not is_running(process.child_pid)


def test_stop_ends_the_grandchildren_in_the_group() -> None:
    process = spawn_guarded(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        grandchild = int(process.stdout.readline())
        assert is_running(grandchild)
        process.stop()
    assert eventually(lambda: not is_running(grandchild))


def test_the_status_is_the_child_s() -> None:
    assert spawn_guarded(["sh", "-c", "exit 7"]).wait(10) == 7
    assert spawn_guarded(["sh", "-c", "kill -9 $$"]).wait(10) == 128 + signal.SIGKILL


def test_kill_reaches_the_child_itself() -> None:
    process = spawn_guarded(SLEEP)
    process.kill()
    assert process.wait(10) == 128 + signal.SIGKILL


def test_a_command_that_cannot_start_is_named() -> None:
    process = spawn_guarded(["/no/such/command"], stderr=subprocess.PIPE)
    assert process.stderr is not None
    with process.stderr:
        assert b"/no/such/command" in process.stderr.read()
    assert process.wait(10) == 127
    assert process.child_pid == 0


def test_environment_and_directory_reach_the_child(tmp_path: Path) -> None:
    process = spawn_guarded(
        ["sh", "-c", "pwd; echo $COLOUR"],
        cwd=tmp_path,
        env={**os.environ, "COLOUR": "green"},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.read().decode().split() == [str(tmp_path), "green"]
    assert process.wait(10) == 0


def test_a_fork_does_not_hold_the_lifeline() -> None:
    # In a process of its own, since forking one that has threads is unsafe.
    command = [sys.executable, "-c", FORKING_PARENT]
    done = ran(command, cwd=ROOT, timeout=300, check=True)
    assert int(done.stdout) == 128 + signal.SIGTERM


def test_the_module_runs_as_a_command() -> None:
    command = [sys.executable, "-m", "local.aws.guard", "--", "sh", "-c", "echo hello; exit 3"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as guard:
        assert guard.stdout is not None
        assert guard.stdout.read() == b"hello\n"
    assert guard.returncode == 3
