"""The kinds of values that options alone have."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from tallyroll.errors import UsageError
from tallyroll.settings.kinds import FLAG, Kind, table, text, whole
from tallyroll.settings.tags import check_tags

POLLERS_MIN, POLLERS_LEAST_MAX, POLLERS_MAX = 2, 200, 2_000


def ids(prefix: str, most: int = 16) -> Kind:
    """The ids of parts of a VPC, separated by commas."""
    one = rf"{prefix}-[0-9a-f]{{8}}(?:[0-9a-f]{{9}})?"
    remedy = f"give 1 to {most} ids, {prefix}-..., separated by commas without blanks"
    return text(rf"{one}(,{one}){{0,{most - 1}}}", remedy)


EMAIL = text(r"[^@\s]+@[^@\s]+\.[^@\s]+", "give one e-mail address")
LAYER_VERSION = text(
    r"arn:aws[a-z-]*:lambda:[a-z0-9-]+:\d{12}:layer:[a-zA-Z0-9_-]+:\d+",
    "give the ARN of a layer's version, arn:aws:lambda:REGION:ACCOUNT:layer:NAME:VERSION",
)
KMS_KEY = text(
    r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[a-zA-Z0-9-]+",
    "give the ARN of a KMS key, arn:aws:kms:REGION:ACCOUNT:key/ID; an alias will not do",
)
BUCKET = text(
    r"arn:aws[a-z-]*:s3:::[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]",
    "give the ARN of a bucket, arn:aws:s3:::NAME",
)
JWT_ISSUER = text(r"https://\S+", "give the issuer's https address")
JWT_AUDIENCES = text(r"[^\s,]+(,[^\s,]+)*", "give client ids, separated by commas without blanks")
# What a browser sends as Origin: no path. Source: RFC 6454, 6.1.
_ORIGIN = r"https?://[a-z0-9.-]+(:[0-9]{1,5})?"
ORIGINS = text(
    rf"{_ORIGIN}(,{_ORIGIN})*",
    "give origins such as https://app.example, without a path, separated by commas without blanks",
)
RUNBOOK_URL = text(
    r"https?://[^\s#]+", "give the address of your copy of docs/operations.md, without #"
)
# A token is the id of an endpoint that the CDK makes.
ENDPOINT = text(
    r"vpce-[0-9a-f]{8}(?:[0-9a-f]{9})?|\$\{Token\[.+\]\}",
    "give the id of an interface endpoint, vpce-...",
)


def _pollers(given: Mapping[str, Any]) -> Mapping[str, int]:
    """The fewest and most provisioned pollers.

    Sources of the ranges: AWS Lambda API Reference, "ProvisionedPollerConfig", and the CDK's own
    check for SQS.
    """
    numbers = {name: whole(number) for name, number in given.items()}
    if numbers:
        least, most = numbers["min"], numbers["max"]
        if not POLLERS_MIN <= least <= POLLERS_LEAST_MAX or not least <= most <= POLLERS_MAX:
            raise ValueError(given)
        if len(numbers) > 2:
            raise ValueError(given)
    return numbers


POLLERS = table(
    'give an object {"min": n, "max": m} of whole numbers, n from 2 to 200 and m from n to 2000,'
    " or {} for none",
    _pollers,
)
AUTO_FLAG = Kind(
    "give auto, true or false", lambda value: value if value == "auto" else FLAG.read(value)
)


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
        for of, given in (("", key), ("its value ", value)):
            if other := " ".join(sorted({each for each in given if not _in_tags(each)})):
                return (
                    f"{key!r}: {of}{given!r} has {other}; give letters, digits, blanks and"
                    f" {_TAG_SIGNS}"
                )
    return ""


_TAG_SIGNS = "_ . : / = + - @"


def _in_tags(character: str) -> bool:
    return character in _TAG_SIGNS or unicodedata.category(character)[0] in "LNZ"


def nearest(name: str, known: Sequence[str], prefix: str) -> str:
    """A hint for an unknown name: the nearest known one, or all of them."""
    near = get_close_matches(name, known, n=1)
    if near:
        return f"the nearest is {prefix}{near[0]}"
    return "there are " + ", ".join(prefix + option for option in known)
