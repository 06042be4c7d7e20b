from __future__ import annotations

import gzip
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tallyroll import __version__
from tallyroll.cli.main import main
from tests.cli.desk import Desk, run
from tests.cli.reference import COMMANDS, PAGE, filled, help_text, shown


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command: str) -> None:
    text = help_text(command)
    assert text.startswith(f"usage: {'tallyroll ' + command}".strip())
    assert "example" in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_reference_shows_the_help_of_every_command() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert shown(page) == [f"tallyroll {command}".strip() for command in COMMANDS]
    assert page == filled(page), "run: python -m tests.cli.reference"


def test_versions(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (("version",), ("--version",)):
        answer = run(monkeypatch, capsys, *argv)
        assert answer.status == 0
        assert answer.out.startswith(f"tallyroll {__version__}, Python 3.")
        assert ", boto3 1." in answer.out
    answer = run(monkeypatch, capsys, "--json", "version")
    assert answer.json[0]["tallyroll"] == __version__


@pytest.mark.parametrize("argv", [(), ("fetch",), ("windows",), ("count",), ("--nam", "x", "send")])
def test_wrong_use(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], argv: tuple[str, ...]
) -> None:
    answer = run(monkeypatch, capsys, *argv)
    assert (answer.status, answer.out) == (2, "")
    assert "usage: tallyroll" in answer.err


def test_without_rich_it_says_how_to_get_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "rich" else find(name)
    )
    answer = desk.run("count", "k")
    assert answer.status == 3
    assert "pip install '.[cli]'" in answer.err
    assert desk.run("version").status == 0


@pytest.mark.parametrize("argv", [("version",), ("windows", "list"), ("--json", "count", "k")])
def test_a_reader_that_went_away(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as out, monkeypatch.context() as held:
        held.setattr(sys, "stdout", out)
        assert main(argv) == 141


def test_help_needs_neither_boto3_nor_rich() -> None:
    code = (
        "import sys; from tallyroll.cli.main import main; main(['send', '--help']);"
        "sys.exit('boto3' in sys.modules or 'rich' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode == 0


def test_as_a_program(tmp_path: Path) -> None:
    events = tmp_path / "events.gz"
    events.write_bytes(gzip.compress(b'{"key": "k"}\n'))
    environment = {**os.environ, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    command = [sys.executable, "-m", "tallyroll.cli", "--json", "send", str(events)]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=environment, timeout=60
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("tallyroll: GetQueueUrl: EndpointConnectionError")


def test_json_is_one_object_a_line(desk: Desk) -> None:
    for argv in (("windows", "list", "--json"), ("count", "ä", "k", "--json")):
        answer = desk.run(*argv)
        assert answer.out.isascii()
        assert all(isinstance(json.loads(line), dict) for line in answer.out.splitlines())
