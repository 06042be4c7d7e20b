"""Bodies are read as they were at first, and in work that grows as they do."""

from __future__ import annotations

import gc
import json
import sys
import zlib
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.decoding import HOSTILE, LEGAL, Shape
from tallyroll.errors import Rejected
from tallyroll.limits import INTEGER_DIGITS_MAX, NESTING_MAX, QUEUE_MESSAGE_BYTES_MAX
from tallyroll.model import events
from tallyroll.model.amounts import JsonFloat, parse_amount, parse_decimal, shown
from tallyroll.model.events import Event
from tallyroll.model.formats import json_texts
from tallyroll.model.formats.json_texts import canonical, load_json, nesting
from tallyroll.reasons import Reason
from tests.harness.pipeline import NOW
from tests.properties import decoding_reference as reference
from tests.properties.strategies import json_values

TOKENS = ["[", "]", "{", "}", '"', "\\", '\\"', "\\\\", ",", ":", " ", "\n", "a", "é", "\ud800"]
TOKENS += ["0", "7", "-", ".", "e", "E+", "null", "true", "NaN", "Infinity", '"key"', '"k"', "\x00"]
FIELDS = ["v", "key", "id", "ts", "t0", "value", "payload", "events", "other"]

digits = st.text("0123456789", min_size=1, max_size=30)
zeros = st.integers(0, 100).map("0".__mul__)
numbers = st.builds(
    lambda sign, whole, behind, decimals, zeros, power: (
        sign
        + (whole.lstrip("0") + behind or "0")
        + (f".{decimals}{zeros}" if decimals else "")
        + power
    ),
    st.sampled_from(["", "-"]),
    digits,
    zeros,
    st.one_of(st.just(""), digits),
    zeros,
    st.one_of(
        st.just(""),
        st.integers(-200, 200).map("e{}".format),
        st.integers(-(10**21), 10**21).map("E{:+}".format),
        st.builds("e-{}{}".format, zeros, digits),
    ),
)
texts = st.lists(st.sampled_from(TOKENS), max_size=30).map("".join)
deep = st.builds(
    lambda opened, closed, inner: "[" * opened + inner + "]" * closed,
    st.integers(90, 110),
    st.integers(90, 110),
    texts,
)
values = st.one_of(
    json_values.map(json.dumps),
    numbers,
    deep,
    st.sampled_from(["null", "true", '"k"', str(NOW), "1", "1.0", "1.10", '""', "[]", "{}"]),
    st.just("7" * 5_000),
)
entries = st.one_of(
    st.lists(values, max_size=4).map(lambda parts: f"[{','.join(parts)}]"),
    st.sampled_from(["[0]", "[1,2.50]", '[5,null,"a"]', '{"id":1}', '{"key":1.50}', "1.50"]),
)
packed = st.lists(entries, max_size=4).map(lambda parts: f"[{','.join(parts)}]")
fields = st.dictionaries(st.sampled_from(FIELDS), st.one_of(values, packed))


def body(fields: dict[str, str]) -> str:
    return "{" + ",".join(f'"{name}":{text}' for name, text in fields.items()) + "}"


events_sent = fields.map(lambda fields: body({"key": '"k"', **fields}))
packets_sent = st.builds(
    lambda packed, fields: body(
        {"key": '"k"', "id": '"p"', "t0": str(NOW), "events": packed, **fields}
    ),
    packed,
    st.one_of(st.just({}), fields),
)
legal = st.one_of(events_sent, packets_sent, values)
broken = st.builds(
    lambda whole, at, token, kept: (whole[:at] + token + whole[at:])[:kept],
    legal,
    st.integers(0, 200),
    st.sampled_from(TOKENS),
    st.one_of(st.none(), st.integers(0, 200)),
)


def answer(decode: Callable[[str], Any], body: str) -> tuple[Any, str]:
    """What is read, or the reason, and the detail."""
    try:
        return decode(body), ""
    except Rejected as rejected:
        return rejected.reason, rejected.detail


