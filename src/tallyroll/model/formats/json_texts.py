"""Reading and writing JSON texts in linear time.

Producers can send any text of up to 1 MiB. Reading it takes at most a fixed multiple of the time
that `json.loads` takes for a legal text of its size: no Python code runs for each character or
value. `make bench` measures it.
"""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Callable
from functools import cache
from itertools import accumulate
from typing import Any

from tallyroll.errors import Rejected
from tallyroll.limits import INTEGER_DIGITS_MAX, NESTING_MAX
from tallyroll.model.amounts import JsonFloat, shown
from tallyroll.reasons import Reason

_OPENING, _CLOSING = b"[{", b"]}"
# What each bracket adds to the depth, as signed bytes.
_STEPS = bytes.maketrans(_OPENING + _CLOSING, b"\1\1\xff\xff")
_NO_BRACKETS = bytes(set(range(256)) - set(_OPENING + _CLOSING))


class _NotJson(ValueError):
    """A constant that `json.loads` accepts and JSON does not have."""


def load_json(text: str, read_float: Callable[[str], Any] = JsonFloat) -> Any:
    """The JSON value in `text`; `read_float` converts a float's text.

    Raises Rejected (not-json), also for NaN and Infinity, for brackets nested more than 100 deep,
    and for a whole number of more than 4,300 digits, which takes quadratic time to convert.
    """
    if nesting(text) > NESTING_MAX:
        raise Rejected(Reason.NOT_JSON, f"nested more than {NESTING_MAX} deep")
    try:
        return _decoder(read_float, _read_integer()).decode(text)
    except RecursionError:
        raise Rejected(Reason.NOT_JSON, "nested too deeply") from None
    except (json.JSONDecodeError, _NotJson) as error:
        raise Rejected(Reason.NOT_JSON, f"{error}: {shown(text)}") from None
    except ValueError:  # int's own limit
        detail = f"a whole number has more than {INTEGER_DIGITS_MAX} digits: {shown(text)}"
        raise Rejected(Reason.NOT_JSON, detail) from None


def nesting(text: str) -> int:
    """How deep the brackets of a JSON text are nested, without those in strings.

    A result of 100 or less is an upper bound, a larger one is exact. A string without an end
    extends to the end of the text, so no bracket in it counts. A text that is not JSON may give any
    number up to that of its opening brackets.
    """
    opened = text.count("[") + text.count("{")
    if opened <= NESTING_MAX:
        return opened
    marks = text.encode("ascii", "replace")
    if b"\\" in marks:
        # Remove escaped backslashes first: each quote that remains begins or ends a string.
        marks = marks.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside = b"".join(marks.split(b'"')[::2])
    return max(accumulate(array("b", outside.translate(_STEPS, _NO_BRACKETS)), initial=0))


@cache
def _decoder(
    read_float: Callable[[str], Any], read_integer: Callable[[str], int] | None
) -> json.JSONDecoder:
    """A decoder, kept because making one takes as long as reading a small event."""
    return json.JSONDecoder(
        parse_float=read_float, parse_int=read_integer, parse_constant=_no_constant
    )


def _no_constant(name: str) -> None:
    raise _NotJson(f"{name} is not JSON")


def _read_integer() -> Callable[[str], int] | None:
    """The function that reads whole numbers; None, `json.loads`'s own, if Python's limit is active.

    PYTHONINTMAXSTRDIGITS can switch that limit off.
    """
    return None if 0 < sys.get_int_max_str_digits() <= INTEGER_DIGITS_MAX else _integer


def _integer(text: str) -> int:
    if len(text) - text.startswith("-") > INTEGER_DIGITS_MAX:
        raise ValueError
    return int(text)


def _writer(separators: tuple[str, str] = (",", ":")) -> Callable[[Any], str]:
    encoder = json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, sort_keys=True, separators=separators
    )
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return encoder.encode
    # `encode` makes this function for each value, which takes longer than writing a small value.
    # Values read from JSON hold no cycles, so it need not look for any (the first argument).
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
"""The canonical JSON text of a value: sorted keys, no spaces, no needless escapes.

Raises ValueError for a float that is not finite, and RecursionError for a value nested too deeply.
"""

spaced = _writer((", ", ": "))
"""The same with a space after each comma and colon, as digests of archived items have it."""
