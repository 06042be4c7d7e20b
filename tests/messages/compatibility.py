"""What may change in a schema within its version: the rule of docs/messages.md, as code.

Producers hold old copies of what they send (`SENT`), consumers old copies of what they receive
(`RECEIVED`). So a schema of messages may accept more, and one of answers may promise more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tallyroll.operations.schemas import SCHEMAS, file_name, schema_text

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "docs" / "schemas"
PUBLISHED = Path(__file__).parent / "published"
SENT = ("event", "packet", "compressed", "referring", "message", "retraction")
RECEIVED = ("rejection", "problem")

_WORDS = frozenset({"description", "title", "examples", "$comment"})
_HIGHEST = frozenset({"maximum", "maxLength", "maxItems"})
_LOWEST = frozenset({"minimum", "minLength", "minItems"})
_INNER = frozenset({"not", "if", "then", "else", "items"})
_LISTS = frozenset({"anyOf", "prefixItems"})


def breaks(old: Any, new: Any, *, sent: bool, path: str = "#") -> Iterator[str]:
    """What in `new` breaks those who hold `old`: producers if it is `sent`, else consumers.

    Whatever this code does not know to be harmless is named.
    """
    if not isinstance(old, dict) or not isinstance(new, dict):
        if old != new:
            yield f"{path}: {old!r} became {new!r}"
        return
    for word in sorted((old.keys() | new.keys()) - _WORDS):
        here = f"{path}/{word}"
        if word in ("properties", "$defs"):
            yield from _members(old.get(word, {}), new.get(word, {}), sent=sent, path=here)
        elif word == "required":
            yield from _required(old.get(word, []), new.get(word, []), sent=sent, path=here)
        elif word in ("const", "enum") and sent:
            yield from _values(old, new, path=here)
        elif word == "enum":
            lost = set(old.get(word, [])) - set(new.get(word, []))
            yield from (f"{here}: {value!r} is gone" for value in sorted(lost))
        elif word in old and word in new:
            yield from _rule(word, old[word], new[word], sent=sent, path=here)
        elif word in {*_INNER, *_LISTS, "const"} or (word in new) is sent:
            yield f"{here}: was {'taken away' if word in old else 'added'}"


def _rule(word: str, old: Any, new: Any, *, sent: bool, path: str) -> Iterator[str]:
    """What breaks in a rule that both have."""
    if word in _HIGHEST | _LOWEST:
        is_wider = new > old if word in _HIGHEST else new < old
        if new != old and is_wider is not sent:
            yield f"{path}: {old} became {new}"
    elif word in _LISTS:
        yield from _each(old, new, sent=sent, path=path, may_grow=sent and word == "anyOf")
    elif word in ("not", "if"):  # one refuses what it accepts, the other decides what else holds
        if old != new:
            yield f"{path}: changed"
    else:
        yield from breaks(old, new, sent=sent, path=path)


def _values(old: dict[str, Any], new: dict[str, Any], *, path: str) -> Iterator[str]:
    """No value that producers send may go: a constant is a list of one."""

    def allowed(schema: dict[str, Any]) -> list[Any] | None:
        return [schema["const"]] if "const" in schema else schema.get("enum")

    before, now = allowed(old), allowed(new)
    if now is not None and (before is None or any(value not in now for value in before)):
        yield f"{path}: {before!r} became {now!r}"


def _members(old: dict[str, Any], new: dict[str, Any], *, sent: bool, path: str) -> Iterator[str]:
    """Members may be added; none may go."""
    for name, schema in old.items():
        if name not in new:
            yield f"{path}/{name}: was taken away"
        else:
            yield from breaks(schema, new[name], sent=sent, path=f"{path}/{name}")


def _required(old: list[str], new: list[str], *, sent: bool, path: str) -> Iterator[str]:
    """Producers need send no more, and consumers get no less."""
    changed = set(new) - set(old) if sent else set(old) - set(new)
    yield from (f"{path}: {name!r}" for name in sorted(changed))


def _each(
    old: list[Any], new: list[Any], *, sent: bool, path: str, may_grow: bool
) -> Iterator[str]:
    if len(old) > len(new) or (len(old) < len(new) and not may_grow):
        yield f"{path}: {len(old)} became {len(new)}"
    for index, (one, other) in enumerate(zip(old, new, strict=False)):
        yield from breaks(one, other, sent=sent, path=f"{path}/{index}")


def read(folder: Path, name: str) -> dict[str, Any]:
    """A schema in a folder."""
    found = json.loads((folder / file_name(name)).read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def write() -> None:
    """Write the committed schemas anew. A version that is new is published as it is now."""
    for name in SCHEMAS:
        for folder in (COMMITTED, PUBLISHED):
            path = folder / file_name(name)
            if folder is COMMITTED or not path.exists():
                path.write_text(schema_text(name), encoding="utf-8")
