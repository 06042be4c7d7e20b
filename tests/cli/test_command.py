from __future__ import annotations

import gzip
import importlib.util
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tallyroll import __version__
from tallyroll.cli.main import main
from tallyroll.cli.screen import number_of
from tallyroll.errors import Refused
from tests.cli.command_line import CommandLine, run
from tests.cli.reference import COMMANDS, PAGE, help_text, page
from tests.harness.pipeline import WINDOW
from tests.harness.processes import ran


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command: str) -> None:
    text = help_text(command)
    assert text.startswith(f"Usage: {'tallyroll ' + command}".strip())
    assert "example" in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_page_shows_the_help_of_every_command() -> None:
    assert page() == PAGE.read_text(encoding="utf-8"), "run: python -m tests.cli.reference"


def test_versions(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (("version",), ("--version",)):
        answer = run(monkeypatch, capsys, *argv)
        assert answer.status == 0
        assert answer.out.startswith(f"tallyroll {__version__}, Python 3.")
        assert ", boto3 1." in answer.out
    answer = run(monkeypatch, capsys, "--json", "version")
    assert answer.json[0]["tallyroll"] == __version__


@pytest.mark.parametrize("argv", [("fetch",), ("events",), ("--nam", "x", "send")])
def test_wrong_use(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], argv: tuple[str, ...]
) -> None:
    answer = run(monkeypatch, capsys, *argv)
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith("tallyroll: ")
    assert "\ntallyroll: See: tallyroll " in answer.err


@pytest.mark.parametrize("group", ["windows", "dlq", "archive"])
def test_a_group_alone_prints_its_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], group: str
) -> None:
    answer = run(monkeypatch, capsys, group)
    assert (answer.status, answer.err) == (0, "")
    assert answer.out == run(monkeypatch, capsys, group, "--help").out
    assert answer.out.startswith(f"Usage: tallyroll {group} COMMAND")


