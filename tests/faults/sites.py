"""Every place in the core that calls AWS, found in its source, and which of them is calling now."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parents[2]
CORE = ROOT / "src" / "tallyroll"
TESTS = ROOT / "tests"
DOOR = "adapters/aws/client.py"
# No pipeline calls this one: `tallyroll conform` judges the endpoint's answers, whatever they are.
JUDGED = "adapters/dynamodb/tools/trial.py"
# These look at a deployment or an account for `doctor` and `preflight`, which report a call that
# fails as not known. tests/contract/test_stack.py and test_account.py let each call fail.
LOOKED_AT = frozenset(
    {"adapters/aws/stack.py", "adapters/aws/account.py", "adapters/dynamodb/tools/canary.py"}
)
VERBS = frozenset({"call", "read"})
_CALLERS = frozenset({"caller", "metrics"})  # what Callers are named, with or without underscore


@dataclass(frozen=True, slots=True, order=True)
class Site:
    """A call of AWS in the source; `ordinal` tells apart calls of one operation in one function."""

    file: str
    function: str
    operation: str
    ordinal: int = 1
    first_line: int = field(default=0, compare=False)
    last_line: int = field(default=0, compare=False)

    def __str__(self) -> str:
        ordinal = f" #{self.ordinal}" if self.ordinal > 1 else ""
        return f"{self.file}:{self.function} {self.operation}{ordinal}"


class UnreadableSite(Exception):
    """A call of AWS whose operation the source does not name."""


def sites_in(source: str, file: str) -> list[Site]:
    """The calls of AWS in one module, in their order.

    Raises UnreadableSite for one without a literal operation, or through an alias.
    """
    found = list(_walk(ast.parse(source), file, ""))
    numbers: Counter[tuple[str, str]] = Counter()
    sites = []
    for function, node, operation in found:
        numbers[function, operation] += 1
        ordinal = numbers[function, operation]
        last_line = node.end_lineno or node.lineno
        sites.append(Site(file, function, operation, ordinal, node.lineno, last_line))
    return sites


def _walk(node: ast.AST, file: str, inside: str) -> Iterator[tuple[str, ast.Call, str]]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        inside = f"{inside}.{node.name}" if inside else node.name
    called = node.func if isinstance(node, ast.Call) else None
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Attribute) and _is_door(child) and child is not called:
            raise UnreadableSite(f"{file}:{child.lineno} passes a Caller's method on")
        # A function inside a function is named as the interpreter names it.
        is_function = isinstance(child, ast.FunctionDef) and isinstance(node, ast.FunctionDef)
        yield from _walk(child, file, f"{inside}.<locals>" if is_function else inside)
    if isinstance(node, ast.Call) and isinstance(called, ast.Attribute) and _is_door(called):
        first = node.args[0] if node.args else None
        if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
            raise UnreadableSite(f"{file}:{node.lineno} names no operation")
        yield inside, node, first.value


def _is_door(attribute: ast.Attribute) -> bool:
    if attribute.attr not in VERBS:
        return False
    receiver = attribute.value
    name = receiver.attr if isinstance(receiver, ast.Attribute) else ""
    name = receiver.id if isinstance(receiver, ast.Name) else name
    return name.lstrip("_") in _CALLERS or name.endswith("caller")


@cache
def all_sites() -> tuple[Site, ...]:
    """The calls of AWS in the core, in their order."""
    return tuple(
        site
        for path in sorted(CORE.rglob("*.py"))
        if within(path) not in {DOOR, JUDGED, *LOOKED_AT}
        for site in _sites_of(within(path))
    )


@cache
def _sites_of(file: str) -> tuple[Site, ...]:
    return tuple(sites_in((CORE / file).read_text(encoding="utf-8"), file))


def within(path: Path) -> str:
    """A module of the core by its path in the package: `model/windows.py`."""
    return path.relative_to(CORE).as_posix()


def site_now() -> Site | None:
    """The site that is calling AWS on this thread; None if it is a test that calls, or what only
    looks at a deployment.
    """
    frame: FrameType | None = sys._getframe(1)
    here = str(Path(__file__).parent)
    while frame:
        path = frame.f_code.co_filename
        if path.startswith(f"{CORE}/") and path != str(CORE / DOOR):
            file = within(Path(path))
            return None if file in LOOKED_AT else _at(file, frame)
        if path.startswith(str(TESTS)) and not path.startswith(here):
            return None
        if path.startswith(here) and Path(path).name not in _BETWEEN:
            return None
        frame = frame.f_back
    return None


_BETWEEN = frozenset({"sites.py", "consistency.py", "injector.py", "clients.py", "test_planted.py"})


def _at(file: str, frame: FrameType) -> Site:
    function = frame.f_code.co_qualname.partition(".<locals>.<")[0]  # in a comprehension
    for site in _sites_of(file):  # to read all would take a process some seconds
        if site.function == function and site.first_line <= frame.f_lineno <= site.last_line:
            return site
    raise UnreadableSite(f"{file}:{frame.f_lineno} calls AWS where the source shows no call")
