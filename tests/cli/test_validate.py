"""`tallyroll validate` and `tallyroll schema`: no pipeline is needed."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from tallyroll.cli import contract, screen
from tallyroll.client.notes import NOTES_MAX
from tallyroll.operations.schemas import SCHEMAS, schema_text
from tests.cli.command_line import CommandLine, lines, run
from tests.harness.pipeline import NOW

GOOD = {"key": "k", "id": "e1", "ts": NOW, "value": 2.5, "payload": {"a": 1}}
PACKET = {"key": "k", "id": "p1", "t0": NOW, "events": [[0], [1, 2.5, "x"]]}
BAD = {"key": "k", "ts": 1795161600}
BAD_PACKET = {**PACKET, "events": [[0], [1, "2.5"]]}

Patch = pytest.MonkeyPatch
Streams = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: Patch) -> None:
    """A wrong setting is no matter: no pipeline is asked."""
    monkeypatch.setenv("TALLYROLL_WINDOW_SECONDS", "never")
    monkeypatch.delenv("AWS_REGION", raising=False)


def test_messages_that_are_all_good(monkeypatch: Patch, capsys: Streams, tmp_path: Path) -> None:
    file = tmp_path / "good.jsonl"
    file.write_bytes(lines(GOOD, PACKET) + b"\n" + lines({"key": "l"}))
    answer = run(monkeypatch, capsys, "validate", str(file))
    assert (answer.status, answer.err) == (0, "")
    for row in (("lines", "3"), ("events", "2"), ("packets", "1"), ("bad", "lines", "0")):
        assert answer.row(*row)
    assert answer.row("events", "in", "packets", "2")


BRIDGED = {"detail-type": "Viewed", "source": "video", "id": "b1", "time": "2026-11-20T08:30:00Z"}
CLOUDY = {"specversion": "1.0", "type": "viewed", "source": "video", "id": "c1"}
NOTIFIED = {"Type": "Notification", "TopicArn": "arn:aws:sns:::t", "MessageId": "n1"}


def test_an_event_in_an_envelope_is_read_as_the_writer_reads_it(
    monkeypatch: Patch, capsys: Streams
) -> None:
    stdin = lines(
        {**BRIDGED, "detail": GOOD},
        {**CLOUDY, "data": PACKET},
        {**NOTIFIED, "Message": json.dumps(GOOD)},
    )
    answer = run(monkeypatch, capsys, "validate", "-", stdin=stdin)
    assert (answer.status, answer.err) == (0, "")
    assert answer.row("events", "2")
    assert answer.row("packets", "1")


@pytest.mark.parametrize(
    ("message", "begin"),
    [
        ({**BRIDGED, "detail": BAD}, "$.detail.ts: ts-in-seconds: "),
        ({**CLOUDY, "data": BAD_PACKET}, "$.data.events[1][1]: bad-value: "),
        ({**NOTIFIED, "Message": json.dumps(BAD)}, "$: ts-in-seconds: "),
        ({**BRIDGED, "detail": {"videoId": 1}}, "$.detail.key: bad-key: an EventBridge event "),
        ({**BRIDGED, "detail": {"key": "k"}, "time": "noon"}, "$: bad-"),
        ({**CLOUDY, "specversion": "0.3", "data": GOOD}, "$: bad-envelope: specversion "),
    ],
)
def test_what_is_wrong_within_an_envelope_is_named_by_its_path(
    monkeypatch: Patch, capsys: Streams, message: dict[str, Any], begin: str
) -> None:
    answer = run(monkeypatch, capsys, "validate", "-", stdin=lines(message))
    assert answer.status == 1
    assert answer.out.startswith(f"line 1: {begin}")


@pytest.mark.parametrize(
    ("changes", "place", "reason"),
    [
        ({"key": 5}, ".key", "bad-key"),
        ({"id": 5}, ".id", "bad-id"),
        ({"id": None}, ".id", "bad-packet"),
        ({"t0": "noon"}, ".t0", "bad-ts"),
        ({"t0": None}, ".t0", "bad-packet"),
        ({"t0": NOW // 1000}, ".t0", "ts-in-seconds"),
        ({"v": 2}, ".v", "unknown-version"),
        ({"events": {}}, ".events", "bad-packet"),
        ({"events": []}, ".events", "packet-empty"),
        ({"events": [[0], 7]}, ".events[1]", "bad-packet"),
        ({"events": [[]]}, ".events[0]", "bad-packet"),
        ({"events": [[0, 1, "x", 4]]}, ".events[0]", "bad-packet"),
        ({"events": [["x"]]}, ".events[0][0]", "bad-packet"),
        ({"events": [[0, 1, "x" * 300_000]]}, "", "packet-too-large"),
    ],
)
def test_what_is_wrong_in_a_packet_is_named_by_its_path(
    monkeypatch: Patch, capsys: Streams, changes: dict[str, Any], place: str, reason: str
) -> None:
    bad = {name: value for name, value in {**PACKET, **changes}.items() if value is not None}
    answer = run(monkeypatch, capsys, "--json", "validate", stdin=lines(bad))
    assert answer.status == 1
    found, _ = answer.json
    assert (found["path"], found["reason"]) == (f"${place}", reason)


def test_what_is_no_object_has_the_path_of_the_whole(monkeypatch: Patch, capsys: Streams) -> None:
    answer = run(monkeypatch, capsys, "--json", "validate", stdin=b'[1]\n"x"\n')
    assert answer.status == 1
    *bad, _ = answer.json
    assert [(each["path"], each["reason"]) for each in bad] == [("$", "not-an-object")] * 2


def test_each_bad_line_is_named_with_its_path_and_reason(
    monkeypatch: Patch, capsys: Streams
) -> None:
    stdin = lines(GOOD, BAD) + b"\n" + lines(BAD_PACKET) + b"no JSON\n" + b'{"key": "\xff"}\n'
    answer = run(monkeypatch, capsys, "validate", "-", stdin=stdin)
    assert answer.status == 1
    assert answer.err == ""
    listed = [line for line in answer.out.splitlines() if line.startswith("line ")]
    begins = (
        "line 2: $.ts: ts-in-seconds: ts 1795161600 looks like seconds",
        "line 4: $.events[1][1]: bad-value: value '2.5' is not a number",
        "line 5: $: not-json: ",
        "line 6: $: not-json: not UTF-8 at byte 9",
    )
    assert len(listed) == len(begins)
    assert all(line.startswith(begin) for line, begin in zip(listed, begins, strict=True))
    assert answer.row("bad", "lines", "4")
    assert answer.row("bad:", "not-json", "2")


def test_as_json(monkeypatch: Patch, capsys: Streams) -> None:
    answer = run(monkeypatch, capsys, "--json", "validate", stdin=lines(PACKET, BAD, GOOD))
    assert answer.status == 1
    bad, summary = answer.json
    assert bad == {
        "line": 2,
        "path": "$.ts",
        "reason": "ts-in-seconds",
        "detail": "ts 1795161600 looks like seconds: give ms since the epoch",
    }
    assert summary == {
        "lines": 3,
        "events": 1,
        "packets": 1,
        "packed_events": 2,
        "bad": 1,
        "reasons": {"ts-in-seconds": 1},
        "notes": [],
    }


def test_the_verdict_is_that_of_send_and_of_the_writer(
    cli: CommandLine, monkeypatch: Patch
) -> None:
    monkeypatch.delenv("TALLYROLL_WINDOW_SECONDS")
    bodies: list[dict[str, Any]] = [
        GOOD,
        BAD,
        PACKET,
        {"key": ""},
        {"id": "e"},
        {**GOOD, "id": 7},
        BAD_PACKET,
    ]
    *bad, summary = cli.run("--json", "validate", stdin=lines(*bodies)).json
    (sent,) = cli.run("--json", "send", stdin=lines(*bodies)).json
    assert sent["rejected"] == summary["reasons"]
    for body in bodies:
        cli.pipeline.queue.send(json.dumps(body))
    cli.drain()
    assert sorted(map(str, cli.pipeline.reasons())) == sorted(line["reason"] for line in bad)


def test_gzip_and_a_broken_end(monkeypatch: Patch, capsys: Streams, tmp_path: Path) -> None:
    packed = gzip.compress(lines(*[GOOD] * 1_000, BAD))
    file = tmp_path / "lines.gz"
    file.write_bytes(packed)
    answer = run(monkeypatch, capsys, "--json", "validate", str(file))
    assert answer.status == 1
    assert [line.get("line") for line in answer.json] == [1_001, None]
    file.write_bytes(packed[:-9])
    answer = run(monkeypatch, capsys, "--json", "validate", str(file))
    assert answer.status == 1
    assert answer.err.startswith("tallyroll: the input is broken: ")
    assert answer.json[-1]["lines"] >= 1_000


def test_a_file_that_is_not_there(monkeypatch: Patch, capsys: Streams) -> None:
    answer = run(monkeypatch, capsys, "validate", "nowhere.jsonl")
    assert (answer.status, answer.out) == (2, "")
    assert "nowhere.jsonl" in answer.err


@pytest.mark.parametrize(("name", "told"), [("", "has no name"), (".", "is a directory")])
def test_what_is_no_file(monkeypatch: Patch, capsys: Streams, name: str, told: str) -> None:
    answer = run(monkeypatch, capsys, "validate", name)
    assert answer.status == 2
    assert answer.err == f"tallyroll: file '{name}': {told}: name a file, or - for stdin\n"


@pytest.mark.parametrize(
    ("messages", "note"),
    [
        (
            [GOOD, {"key": "k", "valeu": 2}, GOOD, {"key": "k", "valeu": 2}],
            'note: 2 lines have a member that Tallyroll does not read: "valeu" (first in line 2;',
        ),
        ([{**GOOD, "country": "NO"}], '"country" (line 1; what is yours belongs into "payload")'),
        ([{"key": "k", "Timestamp": NOW}], '"Timestamp" (line 1; did you mean "ts"?)'),
        (
            [{**PACKET, "payload": 1}],
            '"payload" (line 1; what is yours belongs into an entry of "events")',
        ),
        ([{**BRIDGED, "detail": {"key": "k", "Id": "e"}}], '"Id" (line 1; did you mean "id"?)'),
        ([{**NOTIFIED, "Message": '{"key": "k", "vlaue": 2}'}], 'did you mean "value"?)'),
    ],
)
def test_a_member_that_no_writer_reads_is_noted(
    monkeypatch: Patch, capsys: Streams, messages: list[dict[str, Any]], note: str
) -> None:
    answer = run(monkeypatch, capsys, "validate", stdin=lines(*messages))
    assert (answer.status, answer.err) == (0, "")
    last = answer.out.splitlines()[-1]
    assert last.startswith("note: ")
    assert note in last


def test_the_key_that_is_missing_may_be_misspelt(monkeypatch: Patch, capsys: Streams) -> None:
    answer = run(monkeypatch, capsys, "validate", stdin=lines({"kye": "k"}, {"videoId": "v"}))
    assert answer.status == 1
    notes = [line for line in answer.out.splitlines() if line.startswith("note: ")]
    assert [note.partition(": ")[2] for note in notes] == [
        '1 line has a member that Tallyroll does not read: "kye" (line 1; did you mean "key"?)'
    ]


def test_a_member_that_an_object_has_twice_is_noted(monkeypatch: Patch, capsys: Streams) -> None:
    stdin = b'{"key": "a"}\n{"key": "a", "payload": {"x": 1, "x": 2}, "key": "b"}\n'
    answer = run(monkeypatch, capsys, "validate", stdin=stdin)
    assert answer.status == 0
    assert answer.out.splitlines()[-2:] == [
        "note: 1 line has a member twice or more in one object, of which only the last is read:"
        f' "{name}" (line 2)'
        for name in ("key", "x")
    ]
    [summary] = run(monkeypatch, capsys, "--json", "validate", stdin=stdin).json
    assert summary["notes"] == [
        {"note": "repeated", "member": name, "lines": 1, "first_line": 2, "meant": None}
        for name in ("key", "x")
    ]


def test_notes_are_few(monkeypatch: Patch, capsys: Streams) -> None:
    stdin = lines(*({"key": "k", f"field-{number}": 1} for number in range(1_000)))
    answer = run(monkeypatch, capsys, "validate", stdin=stdin)
    notes = [line for line in answer.out.splitlines() if line.startswith("note: ")]
    assert len(notes) == contract.NOTES_SHOWN
    assert answer.out.endswith(f"and {NOTES_MAX - contract.NOTES_SHOWN} more: --json lists them\n")
    [summary] = run(monkeypatch, capsys, "--json", "validate", stdin=stdin).json
    assert len(summary["notes"]) == NOTES_MAX


def test_one_message_over_several_lines_gets_a_hint(monkeypatch: Patch, capsys: Streams) -> None:
    answer = run(monkeypatch, capsys, "validate", stdin=json.dumps(GOOD, indent=1).encode())
    assert answer.status == 1
    assert "a message takes one line, as `jq -c .` writes it" in answer.err
    assert "jq" not in run(monkeypatch, capsys, "validate", stdin=lines(GOOD, BAD)).err
    assert run(monkeypatch, capsys, "validate", stdin=b"").status == 0


def test_progress_is_told_once_it_takes_long(monkeypatch: Patch, capsys: Streams) -> None:
    monkeypatch.setattr(screen, "FIRST_LINE_S", 0)
    answer = run(monkeypatch, capsys, "validate", stdin=lines(*[GOOD] * 2_500))
    assert answer.err.startswith("tallyroll: validating: 1,000 lines")
    monkeypatch.setattr(screen, "FIRST_LINE_S", 3600)
    assert run(monkeypatch, capsys, "validate", stdin=lines(*[GOOD] * 2_500)).err == ""


def test_what_moves_a_terminal_is_shown_as_an_escape(monkeypatch: Patch, capsys: Streams) -> None:
    answer = run(monkeypatch, capsys, "validate", stdin=lines({"key": "\x1b[31m"}))
    assert "\x1b" not in answer.out
    assert "bad-key" in answer.out


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_printed(name: str, monkeypatch: Patch, capsys: Streams) -> None:
    answer = run(monkeypatch, capsys, "schema", name)
    assert (answer.status, answer.out) == (0, schema_text(name))


def test_an_unknown_schema(monkeypatch: Patch, capsys: Streams) -> None:
    answer = run(monkeypatch, capsys, "schema", "events")
    assert (answer.status, answer.out) == (2, "")
    assert '"message", "retraction", "rejection", "problem"' in answer.err
    assert get_args(get_type_hints(contract.schema)["name"]) == tuple(SCHEMAS)


def test_neither_loads_the_sdk() -> None:
    code = (
        "import sys; from tallyroll.cli.main import main;"
        "status = main(['validate', '/dev/null']) or main(['schema', 'event']);"
        "sys.exit(status or 'boto3' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, stdout=subprocess.DEVNULL)
    assert done.returncode == 0
