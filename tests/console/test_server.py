"""The console's server without a browser: who may ask, and what it sends."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from hashlib import sha256
from http.client import HTTPConnection, RemoteDisconnected
from pathlib import Path
from socket import create_connection

import pytest

from tallyroll.console import command
from tallyroll.console.server import ConsoleServer, assets
from tests.cli.command_line import CommandLine
from tests.console.asking import Asked, serving

PAGE = Path(command.__file__).with_name("page")
PACKAGE = PAGE.parents[1]
UPLOT = "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"
NO_SCRIPTS = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
}


@pytest.fixture
def plain() -> Iterator[Callable[..., Asked]]:
    """Asks a console of one answer."""
    with serving(ConsoleServer("127.0.0.1", 0, {"/api/x": lambda query: {"q": query}})) as asking:
        yield asking


@pytest.mark.parametrize("path", ["/", "/app.js", "/api/x", "/api/none", "/none"])
def test_each_answer_says_what_a_page_may_do(plain: Callable[..., Asked], path: str) -> None:
    headers = plain(path).headers
    assert {*headers["Content-Security-Policy"].split("; ")} >= NO_SCRIPTS
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == (
        "no-store" if "none" in path or "api" in path else "no-cache"
    )


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW"])
def test_nothing_but_get_is_taken(plain: Callable[..., Asked], method: str) -> None:
    reply = plain("/api/x", method)
    assert (reply.status, reply.headers["Allow"]) == (405, "GET")


def test_a_foreign_name_is_no_host(plain: Callable[..., Asked]) -> None:
    """A page of another site, whose name leads here, is not answered."""
    for host in (
        "evil.example",
        "localhost.evil.example:80",
        "10.0.0.1",
        "",
        "[",
        "127.0.0.1.nip.io",
    ):
        for path in ("/", "/api/x"):
            assert plain(path, Host=host).status == 421, host
    for host in ("localhost", "127.0.0.1:8790", "[::1]:9000"):
        assert plain("/api/x", Host=host).json == {"q": ""}


def test_another_sites_page_is_not_answered(plain: Callable[..., Asked]) -> None:
    assert plain("/api/x", Sec_Fetch_Site="cross-site").status == 403
    assert plain("/api/x", Sec_Fetch_Site="same-site").status == 403
    assert plain("/api/x", Sec_Fetch_Site="same-origin").status == 200


def test_a_token_opens_answers_alone() -> None:
    server = ConsoleServer("127.0.0.1", 0, {"/api/x": lambda query: {}}, "secret")
    with serving(server) as ask:
        assert server.url.endswith("/#token=secret")
        assert ask("/").status == ask("/app.js").status == 200
        for wrong in ({}, {"Authorization": "Bearer secre"}, {"Authorization": "secret"}):
            assert ask("/api/x", **wrong).status == 401
        assert ask("/api/x?token=secret").status == 401
        assert ask("/api/x", Authorization="Bearer secret").status == 200
        assert ask("/api/x", Authorization="Bearer secret", Host="10.1.2.3").status == 200
        assert ask("/api/x", Authorization="Bearer secret", Host="evil.example").status == 421


def test_connections_beyond_the_most_are_closed_and_their_places_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tallyroll.console.server.CONNECTIONS_MAX", 4)
    server = ConsoleServer("127.0.0.1", 0, {"/api/x": lambda query: {}}, "secret")
    with serving(server) as ask, ExitStack() as held:
        for _ in range(4):
            held.enter_context(create_connection(("127.0.0.1", server.server_port)))
        with pytest.raises((ConnectionError, RemoteDisconnected)):
            ask("/")
        held.close()
        until = time.monotonic() + 20
        while time.monotonic() < until:
            with suppress(ConnectionError, RemoteDisconnected):
                assert ask("/").status == 200
                return
        raise AssertionError("no place came back")


def test_a_stranger_holds_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by a request that comes byte by byte, nor by one that needs no token."""
    monkeypatch.setattr("tallyroll.console.server.HEAD_S", 1)
    server = ConsoleServer("127.0.0.1", 0, {"/api/x": lambda query: {}}, "secret")
    with serving(server) as ask:
        with create_connection(("127.0.0.1", server.server_port), timeout=10) as slow:
            began = time.monotonic()
            with suppress(ConnectionError):
                for _ in range(100):
                    slow.send(b"G")
                    time.sleep(0.1)
            assert time.monotonic() - began < 5
        assert ask("/").headers["Connection"] == ask("/api/x").headers["Connection"] == "close"
        assert ask("/api/x", Authorization="Bearer secret").headers["Connection"] is None
        own = HTTPConnection("127.0.0.1", server.server_port, timeout=10)
        own.connect()
        own.auto_open = 0
        for _ in range(3):
            own.request("GET", "/api/x", headers={"Authorization": "Bearer secret"})
            assert own.getresponse().read() == b"{}"
            time.sleep(0.7)
        own.close()


def test_an_unchanged_file_is_not_sent_again(plain: Callable[..., Asked]) -> None:
    first = plain("/app.js")
    again = plain("/app.js", If_None_Match=first.headers["ETag"])
    assert (again.status, again.body) == (304, b"")
    assert first.body == (PAGE / "app.js").read_bytes()


@pytest.mark.parametrize(
    "path", ["/../answers.py", "/%2e%2e/answers.py", "/answers.d.ts", "/page/app.js"]
)
def test_other_files_are_not_served(plain: Callable[..., Asked], path: str) -> None:
    assert plain(path).status == 404


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """The names that a module imports of this package, with their modules."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("tallyroll"):
            yield from ((str(node.module), each.name) for each in node.names)


def test_the_page_weighs_little_and_names_no_third_party() -> None:
    assert sum(len(body) for _, body in assets().values()) <= 40_000
    own = [path for path in PAGE.iterdir() if path.suffix in {".js", ".html", ".css"}]
    assert (
        sum(len(path.read_text().splitlines()) for path in own if ".min." not in path.name) <= 1_500
    )
    python = [*PAGE.parent.glob("*.py")]
    assert sum(len(path.read_text().splitlines()) for path in python) < 400  # one is in cli/app.py
    rest = "\n".join(
        path.read_text() for path in PACKAGE.rglob("*.py") if path.parent != PAGE.parent
    )
    for path in python:
        for module, name in imported(path):
            if not module.startswith("tallyroll.console"):
                uses = re.findall(rf"\b{name}\b", rest)
                assert len(uses) > 1, f"{module}: {name} is there for the console alone"
    for path in own:
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert ".min." in path.name or "//" not in text.replace("// ", ""), path
        assert "innerHTML" not in text, path


def test_the_chart_is_the_one_that_was_published() -> None:
    """uPlot 1.6.32, `dist/uPlot.iife.min.js` of its package on npm, under its licence."""
    assert sha256((PAGE / "uPlot.iife.min.js").read_bytes()).hexdigest() == UPLOT
    assert "MIT" in (PAGE / "uPlot.LICENSE").read_text()


def test_an_address_that_is_none_is_refused(cli: CommandLine) -> None:
    assert "IP address" in cli.run("console", "--address", "everywhere").err


def test_a_port_that_is_taken_is_told(cli: CommandLine) -> None:
    with ConsoleServer("127.0.0.1", 0, {}) as taken:
        with pytest.raises(OSError, match="in use"):
            ConsoleServer.at("127.0.0.1", (taken.server_port,), {})
        assert cli.run("console", "--port", str(taken.server_port)).status == 2
        with ConsoleServer.at("127.0.0.1", (taken.server_port, 0), {}) as other:
            assert other.server_port != taken.server_port
