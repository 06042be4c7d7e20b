"""The kinds of option values: each reads a value of the CDK's context, or refuses it."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Protocol

from tallyroll.errors import SettingsError, UsageError
from tallyroll.limits import SHARDS_MAX, WINDOW_SECONDS_MAX
from tallyroll.model.foreign.mappings import Fields, are_fields
from tallyroll.model.windows import check_length
from tallyroll.settings import CAPACITIES, Settings
from tallyroll.settings.stores import KEYSPACE
from tallyroll.settings.tags import check_tags

POLLERS_MIN, POLLERS_LEAST_MAX, POLLERS_MAX = 2, 200, 2_000


class Kind(Protocol):
    """A kind of value. Values may also be text, as `cdk -c key=value` gives them."""

    @property
    def remedy(self) -> str:
        """What to give instead of a wrong value; the end of a sentence."""
        ...

    def read(self, value: object) -> Any:
        """The value in its own type. Raises ValueError or TypeError."""
        ...


def option(default: Any, kind: Kind, doc: str) -> Any:
    """A field of options with its kind and its text."""
    metadata = {"kind": kind, "doc": doc}
    if isinstance(default, Mapping):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number from `least` to `most`; with `unset`, also None for the default."""

    least: int
    most: int
    unset: bool = False

    @property
    def remedy(self) -> str:
        """The range."""
        return f"give a whole number from {self.least} to {self.most}"

    def read(self, value: object) -> int | None:
        """The number."""
        if value is None and self.unset:
            return None
        number = _whole(value)
        if not self.least <= number <= self.most:
            raise ValueError(value)
        return number


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several texts or numbers."""

    choices: Sequence[str] | Sequence[int]

    @property
    def remedy(self) -> str:
        """The choices."""
        return f"give one of {', '.join(map(str, self.choices))}"

    def read(self, value: object) -> str | int:
        """The choice."""
        for choice in self.choices:
            if not isinstance(value, bool) and str(value) == str(choice):
                return choice
        raise ValueError(value)


@dataclass(frozen=True, slots=True)
class Flag:
    """Yes or no."""

    remedy: str = "give true or false"

    def read(self, value: object) -> bool:
        """The answer."""
        try:
            return {"true": True, "false": False}[str(value).lower()]
        except KeyError:
            raise ValueError(value) from None


@dataclass(frozen=True, slots=True)
class AutoFlag:
    """Yes, no, or `auto`: it depends on what is there."""

    remedy: str = "give auto, true or false"

    def read(self, value: object) -> bool | str:
        """The answer."""
        return "auto" if value == "auto" else Flag().read(value)


@dataclass(frozen=True, slots=True)
class Text:
    """A text that fully matches a pattern, or an empty text."""

    pattern: str
    remedy: str

    def read(self, value: object) -> str:
        """The text."""
        if not isinstance(value, str) or not (value == "" or re.fullmatch(self.pattern, value)):
            raise ValueError(value)
        return value


def ids(prefix: str, most: int = 16) -> Text:
    """The ids of parts of a VPC, separated by commas."""
    one = rf"{prefix}-[0-9a-f]{{8}}(?:[0-9a-f]{{9}})?"
    remedy = f"give 1 to {most} ids, {prefix}-..., separated by commas without blanks"
    return Text(rf"{one}(,{one}){{0,{most - 1}}}", remedy)


EMAIL = Text(r"[^@\s]+@[^@\s]+\.[^@\s]+", "give one e-mail address")
LAYER_VERSION = Text(
    r"arn:aws[a-z-]*:lambda:[a-z0-9-]+:\d{12}:layer:[a-zA-Z0-9_-]+:\d+",
    "give the ARN of a layer's version, arn:aws:lambda:REGION:ACCOUNT:layer:NAME:VERSION",
)
KMS_KEY = Text(
    r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[a-zA-Z0-9-]+",
    "give the ARN of a KMS key, arn:aws:kms:REGION:ACCOUNT:key/ID; an alias will not do",
)
JWT_ISSUER = Text(r"https://\S+", "give the issuer's https address")
JWT_AUDIENCES = Text(r"[^\s,]+(,[^\s,]+)*", "give client ids, separated by commas without blanks")
RUNBOOK_URL = Text(
    r"https?://[^\s#]+", "give the address of your copy of docs/operations.md, without #"
)
KEYSPACE_NAME = Text(
    KEYSPACE.pattern, "give 1 to 48 lower-case letters, digits and _, a letter first"
)
# A token is the id of an endpoint that the CDK makes.
ENDPOINT = Text(
    r"vpce-[0-9a-f]{8}(?:[0-9a-f]{9})?|\$\{Token\[.+\]\}",
    "give the id of an interface endpoint, vpce-...",
)


@dataclass(frozen=True, slots=True)
class Name:
    """A pipeline's name."""

    remedy: str = "give 3 to 48 lower-case letters, digits and hyphens, a letter first"

    def read(self, value: object) -> str:
        """The name."""
        try:
            return Settings(name=str(value)).name
        except SettingsError:
            raise ValueError(value) from None


