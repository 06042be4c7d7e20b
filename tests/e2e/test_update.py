"""An update from the release before, with traffic flowing, and back again.

The release before is deployed from its committed template and code (`tests.harness.release`). The
CDK's command then updates the stack to the template of now while messages are sent and counted.
After that functions of both versions work side by side on one queue, one catalog and one bucket, as
they do while a deployment goes on: each message is given to both writers at the same moment, and to
both once more; windows are made by the roller of either version; they are sealed, exported, proven
and dropped by both in turn. Lastly the stack is updated back. Every event counts exactly once.

    pytest tests/e2e/test_update.py --log-cli-level=info

tells what each part took. No test here races the clock: windows open and close only when the course
below invokes a roller.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from threading import Event

import pytest

from release.cdk_command import CommandError
from tests.e2e.conftest import check_tools
from tests.e2e.deployment import ASSETS, Deployed, Deployment, Json, MotoServer
from tests.e2e.lifetimes import HASTE
from tests.e2e.pipeline import DeployedPipeline, unpacked
from tests.e2e.traffic import WAIT_S, Traffic, fire
from tests.harness.release import NAME, Release, zipped
from tests.harness.replacements import KEPT

pytestmark = [pytest.mark.e2e, pytest.mark.engine, pytest.mark.slow, pytest.mark.proof]

WINDOW_SECONDS = 4
CHANGED = HASTE | {
    "TALLYROLL_NAME": NAME,
    "TALLYROLL_WINDOW_SECONDS": str(WINDOW_SECONDS),
    "TALLYROLL_STRIPES_RULE": "shards",  # for the way back, as docs/deploy.md says
}
ITEM = {"pk": {"S": "kept"}, "sk": {"S": "kept"}}
log = logging.getLogger(__name__)


class Look:
    """What there is of the stack at one moment."""

    def __init__(self, endpoint: str) -> None:
        self.deployed = Deployed(NAME, endpoint)
        self.ids = self.deployed.physical_ids()
        self.code = {arn: one["CodeSha256"] for arn, one in self.deployed.functions.items()}
        [mapping] = self.deployed.client("lambda").list_event_source_mappings()[
            "EventSourceMappings"
        ]
        self.mapping = (mapping["UUID"], mapping["State"])
        schedules = self.deployed.client("scheduler").list_schedules()["Schedules"]
        self.schedules = {one["Name"] for one in schedules}
        catalog = self.deployed.outputs["CatalogTable"]
        self.items = self.deployed.client("dynamodb").scan(TableName=catalog)["Items"]


@dataclass
class Course:
    """The pipeline of both versions, and what happened.

    Attributes:
        looks: Before the update, after it, and after the way back.
        template: Of now.
        made_by: The window that one version made and both wrote, by that version.
    """

    before: DeployedPipeline
    after: DeployedPipeline
    traffic: Traffic
    looks: list[Look]
    template: Json = field(repr=False)
    made_by: dict[str, str] = field(default_factory=dict)


@contextmanager
def timed(part: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    log.info("%s: %.1f s", part, time.monotonic() - began)


@pytest.fixture(scope="module")
def course(dynamodb_endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Course]:
    """The whole course, with functions of both versions that still run."""
    check_tools()
    folder = tmp_path_factory.mktemp("update")
    release = Release()
    with ExitStack() as stack:
        moto = stack.enter_context(MotoServer())

        def running(name: str) -> DeployedPipeline:
            """What is deployed now, on tables in haste."""
            there = Deployed(NAME, moto.endpoint)
            made = unpacked(there, folder / name, dynamodb_endpoint, CHANGED)
            return stack.enter_context(closing(made))

        with timed("the release before"):
            made = Deployment(NAME, moto.endpoint, folder, deploy=False)
            deploy(made, release, folder / "code")
            before = running("before")
            before.make_tables()
        catalog = before.deployment.outputs["CatalogTable"]
        made.client("dynamodb").put_item(TableName=catalog, Item=ITEM)
        looks = [Look(moto.endpoint)]

        traffic = Traffic(WINDOW_SECONDS)
        fire(before)
        with timed("the update"), flowing(traffic, before):
            try:
                made.deploy("--method=direct", "--no-previous-parameters")
            except CommandError as failed:
                failed.add_note(moto.complaints())
                raise
        looks.append(Look(moto.endpoint))

        after = running("after")
        found = Course(before, after, traffic, looks, made.template)
        for name, roller in (("after", after), ("before", before)):
            with timed(f"side by side, {name} rolls"):
                found.made_by[name] = side_by_side(traffic, roller, [before, after])
        with timed("the way back"):
            set_template(made, release.template)
            looks.append(Look(moto.endpoint))
            traffic.exchange([before], before)
        with timed("the windows' ends"):
            end(traffic, [after, before])
        log.info("%d messages, %d deliveries", traffic.sent, traffic.delivered)
        yield found


def deploy(made: Deployed, release: Release, task: Path) -> None:
    """Create the stack of a release, with its code where its template says."""
    functions = of_types(release.template, {"AWS::Lambda::Function"})
    [key] = {release.template["Resources"][id_]["Properties"]["Code"]["S3Key"] for id_ in functions}
    code = zipped(release.unpack(task))
    made.client("s3").put_object(Bucket=ASSETS, Key=key, Body=code)
    set_template(made, release.template, "create_stack")


def set_template(made: Deployed, template: Json, operation: str = "update_stack") -> None:
    """Create or update the stack by CloudFormation's own API."""
    made.client("s3").put_object(Bucket=ASSETS, Key=NAME, Body=json.dumps(template))
    call = getattr(made.client("cloudformation"), operation)
    where = f"https://s3.amazonaws.com/{ASSETS}/{NAME}"
    call(StackName=NAME, TemplateURL=where, Capabilities=["CAPABILITY_IAM"])


