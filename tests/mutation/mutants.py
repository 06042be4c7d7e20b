"""What a mutant is, which ones may survive, and why."""

from __future__ import annotations

import io
import re
import tokenize
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent
MODULES = FOLDER / "modules.toml"
SURVIVORS = FOLDER / "survivors.toml"
KILLED = frozenset({"killed", "timeout", "segfault", "suspicious", "caught by type check"})
SURVIVED = frozenset({"survived", "no tests"})
_NAME = re.compile(r"(?:.*\.)?x(?:ǁ(?P<owner>\w+)ǁ|_)(?P<function>\w+)__mutmut_\d+")
_STRING_TOKENS = frozenset(
    number
    for name in ("STRING", "FSTRING_MIDDLE", "TSTRING_MIDDLE")
    if (number := getattr(tokenize, name, None)) is not None
)


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """What a mutant changes: a function of a module, the code as it stands and as the mutant has
    it, without line breaks and indentation.
    """

    module: str
    function: str
    was: str
    now: str

    def __str__(self) -> str:
        return f"{self.module}.{self.function}\n  - {self.was}\n  + {self.now}"


@dataclass(frozen=True, slots=True)
class Argued:
    """The survivors that are argued: single changes, and kinds of changes by the names that
    `kind_of` gives, each with its reason.
    """

    changes: Mapping[Change, str]
    kinds: Mapping[str, str]

    def reason(self, change: Change) -> str:
        """Why a mutant may survive; nothing if that is not argued."""
        return self.changes.get(change) or self.kinds.get(kind_of(change), "")


@dataclass(slots=True)
class Tally:
    """How many of a module's mutants were killed, and which survived."""

    module: str
    killed: int = 0
    survivors: list[Change] = field(default_factory=list)

    @property
    def mutants(self) -> int:
        """How many there were."""
        return self.killed + len(self.survivors)

    @property
    def percent(self) -> float:
        """How many of 100 were killed."""
        return 100 * self.killed / self.mutants if self.mutants else 100.0


def read_modules(path: Path = MODULES) -> dict[str, list[str]]:
    """The test files, from the root of the repository, that must catch the mutants of a module."""
    known = tomllib.loads(path.read_text(encoding="utf-8"))
    return {module: [f"tests/{each}.py" for each in one["tests"]] for module, one in known.items()}


def read_argued(path: Path = SURVIVORS) -> Argued:
    """The survivors that are argued. Raises ValueError for one that is given twice or without a
    reason.
    """
    said = tomllib.loads(path.read_text(encoding="utf-8"))
    changes: dict[Change, str] = {}
    for entry in said.get("survivor", ()):
        change = Change(entry["module"], entry["function"], entry["was"], entry["now"])
        if change in changes or not entry["reason"].strip():
            raise ValueError(f"{path.name}: given twice or without a reason: {change}")
        changes[change] = entry["reason"]
    return Argued(changes, said.get("kinds", {}))


def statuses_in(results: str) -> dict[str, str]:
    """The status of each mutant, by its name, in what `mutmut results --all true` prints."""
    pairs = (line.strip().rsplit(": ", 1) for line in results.splitlines() if ": " in line)
    return {name: status for name, status in pairs if _NAME.fullmatch(name)}


def change_in(name: str, shown: str) -> Change:
    """What a mutant of this name changes, by the diff that `mutmut show` prints."""
    found = _NAME.fullmatch(name)
    assert found, name
    lines = [line for line in shown.splitlines() if not line.startswith(("---", "+++", "#"))]
    function = ".".join(part for part in (found["owner"], found["function"]) if part)
    module = name.partition(".x")[0].removeprefix("tallyroll.")
    return Change(module, function, _joined(lines, "-"), _joined(lines, "+"))


def _joined(lines: Iterable[str], sign: str) -> str:
    return " ".join(line[1:].strip() for line in lines if line.startswith(sign))


def kind_of(change: Change) -> str:
    """The kind of a change that is argued by kind: `words` if it changes the letters of a text for
    people, one with a space in it; `strict` if zip asserts equal lengths no more, or as little as
    before; or "".
    """
    if _words_alone(change):
        return "words"
    was, now = (re.sub(r",\s*(strict=\w+)?\s*\)", ")", code) for code in (change.was, change.now))
    return "strict" if was == now and "strict=True" not in change.now else ""


def _words_alone(change: Change) -> bool:
    was, now = _tokens(change.was), _tokens(change.now)
    differing = [pair for pair in zip(was, now, strict=False) if pair[0] != pair[1]]
    if len(was) != len(now) or len(differing) != 1:
        return False
    (kind, text), (_, changed) = differing[0]
    same = changed.replace("XX", "").casefold() == text.replace("XX", "").casefold()
    return kind in _STRING_TOKENS and " " in text.strip() and same


def _tokens(code: str) -> list[tuple[int, str]]:
    """The tokens of a line, which may be a part of a statement."""
    found: list[tuple[int, str]] = []
    with suppress(tokenize.TokenError, IndentationError):
        found.extend(
            (token.type, token.string)
            for token in tokenize.generate_tokens(io.StringIO(code).readline)
        )
    return found


def judge(tallies: Iterable[Tally], argued: Argued) -> tuple[list[Change], list[Change]]:
    """The survivors that nothing argues, and the argued ones of these modules that do not survive
    any more.
    """
    tallies = list(tallies)
    survivors = {change for tally in tallies for change in tally.survivors}
    modules = {tally.module for tally in tallies}
    unargued = sorted(change for change in survivors if not argued.reason(change))
    stale = sorted(
        change for change in argued.changes if change.module in modules and change not in survivors
    )
    return unargued, stale


def table(tallies: Sequence[Tally], argued: Argued) -> str:
    """The modules, their mutants, and how many of them were killed, survived, and are argued."""
    rows: list[tuple[str, ...]] = [("module", "mutants", "killed", "survived", "argued", "percent")]
    for tally in tallies:
        reasons = sum(bool(argued.reason(change)) for change in tally.survivors)
        numbers = (tally.mutants, tally.killed, len(tally.survivors), reasons)
        rows.append((tally.module, *map(str, numbers), f"{tally.percent:.1f}"))
    return "\n".join(f"{row[0]:12}" + "".join(f"{each:>10}" for each in row[1:]) for row in rows)
