"""A trial's rounds: what they wait for, and what they find wrong."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from release.cdk_command import CommandError
from tallyroll.errors import Throttled
from tallyroll.model.states import Attempt, Status, Window
from tests.trial.conftest import ACCOUNT, REGION
from trial import steps as module
from trial.account import Account
from trial.load import Load, Truth
from trial.steps import Plan, Step, Trial, TrialError

PLAN = Plan("aws-test", 3_600, Load(singles=4, packets=0, seconds=0.0), ("scan", "native"), 1.0, 0)
EVENTS = 8

Answers = Sequence[list[Window] | Exception]


def window(status: Status, exporter: str = "", events: int | None = None) -> Window:
    """The window of now."""
    start = time.time_ns() // 1_000_000 // 3_600_000 * 3_600_000
    attempt = Attempt(exporter=exporter)
    return Window("w", "t", start, start + 7_200_000, status, events=events, attempt=attempt)


def life(exporter: str, events: int = EVENTS) -> Answers:
    """What the catalog answers in a round, look by look."""
    dropped = [window(Status.DROPPED, exporter, events)]
    return [
        [],
        Throttled("busy"),
        [window(Status.OPEN)],
        [window(Status.OPEN)],
        [window(Status.SEALED, events=events)],
        dropped,
        dropped,
    ]


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def trial(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> Trial:
    """A trial of which nothing is deployed but its queues."""
    made = Trial(account, PLAN, tmp_path, said.append)
    sqs = account.client("sqs")
    urls = [sqs.create_queue(QueueName=f"aws-test-{name}")["QueueUrl"] for name in ("events", "d")]
    outputs = {"QueueUrl": urls[0], "DeadLettersUrl": urls[1]}
    monkeypatch.setitem(made.__dict__, "outputs", outputs)
    monkeypatch.setattr(made, "_deploy", lambda now: said.append(f"deployed {now.exporter}"))
    monkeypatch.setattr(made, "_measure", lambda _began: None)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    return made


def answering(trial: Trial, answers: Answers, lost: int = 0) -> None:
    """Let its catalog give these answers, and its reader count all that was sent but so many."""
    left = [*answers]

    def windows(_since: int, _until: int) -> list[Window]:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def count(key: str, *_: Any, consistent: bool) -> Any:
        sent = sum((one.truth.events for one in trial.rounds), Counter[str]())
        events = sent[key] - lost * (key in ("hot", "a"))
        return SimpleNamespace(complete=consistent, events=events)

    trial.__dict__["pipeline"] = SimpleNamespace(
        effects=SimpleNamespace(now=lambda: time.time_ns() // 1_000_000),
        catalog=SimpleNamespace(windows=windows),
        reader=SimpleNamespace(count=count),
    )


def test_each_exporter_has_a_round_that_ends_with_dropped_windows(
    trial: Trial, said: list[str]
) -> None:
    answering(trial, [*life("scan"), *life("native")])

    trial.run()

    assert trial.problems == []
    assert [one.exporter for one in trial.rounds] == ["scan", "native"]
    assert [one.windows for one in trial.rounds] == [{"scan": 1}, {"native": 1}]
    assert [one.sealed for one in trial.rounds] == [EVENTS, EVENTS]
    assert [*trial.rounds[0].seconds] == ["deploying", "opening", "sending", "dropping"]
    assert trial.compared == 5
    assert trial.sent == 2 * PLAN.load.messages
    deployed, busy = said.index("deployed native"), said.index("busy")
    assert busy < said.index("1 dropped") < deployed


def test_a_round_under_a_key_finds_what_is_archived_without_it(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/11111111-2222-3333-4444-555555555555"
    assert PLAN.options("native").keys() == replace(PLAN, key=key).options("native").keys() - {
        "kms_key"
    }
    s3 = trial.account.client("s3")
    where = {"CreateBucketConfiguration": {"LocationConstraint": REGION}}
    s3.create_bucket(Bucket="archive", **where)
    monkeypatch.setitem(trial.__dict__, "outputs", {**trial.outputs, "BucketName": "archive"})
    under = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key}
    s3.put_object(Bucket="archive", Key="archive/w/data.json.gz", **under)
    s3.put_object(Bucket="archive", Key="archive/w/manifest.json")
    s3.put_object(Bucket="archive", Key="archive/x/manifest.json")
    dropped = window(Status.DROPPED, "scan", EVENTS)
    dropped = replace(dropped, attempt=replace(dropped.attempt, archive="archive/w/"))
    answering(trial, [[window(Status.OPEN)], [dropped], [dropped], [dropped]])
    trial.plan = replace(PLAN, exporters=("scan",), key=key)

    trial.run()

    assert trial.rounds[0].unkeyed == ["archive/w/manifest.json"]
    [problem] = trial.problems
    assert problem == "scan: 1 objects are not under the key, such as archive/w/manifest.json"
    assert [*trial.rounds[0].seconds] == [*Step][:5]


def test_lost_events_letters_and_another_exporter_are_problems(trial: Trial) -> None:
    answering(trial, [*life("scan"), *life("scan", EVENTS - 1)], lost=1)
    letters = trial.outputs["DeadLettersUrl"]
    trial.account.client("sqs").send_message(QueueUrl=letters, MessageBody="{}")

    trial.run()

    assert trial.problems == [
        "native: 8 events were sent, 7 sealed",
        "native: 1 windows were archived by scan",
        "hot: 8 sent, 7 counted",
        "1 dead letters",
    ]


@pytest.fixture
def without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 10))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(module, "send", lambda _load, truth, *_: truth.note("a", now_ms(), 1))


@pytest.mark.usefixtures("without_end")
def test_tables_that_may_not_be_dropped_are_explained(trial: Trial) -> None:
    proven = [window(Status.DROPPING)]
    answering(trial, [[window(Status.OPEN)], *[proven] * 40])

    with pytest.raises(TrialError, match=r"are not dropped; some are proven.* tables' tags"):
        trial.run()


@pytest.mark.usefixtures("without_end")
def test_windows_that_do_not_end_end_the_trial_with_what_is_known(trial: Trial) -> None:
    open_ = [window(Status.OPEN)]
    answering(trial, [open_, *[open_] * 40])

    with pytest.raises(TrialError, match="after 1 minutes its windows are not dropped"):
        trial.run()

    [one] = trial.rounds
    assert one.windows == {"nobody yet": 1}
    assert one.problems == [
        "scan: 1 events were sent, 0 sealed",
        "scan: 1 windows were archived by nobody yet",
    ]
    assert one.seconds["dropping"] > 60


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_what_is_known_is_written_also_of_a_trial_that_did_not_end(
    trial: Trial, tmp_path: Path
) -> None:
    answering(trial, [*life("scan"), RuntimeError("a mistake")])

    with pytest.raises(RuntimeError, match="a mistake"):
        trial.run()
    trial.write(tmp_path / "new" / "found.json")

    found = json.loads((tmp_path / "new" / "found.json").read_text())
    assert (found["account"], found["region"], found["pipeline"]) == (ACCOUNT, REGION, "aws-test")
    assert [one["exporter"] for one in found["rounds"]] == ["scan", "native"]
    assert found["rounds"][0]["events"] == EVENTS
    assert found["measured"] is found["dollars"] is None


@pytest.mark.usefixtures("without_end")
def test_a_writer_that_counts_nothing_ends_the_trial_where_events_are_sent(trial: Trial) -> None:
    open_ = [window(Status.OPEN)]
    answering(trial, [open_, *[open_] * 40], lost=1)

    with pytest.raises(TrialError, match="after 1 minutes no event was counted"):
        trial.run()


def test_options_make_windows_brief_and_choose_the_exporter() -> None:
    options = replace(PLAN, window_seconds=60).options("native")

    assert options == {
        "name": "aws-test",
        "window_seconds": 60,
        "accept_for_seconds": 60,
        "skew_seconds": 60,
        "retention_seconds": 0,
        "exporter": "native",
    }


def test_a_deployment_that_fails_ends_the_trial_with_the_commands_output(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "install", lambda: "cdk")
    seen: list[list[str]] = []

    def run(command: list[str], **_: Any) -> Any:
        seen.append(command)
        return SimpleNamespace(returncode=1, stdout="said ", stderr="why")

    monkeypatch.setattr(subprocess, "run", run)
    made = Trial(account, PLAN, tmp_path, lambda _: None)

    with pytest.raises(CommandError, match=r"(?s)status 1.*said why"):
        made.run()

    assert "--context=tallyroll:exporter=scan" in seen[0]
    assert made.rounds[0].truth == Truth()
