"""The command in a process of its own, against an embedded AWS: its token, and its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from ipaddress import ip_address
from socket import create_connection
from urllib.parse import SplitResult, urlsplit

import pytest

from local.aws.embedded import Embedded
from tests.harness.pipeline import SMALL


@pytest.fixture(scope="module")
def aws() -> Iterator[Mapping[str, str]]:
    """The environment of an embedded AWS with a pipeline whose roller has not run."""
    with Embedded(SMALL) as embedded:
        yield {**os.environ, **embedded.environment}


@contextmanager
def console(
    environment: Mapping[str, str], *options: str
) -> Iterator[tuple[SplitResult, subprocess.Popen[str]]]:
    """A console's address and its process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tallyroll.cli", "--json", "console", *options],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        yield urlsplit(json.loads(process.stdout.readline())["url"]), process
    finally:
        process.kill()
        process.communicate()


def asked(port: int, path: str, **headers: str) -> int:
    """The status of an answer."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path, headers=headers)
    status = connection.getresponse().status
    connection.close()
    return status


def test_an_address_for_all_needs_its_token_and_ctrl_c_ends_it(aws: Mapping[str, str]) -> None:
    with console(aws, "--address", "0.0.0.0") as (url, process):
        assert url.port
        name, _, token = url.fragment.partition("=")
        assert (name, len(token) >= 32) == ("token", True)
        assert url.hostname
        assert not ip_address(url.hostname).is_unspecified
        create_connection((url.hostname, url.port)).close()
        assert asked(url.port, "/") == 200
        assert asked(url.port, "/api/health") == 401
        assert asked(url.port, "/api/health", Authorization=f"Bearer {token[1:]}") == 401
        assert asked(url.port, "/api/health", Authorization=f"Bearer {token}") == 200
        assert asked(url.port, "/api/health", Authorization=f"Bearer {token}", Host="evil") == 421
        ended(process, signal.SIGINT, url.port)


def test_an_own_address_needs_no_token_and_a_termination_ends_it(aws: Mapping[str, str]) -> None:
    with console(aws) as (url, process):
        assert url.port
        assert (url.hostname, url.fragment) == ("127.0.0.1", "")
        assert asked(url.port, "/api/health") == 200
        ended(process, signal.SIGTERM, url.port)


def ended(process: subprocess.Popen[str], how: signal.Signals, port: int) -> None:
    """Assert that a signal ends it well, though somebody is connected."""
    held = HTTPConnection("127.0.0.1", port, timeout=60)
    held.request("GET", "/")
    assert held.getresponse().read()
    process.send_signal(how)
    out, err = process.communicate(timeout=30)
    held.close()
    assert (process.returncode, out, err) == (0, "", "")
    with pytest.raises(ConnectionRefusedError):
        asked(port, "/")
