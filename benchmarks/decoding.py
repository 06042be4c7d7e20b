"""What it takes to decode a body, legal or hostile, beside what `json.loads` takes.

`make bench`, or

    python -m benchmarks.decoding [--only TEXT] [--largest BYTES] [--rounds N]

Times are CPU milliseconds, the least of some rounds. The ratio is to `json.loads` of the same text,
as anybody calls it: with garbage collections, which `decode` turns off.
A text that is no JSON ends `json.loads` early: then the ratio is to that of a legal text of the
same size and shape, and an asterisk stands in the table. Growth is by what factor the time rises
when the size doubles, the mean from an eighth of the size to the whole: 2 is linear, 4 quadratic.
The exit status is 1 if decoding takes more than 10 times as long as `json.loads`, or grows by more
than 3.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from benchmarks.tables import Rows, show
from tallyroll.errors import Rejected
from tallyroll.limits import PACKET_BYTES_MAX, QUEUE_MESSAGE_BYTES_MAX
from tallyroll.model.events import decode

RATIO_MAX = 10.0
GROWTH_MAX = 3.0
DOUBLINGS = 3
ROUNDS = 3
Make = Callable[[int], Sequence[str]]
"""Makes bodies that have so many bytes together, or a little less."""

_EVENT = '{"key":"k","payload":['
_PACKET = '{"v":1,"id":"p","key":"k","t0":1795161600000,"events":['
_DEEP = 90  # brackets, beside those of the body below the limit of 100


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of bodies; `base` makes those that `json.loads` is timed on, if it is others."""

    name: str
    make: Make
    base: Make | None = None


