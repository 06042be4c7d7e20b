"""The demo as a newcomer runs it, smaller: both jobs end exact, and leave nothing behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.engine


def demo(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "local.demo", *arguments],
        cwd=ROOT,
        input=stdin,
        capture_output=True,
        check=False,
        timeout=180,
    )


def test_a_small_vote_night_ends_exact(dynamodb_endpoint: str) -> None:
    done = demo("--votes", "3000", "--singles", "600", "--seconds", "6")
    said = done.stdout.decode()
    assert done.returncode == 0, said + done.stderr.decode()
    assert "EXACT  3,001 votes" in said
    assert "tables dropped after their archives were proven" in said
    assert "✗" not in said


def test_own_events_are_counted_when_they_happened(dynamodb_endpoint: str) -> None:
    done = demo("--input", "events/sample.jsonl")
    said = done.stdout.decode()
    assert done.returncode == 0, said + done.stderr.decode()
    assert "EXACT" in said
    assert "✗" not in said


def test_bad_lines_are_listed_and_the_good_ones_counted(dynamodb_endpoint: str) -> None:
    done = demo("--input", "-", stdin=b'{"key":"a"}\n{"key":"~"}\n')
    said = done.stdout.decode()
    assert done.returncode == 2, said + done.stderr.decode()
    assert "bad-key" in said
    assert "EXACT  1 events" in said


def test_an_input_that_is_not_there() -> None:
    done = demo("--input", "no/such/file.jsonl")
    assert done.returncode == 2
    assert "no/such/file.jsonl" in done.stderr.decode()
