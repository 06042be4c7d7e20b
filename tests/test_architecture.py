"""The arrows between the parts, imports without effect, and the sizes that keep files readable."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.processes import ran
from tests.names import CORE, EXPORTED_TWICE, repeated

ROOT = Path(__file__).parents[1]
OUTSIDE = {"functions", "infra", "local", "release", "trial", "benchmarks", "tests"}
PARTS = [CORE, *(ROOT / name for name in sorted(OUTSIDE))]
SDK = {"boto3", "botocore"}
LINES_MAX, FUNCTION_LINES_MAX = 400, 70
# `reasons` is at the root so that it is found by its name. `model` has a module for each kind of
# value that is sent or stored.
ROOT_NAMES_MAX, PACKAGE_MODULES_MAX = 23, 19


def sources(*folders: Path) -> list[Path]:
    found = [path for folder in folders for path in folder.rglob("*.py") if folder.exists()]
    return sorted(path for path in found if "__pycache__" not in path.parts)


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def inside(path: Path) -> str:
    """A module of the core by its path in the package."""
    return path.relative_to(CORE).as_posix()


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported(path: Path) -> set[str]:
    """The top-level packages that a module imports, also inside its functions."""
    names: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add("tallyroll" if node.level else (node.module or "").partition(".")[0])
    return names


# --- arrows


def test_there_is_something_to_look_at() -> None:
    assert CORE / "ingest" / "writer.py" in sources(CORE)
    assert len(sources(CORE)) >= 130
    assert imported(CORE / "adapters" / "aws" / "client.py") & SDK


def imports_kept(root: Path) -> tuple[bool, str]:
    """Whether the contracts of pyproject.toml hold for the sources below `root`, and the report."""
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache", "--no-logo"]
    paths = os.pathsep.join([str(root / "src"), str(root)])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = ran(command, cwd=root, env=environment, timeout=600)
    return done.returncode == 0, done.stdout + done.stderr


def test_imports_keep_their_contracts() -> None:
    kept, report = imports_kept(ROOT)
    assert kept, report


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        ("model/windows.py", "import tallyroll.lifecycle.roller", "Imports go down"),
        ("reads/top.py", "import tallyroll.ingest.cost", "Imports go down"),
        ("ports/paging.py", "import tallyroll.ports.catalog_cache", None),
        ("model/sharding.py", "import tallyroll.model.records", "No circles"),
        ("adapters/system.py", "import tallyroll.reads.top", "Adapters know ports"),
        ("lifecycle/roller.py", "import tallyroll.client.packing", "The lifecycle knows"),
        ("operations/redrive.py", "import tallyroll.adapters.aws.sqs", "Adapters are made"),
        ("ingest/writer.py", "import boto3", "Only adapters import the SDK"),
        ("resources.py", "import aws_cdk", "Only constructs import the CDK"),
        ("pipeline/__init__.py", "import aws_lambda_powertools", "telemetry imports Powertools"),
        ("planning/partitions.py", "import tallyroll.ingest.cost", "Planning is arithmetic"),
        ("reads/reader.py", "import local.aws.embedded", "The package stands alone"),
        ("reads/reader.py", "from tallyroll import __version__", "from the package's root"),
    ],
)
def test_a_broken_contract_is_found(
    tmp_path: Path, module: str, line: str, broken: str | None
) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=ignored)
    shutil.copytree(ROOT / "functions", tmp_path / "functions", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    path = tmp_path / "src" / "tallyroll" / module
    path.write_text(f"{path.read_text()}\n{line}\n")

    kept, report = imports_kept(tmp_path)

    found = re.findall(r"^(.*) BROKEN", report, re.MULTILINE)
    assert kept is (broken is None), report
    assert broken is None or any(broken in name for name in found), report


def test_functions_are_thin() -> None:
    """They import nothing of `functions`: each handler also runs where no such package is."""
    own = {"tallyroll", "aws_lambda_powertools", "boto3", *sys.stdlib_module_names}
    others = {named(path): imported(path) - own for path in sources(ROOT / "functions")}
    assert {path: names for path, names in others.items() if names} == {}


def test_constructs_know_the_core_only() -> None:
    others = OUTSIDE - {"infra", "release"}
    assert [named(path) for path in sources(ROOT / "infra") if imported(path) & others] == []


# --- imports without effect

WATCH = """
import importlib, json, os, socket, sys, threading
asked = []
class Watched(dict):
    def get(self, name, default=None):
        asked.append(name)
        return super().get(name, default)
    def __getitem__(self, name):
        asked.append(name)
        return super().__getitem__(name)
    def __contains__(self, name):
        asked.append(name)
        return super().__contains__(name)
class Unconnected(socket.socket):
    def connect(self, address):
        raise AssertionError(f"an import connected to {address}")
os.environ = Watched()
socket.socket = Unconnected
for module in sys.argv[1].split():
    importlib.import_module(module)
