"""The console's server without a browser: who may ask, and that its numbers are the commands'."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from http.client import HTTPConnection, HTTPResponse, RemoteDisconnected
from pathlib import Path
from socket import create_connection
from typing import Any
from urllib.parse import urlencode

import pytest

from tallyroll.cli.arguments import Run
from tallyroll.console import command
from tallyroll.console.answers import Answers
from tallyroll.console.server import ConsoleServer, assets
from tallyroll.errors import StoreError
from tallyroll.model.states import Status
from tallyroll.model.windows import window_start
from tallyroll.ports.gauges import Gauge
from tests.cli.command_line import CommandLine
from tests.harness.doctoring import FakeStack, first, grown
from tests.harness.pipeline import MINUTE, WINDOW

PAGE = Path(command.__file__).with_name("page")
UPLOT = "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"
HOSTILE = ("<img src=x onerror=alert(1)>", "\u202eabc", " ", "a&key=b#c", "%00+;")
NO_SCRIPTS = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
}


class Asked:
    """A reply, read whole."""

    def __init__(self, reply: HTTPResponse) -> None:
        self.status, self.headers, body = reply.status, reply.headers, reply.read()
        packed = reply.headers.get("Content-Encoding") == "gzip"
        self.body = gzip.decompress(body) if packed and body else body

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


@contextmanager
def serving(server: ConsoleServer) -> Iterator[Callable[..., Asked]]:
    """What asks a server that runs."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()

    def ask(path: str = "/", method: str = "GET", **headers: str) -> Asked:
        connection = HTTPConnection("127.0.0.1", server.server_port, timeout=60)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=named)
        try:
            return Asked(connection.getresponse())
        finally:
            connection.close()

    try:
        yield ask
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """A pipeline of eight hours, whose first windows are dropped."""
    line = CommandLine(grown(), monkeypatch, capsys)
    line.stack = FakeStack()
    return line


class Clock:
    """The clock by which answers are kept."""

    def __init__(self) -> None:
        self.ms = 0

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ask(cli: CommandLine, clock: Clock) -> Iterator[Callable[..., Asked]]:
    """Asks a console of the pipeline."""
    with Run.connecting(None, as_json=False) as run:
        of = Answers.of(run)
        answers = Answers(of._made, of._checkup, of._units, clock)
    with serving(ConsoleServer("127.0.0.1", 0, answers.routes)) as asking:
        yield asking


def api(name: str, **parameters: Any) -> str:
    return f"/api/{name}?{urlencode(parameters, doseq=True)}"


# --- who may ask


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


def test_the_page_weighs_little_and_names_no_third_party() -> None:
    assert sum(len(body) for _, body in assets().values()) <= 40_000
    own = [path for path in PAGE.iterdir() if path.suffix in {".js", ".html", ".css"}]
    assert (
        sum(len(path.read_text().splitlines()) for path in own if ".min." not in path.name) <= 1_500
    )
    python = [*PAGE.parent.glob("*.py")]
    assert sum(len(path.read_text().splitlines()) for path in python) <= 400
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


# --- the numbers


def test_counts_are_those_of_the_command(ask: Callable[..., Asked], cli: CommandLine) -> None:
    for key, events in (("Ada", 30), *((key, 5) for key in HOSTILE)):
        cli.pipeline.write(*({"key": key, "id": f"{number}"} for number in range(events)))
    board = ask(api("tonight", key=["k1", *HOSTILE])).json
    assert "counts" in board, board
    said = {one["key"]: one for one in board["counts"]}
    wanted = {
        one["key"]: one for one in cli.run("--json", "count", "Ada", "k0", "k1", *HOSTILE).json
    }
    assert said.keys() >= wanted.keys()
    for key, count in wanted.items():
        assert (said[key]["events"], said[key]["sum"]) == (count["events"], count["sum"]), key
    [total] = cli.run("--json", "count", "--all").json
    assert board["ranking"]["events"] == total["events"]
    assert board["complete"]
    assert board["ranking"]["complete"]
    assert board["missing"] == {}
    assert sum(events for _, events in said["k1"]["parts"]) == said["k1"]["events"]


def test_a_key_is_found_with_what_holds_it(ask: Callable[..., Asked], cli: CommandLine) -> None:
    found = ask(api("find", key="k1")).json
    [count] = cli.run("--json", "count", "k1").json
    assert found["count"] == count
    dropped = next(one for one in found["places"] if one["state"] == Status.DROPPED)
    assert dropped["table"] is None
    assert dropped["archive"] == cli.pipeline.state(dropped["window"]).attempt.archive


