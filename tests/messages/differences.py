"""What a writer rejects and a schema cannot express: each with the rule, an example, its reason.

A schema accepts every message that a writer accepts. Here is the rest: what the schema accepts and
the writer does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from math import isinf
from typing import Any

from tallyroll import limits
from tallyroll.model.amounts import JsonFloat
from tallyroll.reasons import Reason

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Difference:
    """`holds` tells from a message's fields (floats as JsonFloat) whether the rule is broken."""

    rule: str
    example: str
    reasons: tuple[Reason, ...]
    holds: Callable[[dict[str, Any]], bool]


def _entries(fields: dict[str, Any]) -> list[list[Any]]:
    events = fields.get("events")
    return [entry for entry in events if isinstance(entry, list)] if events else []


def _texts(fields: dict[str, Any]) -> Iterator[str]:
    yield from (text for text in (fields.get("key"), fields.get("id")) if isinstance(text, str))


def _values(fields: dict[str, Any]) -> Iterator[Decimal]:
    found = [fields.get("value"), *(entry[1] for entry in _entries(fields) if len(entry) > 1)]
    for value in found:
        if isinstance(value, JsonFloat):
            try:
                yield Decimal(value.text)
            except InvalidOperation:
                yield Decimal("Infinity")
        elif isinstance(value, int):
            yield Decimal(value)


def _whole(fields: dict[str, Any]) -> Iterator[Any]:
    reference = fields.get("payload_ref")
    yield reference.get("bytes") if isinstance(reference, dict) else None
    yield from (fields.get("ts"), fields.get("t0"), *(entry[0] for entry in _entries(fields)))


def _sums(fields: dict[str, Any]) -> Iterator[int]:
    t0, entries = fields.get("t0"), _entries(fields)
    yield from (t0 + entry[0] for entry in entries if isinstance(t0, int))


def _payloads(fields: dict[str, Any]) -> Iterator[Any]:
    yield fields.get("payload")
    yield from (entry[2] for entry in _entries(fields) if len(entry) > 2)


def _floats(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _floats(inner)


def _decimals(value: Decimal) -> bool:
    if not value.is_finite():
        return True  # more digits in its exponent than a Decimal has
    _, digits, exponent = value.as_tuple()
    significant = "".join(map(str, digits)).rstrip("0")
    zeros = len(digits) - len(significant)
    assert isinstance(exponent, int)
    return bool(significant) and exponent + zeros < -limits.VALUE_DECIMALS_MAX


def _is_no_text(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_is_no_text(inner) for pair in value.items() for inner in pair)
    if isinstance(value, list):
        return any(map(_is_no_text, value))
    return isinstance(value, str) and bool(_SURROGATE.search(value))


_PACKET = '{"key":"k","id":"p","t0":%s,"events":[%s]}'
_LONG = "ä" * 300

DIFFERENCES = (
    Difference(
        f"`key` and `id` have at most {limits.KEY_BYTES_MAX} bytes of UTF-8. A schema counts"
        " characters.",
        f'{{"key":"{_LONG}"}}',
        (Reason.BAD_KEY, Reason.BAD_ID),
        lambda fields: any(
            len(text.encode("utf-8", "surrogatepass")) > limits.KEY_BYTES_MAX
            for text in _texts(fields)
        ),
    ),
    Difference(
        "A text holds no lone surrogate.",
        r'{"key":"k","payload":"\ud800"}',
        (Reason.BAD_KEY, Reason.BAD_ID, Reason.BAD_PAYLOAD),
        _is_no_text,
    ),
    Difference(
        "`ts`, `t0`, `dt` and `bytes` are written without decimal point and exponent. For a schema"
        " 1.0 is a whole number.",
        '{"key":"k","ts":1795161600000.0}',
        (Reason.BAD_TS, Reason.BAD_PACKET, Reason.BAD_REFERENCE),
        lambda fields: any(isinstance(number, float) for number in _whole(fields)),
    ),
    Difference(
        f"`value` has at most {limits.VALUE_DECIMALS_MAX} decimals.",
        '{"key":"k","value":0.1234567}',
        (Reason.BAD_VALUE,),
        lambda fields: any(map(_decimals, _values(fields))),
    ),
    Difference(
        "`value` is below 10^18 in size. A schema accepts the bound: a double cannot tell it from"
        " the largest values.",
        '{"key":"k","value":1000000000000000000}',
        (Reason.BAD_VALUE,),
        lambda fields: any(
            value.is_finite() and abs(float(value)) == limits.VALUE_BOUND
            for value in _values(fields)
        ),
    ),
    Difference(
        "The exponent of `value` has fewer than 18 digits, even that of 0.",
        '{"key":"k","value":0e9999999999999999999}',
        (Reason.BAD_VALUE,),
        lambda fields: any(
            not value.is_finite() or abs(int(value.as_tuple().exponent)) >= 10**17
            for value in _values(fields)
        ),
    ),
    Difference(
        "A number in `payload` fits into a double.",
        '{"key":"k","payload":1e400}',
        (Reason.BAD_PAYLOAD,),
        lambda fields: any(
            map(isinf, (each for payload in _payloads(fields) for each in _floats(payload)))
        ),
    ),
    Difference(
        "`t0 + dt` lies between 1973 and the year 9999, as `ts` does.",
        _PACKET % (limits.TS_MS_MAX, "[0],[1]"),
        (Reason.BAD_TS, Reason.TS_IN_SECONDS),
        lambda fields: any(
            not limits.TS_MS_MIN <= time <= limits.TS_MS_MAX for time in _sums(fields)
        ),
    ),
    Difference(
        f"Brackets are nested at most {limits.NESTING_MAX} deep.",
        '{"key":"k","payload":' + "[" * 100 + "]" * 100 + "}",
        (Reason.NOT_JSON,),
        lambda fields: False,
    ),
    Difference(
        f"A packet has at most {limits.PACKET_BYTES_MAX // 1024} KB.",
        _PACKET % (limits.TS_MS_MIN, ",".join(["[0]"] * 70_000)),
        (Reason.PACKET_TOO_LARGE,),
        lambda fields: False,
    ),
    Difference(
        f"`zlib` holds one whole packet of at most {limits.EXPANDED_BYTES_MAX // 1024} KB.",
        '{"v":2,"zlib":"eJw="}',
        (Reason.BAD_COMPRESSION,),
        lambda fields: "zlib" in fields,
    ),
)


def differences_table() -> str:
    """The rules as Markdown, with examples that are short enough."""
    lines = ["| rule | for example | reason |", "|---|---|---|"]
    for each in DIFFERENCES:
        reasons = ", ".join(f"`{reason}`" for reason in each.reasons)
        example = f"`{each.example}`" if len(each.example) < 80 else ""
        lines.append(f"| {each.rule} | {example} | {reasons} |")
    return "\n".join(lines)