@dataclass(frozen=True, slots=True)
class Length:
    """The length of a window in seconds."""

    remedy: str = (
        "give 1 to 60, or a multiple of 60 up to"
        f" {WINDOW_SECONDS_MAX // 86_400} days ({WINDOW_SECONDS_MAX})"
    )

    def read(self, value: object) -> int:
        """The length."""
        seconds = _whole(value)
        try:
            check_length(seconds)
        except UsageError:
            raise ValueError(value) from None
        return seconds


@dataclass(frozen=True, slots=True)
class HotShards:
    """N by key, as an object or its JSON."""

    remedy: str = f'give an object {{"key": N}} with each N from 1 to {SHARDS_MAX}'

    def read(self, value: object) -> Mapping[str, int]:
        """N by key."""
        shards = json.loads(value) if isinstance(value, str) else value
        if not isinstance(shards, Mapping):
            raise TypeError(value)
        if not all(type(n) is int and 1 <= n <= SHARDS_MAX for n in shards.values()):
            raise ValueError(value)
        return dict(shards)


@dataclass(frozen=True)
class Units:
    """Provisioned capacity, as an object or its JSON; empty means on demand."""

    remedy: str = (
        'give an object {"write": W, "read": R, "cold_write": W, "cold_read": R} of whole numbers'
        " from 1, or {} for tables on demand"
    )

    def read(self, value: object) -> Mapping[str, int]:
        """Units per second, by purpose."""
        units = json.loads(value) if isinstance(value, str) else value
        if not isinstance(units, Mapping):
            raise TypeError(value)
        numbers = {name: _whole(number) for name, number in units.items()}
        if numbers and (set(numbers) != set(CAPACITIES) or min(numbers.values()) < 1):
            raise ValueError(value)
        return numbers


@dataclass(frozen=True, slots=True)
class Pollers:
    """The fewest and most provisioned pollers, as an object or its JSON; empty means none.

    Sources of the ranges: AWS Lambda API Reference, "ProvisionedPollerConfig", and the CDK's own
    check for SQS.
    """

    remedy: str = (
        'give an object {"min": n, "max": m} of whole numbers, n from 2 to 200 and m from n to'
        " 2000, or {} for none"
    )

    def read(self, value: object) -> Mapping[str, int]:
        """Both numbers."""
        pollers = json.loads(value) if isinstance(value, str) else value
        if not isinstance(pollers, Mapping):
            raise TypeError(value)
        numbers = {name: _whole(number) for name, number in pollers.items()}
        if numbers and numbers.keys() != {"min", "max"}:
            raise ValueError(value)
        if numbers:
            least, most = numbers["min"], numbers["max"]
            if not POLLERS_MIN <= least <= POLLERS_LEAST_MAX or not least <= most <= POLLERS_MAX:
                raise ValueError(value)
        return numbers


@dataclass(frozen=True, slots=True)
class Mapped:
    """A mapping of fields, as an object or its JSON; empty means none."""

    remedy: str = (
        'give an object {"key": "detail.videoId"} of JMESPath expressions, with the fields key, id,'
        " ts, value, payload, and ts_unit ms or s; for several counters, keys is a list of"
        ' templates instead of key: ["video:{detail.videoId}", "hour:{%H}"]'
    )

    def read(self, value: object) -> Fields:
        """Expressions by field."""
        mapping = json.loads(value) if isinstance(value, str) else value
        if not isinstance(mapping, Mapping) or not are_fields(mapping):
            raise TypeError(value)
        try:
            return Settings(mapping=dict(mapping)).mapping
        except SettingsError as error:
            raise ValueError(value) from error


@dataclass(frozen=True, slots=True)
class Tagged:
    """Tags, as an object or its JSON; empty means none. Their limits are checked by `wrong_tags`,
    which names the key.
    """

    remedy: str = 'give an object of texts, such as {"team": "elections"}'

    def read(self, value: object) -> Mapping[str, str]:
        """Values by key."""
        tags = json.loads(value) if isinstance(value, str) else value
        if not isinstance(tags, Mapping):
            raise TypeError(value)
        if not all(isinstance(text, str) for pair in tags.items() for text in pair):
            raise TypeError(value)
        return dict(tags)


def wrong_tags(tags: Mapping[str, str]) -> str:
    """What is wrong with tags, beginning with the key of the tag, and what to give instead; "" if
    nothing is.

    The characters are those that all services take. Source: IAM API Reference, "Tag".
    """
    try:
        check_tags(tags)
    except UsageError as error:
        return str(error)
    for key, value in tags.items():
        for of, text in (("", key), ("its value ", value)):
            if other := sorted({each for each in text if not _in_tags(each)}):
                return (
                    f"{key!r}: {of}{text!r} has {' '.join(other)}; give letters, digits, blanks and"
                    f" {_TAG_SIGNS}"
                )
    return ""


_TAG_SIGNS = "_ . : / = + - @"


def _in_tags(character: str) -> bool:
    return character in _TAG_SIGNS or unicodedata.category(character)[0] in "LNZ"


def _whole(value: object) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)  # the CDK's numbers are JavaScript's
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError(value)
    return int(value)


def nearest(name: str, known: Sequence[str], prefix: str) -> str:
    """A hint for an unknown name: the nearest known one, or all of them."""
    near = get_close_matches(name, known, n=1)
    if near:
        return f"the nearest is {prefix}{near[0]}"
    return "there are " + ", ".join(prefix + option for option in known)
