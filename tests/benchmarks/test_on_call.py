"""The doctor names each fault of the catalogue, with its remedy, on a deployment in moto."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from moto import mock_aws
from moto.core import utils as moto_time
from moto.sqs import models as moto_sqs

from benchmarks.on_call.faults import FAULTS
from benchmarks.on_call.stack import make_stack
from benchmarks.on_call.world import World
from local.aws import simulations
from tallyroll import pipeline as wiring
from tallyroll.adapters.aws import client as aws
from tallyroll.model.messages import Message
from tallyroll.model.states import Status
from tallyroll.operations.doctor.examine import EXAMINATIONS
from tallyroll.pipeline import Pipeline, inspection, queue_urls
from tallyroll.settings import Settings
from tallyroll.testing.emulated import create_bucket, create_queues, create_tables
from tests.cli.command_line import run
from tests.docs.commands import check, of_sentences
from tests.harness.pipeline import HOUR, MINUTE, NOW, StillEffects

# What must be among them, by its name in the catalogue.
ASKED = {
    "deleted table": "a live window's table was deleted",
    "disabled mapping": "the event source mapping is disabled",
    "wrong policy": "a function's role denies its calls",
    "full in-flight": "too many messages are in flight",
    "stale catalog": "the catalog was put back to an earlier time",
    "corrupt archive": "a manifest is destroyed",
    "stopped schedule": "a schedule is disabled",
    "throttled totals": "the totals are throttled",
    "missing tag": "a table lost its tag",
    "unreadable bucket": "the bucket's policy denies everybody",
}
SMALL = Settings(
    name="oncall",
    shards=2,
    stripes_min=8,
    buckets=2,
    gates=2,
    export_segments=1,
    accept_for_ms=0,
    retention_ms=2 * HOUR,
    settle_ms=0,
    ahead_windows=1,
)


@dataclass
class StillRunning:
    """Functions that run when they are told to."""

    pipeline: Pipeline
    effects: StillEffects

    @contextmanager
    def held_roller(self) -> Iterator[None]:
        yield

    def stop_roller(self) -> None:
        self.effects.pass_by(4 * HOUR)

    def await_letter(self) -> None:
        sqs = aws.make_client("sqs")
        url = self.pipeline.settings.queue_url
        [found] = sqs.receive_message(QueueUrl=url)["Messages"]
        message = Message(
            found["MessageId"], found["Body"], self.effects.now(), 1, found["ReceiptHandle"]
        )
        self.pipeline.writer.write([message], MINUTE)
        sqs.delete_message(QueueUrl=url, ReceiptHandle=found["ReceiptHandle"])

    def count(self, number: int) -> None:
        """Have the writer count some events of now."""
        now = self.effects.now()
        bodies = [
            json.dumps({"key": f"k{key}", "id": f"{number}-{key}", "ts": now, "value": 1.5})
            for key in range(3)
        ]
        messages = [Message(f"m{now}{body}", body, now, 1, body) for body in bodies]
        self.pipeline.writer.write(messages, MINUTE)


def grow(running: StillRunning, hours: int) -> None:
    """Let the pipeline work for some hours, until half past one."""
    for number in range(hours * 3):
        running.pipeline.roller.run(MINUTE)
        running.count(number)
        running.effects.pass_by(20 * MINUTE)
        running.pipeline.roller.run(MINUTE)
        running.pipeline.cleanup.run(MINUTE)
        running.pipeline.dropper.run(MINUTE)
    running.effects.pass_by(MINUTE)
    running.pipeline.roller.run(MINUTE)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A deployment in moto, with windows that are open, sealed and dropped."""
    effects = StillEffects(NOW)
    for module in (wiring, inspection, queue_urls):
        monkeypatch.setattr(module, "SystemEffects", lambda: effects)

    def now() -> datetime:
        return datetime.fromtimestamp(effects.now() / 1000, UTC).replace(tzinfo=None)

    monkeypatch.setattr(moto_time, "utcnow", now)
    aws._session.cache_clear()
    simulations.install()
    with mock_aws(), monkeypatch.context() as patch:
        patch.setattr(moto_sqs.Queue, "lambda_event_source_mappings", None, raising=False)
        simulations.silence_mappings(moto_sqs.Queue)
        settings = create_queues(SMALL, aws.make_client("sqs"))
        settings = create_bucket(settings, aws.make_client("s3"))
        create_tables(settings, aws.make_client("dynamodb"))
        make_stack(settings, aws.make_client)
        pipeline = Pipeline(settings, effects)
        running = StillRunning(pipeline, effects)
        grow(running, 6)
        yield World(settings, aws.make_client, pipeline, running)
    aws._session.cache_clear()


Doctor = Any


@pytest.fixture
def doctor(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Doctor:
    """Asks the doctor; gives its exit status, its checks by name, and its stderr."""

    def asked(*options: str) -> tuple[int, dict[str, Any], str]:
        answer = run(monkeypatch, capsys, "--name", "oncall", "--json", "doctor", *options)
        return answer.status, {each["check"]: each for each in answer.json}, answer.err

    return asked


def test_the_catalogue_has_what_is_asked_for() -> None:
    names = [fault.name for fault in FAULTS]
    assert {*ASKED.values()} <= {*names}
    assert len({*names}) == len(names)
    assert {fault.check for fault in FAULTS} <= {*EXAMINATIONS}


@pytest.mark.proof
def test_the_doctor_names_each_fault_and_nothing_of_a_healthy_deployment(
    world: World, doctor: Doctor
) -> None:
    found = {window.status for window in world.pipeline.catalog.windows(0, 2 * NOW)}
    assert {Status.OPEN, Status.SEALED, Status.DROPPED} <= found
    status, checks, told = doctor("--deep")
    assert (status, [each for each in checks.values() if each["level"] != "ok"]) == (0, []), told
    problems: list[tuple[Any, ...]] = []
    for fault in FAULTS:
        with fault.plant(world):
            status, checks, _ = doctor(*(["--deep"] if fault.deep else []))
        signs = checks[fault.check]["signs"]
        named = [sign for sign in signs if fault.says in sign["text"]]
        if not any(fault.remedy in sign["remedy"] for sign in named):
            problems.append((fault.name, status, signs))
        elif not (status == 1 or fault.check in ("dead-letters", "subscriptions")):
            problems.append((fault.name, status, named))
        else:
            problems += [(fault.name, refused) for refused in _refused(named)]
    assert problems == []


def _refused(signs: list[dict[str, str]]) -> Iterator[str]:
    """The commands of remedies that would be refused, with this deployment's names in them."""
    for sign in signs:
        for command in of_sentences("remedy", sign["remedy"]):
            try:
                check(command)
            except Exception as error:  # noqa: BLE001  (all that makes a command useless)
                yield f"{command}: {error}"


@pytest.mark.proof
def test_each_mended_fault_leaves_nothing(world: World, doctor: Doctor) -> None:
    stays = ("throttled", "too many messages are in flight", "producer")
    cannot = ("a live window's table was deleted", "the roller does not run")
    assert {*cannot} < {fault.name for fault in FAULTS}
    mended = [fault for fault in FAULTS if not any(one in fault.name for one in stays + cannot)]
    for fault in mended:
        with fault.plant(world):
            pass
    status, checks, told = doctor("--deep")
    assert (status, [each for each in checks.values() if each["level"] != "ok"]) == (0, []), told
