"""Schemathesis checks the document against the handler, by requests that it makes up.

Its own checks all run but two: `ignored_auth`, since API Gateway authorizes callers, and, with the
document as it is, `positive_data_acceptance`: no schema says that bounds are those of windows, or
which parameters go together. The aimed document has only values that do.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from schemathesis import openapi
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import Status, events, from_schema

from functions.aggregator import handler
from tallyroll.reads import http
from tallyroll.reads.described.routes import ROUTES
from tallyroll.reads.http import HttpAnswer
from tests.functions.invocation import Invocations, load
from tests.functions.openapi.document import document
from tests.functions.openapi.served import Served
from tests.harness.pipeline import hour

Json = dict[str, Any]

pytestmark = pytest.mark.proof
EXAMPLES = 25
CHECKS = {
    "allow_header_conformance",
    "content_type_conformance",
    "negative_data_rejection",
    "not_a_server_error",
    "response_headers_conformance",
    "response_schema_conformance",
    "status_code_conformance",
    "unsupported_method",
}
ACCEPTANCE = "positive_data_acceptance"
AIMED: Mapping[str, Json] = {
    "key": {"enum": ["video:aurora-over-tromso", "nobody"]},
    "id": {"enum": ["play-8f2c1", "batch-77", "batch-77:1", "nobody"]},
    "date": {"enum": ["2026-11-20"]},
    "since": {"enum": [hour(6), "2026-11-20T07:00Z"]},
    "until": {"enum": [hour(8), "2026-11-20T10:00+01:00"]},
    "prefix": {"enum": ["", "video", "nobody"]},
    "tz": {"enum": ["UTC", "Europe/Berlin"]},
}
EXCLUDING = {
    "/v1/counters": ("windows", "reads"),
    "/v1/event": ("window", "ts", "since", "until", "archived"),
    "/v1/events": ("window", "cursor", "order", "archived"),
    "/v1/keys": ("cursor",),
    "/v1/top": ("window",),
}
"""Parameters that do not go with all others."""


@dataclass
class Found:
    """What a run of checks found: failures, how often each check held, and all answers."""

    failures: list[str] = field(default_factory=list)
    held: Counter[str] = field(default_factory=Counter)
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)


def checked(functions: Invocations, described: Json, *left_out: str, mode: str = "all") -> Found:
    """Check the handler against a document, by the same requests each time: in the mode `positive`
    only by those that fit it.
    """
    functions.write(load("writer-own-id.json"))
    functions.write(load("writer-packet.json"))
    served, found = Served(functions.ask), Found()
    off: Json = {"enabled": False}
    config = SchemathesisConfig.from_dict(
        {
            "seed": 1,
            "continue-on-failure": True,
            "generation": {
                "mode": mode,
                "max-examples": EXAMPLES,
                "deterministic": True,
                "database": "none",
            },
            "phases": {"stateful": off},  # all routes are GETs
            "checks": dict.fromkeys(("ignored_auth", *left_out), off),
        }
    )
    schema = openapi.from_dict(described, config=config)
    schema.app = served
    for event in from_schema(schema).execute():
        if isinstance(event, events.FatalError | events.NonFatalError):
            found.failures.append(str(event))
        if isinstance(event, events.ScenarioFinished):
            _note(found, event)
    found.answers = served.answers
    return found


def _note(found: Found, event: events.ScenarioFinished) -> None:
    for case_id, checks in event.recorder.checks.items():
        case = event.recorder.cases[case_id].value
        for check in checks:
            if check.status is Status.SUCCESS:
                found.held[check.name] += 1
            else:
                assert check.failure_info
                said = check.failure_info.failure
                asked = f"{case.method} {case.path} {case.query}"
                found.failures.append(f"{check.name}: {asked}: {said.title}: {said.message}")


def of_path(path: str) -> Json:
    """The document with one route alone."""
    described = document()
    return {**described, "paths": {path: described["paths"][path]}}


def aimed() -> Json:
    """The document with parameters of which all values go together, and find something."""
    described = copy.deepcopy(document())
    for path, methods in described["paths"].items():
        get = methods["get"]
        kept = [each for each in get["parameters"] if each["name"] not in EXCLUDING.get(path, ())]
        get["parameters"] = [each for each in kept if each["in"] == "query"]
        for each in get["parameters"]:
            if narrow := AIMED.get(each["name"]):
                schema = each["schema"]
                schema.get("items", schema).update(narrow)
                each |= {"required": True, "allowEmptyValue": False}
    return described


def test_no_request_is_answered_otherwise_than_described(functions: Invocations) -> None:
    found = checked(functions, document(), ACCEPTANCE)
    assert found.failures == []
    assert found.held.keys() >= CHECKS
    paths = Counter(path for path, _ in found.answers.elements())
    assert min(paths[path] for path in ROUTES) >= EXAMPLES
    assert {status for _, status in found.answers} >= {200, 304, 400, 404, 405}


def test_what_is_described_as_right_is_accepted(functions: Invocations) -> None:
    found = checked(functions, aimed(), mode="positive")
    assert found.failures == []
    assert found.held[ACCEPTANCE]
    assert all(found.answers[path, 200] for path in ROUTES)


@pytest.mark.parametrize("check", ["negative_data_rejection", "response_schema_conformance"])
def test_a_handler_that_deviates_is_caught(
    functions: Invocations, monkeypatch: pytest.MonkeyPatch, check: str
) -> None:
    if check == "negative_data_rejection":
        monkeypatch.setattr(http, "_flag", lambda *_: False)
    else:
        wrong = HttpAnswer(200, {"key": "k", "events": "1"})
        monkeypatch.setattr(handler, "answer_counters", lambda *_: wrong)
    found = checked(functions, of_path("/v1/counters"), ACCEPTANCE)
    assert any(each.startswith(check) for each in found.failures)
