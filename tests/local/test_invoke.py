"""`make invoke`: every sample event on a running local engine, with its times shifted."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from local import invoke
from local.invoke import FUNCTIONS, engine, function_of, moment_of, read, shift_to_now
from local.shifting import SAMPLES_NOW, shifted, wrapped
from tests.harness.ports import free_ports
from tests.harness.processes import ran
from tests.local.test_main import engine as running

ROOT = Path(__file__).parents[2]
EVENTS = ROOT / "events"
ROW = re.compile(r"^\| `([^`]+)` \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
LISTED = dict(ROW.findall((EVENTS / "README.md").read_text(encoding="utf-8")))
HOUR = 3_600_000
FIRST = ("writer-own-id.json", "writer-packet.json")  # the reads ask for these events
# The first hour of an engine has no window before it, nobody redrove an event, and in the last
# minutes of an hour the next window is open.
OTHERWISE = {
    "writer-mixed-keys-and-windows.json",
    "writer-redriven.json",
    "writer-awaits-window.json",
}


@pytest.fixture(scope="module")
def env_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The file that a running engine with windows of an hour wrote."""
    file = tmp_path_factory.mktemp("engine") / "local.env"
    with running("--env-file", str(file), "--window", "1h", "--port", str(free_ports())):
        yield file


def functions_for(name: str) -> str:
    """The function whose sample a file is."""
    return "writer" if name == "sample.jsonl" else name.partition("-")[0]


def test_every_sample_gets_its_answer(env_file: Path) -> None:
    environment = engine(env_file)
    lines: list[str] = []
    functions = {name: function_of(name, environment, lines.append) for name in FUNCTIONS}
    try:
        shift = shift_to_now(environment, SAMPLES_NOW)
        for name in sorted(LISTED, key=lambda name: (name not in FIRST, name)):
            function = functions_for(name)
            event = read(function, str(EVENTS / name))
            if name != "sample.jsonl" and event.get("Records", [0]):
                assert abs(shift_to_now(environment, moment_of(event)) - shift) <= HOUR
            lines.clear()
            answer = functions[function].invoke(shifted(event, shift))
            if function == "aggregator":
                assert str(answer["statusCode"]) == LISTED[name].partition(":")[0], (name, answer)
            if name.startswith("writer-") and name not in OTHERWISE:
                back = re.search(r"handed back (\d+)", LISTED[name])
                failures = len(answer["batchItemFailures"])
                assert failures == (int(back[1]) if back else 0), (name, lines)
                wanted = re.findall(r"([a-z][\w-]+) \d+", LISTED[name].partition("rejected:")[2])
                metrics = "".join(lines)
                assert [each for each in wanted if f"Rejected-{each}" not in metrics] == [], name
    finally:
        for each in functions.values():
            each.close()


def called(*argv: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """`python -m local.invoke` as make runs it, from a folder."""
    return ran(
        [sys.executable, "-c", f"import sys; sys.path[:0] = [{str(ROOT)!r}]\n{_RUN}", *argv],
        cwd=folder,
        timeout=600,
    )


_RUN = "from local.invoke import main; sys.exit(main())"


def test_the_command_prints_the_answer_and_the_shift(env_file: Path) -> None:
    sample = str(EVENTS / "writer-too-late.json")
    options = ("--function", "writer", "--event", sample, "--env-file", str(env_file))
    done = called(*options, folder=env_file.parent)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"batchItemFailures": []}
    assert "all times are shifted by " in done.stderr
    assert "Rejected-too-late" in done.stderr
    shift = called(*options, "--shift", "0", folder=env_file.parent)
    assert "all times are shifted by 0 ms" in shift.stderr


