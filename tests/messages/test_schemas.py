"""The committed schemas are those of the code, and change within a version as the rule allows."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tallyroll.adapters.aws.sqs import Letter, _attributes
from tallyroll.errors import Absent, Archived, Rejected, StoreError, UsageError
from tallyroll.model.events import decode
from tallyroll.model.messages import Message, RedriveMark, Rejection
from tallyroll.model.retractions import MARK, VERSION, parse_retraction
from tallyroll.operations.schemas import SCHEMAS, file_name, schema_of, schema_text
from tallyroll.reads.described.problems import PROBLEMS, ProblemType
from tallyroll.reads.http import answer_error
from tallyroll.reasons import Reason
from tests.harness.pipeline import NOW, WINDOW
from tests.messages.compatibility import COMMITTED, PUBLISHED, RECEIVED, ROOT, SENT, breaks, read

Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_committed_schema_is_that_of_the_code(name: str) -> None:
    committed = (COMMITTED / file_name(name)).read_text(encoding="utf-8")
    assert committed == schema_text(name), "run `python -m tests.docs.reference`"
    Draft202012Validator.check_schema(schema_of(name))
    assert schema_of(name)["$id"] == f"urn:tallyroll:{name}:{SCHEMAS[name][0]}"


def test_no_schema_is_forgotten() -> None:
    assert sorted((*SENT, *RECEIVED)) == sorted(SCHEMAS)
    for folder in (COMMITTED, PUBLISHED):
        assert {file_name(name) for name in SCHEMAS} <= {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("name", SCHEMAS)
def test_within_a_version_nothing_breaks(name: str) -> None:
    found = list(breaks(read(PUBLISHED, name), schema_of(name), sent=name in SENT))
    assert not found, "this needs a new version of the schema (docs/messages.md)"


# --- the rule


def properties(schema: dict[str, Any]) -> dict[str, Any]:
    found = schema["properties"]
    assert isinstance(found, dict)
    return found


ALLOWED: list[tuple[str, Change]] = [
    ("event", lambda schema: properties(schema).update(tags={"type": "array"})),
    ("event", lambda schema: properties(schema)["key"].update(maxLength=1024)),
    ("event", lambda schema: properties(schema)["key"].update(description="other words")),
    ("event", lambda schema: properties(schema)["value"]["anyOf"][1].pop("maximum")),
    ("packet", lambda schema: schema["required"].remove("id")),
    ("referring", lambda schema: properties(schema)["v"]["enum"].append(3)),
    ("message", lambda schema: schema["$defs"].update(cloud={"type": "object"})),
    ("message", lambda schema: schema["anyOf"].append({"$ref": "#/$defs/cloud"})),
    ("retraction", lambda schema: schema["prefixItems"][2].pop("additionalProperties")),
    ("rejection", lambda schema: schema["required"].append("MessageId")),
    ("rejection", lambda schema: reasons(schema).append("new-reason")),
    ("problem", lambda schema: properties(schema).update(retry={"type": "integer"})),
    ("problem", lambda schema: properties(schema)["status"].update(maximum=503)),
]
BREAKING: list[tuple[str, Change]] = [
    ("event", lambda schema: schema["required"].append("id")),
    ("event", lambda schema: properties(schema).pop("ts")),
    ("event", lambda schema: properties(schema)["key"].update(maxLength=100)),
    ("event", lambda schema: properties(schema)["key"].update(minLength=2)),
    ("event", lambda schema: properties(schema)["key"].update(pattern="^[a-z]+$")),
    ("event", lambda schema: properties(schema)["key"]["not"].update(pattern="^_")),
    ("event", lambda schema: properties(schema)["key"].update(type="integer")),
    ("event", lambda schema: properties(schema)["id"]["anyOf"].pop(0)),
    ("event", lambda schema: properties(schema)["v"].update(const=2)),
    ("event", lambda schema: properties(schema)["payload"].update(enum=[None])),
    ("event", lambda schema: properties(schema).update(events=True)),
    ("referring", lambda schema: properties(schema)["v"]["enum"].remove(1)),
    ("event", lambda schema: schema.update(additionalProperties=False)),
    ("packet", lambda schema: properties(schema)["events"].update(maxItems=10)),
    ("packet", lambda schema: properties(schema)["events"]["items"].update(maxItems=2)),
    ("message", lambda schema: schema["anyOf"].pop()),
    ("message", lambda schema: schema["anyOf"].reverse()),
    ("message", lambda schema: schema["$defs"]["event"]["required"].append("id")),
    ("retraction", lambda schema: schema["prefixItems"][2]["required"].append("why")),
    ("retraction", lambda schema: schema["prefixItems"][1].update(const=2)),
    ("rejection", lambda schema: schema["required"].pop()),
    ("rejection", lambda schema: reasons(schema).remove("too-late")),
    ("problem", lambda schema: schema.pop("then")),
    ("problem", lambda schema: schema["anyOf"].append({})),
    ("problem", lambda schema: properties(schema).pop("archive")),
    ("problem", lambda schema: properties(schema)["detail"].update(type=["string", "null"])),
    ("problem", lambda schema: properties(schema)["status"].update(minimum=200)),
    ("problem", lambda schema: schema.update({"$id": "urn:tallyroll:problem:2"})),
]


def reasons(schema: dict[str, Any]) -> list[str]:
    attributes = properties(properties(schema)["MessageAttributes"])
    found = properties(attributes["tallyroll-reason"])["StringValue"]["anyOf"][0]["enum"]
    assert isinstance(found, list)
    return found


def broken_by(name: str, change: Change) -> list[str]:
    new = deepcopy(schema_of(name))
    change(new)
    assert new != schema_of(name)
    return list(breaks(schema_of(name), new, sent=name in SENT))


@pytest.mark.parametrize(("name", "change"), ALLOWED)
def test_what_the_rule_allows(name: str, change: Change) -> None:
    assert broken_by(name, change) == []


@pytest.mark.parametrize(("name", "change"), BREAKING)
def test_what_breaks_is_found(name: str, change: Change) -> None:
    assert broken_by(name, change)


# --- what the schemas are about


def letter(reason: Reason, **more: Any) -> dict[str, Any]:
    """A rejection, as ReceiveMessage gives it."""
    redrive = RedriveMark(WINDOW, "first", NOW) if more.get("redriven") else None
    message = Message("m", more.get("body", "{"), NOW, 1, "r", redrive)
    sent = Letter(message.body, _attributes(Rejection(message, reason, "why", more.get("window"))))
    attributes = {
        name: {"DataType": "String", "StringValue": text} for name, text in sent.attributes.items()
    }
    return {"MessageId": "n", "ReceiptHandle": "h", "Body": sent.body} | {
        "MessageAttributes": attributes | more.get("attributes", {})
    }


def test_each_rejection_of_the_writer_fits() -> None:
    schema = Draft202012Validator(schema_of("rejection"))
    assert reasons(schema_of("rejection")) == [str(reason) for reason in Reason]
    for reason in Reason:
        schema.validate(letter(reason))
        schema.validate(letter(reason, window=WINDOW, redriven=True))
    assert schema.is_valid(letter(Reason.BAD_KEY, attributes=attribute("reason", "quite-new")))
    for name, text in (("reason", "No Reason"), ("sent", "today"), ("window", "08:00")):
        assert not schema.is_valid(letter(Reason.BAD_KEY, attributes=attribute(name, text)))
    moved = {"Body": "{}", "MessageAttributes": {}}
    assert not schema.is_valid(moved)


def attribute(name: str, text: str) -> dict[str, Any]:
    return {f"tallyroll-{name}": {"DataType": "String", "StringValue": text}}


ASKED: dict[str, Any] = {"key": "k", "id": "e", "ts": NOW}


@pytest.mark.parametrize(
    "fields",
    [
        ASKED,
        {**ASKED, "index": 0, "keys": ["a", "k"], "by": "ann", "why": "w" * 256, "window": None},
        {"key": "k", "id": "e", "window": WINDOW, "ts": None, "index": None, "keys": None},
    ],
)
def test_each_retraction_that_a_writer_reads_fits(fields: dict[str, Any]) -> None:
    body = [MARK, VERSION, fields]
    parse_retraction(body)
    Draft202012Validator(schema_of("retraction")).validate(body)
    Draft202012Validator(schema_of("retraction")).validate(json.loads(parse_retraction(body).body))


@pytest.mark.parametrize(
    "body",
    [
        [MARK, VERSION],
        [MARK, 2, ASKED],
        [MARK, True, ASKED],
        [MARK, VERSION, ASKED, 1],
        [MARK, VERSION, []],
        [MARK, VERSION, {**ASKED, "other": 1}],
        [MARK, VERSION, {"key": "k", "ts": NOW}],
        [MARK, VERSION, {"id": "e", "ts": NOW}],
        [MARK, VERSION, {"key": "k", "id": "e"}],
        [MARK, VERSION, {**ASKED, "window": WINDOW}],
        [MARK, VERSION, {**ASKED, "ts": None, "window": "08:00"}],
        [MARK, VERSION, {**ASKED, "key": "~k"}],
        [MARK, VERSION, {**ASKED, "index": -1}],
        [MARK, VERSION, {**ASKED, "keys": []}],
        [MARK, VERSION, {**ASKED, "keys": [f"k{n}" for n in range(25)]}],
        [MARK, VERSION, {**ASKED, "by": None}],
        [MARK, VERSION, {**ASKED, "why": "w" * 257}],
    ],
    ids=str,
)
def test_no_retraction_that_a_writer_refuses_fits(body: list[Any]) -> None:
    with pytest.raises(Rejected):
        parse_retraction(body)
    assert not Draft202012Validator(schema_of("retraction")).is_valid(body)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UsageError("key is missing"), 400),
        (Absent("no such window"), 404),
        (Archived(WINDOW, "archive/x"), 410),
        (ValueError("a bug"), 500),
        (StoreError("throttled"), 503),
    ],
)
def test_each_problem_of_the_api_fits(error: Exception, status: int) -> None:
    schema = Draft202012Validator(schema_of("problem"))
    body = answer_error(error).body
    assert body["status"] == status
    schema.validate(body)
    schema.validate({**body, "instance": "/v1/counters"})
    assert not schema.is_valid({**body, "title": "Other"})
    assert not schema.is_valid({name: text for name, text in body.items() if name != "detail"})
    if status == 410:
        assert not schema.is_valid({name: body[name] for name in body.keys() - {"archive"}})
    schema.validate({**body, "status": 429, "title": "Too many requests"})


@pytest.mark.parametrize("kind", PROBLEMS, ids=lambda kind: kind.name)
def test_each_type_of_problem_fits(kind: ProblemType) -> None:
    body = {"type": kind.uri, "title": kind.title, "status": kind.status, "detail": "d"}
    Draft202012Validator(schema_of("problem")).validate(body | {"archive": "archive/x"})


@pytest.mark.parametrize("path", sorted((ROOT / "events").glob("writer-*.json")), ids=str)
def test_the_sample_events_are_what_their_schema_says(path: Path) -> None:
    schema = Draft202012Validator(schema_of("message"))
    for record in json.loads(path.read_text(encoding="utf-8"))["Records"]:
        try:
            decode(record["body"])
        except Rejected:
            continue
        schema.validate(json.loads(record["body"]))
