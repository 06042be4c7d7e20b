"""The schema, `validate` and the writer's parser agree, except where the differences say."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import decompress

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tallyroll.client.jsonlines import LineSource
from tallyroll.client.validation import BadLine, Validation
from tallyroll.errors import Rejected
from tallyroll.limits import NESTING_MAX
from tallyroll.model.events import decode
from tallyroll.model.formats.json_texts import load_json, nesting
from tallyroll.operations.schemas import FORMS, schema_of
from tallyroll.reasons import Reason
from tests.harness.pipeline import NOW
from tests.messages.differences import DIFFERENCES, Difference
from tests.properties.strategies import json_values
from tests.properties.test_decoding import body, broken, compressed, legal, numbers

MESSAGE = Draft202012Validator(schema_of("message"))
BY_FORM = {name: Draft202012Validator(schema_of(name)) for name in FORMS}
NEAR = [
    "~k",
    "k~",
    "",
    "\x1f",
    "\x7f",
    "\x85",
    "\x9f",
    "\xa0",
    "k\n",
    "ä" * 256,
    "ä" * 257,
    "k" * 512,
    "k" * 513,
    "\ud800",
]
NUMBERS = ["1e18", "-1e18", "999999999999999999.999999", "1e-6", "1e-7", "0.1", "1e400", "-0.0"]
NUMBERS += ["-999999999999999999.999999", "-1000000000000000000", "1000000000000000001", '"1"']
NUMBERS += ["0e999999999999999999", "1e-999999999999999999", "1000000000000000000", "1.0000000"]
TIMES = ["0", "-1", "99999999999", "100000000000", "253402300799999", "253402300800000", "1e12"]
TIMES += [str(NOW), f"{NOW}.0", "true", "null", '"1795163400000"']

names = st.one_of(st.sampled_from(NEAR), st.text(st.characters(codec=None), max_size=5))
texts = st.one_of(names.map(json.dumps), st.sampled_from(["null", "7", "[]"]))
values = st.one_of(numbers, st.sampled_from([*NUMBERS, "null", "true", '"1"']))
times = st.sampled_from(TIMES)
payloads = st.one_of(json_values.map(json.dumps), values, texts)
versions = st.sampled_from(["1", "1.0", "2", "true", "null", '"1"'])
REFERENCE = '{"bucket":"b","key":"payloads/votes/2026-11-20/0","bytes":7,"sha256":"%s"}' % (
    "0" * 64
)
REFERENCES = [REFERENCE, REFERENCE.replace("7", "7.0"), REFERENCE.replace("0" * 64, "x")]
REFERENCES += ["null", "7", "{}"]
near_events = st.fixed_dictionaries(
    {"key": texts},
    optional={
        "id": texts,
        "ts": times,
        "value": values,
        "payload": payloads,
        "payload_ref": st.sampled_from(REFERENCES),
        "v": versions,
    },
)
offsets = st.one_of(st.integers(-(10**15), 10**15).map(str), st.sampled_from(["0", "1.0", "null"]))
ENTRIES = ["[]", "[0,1,2,3]", "7", "{}", "null", '{"id":"e"}', '{"id":null}', '{"key":"other"}']
near_entries = st.one_of(
    st.tuples(offsets).map(list),
    st.tuples(offsets, values).map(list),
    st.tuples(offsets, values, payloads).map(list),
).map(lambda parts: f"[{','.join(parts)}]")
packed = st.lists(st.one_of(near_entries, st.sampled_from(ENTRIES)), max_size=3).map(
    lambda entries: f"[{','.join(entries)}]"
)
near_packets = st.fixed_dictionaries(
    {"key": texts, "id": texts, "t0": times, "events": packed}, optional={"v": versions}
)
bodies = st.one_of(near_events.map(body), near_packets.map(body), legal, broken, compressed).map(
    lambda text: text.replace("\n", " ")
)


def reason_of(text: str) -> Reason | None:
    """Why the writer's parser rejects a body; None if it does not."""
    try:
        decode(text)
    except Rejected as rejected:
        return rejected.reason
    return None


def read(text: str) -> Any:
    """A body as validators of schemas read it; None if it is not JSON for them."""
    try:
        return json.loads(text, parse_constant=lambda name: json.loads(""))
    except (ValueError, RecursionError):
        return None


