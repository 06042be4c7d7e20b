"""What a person does with a pipeline under faults: asks the doctor, takes tables down, plans."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from typing import Any, Protocol

from tests.faults.world import World
from tests.harness.pipeline import HOUR, SECOND

TRIES_MAX = 40
EXAMINED = 3
# What must hold at any time of any life. The others tell what is late, and this world's time leaps.
INVARIANTS = (
    "calendar",
    "gaps",
    "live-pointer",
    "permanent",
    "stray-tables",
    "tables",
    "totals",
    "listing",
    "rollups",
    "archives",
)


class Patient(Protocol):
    """A plan that can spare a person's process."""

    may_crash: bool


def look_after(world: World, plan: Patient) -> None:
    """Have the doctor look several times, also at tables that were just made; then take all tables
    down, and ask what to change. Each problem that a command reports is noted as one of the world.
    """
    plan.may_crash = False
    world.time.pass_by(HOUR)
    world.roll()
    # It made a table, which may not be seen yet.
    world.command("windows", "list", "--size", "--state", "creating")
    for _ in range(EXAMINED):
        examine(world, "--deep")
    world.command("windows", "list", "--all", "--hot", "--size")
    name = world.settings.name
    denied = world.command("teardown", "--force", "--yes", name)
    if not denied:
        world.problems.append("tables were deleted unproven, against the policy")
    for _ in range(TRIES_MAX):
        examine(world)
        if world.command("teardown", "--export", "--yes", name) == 0:
            break
        world.time.pass_by(SECOND)
    else:
        world.problems.append("the tables are never taken down")
    for _ in range(EXAMINED):
        world.command("plan", "--from-deployment", "--context")
    plan.may_crash = True


def examine(world: World, *options: str) -> None:
    """Ask the doctor; what it finds broken is a problem."""
    said = io.StringIO()
    with redirect_stdout(said):
        world.command("doctor", "--json", *options)
    checks: list[dict[str, Any]] = [json.loads(line) for line in said.getvalue().splitlines()]
    world.problems += [
        f"doctor: {check['check']}: {sign['text']}"
        for check in checks
        if check["check"] in INVARIANTS
        for sign in check["signs"]
        if sign["level"] == "finding"
    ]