@pytest.mark.parametrize(
    ("function", "event", "told"),
    [
        (
            "",
            "events/writer-own-id.json",
            "give one of writer, aggregator, roller, cleanup, dropper, compactor",
        ),
        ("counter", "events/writer-own-id.json", "FUNCTION=counter: give one of"),
        ("writer", "", "EVENT=: there is no such file"),
        ("writer", "events/nothing.json", "EVENT=events/nothing.json: there is no such file"),
        ("writer", "events/README.md", "it is no JSON"),
        ("writer", "cdk.json", "it is no event of any function"),
        ("aggregator", "events/writer-own-id.json", "it is an event of writer, not of aggregator"),
        ("cleanup", "events/roller-schedule.json", "it is an event of roller, not of cleanup"),
    ],
)
def test_wrong_names(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    function: str,
    event: str,
    told: str,
) -> None:
    monkeypatch.chdir(ROOT)
    assert invoke.main(["--function", function, "--event", event]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (
            "lines.json",
            '{"key": "a"}\n{"key": "b"}\n',
            "its first line is JSON: give JSON Lines in a file whose name ends with .jsonl",
        ),
        (
            "one.json",
            '{\n  "key": "a"\n}\n',
            "it is a message of a producer; give messages as JSON",
        ),
        (
            "one.jsonl",
            '{\n  "key": "a"\n}\n',
            "it is one JSON value over several lines; give messa",
        ),
        ("broken.json", '{\n  "key": \n}\n', "line 3 column 1 (char 12)\n"),
    ],
)
def test_the_form_of_a_file_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, told: str
) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert invoke.main(["--function", "writer", "--event", str(file)]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("text", ['{"key": "a"}', '{"key": "a"}\n', '{"key": "a"}\nno JSON\n'])
def test_lines_are_messages_of_any_kind(tmp_path: Path, text: str) -> None:
    file = tmp_path / "some.jsonl"
    file.write_text(text)
    bodies = [record["body"] for record in read("writer", str(file))["Records"]]
    assert bodies == text.splitlines()


def test_no_engine_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    argv = ["--function", "writer", "--event", str(EVENTS / "writer-own-id.json")]

    def told() -> str:
        assert invoke.main(argv) == 3
        return capsys.readouterr().err

    assert "no local engine runs: local.env is not there; start one" in told()
    gone = f"http://127.0.0.1:{free_ports()}"
    (tmp_path / "local.env").write_text(f"export AWS_ENDPOINT_URL={gone}\n")
    assert "no local engine runs with the pipeline 'tallyroll': " in told()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://dynamodb.eu-west-1.amazonaws.com")
    assert "AWS_ENDPOINT_URL names no local engine, but https://dynamodb" in told()


def test_another_pipelines_name(env_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = env_file.read_text(encoding="utf-8")
    other = env_file.with_name("other.env")
    other.write_text(re.sub("(TALLYROLL_NAME=).*", r"\1votes", text), encoding="utf-8")
    argv = ["--function", "writer", "--event", str(EVENTS / "writer-own-id.json")]
    assert invoke.main([*argv, "--env-file", str(other)]) == 3
    assert "with the pipeline 'votes'" in capsys.readouterr().err


def test_all_kinds_of_times_are_shifted_and_nothing_else() -> None:
    body = '{"ts":%s,"value":1234567890123,"id":"%s-7c3e-9d11-3b5f0e6a7c21"}'
    event = {
        "body": body % (1_795_163_398_000, "01a1f812-f778"),
        "md5OfBody": "",
        "messageId": "0b7c4a52-1d0e-4c1b-9d5f-2a6f8f3f7e64",
        "stringValue": "20260101T000000Z",
        "time": "20/Nov/2026:08:30:00 +0000",
        "query": "since=2026-11-20T08%3A00%3A00Z&until=2026-11-20T09:00:00.500Z&ts=1795163398",
        "list": [1_795_163_398_000, 17, True, None, 0.5],
    }
    moved = shifted(event, HOUR)
    assert moved == {
        "body": body % (1_795_166_998_000, "01a1f849-e5f8"),
        "md5OfBody": moved["md5OfBody"],
        "messageId": "0b7c4a52-1d0e-4c1b-9d5f-2a6f8f3f7e64",
        "stringValue": "20260101T010000Z",
        "time": "20/Nov/2026:09:30:00 +0000",
        "query": "since=2026-11-20T09%3A00%3A00Z&until=2026-11-20T10:00:00.500Z&ts=1795163398",
        "list": [1_795_166_998_000, 17, True, None, 0.5],
    }
    assert len(moved["md5OfBody"]) == 32
    assert {**shifted(moved, -HOUR), "md5OfBody": ""} == event


@pytest.mark.parametrize("at", [SAMPLES_NOW + 50 * HOUR, SAMPLES_NOW - 50 * HOUR])
def test_lines_are_sent_when_the_newest_of_their_events_happened(at: int) -> None:
    lines = [{"key": "k", "id": "a", "ts": at - 5}, {"key": "k", "ts": at}, {"key": "k"}]
    event = wrapped("\n".join(map(json.dumps, lines)))
    assert moment_of(event) == at
    assert moment_of(wrapped('{"key": "k"}')) == SAMPLES_NOW - 1
