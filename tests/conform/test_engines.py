"""The command against real servers: DynamoDB Local, MiniStack, and moto's own server."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import boto3
import pytest

from local.aws.guard import spawn_guarded
from tallyroll.operations.conform import writes
from tallyroll.operations.conform.checks import CHECKS, Result, checked
from tallyroll.operations.conform.stage import Scale
from tallyroll.pipeline import inspection
from tests.cli.command_line import Answer, run
from tests.harness import ministack
from tests.harness.ports import free_ports

MOTO = """
import sys, time
from copy import deepcopy
from types import SimpleNamespace
from moto.dynamodb import models
from moto.server import main

def copied(found):
    copy = deepcopy(found)
    time.sleep(0.01)  # others commit meanwhile
    return copy

models.copy = SimpleNamespace(deepcopy=copied)
main(["-H", "127.0.0.1", "-p", sys.argv[1]])
"""

AGAIN_S = 15.0

# How a lost update shows: each is what `conform` says of a store that is wrong.
RACE = r"are lost that were|stored twice|the tallies count|is malformed"


def tables(endpoint: str) -> list[str]:
    """The tables that the command left there."""
    client: Any = boto3.client("dynamodb", endpoint_url=endpoint)
    pages = client.get_paginator("list_tables").paginate()
    names = [name for page in pages for name in page["TableNames"]]
    return [name for name in names if name.startswith("tallyroll-conform-")]


def results(answer: Answer) -> dict[str, str]:
    """The checks' results in an answer's JSON."""
    return {line["check"]: line["result"] for line in answer.json if "check" in line}


@pytest.mark.engine
def test_dynamodb_local(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = run(monkeypatch, capsys, "conform", "--endpoint", dynamodb_endpoint, "--json")
    assert answer.status == 0, answer.err
    found = results(answer)
    assert {name for name, result in found.items() if result != "pass"} == {"same-item-twice"}
    *_, last = answer.json
    assert last["result"] == "exact"
    assert last["requests"] > 100
    assert f"{len(CHECKS)} checks, 0 failed, 0 undecided" in answer.err
    assert tables(dynamodb_endpoint) == []


def interrupted(process: subprocess.Popen[str]) -> str:
    """What a process says that is interrupted, again if it goes on, as somebody would: one Ctrl-C
    in a hundred hits Python where it starts a thread, or where it ignores what is raised.
    """
    while True:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=AGAIN_S)[1]


@pytest.mark.engine
def test_a_run_that_is_interrupted_drops_its_table(dynamodb_endpoint: str) -> None:
    command = [sys.executable, "-m", "tallyroll.cli", "conform", "--endpoint", dynamodb_endpoint]
    process = subprocess.Popen(command, env=os.environ, stderr=subprocess.PIPE, text=True)
    while not tables(dynamodb_endpoint) and process.poll() is None:
        time.sleep(0.02)
    said = interrupted(process)
    assert process.returncode == 130, said
    assert "interrupted" in said
    assert tables(dynamodb_endpoint) == []


@pytest.mark.proof
def test_ministack_rounds_long_sums(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It adds Python decimals of 28 digits; all else that exactness needs, it keeps."""
    if not ministack.home().is_dir() and not os.environ.get("CI"):
        pytest.skip("MiniStack is not installed: run `python -m tests.harness.ministack install`")
    with ministack.running() as (endpoint, _):
        answer = run(monkeypatch, capsys, "conform", "--endpoint", endpoint, "--json")
        assert tables(endpoint) == []
    assert answer.status == 1, answer.err
    found = results(answer)
    assert len(found) == len(CHECKS)
    assert {name for name, result in found.items() if result != "pass"} == {"numbers"}
    (numbers,) = (line for line in answer.json if line.get("check") == "numbers")
    assert "000.000001 became 1" in numbers["seen"]


@pytest.fixture
def moto_endpoint() -> Iterator[str]:
    """moto's own server, which answers on many threads. What it restores when a transaction fails
    was copied some time before.
    """
    port = free_ports()
    quiet = subprocess.DEVNULL
    process = spawn_guarded([sys.executable, "-c", MOTO, str(port)], stdout=quiet, stderr=quiet)
    endpoint = f"http://127.0.0.1:{port}"
    try:
        while not ministack.answers(port):
            assert process.poll() is None
            time.sleep(0.05)
        yield endpoint
    finally:
        process.kill()
        process.wait()


def test_motos_race_is_found(moto_endpoint: str) -> None:
    """Transactions on many threads undo what others acknowledged: records, parts of an item, or a
    tally's sum. Which of them comes first is luck.
    """
    stage = inspection.stage(moto_endpoint, None, lambda _: None, lambda *_: None)
    stage.scale = Scale(events=40, within_ms=60_000)
    stage.make()
    (check,) = (each for each in CHECKS if each.run is writes.transactions)
    try:
        found = checked(check, stage)
    finally:
        stage.drop()
    assert found.result is Result.FAILED, found
    assert re.search(RACE, found.seen), found
