"""The kinds of values of settings and options: each reads a value or its text, or refuses it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from tallyroll.errors import Rejected, SettingsError, UsageError
from tallyroll.limits import (
    ARCHIVE_DAYS_MAX,
    ARCHIVE_DAYS_MIN,
    LOG_KEYS_MAX,
    LOG_RATE_MAX,
    LOG_SETTING_BYTES_MAX,
    SHARDS_MAX,
    WINDOW_SECONDS_MAX,
)
from tallyroll.model.foreign.mappings import Fields, are_fields
from tallyroll.model.formats.fields import check_key
from tallyroll.model.windows import check_length
from tallyroll.settings.tags import check_tags
from tallyroll.settings.texts import PREFIX, text_of

PORT_MAX = 65_535
CAPACITIES = ("write", "read", "cold_write", "cold_read")


@dataclass(frozen=True, slots=True)
class Kind:
    """What to give instead of a wrong value; and what reads a value into its own type. It raises
    ValueError, TypeError or KeyError, or UsageError with a message of its own.
    """

    remedy: str
    read: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number from `least` to `most`."""

    least: int
    most: int
    unit: str = ""

    @property
    def remedy(self) -> str:
        """The range."""
        return f"give a whole number from {self.least} to {self.most} {self.unit}".rstrip()

    def read(self, value: object) -> int:
        """The number."""
        number = whole(value)
        if not self.least <= number <= self.most:
            raise ValueError(value)
        return number


def setting(default: Any, kind: Kind | Whole, text: str, **more: Any) -> Any:
    """A field with its kind and its text."""
    metadata = {"kind": kind, "text": text, **more}
    if isinstance(default, Mapping):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Described:
    """A dataclass of fields that `setting` makes; each value is read by its kind."""

    error: ClassVar[type[UsageError]] = SettingsError

    def __post_init__(self) -> None:
        for each in fields(self):
            object.__setattr__(self, each.name, self.read(each.name, getattr(self, each.name)))

    @classmethod
    def read(cls, name: str, value: object) -> Any:
        """The value of a field, which may be a text. Raises `error` with the remedy."""
        kind = cls.__dataclass_fields__[name].metadata["kind"]
        try:
            return kind.read(value)
        except UsageError as refused:
            raise cls.error(f"{cls.named(name)} {refused}") from None
        except (KeyError, TypeError, ValueError):
            lost = isinstance(value, str) and value[:1] in {"{", "["} and '"' not in value
            quotes = "; the value has lost its double quotes: put it in single ones" if lost else ""
            raise cls.error(f"{cls.named(name)} {value!r}: {kind.remedy}{quotes}") from None

    @staticmethod
    def named(name: str) -> str:
        """A field's name for users: its environment variable."""
        return PREFIX + name.upper()


def whole(value: object) -> int:
    """A whole number, which may be a text. Raises ValueError or TypeError."""
    if isinstance(value, float) and value.is_integer():
        return int(value)  # the CDK's numbers are JavaScript's
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError(value)
    return int(value)


def one_of(*choices: str | int) -> Kind:
    """One of several texts or numbers."""
    known = {str(choice): choice for choice in choices}

    def read(value: object) -> str | int:
        if isinstance(value, bool):
            raise TypeError(value)
        return known[str(value)]

    return Kind(f"give one of {', '.join(known)}", read)


def text(pattern: str, remedy: str, *, empty: bool = True) -> Kind:
    """A text that fully matches a pattern; or an empty one, if that may be."""

    def read(value: object) -> str:
        if not isinstance(value, str) or not (
            (empty and not value) or re.fullmatch(pattern, value)
        ):
            raise ValueError(value)
        return value

    return Kind(remedy, read)


def optional(kind: Whole) -> Kind:
    """A value of this kind, or None."""
    return Kind(kind.remedy, lambda value: None if value is None else kind.read(value))


def table(remedy: str, read: Callable[[Mapping[str, Any]], Any]) -> Kind:
    """An object or its JSON."""

    def reading(value: object) -> Any:
        found = json.loads(value) if isinstance(value, str) else value
        if not isinstance(found, Mapping):
            raise TypeError(value)
        return read(dict(found))

    return Kind(remedy, reading)


def _length(value: object) -> int:
    seconds = whole(value)
    try:
        check_length(seconds)
    except UsageError:
        raise ValueError(value) from None
    return seconds


def _hot_shards(shards: Mapping[str, Any]) -> Mapping[str, int]:
    if not all(type(n) is int and 1 <= n <= SHARDS_MAX for n in shards.values()):
        raise ValueError(shards)
    return shards