def _many(unit: str, begin: str = _EVENT, end: str = "]}", between: str = ",") -> Make:
    """One body: `unit` again and again."""

    def make(size: int) -> Sequence[str]:
        room = size - len(begin.encode()) - len(end.encode()) + len(between)
        return [begin + between.join([unit] * (room // len((unit + between).encode()))) + end]

    return make


def _text(unit: str, begin: str = _EVENT + '"', end: str = '"]}') -> Make:
    """One body with a long string or number."""
    return _many(unit, begin, end, "")


def _names(size: int) -> Sequence[str]:
    numbers = range((size - 30) // len('"n1234567":1,'))
    names = ",".join(f'"n{number * 7_919 % 10_000_000:07d}":1' for number in numbers)
    return ['{"key":"k","payload":{' + names + "}}"]


def _events(size: int) -> Sequence[str]:
    body = '{"id":"order-%08d","key":"video-42","ts":1795161600000,"value":2.5,"payload":{"a":[1]}}'
    return [body % number for number in range(size // len(body % 0))]


def _packets(size: int) -> Sequence[str]:
    one = min(size, PACKET_BYTES_MAX)
    entries = _many('[1234,1.25,{"user":"u-123456","page":"/a/b"}]', _PACKET)
    return [entries(one)[0]] * (size // one)


LEGAL = [
    Shape("small events", _events),
    Shape("full packets of 256 KiB", _packets),
    Shape("empty arrays", _many("[]")),
    Shape("arrays 90 deep", _many("[" * _DEEP + "]" * _DEEP)),
    Shape("empty objects", _many("{}")),
    Shape("objects", _many('{"a":1}')),
    Shape("names to be sorted", _names),
    Shape("empty strings", _many('""')),
    Shape("strings and brackets", _many('["]"]')),
    Shape("one string", _text("a")),
    Shape("one string beyond ASCII", _text("é")),
    Shape("one string beyond the BMP", _text("😀")),
    Shape("a string of brackets", _text("[")),
    Shape("a string of escaped quotes", _text('\\"')),
    Shape("a string of escaped backslashes", _text("\\\\")),
    Shape("a string of \\u escapes", _text("\\u00e9")),
    Shape("a string of escaped pairs", _text("\\ud83d\\ude00")),
    Shape("digits", _many("1")),
    Shape("numbers of 18 digits", _many("1" * 18)),
    Shape("numbers of 4,300 digits", _many("7" * 4_300)),
    Shape("floats", _many("0.1")),
    Shape("floats of 17 digits", _many("0.12345678901234567")),
    Shape("floats with exponents", _many("1e9")),
    Shape("a value beside floats", _many("0.1", '{"key":"k","value":1.5,"payload":[')),
    Shape("a float with many zeros", _text("0", '{"key":"k","payload":0.1', "}")),
    Shape("a value with many zeros", _text("0", '{"key":"k","value":0.1', "}")),
    Shape("a value with an exponent of zeros", _text("0", '{"key":"k","value":1e', "2}")),
    Shape("true", _many("true")),
    Shape("null", _many("null")),
    Shape("blanks", _text(" ", '{"key":"k"', "}")),
    Shape("fields that are kept out", _text(" ", '{"key":"k","note":[1]', "}")),
    Shape("packed [0]", _many("[0]", _PACKET)),
    Shape("packed [0,1]", _many("[0,1]", _PACKET)),
    Shape("packed [0,1.5]", _many("[0,1.5]", _PACKET)),
    Shape("packed [0,1e9]", _many("[0,1e9]", _PACKET)),
    Shape("packed [0,0e99999]", _many("[0,0e99999]", _PACKET)),
    Shape("packed [0,1.0000000]", _many("[0,1.0000000]", _PACKET)),
    Shape("packed [0,1.0...0], 40 digits", _many("[0,1." + "0" * 40 + "]", _PACKET)),
    Shape("packed [0,1.0...0], 80 digits", _many("[0,1." + "0" * 80 + "]", _PACKET)),
    Shape("packed [0,1.0...0], 390 digits", _many("[0,1." + "0" * 390 + "]", _PACKET)),
    Shape("packed [0,1.0...0], 1,000 digits", _many("[0,1." + "0" * 1_000 + "]", _PACKET)),
    Shape("packed [0,1.0...0e1], 80 digits", _many("[0,1." + "0" * 80 + "e1]", _PACKET)),
    Shape("packed [0,1.0...0e1], 390 digits", _many("[0,1." + "0" * 390 + "e1]", _PACKET)),
    Shape("packed [0,1.0...0e1], 1,000 digits", _many("[0,1." + "0" * 1_000 + "e1]", _PACKET)),
    Shape("packed [0,1e0...0], 20 digits", _many("[0,1e" + "0" * 20 + "]", _PACKET)),
    Shape("packed [0,1e0...0], 390 digits", _many("[0,1e" + "0" * 390 + "]", _PACKET)),
    Shape("packed [0,1e0...0], 1,000 digits", _many("[0,1e" + "0" * 1_000 + "]", _PACKET)),
    Shape("packed [0], [0,0e9]", _many("[0],[0,0e9]", _PACKET)),
    Shape("packed [0,123456.123456]", _many("[0,123456.123456]", _PACKET)),
    Shape('packed [0,1,"a"]', _many('[0,1,"a"]', _PACKET)),
    Shape("packed [0,1,[]]", _many("[0,1,[]]", _PACKET)),
    Shape("packed [0,1,0.1]", _many("[0,1,0.1]", _PACKET)),
    Shape('packed [0,1.5,{"a":0.1}]', _many('[0,1.5,{"a":0.1}]', _PACKET)),
]
HOSTILE = [
    Shape("opening brackets", _text("[", "", ""), _many("[]")),
    Shape("closing brackets", _text("]", "", ""), _many("[]")),
    Shape("brackets too deep, many", _many("[" * 200 + "]" * 200), _many("[" * 90 + "]" * 90)),
    Shape("an open string", _text("a", _EVENT + '"', ""), _text("a")),
    Shape("an open string of quotes", _text('\\"', _EVENT + '"', ""), _text('\\"')),
    Shape(
        "brackets, an open string of quotes",
        _text('\\"', '["' + "[" * 101 + '","', ""),
        _text('\\"'),
    ),
    Shape("an open string of brackets and quotes", _text('[\\"', '"', ""), _text('[\\"')),
    Shape("an open string of backslashes", _text("\\\\", '["' + "[" * 101, ""), _text("\\\\")),
    Shape("quotes", _text('"', "", ""), _many('""')),
    Shape("quotes and brackets", _text('"[', "", ""), _many('"["')),
    Shape("backslashes", _text("\\", "[" * 101, ""), _text("\\\\")),
    Shape("blanks alone", _text(" ", "", ""), _text(" ", '{"key":"k"', "}")),
    Shape("halves of pairs", _text("\\ud83d")),
    Shape("one whole number", _text("7", '{"key":"k","value":', "}"), _many("7" * 4_300)),
    Shape("a value of many decimals", _text("1", '{"key":"k","value":0.1', "}")),
    Shape("a value of many digits", _text("1", '{"key":"k","value":1', ".5}")),
    Shape("a value with a long exponent", _text("9", '{"key":"k","value":1e', "}")),
    Shape("a key too long", _text("k", '{"key":"', '"}')),
    Shape("an id too long", _text("é", '{"key":"k","id":"', '"}')),
    Shape("an array of arrays", _many("[]", "[", "]")),
    Shape("an array of floats", _many("0.1", "[", "]")),
    Shape("a packet of numbers", _many("0", _PACKET)),
    Shape("a packet of objects", _many("{}", _PACKET)),
    Shape("a packet, at its end no entry", _many("[0,1.5]", _PACKET, ",1.5]}")),
    Shape("a packet, at its end infinite", _many("[0,1,0.1]", _PACKET, ",[0,1,1e999]]}")),
    Shape("NaN at the end", _many("[0,1]", _PACKET, ",NaN]}")),
]


@dataclass(frozen=True, slots=True)
class Measured:
    """CPU seconds of decoding and of `json.loads`, and the mean growth of decoding."""

    decode: float
    loads: float
    growth: float

    @property
    def ratio(self) -> float:
        """How many times as long decoding takes."""
        return self.decode / self.loads

    @property
    def good(self) -> bool:
        """Whether the bounds hold."""
        return self.ratio <= RATIO_MAX and self.growth <= GROWTH_MAX


def cpu_seconds(work: Callable[[str], object], bodies: Sequence[str], rounds: int) -> float:
    """The least CPU time in which `work` goes through the bodies, garbage collections included."""
    least = float("inf")
    for _ in range(rounds):
        gc.collect()
        began = time.process_time()
        for body in bodies:
            with suppress(Rejected, ValueError):
                work(body)
        least = min(least, time.process_time() - began)
    return least


def growth(shape: Shape, largest: int, rounds: int) -> float:
    """By what factor decoding takes longer when the size doubles. Garbage collections are left out:
    theirs are CPython's own, a little more than linear, and the same for `json.loads`.
    """
    gc.disable()
    try:
        few = cpu_seconds(decode, shape.make(largest >> DOUBLINGS), rounds * 2)
        many = cpu_seconds(decode, shape.make(largest), rounds)
    finally:
        gc.enable()
    return float((many / few) ** (1 / DOUBLINGS))


def measure(shape: Shape, largest: int, rounds: int) -> Measured:
    """Measure a shape, its growth from an eighth of its largest size."""
    bodies = shape.make(largest)
    base = shape.base(largest) if shape.base else bodies
    return Measured(
        decode=cpu_seconds(decode, bodies, rounds),
        loads=cpu_seconds(json.loads, base, rounds),
        growth=growth(shape, largest, rounds),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a bound is broken."""
    parser = argparse.ArgumentParser(description="Measure how long decoding takes.")
    parser.add_argument("--only", default="", metavar="TEXT", help="bodies with this in the name")
    parser.add_argument("--largest", type=int, default=QUEUE_MESSAGE_BYTES_MAX, metavar="BYTES")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N")
    given = parser.parse_args(arguments)
    rows: Rows = [("body", "decode", "json.loads", "ratio", "growth", "")]
    bad = 0
    for shape in (shape for shape in (*LEGAL, *HOSTILE) if given.only in shape.name):
        found = measure(shape, given.largest, given.rounds)
        bad += not found.good
        row = (
            shape.name + " *" * bool(shape.base),
            f"{found.decode * 1e3:,.2f}",
            f"{found.loads * 1e3:,.2f}",
            f"{found.ratio:.1f}",
            f"{found.growth:.2f}",
            "" if found.good else "TOO SLOW",
        )
        rows.append(row)
    show(
        f"Decoding bodies of {given.largest:,} bytes, CPU ms",
        rows,
        f"* json.loads of a legal text of the same size and shape. At most: ratio {RATIO_MAX:g},"
        f" growth {GROWTH_MAX:g} when the size doubles. {bad} too slow.",
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