def test_what_is_too_much_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = run(monkeypatch, capsys, "validate", "a.jsonl", "b.jsonl", "c.jsonl")
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.splitlines() == [
        "tallyroll: no argument takes 'b.jsonl' 'c.jsonl'",
        "tallyroll: See: tallyroll validate --help",
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_wrapped_once(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it need not be wrapped, the source itself breaks no option's text; and its own lines
    fit 80 columns, but for the first sentence, which the parser joins.
    """
    monkeypatch.setattr("tallyroll.cli.app.HELP_COLUMNS", 1_000)
    _, _, _, *lines = help_text(command, columns=1_000).splitlines()
    assert [line for line in lines if line.startswith("│     ")] == []
    assert [line for line in lines if line[:1] not in "│╭╰" and len(line) > 80] == []


def test_without_its_extra_it_says_how_to_get_it(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "cyclopts" else find(name)
    )
    answer = cli.run("count", "k")
    assert answer.status == 3
    assert "pip install 'tallyroll[cli]'" in answer.err
    assert "--name" not in answer.err  # no pipeline was asked


@pytest.mark.parametrize("argv", [("version",), ("windows", "list"), ("--json", "count", "k")])
def test_a_reader_that_went_away(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as out, monkeypatch.context() as held:
        held.setattr(sys, "stdout", out)
        assert main(argv) == 141


@pytest.mark.parametrize(
    ("command", "unneeded"), [("", "tallyroll.cli.reads"), ("send", "boto3"), ("archive", "boto3")]
)
def test_help_imports_no_more_than_it_shows(command: str, unneeded: str) -> None:
    code = (
        "import sys; from tallyroll.cli.main import main;"
        f"status = main([*{command!r}.split(), '--help']);"
        f"sys.exit(status or {unneeded!r} in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, stdout=subprocess.DEVNULL)
    assert done.returncode == 0


@pytest.mark.parametrize(
    "argv",
    [
        ("--name", "votes", "--json", "count", "k"),
        ("count", "--json", "k", "--name", "votes"),
        ("count", "--name", "other", "k", "--name", "votes", "--json"),
    ],
)
def test_global_options_stand_anywhere(cli: CommandLine, argv: tuple[str, ...]) -> None:
    assert cli.run(*argv).json[0]["key"] == "k"
    assert cli.settings is not None
    assert cli.settings.name == "votes"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("fetch",), 'Unknown command "fetch". Available commands: send, load, count'),
        (("dlq", "redriv"), 'Did you mean "redrive"?'),
        (("events",), "KEY is missing"),
        (("event", "k", "i", "--since", "today"), "Unknown option: --since.\n"),
        (("windows", "open", "--form", "2d"), "Unknown option: --form."),
        (("count", "k", "--sinze", "1"), "Unknown option: --sinze. Did you mean --since?"),
        (("count", "k", "--since"), "--since is given without a value"),
        (("count", "k", "--since", "now"), "Invalid value for --since: time 'now'"),
        (
            ("top", "--window", "w", "-n", "0"),
            "Invalid value for -n: '0': give a whole number, 1 to",
        ),
        (("event", "k", "i", "--ts", "1", "--window", "w"), "--ts, --window}"),
    ],
)
def test_wrong_use_names_the_value_and_the_remedy(
    cli: CommandLine, argv: tuple[str, ...], said: str
) -> None:
    answer = cli.run(*argv)
    assert (answer.status, answer.out) == (2, "")
    assert said in answer.err
    assert answer.err.splitlines()[-1].startswith("tallyroll: See: tallyroll")


def test_as_a_program(tmp_path: Path) -> None:
    events = tmp_path / "events.gz"
    events.write_bytes(gzip.compress(b'{"key": "k"}\n'))
    environment = {**os.environ, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    command = [sys.executable, "-m", "tallyroll.cli", "--json", "send", str(events)]
    done = ran(command, env=environment, timeout=600)
    assert (done.returncode, done.stdout) == (3, "")
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("tallyroll: GetQueueUrl: EndpointConnectionError")


def test_json_is_one_object_a_line(cli: CommandLine) -> None:
    for argv in (("windows", "list", "--json"), ("count", "ä", "k", "--json")):
        answer = cli.run(*argv)
        assert answer.out.isascii()
        assert all(isinstance(json.loads(line), dict) for line in answer.out.splitlines())


def test_an_option_and_its_opposite_are_refused(cli: CommandLine) -> None:
    answer = cli.run("send", "--key", "k", "--pack", "--no-pack")
    assert (answer.status, answer.out) == (2, "")
    assert answer.err == "tallyroll: --pack and --no-pack: give one of them\n"


def test_what_is_invisible_in_a_key_is_shown_as_an_escape(cli: CommandLine) -> None:
    key = "can\u202edidate\u200b-7"
    assert cli.run("send", "--key", key, "--id", "e").status == 0
    cli.drain()
    shown = "can\\u202edidate\\u200b-7"
    counted = cli.run("count", key)
    assert shown in counted.out
    assert shown in cli.run("top", "--window", WINDOW).out
    assert cli.run("count", key, "--json").json[0]["key"] == key


def test_a_large_payload_is_not_shown_whole(cli: CommandLine) -> None:
    payload = json.dumps("x" * 100_000)
    assert cli.run("send", "--key", "k", "--id", "e", "--payload", payload).status == 0
    cli.drain()
    shown = cli.run("event", "k", "e", "--window", WINDOW)
    assert len(shown.out) < 10_000
    assert "... (98,002 more characters: --json)" in shown.out
    assert (
        cli.run("event", "k", "e", "--window", WINDOW, "--json").json[0]["payload"] == "x" * 100_000
    )


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 things"), (1, "1 thing"), (2000, "2,000 things")]
)
def test_numbers_of_things(number: int, text: str) -> None:
    assert number_of(number, "thing") == text


def test_a_failure_that_has_nothing_to_do_with_the_name_gets_no_such_hint(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise Refused("GetItem: ValidationException: no", "ValidationException")

    monkeypatch.setattr(cli.pipeline.catalog, "calendar", refuse)
    answer = cli.run("windows", "open", "--since", WINDOW, "--until", WINDOW)
    assert answer.status == 3
    assert answer.err == "tallyroll: GetItem: ValidationException: no\n"


def test_a_help_whose_reader_is_gone_ends_like_every_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        assert main(["--help"]) == 141


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def test_a_person_at_a_terminal_is_told_what_is_read(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for argv, told in ((["send"], True), (["send", "-"], True), (["send", "--key", "k"], False)):
        monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO(b'{"key": "k"}\n')))
        assert main(argv) == 0
        line = "tallyroll: reading events as JSON Lines from this terminal: Ctrl-D ends them\n"
        assert (line in capsys.readouterr().err) is told
    assert len(cli.producer.bodies) == 3
    assert "terminal" not in cli.run("send", stdin=b'{"key": "k"}\n').err


def test_no_bar_covers_what_a_person_types(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes stderr for a terminal
    for stdin, drawn in ((io.TextIOWrapper, True), (Terminal, False)):
        monkeypatch.setattr(sys, "stdin", stdin(io.BytesIO(b'{"key": "k"}\n')))
        assert main(["send"]) == 0
        assert ("sending" in capsys.readouterr().err) is drawn


def test_a_bare_command_prints_its_help(cli: CommandLine) -> None:
    answer = cli.run()
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.startswith("Usage: tallyroll COMMAND [OPTIONS]")
    assert "simulate a table's partitions" in answer.out


def test_without_credentials_the_remedy_comes_first(tmp_path: Path) -> None:
    bare = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true"}
    for region, first in (({}, "Set AWS_REGION"), ({"AWS_REGION": "x-y-1"}, "Check the cred")):
        command = [sys.executable, "-m", "tallyroll.cli", "count", "k"]
        environment = {**bare, **region, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = ran(command, env=environment)
        assert done.returncode == 3
        assert done.stderr.startswith(f"tallyroll: {first}"), done.stderr
