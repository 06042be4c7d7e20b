"""`python -m local`: its environment, its ports, and what a user does with it."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from local.__main__ import _overridden, _report
from local.options import options_of
from tests.harness.ports import free_ports
from tests.harness.processes import ran

ROOT = Path(__file__).parents[2]
TAKES_S = 120


@contextlib.contextmanager
def engine(*arguments: str, end: signal.Signals = signal.SIGTERM) -> Iterator[dict[str, str]]:
    """`python -m local` until a signal; gives the environment that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "local", "--engine", "moto", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        environment = {}
        for line in process.stdout:
            if line.startswith("# Ctrl-C"):
                break
            if exported := re.fullmatch(r"export (\w+)='?(.*?)'?\n", line):
                environment[exported[1]] = exported[2]
        yield environment
        process.send_signal(end)
        _, said = process.communicate(timeout=TAKES_S)
        assert process.returncode == (-end if end == signal.SIGKILL else 0), said
    finally:
        process.kill()
        process.communicate()


def tallyroll(environment: dict[str, str], *arguments: str) -> str:
    done = ran(
        [sys.executable, "-m", "tallyroll.cli", *arguments],
        env=os.environ | environment,
        check=True,
        timeout=TAKES_S,
    )
    return done.stdout


def test_events_are_counted_and_read_over_http(tmp_path: Path) -> None:
    file, port = tmp_path / "local.env", free_ports()
    given = ("--env-file", str(file), "--window", "1h", "--retention", "2h")
    with engine(*given, "--port", str(port)) as environment:
        assert environment["TALLYROLL_API_URL"] == f"http://127.0.0.1:{port}"
        assert environment["AWS_ENDPOINT_URL"] == f"http://127.0.0.1:{port + 1}"
        assert environment["TALLYROLL_RETENTION_MS"] == str(2 * 3_600_000)
        tallyroll(environment, "send", "--key", "a")
        url, until = f"{environment['TALLYROLL_API_URL']}/v1/counters?key=a", time.monotonic()
        while True:
            with urlopen(f"{url}&consistent=true") as reply:
                count = json.load(reply)
            if count["events"] or time.monotonic() > until + TAKES_S:
                break
            time.sleep(0.2)
        assert (count["events"], count["sum"], count["complete"]) == (1, "1", True)
        with urlopen(f"http://127.0.0.1:{port + 3}/api/find?key=a") as reply:
            assert json.load(reply)["count"]["events"] == 1
    text = file.read_text()
    (unset,) = re.findall(r"^unset (.*)$", text, re.MULTILINE)
    assert text.startswith("unset ")
    assert "TALLYROLL_MAPPING" in unset.split()
    assert not set(unset.split()) & environment.keys()
    written = dict(re.findall(r"^export (\w+)='?(.*?)'?$", file.read_text(), re.MULTILINE))
    assert written == environment
    with engine(*given) as again:
        assert again == environment


def test_a_taken_port_is_named() -> None:
    with socket.socket() as taken:
        port = free_ports()
        taken.bind(("127.0.0.1", port + 1))
        taken.listen()
        done = ran(
            [sys.executable, "-m", "local", "--engine", "moto", "--port", str(port)],
            cwd=ROOT,
            timeout=TAKES_S,
        )
    assert done.returncode == 1
    assert done.stderr == f"port {port + 1} is not free: Address already in use\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--window", "0s"), "'0s': give a second at least"),
        (("--retention", "an hour"), "'an hour': give a time span"),
        (("--port", "65535"), "--port 65535: give one from 1 to 65533"),
        (
            ("-c", "tallyroll:mapping={key:", "detail.country}"),
            "in quotes that reach this command: make local ARGS=",
        ),
        (
            ("-c", "tallyroll:mapping={key:detail.country}"),
            "has lost its double quotes: put it in single ones",
        ),
        (("--keep", __file__), f"--keep {__file__}: it is a file, or lies in one; give a new"),
        (("-c", "tallyroll:shard=3"), "tallyroll:shard: there is no such option; the nearest"),
        (("--keep", "x", "--engine", "moto"), "--keep with engine moto: its tables are not in DIR"),
        (("--keep", "x", "--dynamodb-endpoint", "y"), "--keep with --dynamodb-endpoint: its"),
    ],
)
def test_nonsense_is_refused(arguments: tuple[str, ...], told: str) -> None:
    done = ran([sys.executable, "-m", "local", *arguments], cwd=ROOT, timeout=TAKES_S)
    assert done.returncode in (1, 2)
    assert told in done.stderr


def test_the_mapping_of_the_document_reaches_the_options() -> None:
    text = (ROOT / "docs" / "local.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^make local ARGS=.*tallyroll:mapping=.*$", text, re.MULTILINE)
    shown = ran(["sh", "-c", f"{line} -n"], cwd=ROOT, check=True)
    # Within another make, the last line tells of its directory.
    (command,) = [told for told in shown.stdout.splitlines() if " -m local " in told]
    words = shlex.split(command)
    chosen = options_of([words[words.index("-c") + 1]], name="mine", window_seconds=60)
    assert chosen.settings.mapping == {"key": "detail.country"}


def test_an_argument_that_an_option_goes_before_is_named() -> None:
    given = argparse.Namespace(
        name=None, window=60, retention=None, context=["tallyroll:window_seconds=3600"]
    )
    assert _overridden(given) == ["--window, by -c tallyroll:window_seconds=3600"]


def test_the_length_of_the_windows_is_told_at_the_start() -> None:
    chosen = options_of(
        ["tallyroll:window_seconds=3600", "tallyroll:log_days=3"], name="mine", window_seconds=60
    )
    windows, ignored, *_ = _report(chosen.settings, None, chosen.without_effect).splitlines()
    assert windows.startswith("# mine: windows of 1 h, their tables kept for ")
    assert ignored == "# without effect on this machine: log_days"