@given(st.one_of(legal, broken, texts))
@example("[" * 101)
@example('{"key":"k","id":"p","t0":1795161600000,"events":[{"key":1.50}]}')
@example('{"key":"k","id":"p","t0":1795161600000,"events":[1.50]}')
@example('{"key":"k","id":"p","t0":1795161600000,"events":[[1.50]]}')
@example('{"key":"' + '\\"[' * 200)
@example('{"key":"k","value":1.50' + "0" * 200 + "}")
@example('{"key":"k","payload":["\\\\",' + "[" * 99 + "]" * 99 + "]}")
def test_every_body_is_read_as_it_was_at_first(body: str) -> None:
    found, detail = answer(events.decode, body)
    wanted, told = answer(reference.decode, body)
    assert found == wanted
    if found is not Reason.NOT_JSON:  # where two things are wrong, either may be told
        assert detail == told


streams = st.one_of(
    st.builds(
        lambda text, kept, more: zlib.compress(text.encode(errors="replace"))[:kept] + more,
        st.one_of(packets_sent, legal, texts),
        st.one_of(st.none(), st.integers(0, 60)),
        st.one_of(st.just(b""), st.binary(max_size=3)),
    ),
    st.binary(max_size=40),
    st.just(zlib.compress(b"\xff\xfe")),
)
compressed = st.builds(
    lambda stream, cut: '{"v":2,"zlib":"' + b64encode(stream).decode()[:cut] + '"}',
    streams,
    st.one_of(st.none(), st.integers(0, 40)),
)


@given(compressed)
@example('{"v":2,"zlib":7}')
@example('{"v":2,"zlib":"ä"}')
@example('{"v":2,"zlib":""}')
@example('{"v":2.0,"zlib":"eJw="}')
@example('{"v":2,"zlib":"eJw=","key":"k"}')
@example('{"v":true,"zlib":"eJw="}')
def test_compressed_bodies_are_read_as_by_the_simplest_reader(body: str) -> None:
    found, detail = answer(events.decode, body)
    wanted, told = answer(reference.decode, body)
    assert found == wanted
    if found is not Reason.NOT_JSON:
        assert detail == told


@given(st.one_of(numbers, st.sampled_from(["1", "0", "9" * 18, "1" + "0" * 18]).map("{}.5".format)))
@example("0e9999999999999999999")
@example("0e-1999999999999999997")
@example("0.00e-1999999999999999997")
@example("1e-1999999999999999997")
@example("0e999999999999999999")
@example("1e999999999999999999")
@example("1" + "0" * 900_000 + "e-900000")
@example("1e" + "0" * 10_000 + "3")
@example("0." + "0" * 10_000)
def test_every_number_is_the_amount_that_it_was_at_first(text: str) -> None:
    wanted = answer(reference.parse_amount, reference.JsonFloat(text))  # type: ignore[arg-type]
    assert answer(parse_amount, JsonFloat(text)) == wanted  # type: ignore[arg-type]
    assert answer(parse_decimal, text) == wanted


@given(st.one_of(json_values, st.text(st.characters(codec=None))), st.integers(4, 80))
@example("'" + "a" * 100, 10)
@example("a" * 100 + "'", 10)
@example("'" + "a" * 100 + '"', 10)
@example(["a" * 100 + "'"] * 3, 60)
def test_what_is_shown_is_the_beginning_of_the_whole(value: object, most: int) -> None:
    whole = reference.in_words(value)
    wanted = whole if len(whole) <= most else whole[: most - 3] + "..."
    assert shown(value, most) == wanted


@given(st.one_of(json_values, st.floats()))
def test_the_canonical_text_is_as_json_writes_it(value: object) -> None:
    def written(value: object) -> str:
        return json.dumps(
            value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
        )

    try:
        wanted = written(value)
    except ValueError:
        with pytest.raises(ValueError, match="JSON"):
            canonical(value)
    else:
        assert canonical(value) == wanted


