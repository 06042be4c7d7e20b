"""The commands in the documents and in the texts of the code, and whether they would be accepted.

`aws ...` is judged by botocore's models of the services: the service, its operation, the
parameters, their types, and those that are required. `tallyroll ...` is judged by the command's
own parser. Nothing runs.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cyclopts import App, CycloptsError, MissingArgumentError

from tallyroll.cli.app import tree
from tests.cli.reference import COMMANDS
from tests.docs.aws_commands import CommandRefused, check_aws
from tests.docs.walks import ROOT, blocks_of

SOURCES = ROOT / "src" / "tallyroll"
DOCUMENTS = [
    *(path for path in sorted(ROOT.glob("*.md")) if path.name != "CHANGELOG.md"),
    *sorted((ROOT / "docs").glob("*.md")),
]
_INLINE = re.compile(r"`((?:aws|tallyroll) [^`]+)`")
_NAMED = re.compile(r"(?:^|[\s/])(?:aws|tallyroll) ")
_FENCED = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
_MODULE = "python -m tallyroll.cli "
_NESTED = re.compile(r"\$\([^()]*\)")
_ENDS = {"|", "||", "&&", ";", "&", "(", ")"}
_REDIRECTS = {">", ">>", "<"}
# What a reader puts in the place of a name in capitals.
_FILLED_IN = {"--reason": "too-late", "--since": "-1h", "--until": "-1h"}
_OWN_OPTIONS = ("--name", "--json")


@dataclass(frozen=True)
class Command:
    """A command line: where it is written, and its words. One `within` a sentence may name the
    command only, without its arguments.
    """

    place: str
    words: tuple[str, ...]
    within: bool = False

    def __str__(self) -> str:
        return f"{self.place}: {shlex.join(self.words)}"


def in_documents() -> Iterator[Command]:
    """The commands in blocks and sentences of all documents."""
    for path in DOCUMENTS:
        for block in blocks_of(path):
            if block.language == "sh":
                yield from of_shell(block.place, block.text)
            elif block.language == "text":
                yield from _of_help(block.place, block.text)
        prose = _FENCED.sub("", path.read_text("utf-8"))
        yield from of_sentences(path.name, prose)


def in_code() -> Iterator[Command]:
    """The commands in texts that the code prints, such as the remedies of `doctor`."""
    for path in sorted(SOURCES.rglob("*.py")):
        place = str(path.relative_to(SOURCES))
        for text in texts_of(ast.parse(path.read_text("utf-8"))):
            yield from of_sentences(place, text)
            if text.lstrip().startswith("aws "):
                yield from of_shell(place, text)


def texts_of(tree: ast.AST) -> Iterator[str]:
    """The texts in a module, with `X` in the place of whatever is filled in."""
    for node in ast.iter_child_nodes(tree):
        text = _text(node) if isinstance(node, ast.expr) else None
        if text is None:
            yield from texts_of(node)
        else:
            yield re.sub(r"\{\w*\}", "X", re.sub(r"\{(units|shards)\}", "8000", text))


def _text(node: ast.expr) -> str | None:
    match node:
        case ast.Constant(str() as text):
            return text
        case ast.JoinedStr(parts):
            return "".join(_text(part) or "X" for part in parts)
        case ast.BinOp(left, ast.Add(), right):
            texts = _text(left), _text(right)
            return None if texts == (None, None) else "".join(text or "X" for text in texts)
    return None


def of_sentences(place: str, prose: str) -> Iterator[Command]:
    """The commands between backticks."""
    for text in _INLINE.findall(prose):
        for found in of_shell(place, " ".join(text.split())):
            yield Command(found.place, found.words, within=True)


def of_shell(place: str, script: str) -> Iterator[Command]:
    """The commands in a script of a shell."""
    for line in re.sub(r"\\\n\s*", " ", script).replace(_MODULE, "tallyroll ").splitlines():
        if not _NAMED.search(line):
            continue
        lexer = shlex.shlex(_NESTED.sub("0", line), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        skip = False
        for word in (*lexer, ";"):
            if skip or word in _REDIRECTS:
                skip = not skip
            elif word in _ENDS:
                if words and Path(words[0]).name in ("aws", "tallyroll"):
                    yield Command(place, (Path(words[0]).name, *words[1:]))
                words = []
            else:
                words.append(word)


def _of_help(place: str, text: str) -> Iterator[Command]:
    """The examples in a command's help: indented lines, where many blanks begin a remark."""
    for line in text.splitlines():
        example = re.match(r"  ((?:[^│]*\| )?tallyroll .*)", line)
        if example:
            yield from of_shell(place, re.split(r" {3,}", example[1])[0])


def check(command: Command) -> None:
    """Raises CommandRefused with the reason if a command would be refused."""
    program, *arguments = command.words
    if program == "aws":
        check_aws(arguments)
    else:
        _check_own(arguments, named_only=command.within)


def _check_own(arguments: list[str], *, named_only: bool) -> None:
    top = _tree()
    rest = _without_own(arguments)
    try:
        command, _, _ = top.parse_args(rest)
    except MissingArgumentError as error:
        if not (named_only and tuple(rest) == (error.command_chain or ())):
            raise CommandRefused(str(error)) from None
        return
    except (CycloptsError, SystemExit) as error:
        raise CommandRefused(str(error)) from None
    if command == top.help_print and not (named_only and _is_group(rest)):
        raise CommandRefused("no such command")


@cache
def _tree() -> App:
    """All commands. They are named, since a group that is not stays described by its summary."""
    return tree(COMMANDS)


def _is_group(words: list[str]) -> bool:
    commands = _tree()
    for word in words:
        if word.startswith("-") or word not in commands:
            return False
        commands = commands[word]
    return True


def _without_own(arguments: list[str]) -> list[str]:
    """The arguments without those that every command takes."""
    rest, left = [], list(arguments)
    while left:
        word = left.pop(0)
        if word == "--name":
            del left[:1]
        elif word not in _OWN_OPTIONS:
            rest.append(word)
            if word in _FILLED_IN and left and left[0].isupper():
                rest.append(_FILLED_IN[word])
                del left[:1]
    return rest