def differing(text: str, reason: Reason) -> list[Difference]:
    """The differences that explain why a body that fits the schema is rejected."""
    fields = load_json(text)
    return [each for each in DIFFERENCES if reason in each.reasons and each.holds(fields)]


def at_each_bound() -> Iterator[str]:
    """A good event and a good packet, each with one part near a bound, or left out."""
    whole = {"key": '"k"', "id": '"p"', "t0": str(NOW), "events": "[[0]]"}
    ids = [*map(json.dumps, NEAR), "null", "7", "[]"]
    entries = [*ENTRIES, *(f"[{dt}]" for dt in ("1.0", "null", "true", '"1"', -(10**15)))]
    entries += [f"[0,{value}]" for value in (*NUMBERS, "null", "true")]
    entries += [f"[0,1,{payload}]" for payload in ("null", "1e400", r'"\ud800"', '"x"')]
    parts: dict[str, list[str]] = {"key": ids, "id": ids, "v": ["1", "1.0", "2", "true", "null"]}
    parts["ts"] = parts["t0"] = TIMES
    parts["value"] = [*NUMBERS, "null", "true"]
    parts["payload"] = ["null", "1e400", r'"\ud800"', '{"a":[1]}']
    parts["payload_ref"] = REFERENCES
    parts["events"] = ["null", "[]", "{}", *(f"[[0],{entry}]" for entry in entries)]
    referring = {"key": '"k"', "payload_ref": REFERENCE}
    for base in ({"key": '"k"'}, whole, referring, {**referring, "v": "2"}):
        for name, near in parts.items():
            yield body({field: text for field, text in base.items() if field != name})
            yield from (body({**base, name: text}) for text in near)


def form_of(value: dict[str, Any]) -> str:
    """The form that a message may have."""
    if value.get("payload_ref") is not None:
        return "referring"
    if value.get("v") == 2:
        return "compressed"
    return "packet" if "events" in value else "event"


def check_agreement(text: str) -> None:
    """The schema and the parser agree on a body, or a difference says why not."""
    value, reason = read(text), reason_of(text)
    fits = value is not None and MESSAGE.is_valid(value)
    if isinstance(value, dict):
        form = form_of(value)
        found = [name for name, schema in BY_FORM.items() if schema.is_valid(value)]
        assert found == [form] * fits
        if form == "compressed" and fits and reason:  # else it is its packet that is wrong
            assert reason is Reason.BAD_COMPRESSION or decompress(b64decode(value["zlib"]))
            return
    if reason is None:
        assert fits, [error.message for error in MESSAGE.iter_errors(value)]
    elif fits and reason is Reason.NOT_JSON:
        assert nesting(text) > NESTING_MAX
    elif fits:
        assert differing(text, reason), reason


@given(bodies)
@example('{"key":"k","v":1.0}')
def test_the_schema_and_the_parser_agree_except_for_the_named_differences(text: str) -> None:
    check_agreement(text)


def test_at_each_bound_the_schema_and_the_parser_agree() -> None:
    found = list(at_each_bound())
    assert len(found) > 250
    for text in found:
        check_agreement(text)
    assert len({reason_of(text) for text in found} - {None}) >= 10


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.rule)
def test_each_difference_is_one(difference: Difference, tmp_path: Path) -> None:
    assert MESSAGE.is_valid(json.loads(difference.example))
    (bad,) = validated(tmp_path / "lines.jsonl", difference.example)
    assert bad
    assert bad.reason in difference.reasons


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("validated") / "lines.jsonl"


def validated(path: Path, *texts: str) -> list[BadLine | None]:
    """What `tallyroll validate` finds in lines."""
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    source = LineSource(str(path))
    try:
        return [
            line if isinstance(line, BadLine) else None for line in Validation(source).verdicts()
        ]
    finally:
        source.close()


@given(st.lists(bodies, max_size=4))
def test_validate_gives_the_parsers_verdict(lines: Path, texts: list[str]) -> None:
    assume(all(text.strip() and text.isprintable() for text in texts))  # no raw surrogates
    found = validated(lines, *texts)
    assert [bad and bad.reason for bad in found] == [reason_of(text.strip()) for text in texts]
    assert [bad.number for bad in found if bad] == [
        number for number, bad in enumerate(found, 1) if bad
    ]


