"""Whether `tallyroll doctor` names the cause of each fault of the catalogue: `make oncall`.

Runs a pipeline on this machine until windows are open, sealed and dropped. Then plants one fault
after another, runs the command once, looks for cause and remedy in what it prints, and mends the
fault. With an argument, those whose names contain it. The exit status is 1 if one was not found,
and 2 if no fault has such a name.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.on_call.faults import FAULTS, Fault
from benchmarks.on_call.stack import make_stack
from benchmarks.on_call.world import World
from local.aws.embedded import Embedded, scaled_settings
from local.pipeline import LocalPipeline
from tallyroll import Pipeline
from tallyroll.model.states import Status

WINDOW_S = 10
WAIT_S, PAUSE_S = 600, 2  # moto answers one request at a time, the functions' as well
KEYS = 5


class LocalRunning:
    """The pipeline's functions on this machine."""

    def __init__(self, local: LocalPipeline, pipeline: Pipeline) -> None:
        self._local, self._pipeline = local, pipeline

    def held_roller(self) -> AbstractContextManager[None]:
        """The roller waits for the block's end."""
        return self._local.schedules["roller"].held()

    def stop_roller(self) -> None:
        """Wait until the last window that it made has ended."""
        self._local.schedules["roller"].stop()
        made = self._pipeline.catalog.windows(0, 2 * int(time.time() * 1000))
        await_all(lambda: time.time() * 1000 > made[-1].end, "the last window has not ended")

    def await_letter(self) -> None:
        """Wait for a dead letter."""
        letters = self._pipeline.dead_letters_queue
        await_all(lambda: letters.backlog(0).visible > 0, "no letter")


def await_all(ready: Callable[[], bool], what: str) -> None:
    """Wait until something is so. Raises TimeoutError."""
    until = time.monotonic() + WAIT_S
    while not ready():
        if time.monotonic() > until:
            raise TimeoutError(f"after {WAIT_S} s: {what}")
        time.sleep(PAUSE_S)


def main(part: str = "") -> int:
    """Plant the faults whose names contain `part`, and print which were found, and how fast."""
    console = Console()
    faults = [fault for fault in FAULTS if part in fault.name]
    if not faults:
        console.print(f"no fault's name contains {part!r}; they are in docs/faults.md")
        return 2
    settings = scaled_settings("oncall", WINDOW_S)
    # moto copies all its tables for each transaction; a window's usual 256 gates take it seconds.
    settings = replace(settings, retention_ms=4_000 * WINDOW_S, gates=16)
    table = Table(title="tallyroll doctor", title_justify="left")
    for name in ("fault", "named by", "seconds", "found"):
        table.add_column(name, justify="right" if name == "seconds" else "left")
    missed = 0
    # moto, since DynamoDB Local has no tags and no policies.
    with Embedded(settings, engine="moto") as aws, LocalPipeline(aws) as local:
        os.environ.update(aws.environment)
        make_stack(aws.settings, aws.client)
        pipeline = Pipeline(aws.settings)
        world = World(aws.settings, aws.client, pipeline, LocalRunning(local, pipeline))
        console.print("waiting for windows that are open, sealed and dropped ...", style="dim")
        for fault in (None, *faults):
            _live(world)  # again and again: on a slow machine all sealed windows may be dropped
            name = fault.name if fault else "none"
            console.print(f"planting: {name}", style="dim")
            found, took, output = _diagnosed(world, fault)
            missed += not found
            table.add_row(
                name, fault.check if fault else "", f"{took:.1f}", "yes" if found else "NO"
            )
            if not found:
                console.print(output)
    console.print(table)
    return 1 if missed else 0


def _live(world: World) -> None:
    """Count events until windows are in the states that the faults need."""

    def ready() -> bool:
        if not world.waiting():  # moto gets slower with each event
            for number in range(KEYS):
                world.send(f'{{"key": "k{number}", "value": 1.5}}')
        return all(map(world.windows, (Status.OPEN, Status.SEALED, Status.DROPPED)))

    await_all(ready, "no window was dropped")


def _diagnosed(world: World, fault: Fault | None) -> tuple[bool, float, str]:
    """Whether one command names the fault and its remedy, its seconds, and its output.

    Without a fault: whether it says that all is well.
    """
    command = [str(Path(sys.executable).with_name("tallyroll")), "doctor"]
    if fault is None:
        return _run(command, lambda status, _: status == 0)
    line = f"{fault.check} "

    def named(_status: int, output: str) -> bool:
        checks = output.split("\nok ")
        return any(line in part and fault.says in part and fault.remedy in part for part in checks)

    with fault.plant(world):
        return _run([*command, *(["--deep"] if fault.deep else [])], named)


def _run(command: list[str], judged: Callable[[int, str], bool]) -> tuple[bool, float, str]:
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    took = time.monotonic() - began
    output = done.stdout + done.stderr
    return judged(done.returncode, output), took, output


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