def test_a_key_is_found_in_windows_that_are_rolled_up(
    ask: Callable[..., Asked], cli: CommandLine
) -> None:
    grown(60, cli.pipeline)
    found = ask(api("find", key="k1")).json
    assert found["count"]["rolled_up"]
    counts = cli.pipeline.reader().count("k1", by_window=True).windows
    held = [(one.window, one.events) for one in counts if one.events][-50:]
    assert len(held) == 50
    assert [(one["window"], one["events"]) for one in found["places"]] == held


def test_an_event_is_found_with_its_record(ask: Callable[..., Asked], cli: CommandLine) -> None:
    cli.pipeline.write({"key": "Ada", "id": "ballot-7", "value": 2.5})
    [match] = ask(api("find", key="Ada", id="ballot-7", date="2026-11-20")).json["matches"]
    [event] = cli.run("--json", "event", "Ada", "ballot-7", "--window", WINDOW).json
    assert event.items() <= match.items()
    spec = cli.pipeline.spec()
    assert (match["record"], match["shard"]) == ("ballot-7", spec.shard("Ada", "ballot-7"))
    assert ask(api("find", key="Ada", id="none", window=WINDOW)).status == 404
    gone = ask(api("find", key="k1", id="none", window="20261120T000000Z"))
    assert (gone.status, gone.json["archive"][:8]) == (410, "archive/")


def test_letters_are_found_by_reason_and_text(ask: Callable[..., Asked], cli: CommandLine) -> None:
    cli.pipeline.write({"key": "", "id": "forged-ballot"}, "no JSON at all")
    found = ask(api("letters", text="FORGED")).json
    assert [one["reason"] for one in found["letters"]] == ["bad-key"]
    assert found["groups"] == cli.run("--json", "dlq", "list").json
    assert len(ask(api("letters", reason="not-json")).json["letters"]) == 1


def test_what_others_show_is_kept_a_while(
    ask: Callable[..., Asked], cli: CommandLine, clock: Clock
) -> None:
    assert ask("/api/health").json["status"]["queue"]["visible"] == 0
    cli.pipeline.queue.send("one more")
    clock.ms += 14_999
    assert ask("/api/health").json["status"]["queue"]["visible"] == 0
    clock.ms += 1
    said = ask("/api/health").json
    [status] = cli.run("--json", "status").json
    assert said["status"]["queue"] == status["queue"]
    assert status["queue"]["visible"] == 1


def test_words_of_no_meaning_make_no_other_answer(
    ask: Callable[..., Asked], cli: CommandLine
) -> None:
    cli.pipeline.write("no JSON at all", "{")
    before = [ask(api(name)).json for name in ("health", "letters")]
    cli.pipeline.queue.send("one more")
    assert [ask(api(name, x=1)).json for name in ("health", "letters")] == before
    assert ask(api("letters", text="", reason="")).json == before[1]
    assert ask(api("letters", text="JSON", reason="")).json["letters"] != before[1]["letters"]


def test_windows_and_checks_are_those_of_the_commands(
    ask: Callable[..., Asked], cli: CommandLine
) -> None:
    cli.pipeline.effects.pass_by(600 * MINUTE)
    said = ask("/api/windows").json
    listed = {
        one["window"]: one for one in cli.run("--json", "windows", "list", "--all", "--hot").json
    }
    shown = {one["window"]: one for one in said["windows"]}
    assert shown.keys() == listed.keys()
    for window, one in listed.items():
        assert one.items() <= shown[window].items()
        assert ("late" in one) == ("remedy" in shown[window])
    assert any("late" in one for one in listed.values())
    checks = cli.run("--json", "doctor").json
    same = [one["check"] for one in checks if one not in ask("/api/doctor").json["checks"]]
    assert set(same) <= {"totals", "listing"}  # they look at a sample


