"""Functions run in processes of their own: their memory is theirs, and they can be killed."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.tables import Rows, show

STATUS = Path("/proc/self/status")  # Linux alone has it
ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Taken:
    """What a process took: seconds of wall time by phase, its CPU's, its memory at the most in MiB;
    what went wrong.
    """

    seconds: dict[str, float]
    cpu: float
    peak_mib: float
    problems: list[str]


def tell_taken(seconds: dict[str, float], problems: list[str]) -> None:
    """Print what this process took, for `taken`."""
    print(json.dumps(asdict(Taken(seconds, cpu_seconds(), peak_mib(), problems))))


def show_taken(title: str, unit: str, runs: Sequence[Taken], numbers: Mapping[str, int]) -> None:
    """Print what runs took by phase, each of which treated so many of a unit."""
    rows: Rows = [("phase", "seconds", unit, f"{unit}/s")]
    for phase, number in numbers.items():
        seconds = sum(run.seconds[phase] for run in runs)
        rows.append((phase, f"{seconds:.1f}", f"{number:,}", f"{number / seconds:,.0f}"))
    cpu, peak = sum(run.cpu for run in runs), max(run.peak_mib for run in runs)
    note = (
        f"runs: {len(runs)}; CPU {cpu:.1f} s in all; memory of our process at most {peak:.0f} MiB"
    )
    show(title, rows, note)


def spawned(module: str, environment: Mapping[str, str], *arguments: str) -> subprocess.Popen[str]:
    """A process of this interpreter that runs a module, its output to be read."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True
    )


def taken(process: subprocess.Popen[str]) -> Taken:
    """What a process took that was let to its end. Raises RuntimeError if it failed."""
    said, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
    return Taken(**json.loads(said.splitlines()[-1]))


def timed(seconds: dict[str, float], name: str, work: Callable[..., Any]) -> Callable[..., Any]:
    """The same work, which adds what it takes to the seconds of that name."""

    def run(*args: Any) -> Any:
        began = time.perf_counter()
        try:
            return work(*args)
        finally:
            seconds[name] += time.perf_counter() - began

    return run


def cpu_seconds() -> float:
    """What this process has used of the processors, in seconds."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_mib() -> float:
    """The most memory that this process has held, in MiB.

    Linux counts into a process's `ru_maxrss` what its parent held when it was started (its
    `VmHWM` begins anew with the program); macOS gives bytes where Linux gives KiB.
    """
    if STATUS.exists():
        lines = STATUS.read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
