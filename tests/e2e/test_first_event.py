"""The commands of docs/deploy.md, from an empty home to the first counted event.

No make, and no package but those of `requirements.txt`. moto stands for AWS, and DynamoDB Local
keeps the tables.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from release.cdk_command import ROOT, CommandError
from tests.docs.walks import blocks_of
from tests.e2e.conftest import check_tools
from tests.e2e.deployment import REGION, Deployed, MotoServer, addresses_of
from tests.e2e.newcomer import Newcomer, publish
from tests.e2e.pipeline import DeployedPipeline, started

pytestmark = [pytest.mark.e2e, pytest.mark.engine, pytest.mark.slow, pytest.mark.proof]

NAME = "first-event"  # instead of the document's: tests share DynamoDB Local
TAKES_S = 1_000.0  # below the limit of a test (faulthandler_timeout)
PAUSE_S = 0.5
# moto has neither change sets nor the parameters of an earlier template, and nobody can be asked.
MOTOS = {
    "CDK_METHOD": "direct",
    "CDK_PREVIOUS_PARAMETERS": "false",
    "CDK_REQUIRE_APPROVAL": "never",
    "CI": "true",
}
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_REGION": REGION,
}


@contextmanager
def at_work(pipeline: DeployedPipeline) -> Iterator[None]:
    """The event source and the roller's schedule, in the background, until the block ends.

    The roller's first run is due only when a writer has seen a message: an event that comes before
    the first window has to wait for it.
    """
    done, failed = threading.Event(), list[BaseException]()

    def work() -> None:
        seen = False
        try:
            while not done.wait(PAUSE_S):
                seen = bool(pipeline.events.poll().records) or seen
                if seen:
                    assert pipeline.schedules.fire(pipeline.arns["roller"])["problems"] == []
        except BaseException as error:  # noqa: BLE001  (raised below, in the test's thread)
            failed.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        done.set()
        worker.join()
        if failed:
            raise failed[0]


def test_the_documents_commands_lead_to_the_first_counted_event(
    dynamodb_endpoint: str, tmp_path: Path
) -> None:
    check_tools()
    repository, home = tmp_path / "repository", tmp_path / "home"
    publish(repository)
    home.mkdir()
    deploying, counting = (
        block for block in blocks_of(ROOT / "docs" / "deploy.md") if block.how == "aws"
    )
    texts = [
        block.text.replace("REPOSITORY", str(repository)).replace("votes", NAME)
        for block in (deploying, counting)
    ]
    assert "make" not in " ".join(texts).split()
    with MotoServer() as moto:
        tables = {"AWS_ENDPOINT_URL_DYNAMODB": dynamodb_endpoint}
        newcomer = Newcomer(home, {**CREDENTIALS, **MOTOS, **addresses_of(moto.endpoint), **tables})
        try:
            said = newcomer.run(texts[0], TAKES_S)
        except CommandError as error:
            error.add_note(moto.complaints())
            raise
        assert "No Region" not in said
        assert "No valid AWS credentials" not in said
        assert newcomer.environment["VIRTUAL_ENV"] == str(home / "tallyroll" / ".venv")
        deployed = Deployed(NAME, moto.endpoint)
        with closing(started(deployed, tmp_path, dynamodb_endpoint)) as pipeline:
            with at_work(pipeline):
                said = newcomer.run(texts[1], TAKES_S)
            assert (counting.prints or "nothing is wanted") in said
            # What the page sent is what it reads, and it is no reason for an alarm.
            again = newcomer.run(texts[1].splitlines()[-1].replace("count", "--json count"), 60.0)
            assert json.loads(again)["events"] == 1
            assert pipeline.dead_letters() == []
