"""The same seed gives the same run in every process and in every Python version.

Some methods of `random` changed their algorithm between versions, and the order of a set changes
from process to process: neither may have a part in a run.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

from tests.harness.processes import ran
from tests.simulation.pipeline import simulate

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
OUTSIDE = {
    "run.py",
    "resuming.py",
    "lanes.py",
    "shrinking.py",
}  # these run simulations, and no simulation runs them
SIMULATED = [
    path
    for path in sorted([*HERE.glob("*.py"), *HERE.glob("rows/*.py")])
    if path.name not in OUTSIDE and not path.name.startswith(("test_", "conftest"))
]
CORE = sorted((ROOT / "src" / "tallyroll").rglob("*.py"))
# No handler is run there.
DRAWN_BY_NUMPY = ROOT / "src" / "tallyroll" / "planning" / "partition_model"
KEPT_BY_ALL_VERSIONS = {"random", "getrandbits"}
DRAWS = {name for name in dir(Random) if not name.startswith("_")} - {"seed"}
UNORDERED = {"set", "frozenset"}
ORDERING = {"list", "tuple", "enumerate", "iter", "zip", "map", "filter", "join"}
SEEDS = (34, 40, 38)  # short ones that come to many rare states
HASHES = """
from tests.simulation.pipeline import simulate
print(*(simulate(seed).trace_hash for seed in {seeds}))
"""


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_the_whole_core_is_looked_at() -> None:
    assert len(CORE) >= 130


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


def called(node: ast.AST) -> str:
    """The last part of the name that a call calls."""
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def is_unordered(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return is_unordered(node.left) or is_unordered(node.right)
    return isinstance(node, ast.Set | ast.SetComp) or (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in UNORDERED
    )


def ordered(node: ast.AST) -> list[ast.AST]:
    """What a node goes through in order."""
    if isinstance(node, ast.For | ast.comprehension):
        return [node.iter]
    if isinstance(node, ast.Starred):
        return [node.value]
    return list(node.args) if isinstance(node, ast.Call) and called(node) in ORDERING else []


def test_there_is_something_to_look_at() -> None:
    assert {"world.py", "wires.py", "producers.py"} <= {path.name for path in SIMULATED}
    assert len(CORE) > 30
    assert {"choice", "shuffle", "randrange", "gauss"} <= DRAWS - KEPT_BY_ALL_VERSIONS


def breaking(rule: Callable[[Path], set[str]], paths: list[Path]) -> dict[str, set[str]]:
    """What breaks a rule, by the file."""
    found = {named(path): rule(path) for path in paths}
    return {path: broken for path, broken in found.items() if broken}


def other_draws(path: Path) -> set[str]:
    """The draws that differ between versions. `random` is imported by its classes' names, so that
    these are found.
    """
    modules = {
        alias.name for node in nodes(path) if isinstance(node, ast.Import) for alias in node.names
    }
    draws = set[str]() if DRAWN_BY_NUMPY in path.parents else DRAWS - KEPT_BY_ALL_VERSIONS
    return {called(node) for node in nodes(path)} & draws | modules & {"random"}


def test_only_the_draws_that_all_versions_share_are_used() -> None:
    assert breaking(other_draws, SIMULATED + CORE) == {}


def sets_gone_through(path: Path) -> set[str]:
    gone_through = [node for parent in nodes(path) for node in ordered(parent)]
    return {ast.unparse(node) for node in gone_through if is_unordered(node)}


def test_nothing_goes_through_a_set_in_its_order() -> None:
    assert breaking(sets_gone_through, SIMULATED + CORE) == {}


def of_the_real_world(path: Path) -> set[str]:
    modules = {
        name
        for node in nodes(path)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    builtins = {
        node.func.id
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    return (
        modules & {"os", "time", "secrets", "threading", "socket", "tempfile"}
        | builtins & {"hash", "id", "SystemRandom", "uuid4", "uuid1"}
        | {called(node) for node in nodes(path)} & {"utcnow", "today", "urandom"}
    )


def test_nothing_simulated_knows_the_real_time_or_place() -> None:
    assert breaking(of_the_real_world, SIMULATED) == {}


def test_what_breaks_a_rule_is_found(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text(
        "import random, os\nfrom time import time\nfor x in {1, 2} | set(y): z.shuffle(x)\nhash(x)"
    )
    assert other_draws(path) == {"random", "shuffle"}
    assert sets_gone_through(path) == {"{1, 2} | set(y)"}
    assert of_the_real_world(path) == {"os", "time", "hash"}


def test_a_seed_replays_exactly_also_in_another_process() -> None:
    """The other one hashes texts otherwise."""
    here = [simulate(seed) for seed in SEEDS]
    assert simulate(SEEDS[0]).trace == here[0].trace
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    environment["PYTHONHASHSEED"] = "12345" if os.environ.get("PYTHONHASHSEED") != "12345" else "1"
    there = ran(
        [sys.executable, "-c", HASHES.format(seeds=SEEDS)],
        cwd=ROOT,
        env=environment,
        check=True,
        timeout=1_200,
    ).stdout.split()
    assert there == [result.trace_hash for result in here]


def test_seeds_differ() -> None:
    assert simulate(23).trace_hash != simulate(34).trace_hash
