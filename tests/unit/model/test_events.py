from __future__ import annotations

import gc
import json
import sys
from decimal import Decimal
from typing import Any

import pytest

from tallyroll.errors import Rejected
from tallyroll.limits import INTEGER_DIGITS_MAX, NESTING_MAX, TS_MS_MAX, TS_MS_MIN
from tallyroll.model.events import Event, Packet, decode, digest, parse
from tallyroll.model.foreign.reading import read
from tallyroll.model.formats import json_texts
from tallyroll.model.formats.json_texts import canonical, load_json
from tallyroll.reasons import Reason
from tests.harness.pipeline import NOW

DEEP = 100_000


def packet(**changes: Any) -> str:
    fields = {"v": 1, "id": "p1", "key": "k", "t0": NOW, "events": [[0]], **changes}
    return json.dumps({name: value for name, value in fields.items() if value is not ...})


def event(raw: str = "", **fields: Any) -> str:
    """An event's body; `raw` is JSON text put behind the other fields."""
    text = json.dumps({"key": "k", **fields})
    return text[:-1] + (", " + raw if raw else "") + "}"


BAD = {
    "empty body": ("", Reason.EMPTY_BODY),
    "blank body": (" \n\t", Reason.EMPTY_BODY),
    "not JSON": ("key=k", Reason.NOT_JSON),
    "half of JSON": ('{"key":"k"', Reason.NOT_JSON),
    "two events": ('{"key":"k"}{"key":"k"}', Reason.NOT_JSON),
    "byte order mark": ('\ufeff{"key":"k"}', Reason.NOT_JSON),
    "NaN as value": (event('"value": NaN'), Reason.NOT_JSON),
    "Infinity as value": (event('"value": Infinity'), Reason.NOT_JSON),
    "minus Infinity in the payload": (event('"payload": [-Infinity]'), Reason.NOT_JSON),
    "NaN where nothing looks": (event('"note": NaN'), Reason.NOT_JSON),
    "an integer of 5,000 digits": (event('"value": ' + "7" * 5_000), Reason.NOT_JSON),
    "the same in the payload": (event('"payload": ' + "7" * 5_000), Reason.NOT_JSON),
    "nested far too deeply": (event('"payload": ' + "[" * DEEP + "]" * DEEP), Reason.NOT_JSON),
    "an array": ("[]", Reason.NOT_AN_OBJECT),
    "a text": ('"k"', Reason.NOT_AN_OBJECT),
    "null": ("null", Reason.NOT_AN_OBJECT),
    "a number": ("1.5", Reason.NOT_AN_OBJECT),
    "version 2": (event(v=2), Reason.UNKNOWN_VERSION),
    "version '1'": (event(v="1"), Reason.UNKNOWN_VERSION),
    "version true": (event(v=True), Reason.UNKNOWN_VERSION),
    "version null": (event(v=None), Reason.UNKNOWN_VERSION),
    "no key": ("{}", Reason.BAD_KEY),
    "empty key": (event(key=""), Reason.BAD_KEY),
    "null key": (event(key=None), Reason.BAD_KEY),
    "a number as key": (event(key=7), Reason.BAD_KEY),
    "a key of 513 bytes": (event(key="k" * 513), Reason.BAD_KEY),
    "a key of 257 characters in 514 bytes": (event(key="ü" * 257), Reason.BAD_KEY),
    "a key with a control character": (event(key="a\x00b"), Reason.BAD_KEY),
    "a key with a later control character": (event(key="a\x85b"), Reason.BAD_KEY),
    "a reserved key": (event(key="~t.1"), Reason.BAD_KEY),
    "a lone surrogate in the key": (event(key="a\ud800"), Reason.BAD_KEY),
    "empty id": (event(id=""), Reason.BAD_ID),
    "a number as id": (event(id=7), Reason.BAD_ID),
    "an id of 513 bytes": (event(id="i" * 513), Reason.BAD_ID),
    "an id with a line feed": (event(id="a\n"), Reason.BAD_ID),
    "a lone surrogate in the id": (event(id="\udfff"), Reason.BAD_ID),
    "ts in seconds": (event(ts=NOW // 1000), Reason.TS_IN_SECONDS),
    "ts 0": (event(ts=0), Reason.TS_IN_SECONDS),
    "negative ts": (event(ts=-1), Reason.BAD_TS),
    "ts with a fraction": (event(ts=NOW + 0.5), Reason.BAD_TS),
    "ts as text": (event(ts=str(NOW)), Reason.BAD_TS),
    "ts true": (event(ts=True), Reason.BAD_TS),
    "ts after the year 9999": (event(ts=TS_MS_MAX + 1), Reason.BAD_TS),
    "value as text": (event(value="1"), Reason.BAD_VALUE),
    "value true": (event(value=True), Reason.BAD_VALUE),
    "value 10^18": (event(value=10**18), Reason.BAD_VALUE),
    "value -10^18": (event(value=-(10**18)), Reason.BAD_VALUE),
    "value 1e400": (event('"value": 1e400'), Reason.BAD_VALUE),
    "seven decimals": (event('"value": 0.0000001'), Reason.BAD_VALUE),
    "a value of 4,000 digits": (event('"value": ' + "7" * 4_000), Reason.BAD_VALUE),
    "1e400 in the payload": (event('"payload": {"a": [1e400]}'), Reason.BAD_PAYLOAD),
    "a lone surrogate in the payload": (event(payload=["\ud800"]), Reason.BAD_PAYLOAD),
    "a lone surrogate as a name": (event(payload={"\ud800": 1}), Reason.BAD_PAYLOAD),
    "packet without an id": (packet(id=...), Reason.BAD_PACKET),
    "packet without t0": (packet(t0=...), Reason.BAD_PACKET),
    "t0 in seconds": (packet(t0=NOW // 1000), Reason.TS_IN_SECONDS),
    "packed events as an object": (packet(events={"0": [0]}), Reason.BAD_PACKET),
    "packed events null": (packet(events=None), Reason.BAD_PACKET),
    "packet without events": (packet(events=[]), Reason.PACKET_EMPTY),
    "packed event without dt": (packet(events=[[]]), Reason.BAD_PACKET),
    "packed event of four": (packet(events=[[0, 1, None, 1]]), Reason.BAD_PACKET),
    "packed event as a number": (packet(events=[0]), Reason.BAD_PACKET),
    "packed event as an object": (packet(events=[{"dt": 0}]), Reason.BAD_PACKET),
    "dt as text": (packet(events=[["0"]]), Reason.BAD_PACKET),
    "dt true": (packet(events=[[True]]), Reason.BAD_PACKET),
    "dt far before": (packet(events=[[0], [-NOW - 1]]), Reason.BAD_TS),
    "dt back to seconds": (packet(events=[[1 - NOW]]), Reason.TS_IN_SECONDS),
    "packed value as text": (packet(events=[[0, "1"]]), Reason.BAD_VALUE),
    "1e400 in a packed payload": (
        packet(events=[[0, 1, 0]]).replace("1, 0]", "1, 1e400]"),
        Reason.BAD_PAYLOAD,
    ),
    "packed event of its own id": (packet(events=[{"id": "e1", "dt": 0}]), Reason.PACKET_OWN_IDS),
    "packed event of another key": (packet(events=[{"key": "x"}]), Reason.PACKET_MIXED_KEYS),
}


@pytest.mark.parametrize(("body", "reason"), BAD.values(), ids=BAD.keys())
def test_what_can_never_count_is_rejected_with_its_reason(body: str, reason: Reason) -> None:
    with pytest.raises(Rejected) as rejected:
        decode(body)
    assert rejected.value.reason is reason
    assert 0 < len(rejected.value.detail) < 300


def test_the_same_depth_is_the_limit_on_every_python() -> None:
    deep = "[" * (NESTING_MAX - 1) + "]" * (NESTING_MAX - 1)
    assert isinstance(decode(event(f'"payload": {deep}')), Event)
    with pytest.raises(Rejected, match="nested more than 100 deep"):
        decode(event(f'"payload": [{deep}]'))
    assert isinstance(decode(event('"payload": "' + "[" * 500 + '\\""')), Event)


@pytest.mark.parametrize("name", ["key", "id", "ts", "value", "payload", "v", "events"])
def test_no_depth_of_nesting_gets_past_the_checks(name: str) -> None:
    fields = {"key": '"k"', "id": '"p"', "t0": str(NOW)}
    for depth in range(900, 1_100):
        nested = {**fields, name: "[" * depth + "]" * depth}
        body = "{" + ",".join(f'"{field}":{text}' for field, text in nested.items()) + "}"
        try:
            assert isinstance(decode(body), Event)
        except Rejected as rejected:
            assert len(rejected.detail) < 300  # noqa: PT017 - most depths are rejected, not all
        else:
            assert name == "payload"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (event(), Event("k", None, None, 1_000_000, None)),
        (event(id=None, ts=None, value=None, payload=None), Event("k", None, None, 10**6, None)),
        (event(value=0), Event("k", None, None, 0, None)),
        (event(value=-2.5), Event("k", None, None, -2_500_000, None)),
        (event(v=1.0), Event("k", None, None, 10**6, None)),
        (event(user="u1", Value=7, note={"a": []}), Event("k", None, None, 10**6, None)),
        (event(ts=TS_MS_MIN), Event("k", None, TS_MS_MIN, 10**6, None)),
        (event(ts=TS_MS_MAX), Event("k", None, TS_MS_MAX, 10**6, None)),
        (event(key="ü" * 256, id="i" * 512), Event("ü" * 256, "i" * 512, None, 10**6, None)),
        (event(key="a~b.1#~"), Event("a~b.1#~", None, None, 10**6, None)),
        (event(payload={"b": 1, "a": "ü"}), Event("k", None, None, 10**6, '{"a":"ü","b":1}')),
        (event(payload=False), Event("k", None, None, 10**6, "false")),
        (event(payload="😀"), Event("k", None, None, 10**6, '"😀"')),
        (' {"key":"x","key":"k"} ', Event("k", None, None, 10**6, None)),
    ],
)
def test_good_events(body: str, expected: Event) -> None:
    assert decode(body) == expected


def test_a_good_packet() -> None:
    body = packet(events=[[5], [0, -1.5], [-2, None, {"b": 1, "a": 2}]], note="kept out")
    entries = ((5, 10**6, None), (0, -1_500_000, None), (-2, 10**6, '{"a":2,"b":1}'))
    assert decode(body) == Packet("k", "p1", NOW, entries)


def test_a_sum_of_the_largest_values_fits_the_stores_numbers() -> None:
    largest = decode(event(raw='"value": 999999999999999999.999999'))
    assert isinstance(largest, Event)
    assert len(str(largest.amount * 10**13)) <= 38


def test_the_digest_is_of_what_was_supplied_with_defaults() -> None:
    same = [
        event(id="e", payload={"a": 1, "b": 2}),
        event(id="e", payload={"b": 2, "a": 1}, value=1, note="kept out"),
        event('"value": 1.000', id="e", payload={"a": 1, "b": 2}, v=1),
    ]
    assert len({digest(decode(body)) for body in same}) == 1


def test_the_digest_tells_contents_apart() -> None:
    bodies = [
        event(id="e"),
        event(id="f"),
        event(id="e", key="l"),
        event(id="e", ts=NOW),
        event(id="e", value=2),
        event(id="e", payload="null"),
        event(id="e", payload=[None]),
        packet(id="e"),
        packet(id="e", events=[[0], [0]]),
        packet(id="e", events=[[1]]),
        packet(id="e", t0=NOW - 1, events=[[1]]),
    ]
    assert len({digest(decode(body)) for body in bodies}) == len(bodies)


def test_the_digest_never_changes() -> None:
    """Stored digests must stay comparable: `printf '["e","k",null,"1",null]' | b2sum -l 128`."""
    assert digest(decode(event(id="e"))).hex() == "01a194921c30fc830c44b3eac774169c16"


def test_the_canonical_text_sorts_names_and_escapes_little() -> None:
    assert canonical({"ü": [1.50, None], "a": "\n"}) == '{"a":"\\n","ü":[1.5,null]}'


def test_events_are_made_of_pythons_numbers() -> None:
    assert Event.of("k", value=1.5, id="e", ts=NOW, payload={"a": [1]}) == Event(
        "k", "e", NOW, 1_500_000, '{"a":[1]}'
    )
    assert Event.of("k") == parse({"key": "k"})
    packet = parse({"key": "k", "id": "p", "t0": NOW, "events": [[0, 1.5], [1, Decimal("0.1")]]})
    assert isinstance(packet, Packet)
    assert [amount for _, amount, _ in packet.entries] == [1_500_000, 100_000]


@pytest.mark.parametrize("fields", [{"value": float("nan")}, {"value": True}, {"key": ""}])
def test_what_is_no_event_is_refused_where_it_is_made(fields: dict[str, Any]) -> None:
    with pytest.raises(Rejected):
        Event.of(**{"key": "k"} | fields)


def test_a_payload_that_json_does_not_have_is_refused() -> None:
    with pytest.raises(Rejected, match=r"payload is not JSON: .*Decimal") as refused:
        Event.of("k", payload={"price": Decimal(1)})
    assert refused.value.reason is Reason.BAD_PAYLOAD


def test_json_floats_remember_how_they_were_written() -> None:
    assert load_json("[1.10]")[0].text == "1.10"


def test_a_payload_of_python_that_is_nested_too_deeply_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(DEEP):
        deep = [deep]
    with pytest.raises(Rejected, match="payload is nested too deeply") as refused:
        Event.of("k", payload=deep)
    assert refused.value.reason is Reason.BAD_PAYLOAD
    while deep:  # else its end, level by level, would be too deep for Python
        deep = deep[0]


def test_reading_leaves_the_garbage_collector_as_it_was() -> None:
    body = event(payload="x" * 20_000)
    for enabled in (True, False):
        if not enabled:
            gc.disable()
        try:
            assert isinstance(read(body), Event)
            assert gc.isenabled() is enabled
        finally:
            gc.enable()


def test_digits_are_bounded_also_where_python_does_not_bound_them() -> None:
    digits = "1" * INTEGER_DIGITS_MAX
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        assert load_json(f"[-{digits}]")[0] < 0
        with pytest.raises(Rejected, match="a whole number has more than 4300 digits") as refused:
            load_json(f"[{digits}1]")
    finally:
        sys.set_int_max_str_digits(limit)
    assert refused.value.reason is Reason.NOT_JSON


def test_the_canonical_form_is_the_same_without_jsons_c_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(json.encoder, "c_make_encoder", None)
    plain = json_texts._writer()
    values: list[Any] = [{"b": [1, 2.5, None, True], "a": {"\u00fc\n": "\u2028"}}, "x", 0, []]
    for value in values:
        assert plain(value) == canonical(value)
    with pytest.raises(ValueError, match="Out of range float"):
        plain(float("inf"))


def test_a_text_that_is_read_near_the_end_of_the_stack_is_refused() -> None:
    """The reader's own depth is bounded, and the caller's is not."""

    def read_after(frames: int) -> Any:
        return read_after(frames - 1) if frames else load_json("[" * 90 + "]" * 90)

    refused: list[Rejected] = []
    limit = sys.getrecursionlimit()
    for frames in range(limit // 2, limit):
        try:
            read_after(frames)
        except Rejected as rejected:
            refused.append(rejected)
        except RecursionError:
            break
    assert {(each.reason, each.detail) for each in refused} == {
        (Reason.NOT_JSON, "nested too deeply")
    }