@contextmanager
def flowing(traffic: Traffic, pipeline: DeployedPipeline) -> Iterator[None]:
    """Send and count events from before the block until after it, by one version's functions."""
    flows, done = Event(), Event()

    def flow() -> int:
        rounds = 0
        while not done.is_set():
            traffic.exchange([pipeline], pipeline)
            fire(pipeline)
            flows.set()
            rounds += 1
            done.wait(0.5)
        traffic.exchange([pipeline], pipeline)
        return rounds

    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(flow)
        try:
            while not flows.wait(0.1):
                assert not work.done(), work.result()
            yield
        finally:
            done.set()
        log.info("%d rounds of traffic meanwhile", work.result())


def side_by_side(
    traffic: Traffic, roller: DeployedPipeline, writers: Sequence[DeployedPipeline]
) -> str:
    """Let a pipeline's roller make windows until one of them is current, and writers count in it;
    the window's id.
    """
    known = roller.tables()
    deadline = time.monotonic() + WAIT_S
    while f"{NAME}-{traffic.window_of_now()}" in known:
        assert time.monotonic() < deadline, "no new window is current"
        fire(roller)
        time.sleep(0.2)
    return traffic.exchange(writers, roller)


def end(traffic: Traffic, turns: Sequence[DeployedPipeline]) -> None:
    """Let versions in turn take the windows to their ends."""
    left = {f"{NAME}-{window}" for window in traffic.windows}
    deadline = time.monotonic() + WAIT_S
    while left & turns[0].tables():
        assert time.monotonic() < deadline, f"still there: {left & turns[0].tables()}"
        for pipeline in turns:
            fire(pipeline)
            time.sleep(0.1)


def of_types(template: Json, types: set[str] | frozenset[str]) -> set[str]:
    """The logical ids of the resources of some types."""
    return {id_ for id_, one in template["Resources"].items() if one["Type"] in types}


def count(pipeline: DeployedPipeline, key: str) -> tuple[int, Decimal]:
    status, answer = pipeline.api.get("/v1/counters", key=key, consistent="true")
    assert (status, answer["complete"]) == (200, True), answer
    return answer["events"], Decimal(answer["sum"])


def test_every_event_counts_exactly_once_by_either_version(course: Course) -> None:
    assert course.traffic.delivered >= 2 * course.traffic.sent
    for key, truth in course.traffic.truth.items():
        assert count(course.before, key) == truth
        assert count(course.after, key) == truth


def test_nothing_was_rejected(course: Course) -> None:
    assert course.after.dead_letters() == []
    assert course.after.events.in_flight() == 0


def test_windows_made_by_either_version_and_written_by_both_are_proven_and_dropped(
    course: Course,
) -> None:
    bucket = course.after.deployment.outputs["BucketName"]
    s3 = course.after.deployment.client("s3")
    proofs = [
        json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
        for key in course.after.archived()
        if key.endswith("/proof.json")
    ]
    proven = {one["window"]: one["events"] for one in proofs if one["events"]}

    assert len(set(course.made_by.values())) == 2
    assert set(course.made_by.values()) <= course.traffic.windows
    assert proven.keys() == course.traffic.windows
    assert sum(proven.values()) == course.traffic.events


def test_nothing_that_is_to_stay_was_replaced(course: Course) -> None:
    template = Release().template
    before, after, back = course.looks
    [log] = (one for one in of_types(template, {"AWS::Logs::LogGroup"}) if "ReadsLog" in one)
    kept = of_types(template, KEPT) - {log}  # the log of the API's calls has another name since

    assert len(kept) > 10
    for look in (after, back):
        assert {id_: look.ids[id_] for id_ in kept} == {id_: before.ids[id_] for id_ in kept}
        assert look.mapping == before.mapping
        assert look.items == [ITEM]


def test_the_update_brought_the_new_functions_and_the_way_back_the_old_ones(course: Course) -> None:
    before, after, back = course.looks

    assert before.code.keys() <= after.code.keys()
    assert len(set(after.code.values())) == 1
    assert set(after.code.values()) != set(before.code.values())
    assert back.code == before.code


def test_schedules_of_new_names_take_the_place_of_the_old_ones(course: Course) -> None:
    before, after, back = course.looks
    schedules = of_types(course.template, {"AWS::Scheduler::Schedule"})
    named = {course.template["Resources"][id_]["Properties"]["Name"] for id_ in schedules}

    assert after.schedules == named
    assert len(back.schedules) == len(before.schedules) >= 2
