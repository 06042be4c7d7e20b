"""`tallyroll validate --mapping`: messages of other systems, and the keys that they count under."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import lines, run
from tests.cli.test_validate import BRIDGED, GOOD, NOTIFIED, PACKET, Patch, Streams

FANNED = {
    "keys": ["candidate:{detail.candidate}", "state:{detail.home.state}", "hour:{%H}"],
    "ts": "detail.at",
}
VOTE = {
    **BRIDGED,
    "detail": {"candidate": "ann", "home": {"state": "ca"}, "at": "2026-11-20T17:59:00Z"},
}


def test_the_keys_of_each_message_are_told(
    monkeypatch: Patch, capsys: Streams, tmp_path: Path
) -> None:
    stdin = lines(VOTE, {"v": 1, **GOOD}, PACKET | {"v": 1})
    file = tmp_path / "mapping.json"
    file.write_text(json.dumps(FANNED, indent=1), encoding="utf-8")
    for given in (json.dumps(FANNED), str(file)):
        answer = run(monkeypatch, capsys, "validate", "--mapping", given, "-", stdin=stdin)
        assert (answer.status, answer.err) == (0, "")
        told = answer.out.splitlines()
        assert told[:3] == ["line 1: candidate:ann, hour:17, state:ca", "line 2: k", "line 3: k"]
        assert answer.row("events", "2")
        assert "note:" not in answer.out


def test_keys_and_summary_as_json(monkeypatch: Patch, capsys: Streams) -> None:
    asked = ("--json", "validate", "--mapping", '{"key": "video"}')
    first, second, summary = run(
        monkeypatch, capsys, *asked, stdin=lines({"video": "v1"}, {"video": 7})
    ).json
    assert first == {"line": 1, "keys": ["v1"], "id": None}
    assert (second["line"], second["path"], second["reason"]) == (2, "$.video", "mapping-failed")
    assert (summary["events"], summary["bad"], summary["notes"]) == (1, 1, [])


def _vote(**detail: Any) -> dict[str, Any]:
    return {**VOTE, "detail": {**VOTE["detail"], **detail}}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("message", "mapping", "begin"),
    [
        (_vote(candidate=None), {}, "$.detail.candidate: mapping-failed: the mapping of keys[0], "),
        (_vote(home="ca"), {}, "$.detail.home.state: mapping-failed: "),
        (_vote(home=None), {}, "$.detail.home: mapping-failed: "),
        (_vote(candidate=["ann"]), {}, "$.detail.candidate: mapping-failed: "),
        (_vote(candidate=""), {}, "$.detail.candidate: mapping-failed: "),
        (_vote(candidate="x" * 600), {}, "$: bad-key: "),
        (_vote(at="noon"), {}, "$.detail.at: bad-ts: "),
        (_vote(), {"value": "detail.candidate"}, "$.detail.candidate: bad-value: "),
        (_vote(), {"id": 'detail."a b".c'}, "$.detail['a b']: mapping-failed: "),
        (_vote(), {"id": "upper(detail.at)"}, "$: mapping-failed: "),
        (_vote(), {"id": "detail.x || detail.y"}, "$: mapping-failed: "),
        ({**NOTIFIED, "Message": json.dumps({})}, {}, "$: mapping-failed: "),
        ({**NOTIFIED, "Message": "no JSON"}, {}, "$: bad-envelope: "),
        (
            {"Records": [{"eventSource": "aws:s3", "s3": {}}]},
            {"keys": ["{s3.object.key}"], "ts": "eventTime"},
            "$.Records[0].eventTime: mapping-failed: ",
        ),
        ({"v": 1, "key": "k", "value": "1"}, {}, "$.value: bad-value: "),
    ],
)
def test_what_a_mapping_does_not_find_is_named_by_its_path(
    monkeypatch: Patch,
    capsys: Streams,
    message: dict[str, Any],
    mapping: dict[str, Any],
    begin: str,
) -> None:
    given = json.dumps({**FANNED, **mapping})
    answer = run(monkeypatch, capsys, "validate", "--mapping", given, stdin=lines(message))
    assert answer.status == 1
    assert answer.out.startswith(f"line 1: {begin}"), answer.out


def test_the_payload_of_many_keys_may_be_large(monkeypatch: Patch, capsys: Streams) -> None:
    mapping = json.dumps({"keys": [f"{number}" for number in range(12)], "payload": "@"})
    stdin = lines({"x": "y" * 300_000}, {"x": "y" * 200_000})
    answer = run(monkeypatch, capsys, "validate", "--mapping", mapping, stdin=stdin)
    assert answer.status == 0
    for number in (1, 2):
        assert f"line {number}: 0, 1, 10, 11, 2, " in answer.out


@pytest.mark.parametrize(
    ("mapping", "told"),
    [
        ("nowhere.json", "--mapping nowhere.json: neither a JSON object nor a readable file: "),
        ("{", "--mapping: not JSON: "),
        ('{"key": 1}', '--mapping: must be {"key": "expression"} or {"keys": ["template", ...]}'),
        ('{"id": "a"}', "--mapping: key: give the expression that finds the key"),
        ('{"keys": ["{a"]}', "--mapping: keys[0] '{a': '{' is not closed"),
    ],
)
def test_a_wrong_mapping_is_wrong_use(
    monkeypatch: Patch, capsys: Streams, mapping: str, told: str
) -> None:
    answer = run(monkeypatch, capsys, "validate", "--mapping", mapping, stdin=lines(GOOD))
    assert answer.status == 2
    assert told in answer.err
