"""Settings as the texts of environment variables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tallyroll.errors import SettingsError
from tallyroll.model.foreign.mappings import are_fields

PREFIX = "TALLYROLL_"


def parse(name: str, text: str, default: Any) -> Any:
    """The value that `text` says, of the type of the setting's default."""
    wanted = 'JSON, {"name": number}'
    try:
        match default:
            case str():
                return text
            case bool():
                wanted = "true or false"
                return {"true": True, "false": False, "1": True, "0": False}[text.lower()]
            case int():
                wanted = "a whole number"
                return int(text)
            case _ if name == "mapping":
                wanted = 'JSON, {"key": "expression"} or {"keys": ["template", ...]}'
                return _fields(text)
            case _ if name == "tags":
                wanted = 'JSON, {"team": "elections"}'
                return _by_name(text, str)
            case _:
                return _by_name(text, int)
    except (KeyError, ValueError):
        raise SettingsError(f"{PREFIX}{name.upper()} {text!r}: must be {wanted}") from None


def _by_name(text: str, kind: type) -> dict[str, Any]:
    """A JSON object whose values are of this kind."""
    values = json.loads(text)
    if not isinstance(values, dict) or not all(type(value) is kind for value in values.values()):
        raise ValueError(text)
    return values


def _fields(text: str) -> dict[str, Any]:
    """A JSON object with the fields of a mapping."""
    values: dict[str, Any] = json.loads(text)
    if not are_fields(values):
        raise ValueError(text)
    return values


def text_of(value: object) -> str:
    """The text of a value in an environment variable."""
    if isinstance(value, Mapping):
        return json.dumps(dict(value), separators=(",", ":"))
    return str(value).lower() if isinstance(value, bool) else str(value)