PATHS = {
    '{"key":"k","v":2}': "$.v",
    '{"id":"e"}': "$.key",
    '{"key":"~k"}': "$.key",
    '{"key":"k","id":7}': "$.id",
    '{"key":"k","ts":"1"}': "$.ts",
    '{"key":"k","ts":1795161600}': "$.ts",
    '{"key":"k","value":"1"}': "$.value",
    r'{"key":"k","payload":{"a":"\ud800"}}': "$.payload",
    "[]": "$",
    "no": "$",
    '{"key":"k","payload":"' + "x" * 1_048_500 + '"}': "$",
    '{"key":"~","id":"p","t0":1795161600000,"events":[[0]]}': "$.key",
    '{"key":"k","t0":1795161600000,"events":[[0]]}': "$.id",
    '{"key":"k","id":7,"t0":1795161600000,"events":[[0]]}': "$.id",
    '{"key":"k","id":"p","events":[[0]]}': "$.t0",
    '{"key":"k","id":"p","t0":"1","events":[[0]]}': "$.t0",
    '{"key":"k","id":"p","t0":1795161600,"events":[[0]]}': "$.t0",
    '{"key":"k","id":"p","t0":1795161600000,"events":7}': "$.events",
    '{"key":"k","id":"p","t0":1795161600000,"events":[]}': "$.events",
    '{"key":"k","id":"p","t0":1795161600000,"events":[[0],[]]}': "$.events[1]",
    '{"key":"k","id":"p","t0":1795161600000,"events":[[0],[1,2,3,4]]}': "$.events[1]",
    '{"key":"k","id":"p","t0":1795161600000,"events":[7,[0]]}': "$.events[0]",
    '{"key":"k","id":"p","t0":1795161600000,"events":[[0],[1.5]]}': "$.events[1][0]",
    '{"key":"k","id":"p","t0":1795161600000,"events":[[0],[-1795161600000]]}': "$.events[1][0]",
    '{"key":"k","id":"p","t0":1795161600000,"events":[[0],[999999999999999]]}': "$.events[1][0]",
    '{"key":"k","id":"p","t0":1795161600000,"events":[[0,0.1],[0,0.1234567]]}': "$.events[1][1]",
    '{"key":"k","id":"p","t0":1795161600000,"events":[[0],[0,1,1e400]]}': "$.events[1][2]",
    '{"key":"k","id":"p","t0":1795161600000,"events":[[0],{"id":"e"}]}': "$.events[1].id",
    '{"key":"k","id":"p","t0":1795161600000,"events":[[0],{"key":"l"}]}': "$.events[1].key",
    '{"key":"k","id":"p","t0":1795161600000,"events":[' + "[0]," * 70_000 + "[0]]}": "$",
}


@pytest.mark.parametrize(("text", "path"), PATHS.items(), ids=lambda text: text[:90])
def test_each_reason_has_its_path(text: str, path: str, tmp_path: Path) -> None:
    (bad,) = validated(tmp_path / "lines.jsonl", text)
    assert bad
    assert bad.path == path


@given(st.one_of(bodies, st.sampled_from(list(at_each_bound()))))
def test_the_path_names_what_is_wrong(lines: Path, text: str) -> None:
    """Without the field that a path names, or with a good one, this reason is gone."""
    assume(text.strip() and text.isprintable())
    (bad,) = validated(lines, text)
    assume(bad and bad.path != "$")
    assert bad
    fields = load_json(text)
    steps = [int(step) if step.isdigit() else step for step in _steps(bad.path)]
    *above, last = steps
    holder = fields
    for step in above:
        holder = holder[step]
    if isinstance(holder, list):
        holder[int(last)] = {0: 0, 1: 1, 2: None}[int(last)] if len(above) == 2 else [0]
    else:
        good = {"key": fields.get("key") if len(above) else "k", "id": None, "t0": NOW}
        good |= {"events": [[0]], "v": 1, "ts": NOW, "value": 1, "payload": None}
        if "events" in fields and len(steps) == 1:
            good["id"] = "p"
        holder[str(last)] = good[str(last)]
    (after,) = validated(lines, json.dumps(fields))
    again = after and (after.path, after.reason, after.detail)
    assert again != (bad.path, bad.reason, bad.detail)


def _steps(path: str) -> list[str]:
    return path[2:].replace("[", ".").replace("]", "").split(".")
