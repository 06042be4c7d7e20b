"""JSON texts, read and written in time that grows as they do.

Producers send any text of up to 1 MiB. Whatever it holds, reading it takes a bounded multiple of
what `json.loads` takes for a legal text of its size: no code in Python runs for each character or
value. `make bench` measures it.
"""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Callable
from itertools import accumulate
from typing import Any

from tallyroll.errors import Reason, Rejected
from tallyroll.limits import INTEGER_DIGITS_MAX, NESTING_MAX
from tallyroll.model.amounts import JsonFloat, shown

_OPENING, _CLOSING = b"[{", b"]}"
# As signed bytes: what a bracket adds to the depth.
_STEPS = bytes.maketrans(_OPENING + _CLOSING, b"\1\1\xff\xff")
_NO_BRACKETS = bytes(set(range(256)) - set(_OPENING + _CLOSING))


class _NotJson(ValueError):
    """What `json.loads` reads and JSON does not know."""


def load_json(text: str, read_float: Callable[[str], Any] = JsonFloat) -> Any:
    """The JSON value in `text`; `read_float` gives the value of a float's text.

    Raises Rejected (not-json), also for NaN and Infinity, for brackets nested more than 100 deep,
    and for a whole number of more than 4,300 digits: to convert it takes quadratic time.
    """
    if nesting(text) > NESTING_MAX:
        raise Rejected(Reason.NOT_JSON, f"nested more than {NESTING_MAX} deep")
    try:
        return json.loads(
            text, parse_float=read_float, parse_int=_read_integer(), parse_constant=_no_constant
        )
    except RecursionError:
        raise Rejected(Reason.NOT_JSON, "nested too deeply") from None
    except (json.JSONDecodeError, _NotJson) as error:
        raise Rejected(Reason.NOT_JSON, f"{error}: {shown(text)}") from None
    except ValueError:  # int's own limit
        raise Rejected(Reason.NOT_JSON, _too_long(text)) from None


def nesting(text: str) -> int:
    """How deep a JSON text's brackets go, strings left out; exact if it is over 100.

    A string without an end extends to the end of the text, so no bracket after it counts.
    What is no JSON may give any number up to that of its opening brackets.
    """
    opened = text.count("[") + text.count("{")
    if opened <= NESTING_MAX:
        return opened
    marks = text.encode("ascii", "replace")
    if b"\\" in marks:
        # From the left, in pairs: a quote that is left begins or ends a string.
        marks = marks.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside = b"".join(marks.split(b'"')[::2])
    return max(accumulate(array("b", outside.translate(_STEPS, _NO_BRACKETS)), initial=0))


def _no_constant(name: str) -> None:
    raise _NotJson(f"{name} is not JSON")


def _read_integer() -> Callable[[str], int] | None:
    """How to read whole numbers: None, as `json.loads` does, if Python's own limit is in force.

    PYTHONINTMAXSTRDIGITS may lift that limit.
    """
    return None if 0 < sys.get_int_max_str_digits() <= INTEGER_DIGITS_MAX else _integer


def _integer(text: str) -> int:
    if len(text) - text.startswith("-") > INTEGER_DIGITS_MAX:
        raise ValueError
    return int(text)


def _too_long(text: str) -> str:
    return f"a whole number has more than {INTEGER_DIGITS_MAX} digits: {shown(text)}"


def _writer() -> Callable[[Any], str]:
    encoder = json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
    )
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return encoder.encode
    # `encode` makes this for every value anew, which takes longer than to write a small one. What
    # was read from JSON holds no circles, so none are looked for (the first argument).
    encode = make(
        None,
        encoder.default,
        json.encoder.encode_basestring,
        encoder.indent,
        encoder.key_separator,
        encoder.item_separator,
        encoder.sort_keys,
        encoder.skipkeys,
        encoder.allow_nan,
    )
    return lambda value: "".join(encode(value, 0))


canonical = _writer()
"""The one JSON text of a value: keys sorted, no spaces, not escaped beyond need.

Raises ValueError for a float that is not finite, and RecursionError.
"""