def _logs(rates: Mapping[str, Any]) -> Mapping[str, int]:
    if len(rates) > LOG_KEYS_MAX:
        raise UsageError(f"names {len(rates)} keys: name at most {LOG_KEYS_MAX}")
    if (size := len(json.dumps(rates))) > LOG_SETTING_BYTES_MAX:
        raise UsageError(
            f"takes {size:,} bytes of JSON, in which other letters than those of ASCII take 6:"
            f" name keys in at most {LOG_SETTING_BYTES_MAX:,}"
        )
    for key in rates:
        try:
            check_key(key)
        except Rejected as refused:
            raise UsageError(f"{key!r}: {refused.detail}") from None
    numbers = {key: whole(rate) for key, rate in rates.items()}
    if not all(1 <= rate <= LOG_RATE_MAX for rate in numbers.values()):
        raise ValueError(rates)
    return numbers


def _capacity(units: Mapping[str, Any]) -> Mapping[str, int]:
    numbers = {name: whole(number) for name, number in units.items()}
    if numbers and (set(numbers) != set(CAPACITIES) or min(numbers.values()) < 1):
        raise ValueError(units)
    return numbers


def _expiry(value: object) -> int:
    days = whole(value)
    if days and not ARCHIVE_DAYS_MIN <= days <= ARCHIVE_DAYS_MAX:
        raise ValueError(value)
    return days


def _mapping(mapping: Mapping[str, Any]) -> Fields:
    if not are_fields(mapping):
        raise TypeError(mapping)
    if mapping:
        from tallyroll.model.foreign.mapping import check_mapping  # imports JMESPath

        try:
            check_mapping(mapping)
        except UsageError as error:
            raise UsageError(f"{text_of(mapping)}: {error}") from None
    return mapping


def _tags(tags: Mapping[str, Any]) -> Mapping[str, str]:
    if not all(isinstance(each, str) for pair in tags.items() for each in pair):
        raise TypeError(tags)
    check_tags(tags)
    return tags


def _node(value: str) -> str:
    if value and not 1 <= int(_ADDRESS.read(value).rpartition(":")[2]) <= PORT_MAX:
        raise ValueError(value)
    return value


_ADDRESS = text(r"[A-Za-z0-9][A-Za-z0-9.-]*:[0-9]{1,5}", "give HOST:PORT, such as 127.0.0.1:9042")
NODE = Kind(_ADDRESS.remedy, _node)
_SWITCH: Mapping[str, bool] = {"true": True, "false": False, "1": True, "0": False}
_CACHE_HOST = r"@[A-Za-z0-9.-]+(?::([0-9]{1,5}))?"
_CACHE_URL = re.compile(
    rf"rediss://[^\s@/:]*:(?:[^\s@/{{}}]+|\{{\{{resolve:secretsmanager:[^\s@{{}}]+\}}\}}){_CACHE_HOST}"
    r"|redis://(?:[^\s@/]*@)?(?:127\.0\.0\.1|localhost|\[::1\])(?::([0-9]{1,5}))?"
)


def _cache_url(value: str) -> str:
    """The address of a shared cache; an error does not show it, since it holds a password."""
    match = _CACHE_URL.fullmatch(value)
    ports = [int(port) for port in match.groups() if port] if match else []
    if value and (match is None or not all(1 <= port <= PORT_MAX for port in ports)):
        raise UsageError(
            "(not shown): give rediss://USER:PASSWORD@HOST:PORT, with TLS and a password, of which"
            " what is no letter, digit, - or _ is written as %XX; redis:// is for this machine"
            " alone, such as redis://127.0.0.1:6379"
        )
    return value


CACHE_URL = Kind("give rediss://USER:PASSWORD@HOST:PORT", _cache_url)
FLAG = Kind("give true or false", lambda value: _SWITCH[str(value).lower()])
ANY_TEXT = text(r"(?s).*", "give a text")
NAME = text(
    r"[a-z][a-z0-9-]{1,46}[a-z0-9]",
    "give 3 to 48 lower-case letters, digits and hyphens, a letter first",
    empty=False,
)
LENGTH = Kind(
    "give 1 to 60, or a multiple of 60 up to"
    f" {WINDOW_SECONDS_MAX // 86_400} days ({WINDOW_SECONDS_MAX})",
    _length,
)
HOT_SHARDS = table(f'give an object {{"key": N}} with each N from 1 to {SHARDS_MAX}', _hot_shards)
LOGS = table(
    f'give an object {{"key": EVENTS A SECOND}} with each number from 1 to {LOG_RATE_MAX:,}', _logs
)
CAPACITY = table(
    'give an object {"write": W, "read": R, "cold_write": W, "cold_read": R} of whole numbers'
    " from 1, or {} for tables on demand",
    _capacity,
)
MAPPING = table(
    'give an object {"key": "detail.videoId"} of JMESPath expressions, with the fields key, id,'
    " ts, value, payload, and ts_unit ms or s; for several counters, keys is a list of"
    ' templates instead of key: ["video:{detail.videoId}", "hour:{%H}"]',
    _mapping,
)
EXPIRY = Kind(
    f"give 0, or a whole number from {ARCHIVE_DAYS_MIN} to {ARCHIVE_DAYS_MAX} days", _expiry
)
TAGS = table('give an object of texts, such as {"team": "elections"}', _tags)