ours = [name for name in asked if name.startswith(("TALLYROLL_", "AWS_"))]
boto3 = sys.modules.get("boto3")
print(json.dumps({
    "environment": dict(os.environ),
    "asked": ours,
    "threads": threading.active_count(),
    "sdk": boto3 is not None or "botocore" in sys.modules,
    "session": boto3 is not None and boto3.DEFAULT_SESSION is not None,
}))
"""


def after_importing(*modules: str) -> dict[str, object]:
    """What a fresh process with an empty environment finds after these imports."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT), *sys.path])
    command = [sys.executable, "-c", WATCH, " ".join(modules)]
    done = ran(command, env={"PYTHONPATH": paths}, timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


NO_EFFECT = {"environment": {}, "asked": [], "threads": 1, "session": False}


def test_importing_a_use_case_does_not_import_the_sdk() -> None:
    modules = [
        "tallyroll.ingest.writer",
        "tallyroll.lifecycle.roller",
        "tallyroll.lifecycle.cleanup",
        "tallyroll.lifecycle.compactor",
        "tallyroll.lifecycle.dropper",
        "tallyroll.reads.reader",
        "tallyroll.reads.http",
        "tallyroll.adapters.memory",
        "tallyroll.resources",
    ]
    found = after_importing(*modules)
    assert found == {**NO_EFFECT, "sdk": False}


def test_what_constructs_import_of_the_core_does_not_import_the_sdk() -> None:
    modules = {
        node.module
        for path in sources(ROOT / "infra", CORE / "cdk")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tallyroll.")
    }
    assert "tallyroll.resources" in modules
    core = (module for module in modules if module and not module.startswith("tallyroll.cdk"))
    found = after_importing(*core)
    assert found == {**NO_EFFECT, "sdk": False}


def test_importing_the_whole_core_has_no_effect() -> None:
    # The CDK starts Node.js. Powertools, which telemetry imports, asks whether it runs in Lambda;
    # moto, which the package for users' tests imports, asks for its settings.
    apart = sources(CORE / "cdk", CORE / "testing")
    others = set(sources(CORE)) - {*apart, CORE / "telemetry.py"}
    paths = [path.relative_to(CORE.parent) for path in sorted(others)]
    names = [".".join(path.with_suffix("").parts) for path in paths]
    found = after_importing(*(name for name in names if not name.endswith("__main__")))
    assert {name: found[name] for name in NO_EFFECT} == NO_EFFECT


def test_importing_a_handler_reads_no_settings_and_makes_no_client() -> None:
    handlers = [named(path)[:-3].replace("/", ".") for path in sources(ROOT / "functions")]
    handlers = [handler for handler in handlers if handler.endswith(".handler")]
    assert "functions.writer.handler" in handlers
    found = after_importing(*handlers)
    asked = found["asked"]
    assert isinstance(asked, list)
    assert [name for name in asked if name.startswith("TALLYROLL_")] == []
    assert found["session"] is False


# --- sizes


def test_packages_are_small() -> None:
    def is_package(path: Path) -> bool:
        return (path / "__init__.py").is_file()

    def entries(folder: Path) -> list[str]:
        found = [each for each in folder.iterdir() if each.suffix == ".py" or is_package(each)]
        return sorted(each.name for each in found if not each.name.startswith("_"))

    assert len(entries(CORE)) <= ROOT_NAMES_MAX
    packages = [folder for folder in CORE.rglob("*") if is_package(folder)]
    assert len(packages) >= 12
    full = {named(each): len(entries(each)) for each in packages}
    assert {name: number for name, number in full.items() if number > PACKAGE_MODULES_MAX} == {}


def test_files_are_short() -> None:
    lines = {named(path): len(path.read_text().splitlines()) for path in sources(*PARTS)}
    assert {path: count for path, count in lines.items() if count > LINES_MAX} == {}


def functions_of(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno
            yield node.name, node.end_lineno - node.lineno + 1


def test_functions_are_short() -> None:
    lengths = [
        (named(path), name, lines) for path in sources(*PARTS) for name, lines in functions_of(path)
    ]
    assert len(lengths) > 3_000
    assert [each for each in lengths if each[2] > FUNCTION_LINES_MAX] == []


# --- names


def test_a_class_with_the_name_of_another_is_found(tmp_path: Path) -> None:
    assert repeated(CORE) == EXPORTED_TWICE
    (tmp_path / "a.py").write_text("class Table: ...\nclass _Own: ...\n")
    (tmp_path / "b.py").write_text("class Table: ...\nclass _Own: ...\n")
    assert repeated(tmp_path) == {"Table": {"a.py", "b.py"}}


# --- decisions


def test_nothing_in_the_core_uses_the_builtin_hash() -> None:
    """It differs from process to process."""

    def calls_hash(path: Path) -> bool:
        calls = [node.func for node in ast.walk(tree(path)) if isinstance(node, ast.Call)]
        return any(isinstance(call, ast.Name) and call.id == "hash" for call in calls)

    assert [path.name for path in sources(CORE) if calls_hash(path)] == []
