"""`tallyroll conform` without an endpoint, or with checks that end in every way."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from tallyroll.adapters.aws import client
from tallyroll.adapters.dynamodb.tools import trial
from tallyroll.cli import screen
from tallyroll.errors import Missing, Refused, StoreError, Throttled, Unknown, UsageError
from tallyroll.operations.conform import checks
from tallyroll.operations.conform.checks import ConformanceCheck
from tallyroll.operations.conform.stage import Broken, Stage, Undecided
from tallyroll.pipeline import inspection
from tests.cli.command_line import Answer, run
from tests.harness.ports import free_ports

ENDPOINT = "http://localhost:8000"


@dataclass
class Table:
    """What stands for an endpoint's table: it is made and dropped."""

    did: list[str] = field(default_factory=list)
    fails: StoreError | None = None

    def make(self) -> None:
        self.did.append("make")

    def drop(self) -> None:
        self.did.append("drop")
        if self.fails:
            raise self.fails


class Trial:
    """The command with checks of one's own."""

    def __init__(self, patch: pytest.MonkeyPatch, streams: pytest.CaptureFixture[str]) -> None:
        self.table = Table()
        self._patch, self._streams = patch, streams

    def run(self, *argv: str, **ends: Callable[[Stage], str]) -> Answer:
        made = tuple(
            ConformanceCheck(
                name.strip("_"), end, "kept", "broken", needed=not name.startswith("_")
            )
            for name, end in ends.items()
        )
        self._patch.setattr(checks, "CHECKS", made)

        def stage(endpoint: str, *_: object) -> Stage:
            built = real(endpoint, "eu-central-1", lambda _: None, lambda *_: None)
            self._patch.setattr(built, "make", self.table.make)
            self._patch.setattr(built, "drop", self.table.drop)
            return built

        real = inspection.stage
        with self._patch.context() as patch:
            patch.setattr(inspection, "stage", stage)
            return run(self._patch, self._streams, "conform", "--endpoint", ENDPOINT, *argv)


@pytest.fixture
def trial_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Trial:
    return Trial(monkeypatch, capsys)


def passing(_: Stage) -> str:
    return "seen"


def raising(error: BaseException) -> Callable[[Stage], str]:
    def check(_: Stage) -> str:
        raise error

    return check


def test_all_is_well(trial_run: Trial) -> None:
    answer = trial_run.run(one=passing, _other=raising(Broken("it is otherwise")))
    assert answer.status == 0
    assert answer.row("one", "pass", "kept")
    assert answer.row("other", "differs", "broken")
    assert "other: it is otherwise" in answer.err
    assert trial_run.table.did == ["make", "drop"]


@pytest.mark.parametrize(
    ("error", "result", "status"),
    [
        (Broken("two of them"), "fail", 1),
        (Undecided("no answer"), "undecided", 3),
        (Throttled("too much"), "undecided", 3),
        (Unknown("no reply"), "undecided", 3),
        (Missing("no table"), "fail", 1),
        (Refused("Query: UnknownOperation", "UnknownOperationException"), "fail", 1),
        (Refused("Query: AccessDenied", "AccessDeniedException"), "undecided", 3),
        (ValueError("no item"), "fail", 1),
    ],
)
def test_how_a_check_ends(trial_run: Trial, error: Exception, result: str, status: int) -> None:
    answer = trial_run.run("--json", one=passing, two=raising(error))
    assert answer.status == status
    _, two, last = answer.json
    means = "broken" if result == "fail" else "not known"
    assert two == {
        "check": "two",
        "result": result,
        "needed": True,
        "means": means,
        "seen": str(error),
    }
    assert last["result"] == ("fails" if result == "fail" else "undecided")
    assert trial_run.table.did == ["make", "drop"]


def test_a_failure_comes_before_what_is_undecided(trial_run: Trial) -> None:
    ends = {"one": raising(Undecided("no answer")), "two": raising(Broken("two of them"))}
    assert trial_run.run(**ends).status == 1


def test_a_page_of_an_answer_is_cut(trial_run: Trial) -> None:
    answer = trial_run.run("--json", one=raising(Undecided("<html>\n" + "a b\n" * 1_000)))
    seen = answer.json[0]["seen"]
    assert len(seen) == checks.LINE_MAX + 3
    assert "\n" not in seen