@pytest.mark.parametrize("value", [[1.5, {"b": "é", "a": None}], "a", [], 7])
def test_without_the_fast_writer_the_text_is_the_same(
    value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("json.encoder.c_make_encoder", None)
    assert json_texts._writer()(value) == canonical(value)


# --- the brackets


def depth(text: str) -> int:
    """How deep the brackets of a text go, read from the left as JSON is."""
    depth = deepest = 0
    inside = escaped = False
    for char in text:
        if inside:
            inside = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            inside = True
        elif char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest


strings = st.lists(st.sampled_from(["[", "]}", "\\\\", '\\"', "x", "é", "\ud800"])).map("".join)
outside = st.lists(st.sampled_from(["[", "]", "{", "}", ",", "é"])).map("".join)
bracketed = st.builds(
    lambda parts, tail: "".join(f'{between}"{string}"' for between, string in parts) + tail,
    st.lists(st.tuples(outside, strings)),
    st.one_of(outside, st.builds('{}"{}'.format, outside, strings)),
)


@given(bracketed)
def test_the_depth_of_brackets_is_that_of_a_simple_scan(text: str) -> None:
    padded = '"' + "[" * (NESTING_MAX + 1) + '"' + text  # enough brackets to be looked at
    assert nesting(padded) == depth(padded)


# --- the work


def steps(work: Callable[[], object]) -> int:
    """How many lines of Python, and calls of C functions, `work` takes: its loops, not its time."""
    taken = 0

    def count(*_: object) -> Any:
        nonlocal taken
        taken += 1
        return count

    sys.settrace(count)
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.settrace(None)
        sys.setprofile(None)
    return taken


SHAPES = [*LEGAL, *HOSTILE]
NAMES = [shape.name for shape in SHAPES]


@pytest.mark.parametrize("shape", SHAPES, ids=NAMES)
def test_the_steps_grow_as_the_bodies_do(shape: Shape) -> None:
    def taken(size: int) -> int:
        bodies = shape.make(size)
        return steps(lambda: [answer(events.decode, body) for body in bodies])

    taken(6_000)  # what is compiled and cached once
    few, some, many = map(taken, (6_000, 12_000, 24_000))
    assert many - some <= 2.2 * (some - few) + 50


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if "packe" not in shape.name])
def test_only_packed_events_take_steps_each(shape: Shape) -> None:
    """Whatever else a body holds, no line of Python runs for each of it."""
    for body in shape.make(20_000)[:1]:
        assert steps(partial(answer, events.decode, body)) < 1_000


@pytest.mark.parametrize("shape", SHAPES, ids=NAMES)
def test_each_shape_of_the_benchmark_is_read_as_it_was_at_first(shape: Shape) -> None:
    for body in shape.make(5_000)[:3]:
        found, detail = answer(events.decode, body)
        wanted, told = answer(reference.decode, body)
        assert found == wanted
        if found is not Reason.NOT_JSON:
            assert detail == told


@pytest.mark.parametrize("shape", HOSTILE, ids=lambda shape: shape.name)
def test_a_hostile_body_of_the_largest_size_is_answered(shape: Shape) -> None:
    """With a quadratic scan some of these take most of an hour each, and the tests do not end."""
    (body,) = shape.make(QUEUE_MESSAGE_BYTES_MAX)
    found, detail = answer(events.decode, body)
    assert isinstance(found, Event | Reason)
    assert len(detail) < 300


# --- numbers of very many digits


@pytest.mark.parametrize("limit", [0, INTEGER_DIGITS_MAX, 100_000])
def test_the_limit_of_digits_is_ours_whatever_pythons_own_is(limit: int) -> None:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(limit)
    try:
        assert load_json("-" + "7" * INTEGER_DIGITS_MAX) == -int("7" * INTEGER_DIGITS_MAX)
        with pytest.raises(Rejected, match="a whole number has more than 4300 digits") as rejected:
            load_json("[1, " + "7" * (INTEGER_DIGITS_MAX + 1) + "]")
    finally:
        sys.set_int_max_str_digits(before)
    assert rejected.value.reason is Reason.NOT_JSON


def test_garbage_is_collected_again_after_each_body() -> None:
    assert gc.isenabled()
    for body in ('{"key":"k"}', "{"):
        answer(events.decode, body)
        assert gc.isenabled()
    gc.disable()
    try:
        events.decode('{"key":"k"}')
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_floats_without_their_text_count_as_their_shortest_form() -> None:
    single, packet = (
        events.parse({"key": "k", **fields})
        for fields in ({"value": 1.5}, {"id": "p", "t0": NOW, "events": [[0, 1.5]]})
    )
    assert isinstance(single, Event)
    assert isinstance(packet, events.Packet)
    assert single.amount == packet.entries[0][1] == 1_500_000
    with pytest.raises(Rejected, match=r"packed event 1\.5: must be"):
        events.parse({"key": "k", "id": "p", "t0": NOW, "events": [1.5]})