def test_an_answer_says_what_is_missing(
    ask: Callable[..., Asked], cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    tallies = cli.pipeline.store.tallies

    def refuse(spec: Any, *rest: Any) -> Any:
        if spec.window == WINDOW:
            raise StoreError("BatchGetItem: InternalServerError", "InternalServerError")
        return tallies(spec, *rest)

    monkeypatch.setattr(cli.pipeline.store, "tallies", refuse)
    said = ask(api("tonight", key="k1")).json
    assert not said["complete"]
    assert "InternalServerError" in said["missing"][WINDOW]
    [count] = (one for one in said["counts"] if one["key"] == "k1")
    assert not count["complete"]
    assert count["parts"][-1] == [window_start(WINDOW), None]


@pytest.mark.parametrize("status", [Status.DROPPED, Status.OPEN])
def test_largest_keys_that_cannot_be_read_are_missing_alone(
    ask: Callable[..., Asked], cli: CommandLine, status: Status
) -> None:
    catalog, window = cli.pipeline.catalog, first(cli.pipeline, status)
    catalog._windows[window] = replace(catalog._windows[window], listed=None)
    if status is Status.OPEN:  # as if it had opened just now
        del catalog._specs[window]
    said = ask(api("tonight", key="k1")).json
    assert (said["complete"], said["ranking"]) == (False, None)
    assert window in said["missing"]["the largest keys"]
    [count] = cli.run("--json", "count", "k1").json
    assert [one["events"] for one in said["counts"]] == [count["events"]]


def test_a_store_may_go_and_come_back(
    ask: Callable[..., Asked], cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as gone:
        for name in ("calendar", "windows", "live"):
            gone.setattr(cli.pipeline.catalog, name, _refused)
        for path in ("/api/tonight", "/api/windows", "/api/find?key=k1"):
            reply = ask(path)
            assert (reply.status, "AccessDenied" in reply.json["detail"]) == (503, True), path
    assert ask("/api/tonight").status == ask("/api/windows").status == 200


def test_each_part_of_health_fails_alone(
    ask: Callable[..., Asked], cli: CommandLine, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ask("/api/health").json
    assert whole["unknown"] == {}
    cli.gauges.values[Gauge.BATCHES] = StoreError(
        "GetMetricStatistics: AccessDenied", "AccessDenied"
    )
    for port, call, parts in (
        (cli.pipeline.queue, "backlog", {"messages waiting", "the oldest message"}),
        (cli.dead_letters_queue, "backlog", {"dead letters"}),
        (cli.pipeline.catalog, "calendar", {"current window", "the oldest message"}),
        (cli.pipeline.catalog, "specs", {"shards"}),
        (cli.stack, "all_alarms", {"alarms"}),
    ):
        clock.ms += 60_000
        with monkeypatch.context() as gone:
            gone.setattr(port, call, _refused)
            said = ask("/api/health").json
        assert said["unknown"].keys() == {"batches", *parts}
        assert len(said["gauges"]) == len(whole["gauges"]) - 1
        assert said["alarms"] == []


def _refused(*_: object) -> None:
    raise StoreError("GetItem: AccessDeniedException", "AccessDeniedException")


@pytest.mark.parametrize(
    "path",
    [
        "/api/tonight?since=noon",
        "/api/tonight?since=-soon",
        "/api/tonight?" + urlencode({"key": [f"k{n}" for n in range(71)]}, doseq=True),
        "/api/find",
        "/api/find?key=%FF",
        "/api/find?key=a&id=b",
    ],
)
def test_wrong_use_is_told(ask: Callable[..., Asked], path: str) -> None:
    reply = ask(path)
    assert (reply.status, bool(reply.json["detail"])) == (400, True)


def test_a_ranking_reads_what_is_sealed_once(
    ask: Callable[..., Asked], cli: CommandLine, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    listing = cli.pipeline.totals.listing

    def watched(window: str, *rest: Any) -> Any:
        read.append(window)
        return listing(window, *rest)

    monkeypatch.setattr(cli.pipeline.totals, "listing", watched)
    first = ask("/api/tonight").json["ranking"]
    assert read
    read.clear()
    cli.pipeline.write({"key": "k1", "id": "one more"})
    clock.ms += 10_000
    again = ask("/api/tonight").json["ranking"]
    assert (read, again["events"]) == ([], first["events"] + 1)


def test_a_port_that_is_taken_is_told(cli: CommandLine) -> None:
    with ConsoleServer("127.0.0.1", 0, {}) as taken:
        with pytest.raises(OSError, match="in use"):
            ConsoleServer.at("127.0.0.1", (taken.server_port,), {})
        assert cli.run("console", "--port", str(taken.server_port)).status == 2
        with ConsoleServer.at("127.0.0.1", (taken.server_port, 0), {}) as other:
            assert other.server_port != taken.server_port
