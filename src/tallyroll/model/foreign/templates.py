"""Templates of keys: texts with expressions in braces.

state:{detail.state}     what the expression finds in the message, which must be a text
hour:{%H}                of the event's time, in UTC; the letters are those of strftime
{{ and }}                braces
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tallyroll.errors import UsageError
from tallyroll.model.foreign.expressions import Expression, compiled

TIME_PARTS = {
    "%Y": "{at:%Y}",
    "%m": "{at:%m}",
    "%d": "{at:%d}",
    "%H": "{at:%H}",
    "%M": "{at:%M}",
    "%j": "{at:%j}",
    "%u": "{at:%u}",
}
_PIECE = re.compile(r"[^{}]+|\{\{|\}\}|[{}]")
_TIME_PART = re.compile("%.?")


@dataclass(frozen=True, slots=True)
class TimeFormat:
    """A placeholder for parts of the event's time."""

    text: str

    def value(self, ts: int) -> str:
        """The parts of a time (ms), in UTC."""
        at = datetime.fromtimestamp(ts // 1000, UTC)
        return _TIME_PART.sub(lambda part: TIME_PARTS[part[0]].format(at=at), self.text)


@dataclass(frozen=True, slots=True)
class Template:
    """A compiled template: texts, and what stands between them."""

    name: str
    parts: tuple[str | Expression | TimeFormat, ...]

    def key(self, document: Any, ts: int) -> str:
        """The key for a message's document and its event's time (ms). Raises Rejected
        (mapping-failed).
        """
        return "".join([self._text(part, document, ts) for part in self.parts])

    def _text(self, part: str | Expression | TimeFormat, document: Any, ts: int) -> str:
        if isinstance(part, str):
            return part
        if isinstance(part, TimeFormat):
            return part.value(ts)
        found = part.required_text(document)
        if not found:
            raise part.failed(f"finds an empty text in {part.text!r}")
        return found


def template_of(name: str, text: str) -> Template:
    """The template in a text. Raises UsageError, which names it."""
    parts: list[str | Expression | TimeFormat] = []
    at = 0
    while at < len(text):
        match = _PIECE.match(text, at)
        assert match
        piece = match[0]
        if piece == "{":
            part, at = _placeholder(name, text, at + 1)
            parts.append(part)
            continue
        if piece == "}":
            raise UsageError(f"{name} {text!r}: '}}' closes nothing; as a text it is '}}}}'")
        parts.append(piece[0] if piece in ("{{", "}}") else piece)
        at = match.end()
    return Template(name, tuple(parts))


def _placeholder(name: str, text: str, begin: int) -> tuple[Expression | TimeFormat, int]:
    """The placeholder whose content begins at `begin`, and where the text goes on.

    It ends at the first brace up to which it is an expression: braces may be in it, too.
    """
    end = text.find("}", begin)
    if end < 0:
        raise UsageError(f"{name} {text!r}: '{{' is not closed; as a text it is '{{{{'")
    if text[begin] == "%":
        return _time_format(name, text, text[begin:end]), end + 1
    failed: UsageError | None = None
    while end >= 0:
        try:
            return compiled(name, text[begin:end], text), end + 1
        except UsageError as error:
            failed = failed or error
            end = text.find("}", end + 1)
    assert failed
    raise failed


def _time_format(name: str, text: str, content: str) -> TimeFormat:
    for part in _TIME_PART.findall(content):
        if part not in TIME_PARTS:
            raise UsageError(
                f"{name} {text!r}: {part!r} is no part of a time: give {', '.join(TIME_PARTS)}"
            )
    return TimeFormat(content)