def test_an_interruption_drops_the_table_even_if_it_is_repeated(
    trial_run: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    drops: Iterator[BaseException | None] = iter([KeyboardInterrupt(), None])

    def drop() -> None:
        trial_run.table.did.append("drop")
        if error := next(drops):
            raise error

    monkeypatch.setattr(trial_run.table, "drop", drop)
    assert trial_run.run(one=raising(KeyboardInterrupt())).status == 130
    assert trial_run.table.did == ["make", "drop", "drop"]


def test_a_table_that_stays_is_named(trial_run: Trial) -> None:
    trial_run.table.fails = Throttled("DeleteTable: too much")
    answer = trial_run.run(one=passing)
    assert answer.status == 0
    assert "may still exist: delete it (DeleteTable: too much)" in answer.err
    assert "tallyroll-conform-" in answer.err


def test_nobody_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint = f"http://127.0.0.1:{free_ports()}"
    answer = run(monkeypatch, capsys, "conform", "--endpoint", endpoint)
    assert (answer.status, answer.out) == (3, "")
    assert f'Could not connect to the endpoint URL: "{endpoint}/"' in answer.err
    assert f"Does a DynamoDB endpoint listen at {endpoint}?" in answer.err
    assert "may still exist" not in answer.err


def test_who_never_answers_is_told_after_one_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(client, "READ_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as mute:  # its backlog takes connections
        endpoint = f"http://127.0.0.1:{mute.getsockname()[1]}"
        answer = run(monkeypatch, capsys, "conform", "--endpoint", endpoint)
        mute.setblocking(False)
        mute.accept()[0].close()
        with pytest.raises(BlockingIOError):
            mute.accept()  # a second request would need a connection of its own
    assert (answer.status, answer.out) == (3, "")
    assert f'Read timeout on endpoint URL: "{endpoint}/"' in answer.err
    assert f"Does a DynamoDB endpoint listen at {endpoint}?" in answer.err
    assert "may still exist" not in answer.err


def test_what_is_done_is_told_from_the_first_request_on(
    trial_run: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "FIRST_LINE_S", 0)
    monkeypatch.setattr(screen, "NEXT_LINE_S", 0)
    told = trial_run.run(one=passing, two=passing).err.splitlines()
    assert told[:3] == [
        "tallyroll: checking: making a table",
        "tallyroll: checking: one",
        "tallyroll: checking: two",
    ]


def test_who_answers_is_no_dynamodb(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        answer = run(monkeypatch, capsys, "conform", "--endpoint", endpoint)
        server.shutdown()
    assert (answer.status, answer.out) == (3, "")
    assert f"Does a DynamoDB endpoint listen at {endpoint}?" in answer.err
    told = [line for line in answer.err.splitlines() if line.startswith("tallyroll: ")]
    assert "CreateTable: 501: " in told[-2]
    assert "local engine" not in answer.err


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://localhost", "http://", "http://a:b"])
def test_what_is_no_endpoint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    answer = run(monkeypatch, capsys, "conform", "--endpoint", url)
    assert (answer.status, answer.out) == (2, "")
    assert "give a URL such as http://localhost:8000" in answer.err
    assert run(monkeypatch, capsys, "conform").status == 2


@pytest.fixture
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "REGION", "DEFAULT_REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    client._session.cache_clear()
    yield
    client._session.cache_clear()


@pytest.mark.usefixtures("nothing_set")
def test_credentials_and_region_are_made_up_but_not_for_aws() -> None:
    told: list[str] = []
    where = trial.client_parameters(ENDPOINT, None, told.append)
    assert where["region_name"] == "us-east-1"
    assert where["aws_access_key_id"] == where["aws_secret_access_key"] == "local"
    assert len(told) == 2

    told.clear()
    given = trial.client_parameters(ENDPOINT, "eu-west-1", told.append)
    assert given["region_name"] == "eu-west-1"
    assert told == ["no credentials are set: made-up ones are taken"]

    for host in ("dynamodb.eu-west-1.amazonaws.com", "dynamodb.cn-north-1.amazonaws.com.cn"):
        aws = f"https://{host}"
        assert trial.client_parameters(aws, None, told.append) == {"endpoint_url": aws}
    assert len(told) == 1


def test_what_the_environment_has_is_taken() -> None:
    told: list[str] = []
    assert trial.client_parameters(ENDPOINT, None, told.append) == {"endpoint_url": ENDPOINT}
    assert told == []
    with pytest.raises(UsageError, match="give a URL"):
        trial.client_parameters("8000", None, told.append)


def test_every_check_says_what_it_means_on_a_line_of_a_terminal() -> None:
    names = [check.name for check in checks.CHECKS]
    assert len(set(names)) == len(names)
    widest = max(map(len, names)) + 2 + len("undecided") + 2
    for check in checks.CHECKS:
        assert widest + max(len(check.kept), len(check.broken)) <= 80
