"""Whether caches may keep an answer, and how it is confirmed: ETag, Cache-Control, Age.

An ETag is a hash of what the answer says, without the time of the read. It is strong where the
answer does not tell that time; otherwise it is weak, since two answers of one tag may differ in it.
Nothing is kept without asking for longer than the function itself keeps counts of live windows:
also what is sealed may change, by a retraction or a window that is opened in the past. One request
confirms it, and is answered by 304.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

FORMAT = 1
"""The form of answers: another one gives other tags to the same numbers."""
UNTAGGED = "as_of"
NOT_KEPT = {"Cache-Control": "no-store"}


def etag_of(body: Mapping[str, Any]) -> str:
    """The tag of an answer's body, strong if the body tells no time of its read."""
    said = timeless(body)
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    weak = "" if said == body else "W/"
    return f'{weak}"{FORMAT}-{blake2b(text.encode(), digest_size=16).hexdigest()}"'


def timeless(value: Any) -> Any:
    """A body, or a part of one, without the time of its read."""
    if isinstance(value, Mapping):
        return {name: timeless(each) for name, each in value.items() if name != UNTAGGED}
    return [timeless(each) for each in value] if isinstance(value, list) else value


def confirms(if_none_match: str | None, etag: str) -> bool:
    """Whether a request's If-None-Match names the tag. Source: RFC 9110, 13.1.2, by which strong
    and weak tags are compared alike.
    """
    if not if_none_match:
        return False
    named = [each.strip().removeprefix("W/") for each in if_none_match.split(",")]
    return "*" in named or etag.removeprefix("W/") in named


def kept_for(age_ms: int, kept_ms: int) -> dict[str, str]:
    """The headers of an answer that is `age_ms` old, of what may be `kept_ms` old. Whole seconds:
    what is kept for less than one must be confirmed. Sources: RFC 9111, 5.1 and 5.2.2.
    """
    seconds = kept_ms // 1000
    kept = f"private, max-age={seconds}" if seconds else "private, no-cache"
    return {"Cache-Control": kept, "Age": str(-(-age_ms // 1000))}


CONFIRMED = {"Cache-Control": "private, no-cache"}
"""The headers of an answer that is to be confirmed each time."""
