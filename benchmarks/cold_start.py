"""What a cold start takes, part by part: `make coldstart`, or with ROUNDS=n.

Starts the asset under Lambda's own runtime client, each function in turn with an empty handler that
imports boto3 and makes one DynamoDB client, and compares the medians. A function's clients are
reckoned in, though it makes them at its first event. Processor time says more than the clock does
on a machine that does something else besides.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.tables import Rows, show
from local.runtime.api import RuntimeApi
from local.runtime.packages import lay_out_runtime, reserved, start_command
from release.bundle import assemble
from tallyroll.cdk.alarm_rules import FUNCTIONS
from tallyroll.settings.options import Options

EMPTY = "empty"
ROUNDS = 7
TIMEOUT_S = 60.0
RATIO_MAX = 2.0  # of the writer's start to the empty one's
_MEMORY_MB = 1_769
_PROBE = Path(__file__).with_name("cold_start_probe.py")
_POWERTOOLS = ("aws_lambda_powertools", "aws_lambda_powertools.metrics")
_EVENT_HANDLER = "aws_lambda_powertools.event_handler"


@dataclass(frozen=True, slots=True)
class Start:
    """One cold start: milliseconds of processor time and by the clock, each by part."""

    cpu: Mapping[str, float]
    wall: Mapping[str, float]


class Ground:
    """A directory with the asset, Lambda's runtime, and the probe between them."""

    def __init__(self, folder: Path, task: Path | None = None) -> None:
        """`task` is the asset, if it is assembled already."""
        self._task = task or folder / "task"
        self._runtime, probe = folder / "runtime", folder / "probe"
        if task is None:
            assemble(self._task)
        lay_out_runtime(self._runtime)
        probe.mkdir()
        (probe / _PROBE.name).symlink_to(_PROBE)
        self._command = start_command(f"{_PROBE.stem}.handler", self._task, self._runtime, probe)

    def start(self, function: str) -> Start:
        """Start one function cold, or the empty handler. Raises FunctionFailed, and queue.Empty if
        it keeps silent.
        """
        api = RuntimeApi()
        try:
            return self._start(function, api)
        finally:
            api.close()

    def _start(self, function: str, api: RuntimeApi) -> Start:
        package = "" if function == EMPTY else function
        lambdas = reserved(
            function,
            f"{_PROBE.stem}.handler",
            _MEMORY_MB,
            api=api.address,
            task=self._task,
            runtime=self._runtime,
        )
        queue = "https://sqs.us-east-1.amazonaws.com/123456789012/events"
        settings = Options().settings(queue_url=queue, dead_letters_url=queue, bucket="archive")
        probes = {"COLD_START_PACKAGE": package, "COLD_START_PARTS": json.dumps(_parts(package))}
        api.offer({}, f"arn:aws:lambda:us-east-1:123456789012:function:{function}", TIMEOUT_S)
        began = time.monotonic()
        process = subprocess.Popen(
            self._command,
            env={**settings.to_env(), **lambdas, **probes},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        try:
            return _spans(api.answer(TIMEOUT_S), began)
        finally:
            process.kill()
            process.wait()


def _parts(package: str) -> dict[str, Sequence[str]]:
    """The modules of each part, in the order in which they are loaded."""
    if not package:
        return {"boto3": ("boto3",)}
    more = (_EVENT_HANDLER,) if package == "aggregator" else ()
    return {
        "boto3": ("boto3",),
        "powertools": (*_POWERTOOLS, *more),
        "own code": (f"functions.{package}.handler",),
    }


def _spans(clocks: Mapping[str, tuple[float, float]], began: float) -> Start:
    """The time between the clocks' readings."""
    cpu, wall = {}, {}
    last_cpu, last_wall = 0.0, began
    for part, (cpu_s, wall_s) in clocks.items():
        cpu[part], wall[part] = (cpu_s - last_cpu) * 1000, (wall_s - last_wall) * 1000
        last_cpu, last_wall = cpu_s, wall_s
    return Start({**cpu, "in all": last_cpu * 1000}, {**wall, "in all": (last_wall - began) * 1000})


def medians(starts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of each part."""
    return {part: median(start[part] for start in starts) for part in starts[0]}


def compared(found: Mapping[str, Mapping[str, float]]) -> Rows:
    """Medians by function and part, and each sum as a multiple of the empty handler's."""
    parts = list(found["writer"])
    rows: Rows = [("function", *parts, "ratio")]
    for function, spans in found.items():
        row = [f"{spans[part]:.1f}" if part in spans else "" for part in parts]
        rows.append((function, *row, f"{spans['in all'] / found[EMPTY]['in all']:.2f}"))
    return rows


def main() -> int:
    """Print the tables; 1 if the writer's start is over twice the empty one's in processor time."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    starts: dict[str, list[Start]] = {name: [] for name in (EMPTY, *FUNCTIONS)}
    with tempfile.TemporaryDirectory() as folder:
        ground = Ground(Path(folder))
        for function in starts:
            ground.start(function)  # what the machine reads for the first time is not measured
        for _ in range(rounds):
            for function, taken in starts.items():
                taken.append(ground.start(function))
    cpu = {name: medians([one.cpu for one in taken]) for name, taken in starts.items()}
    wall = {name: medians([one.wall for one in taken]) for name, taken in starts.items()}
    show(f"Processor time, ms: medians of {rounds} cold starts", compared(cpu))
    ratio = cpu["writer"]["in all"] / cpu[EMPTY]["in all"]
    note = f"the writer's start takes {ratio:.2f} times an empty handler's"
    show("By the clock, ms", compared(wall), note)
    return int(ratio > RATIO_MAX)


if __name__ == "__main__":
    sys.exit(main())
