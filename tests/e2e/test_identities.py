"""A pipeline in which an id counts once at all: deployed to moto, run on DynamoDB Local, and taken
back to ids of their windows.
"""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path

import pytest

from tallyroll.model.windows import window_start
from tallyroll.settings import Settings
from tests.e2e.conftest import check_tools
from tests.e2e.deployment import Deployment, MotoServer
from tests.e2e.lifetimes import HASTE, WAIT_S, body, count, ids, now_ms, window_of
from tests.e2e.pipeline import DeployedPipeline, unpacked

pytestmark = [pytest.mark.e2e, pytest.mark.engine, pytest.mark.slow, pytest.mark.proof]

NAME = "once"
TABLE = f"{NAME}-identities"
SHORT = {name: text for name, text in HASTE.items() if name != "TALLYROLL_NAME"}
LENGTH_MS = 1000 * int(HASTE["TALLYROLL_WINDOW_SECONDS"])
AGAIN = json.dumps({"id": "ballot", "key": "ada", "value": 2})  # in the window of its sending


def deploy(deployment: Deployment, *options: str) -> None:
    chosen = [each for option in options for each in ("--context", f"tallyroll:{option}")]
    deployment.deploy("--method=direct", "--no-previous-parameters", *chosen)


def settled(pipeline: DeployedPipeline, *bodies: str) -> None:
    """Send messages, and poll until all are counted, absorbed or rejected."""
    left = set(pipeline.send(*bodies))
    deadline = time.monotonic() + WAIT_S
    while left and time.monotonic() < deadline:
        assert pipeline.schedules.fire(pipeline.arns["roller"])["problems"] == []
        batch = pipeline.events.poll()
        left -= ids(batch) - batch.left
    assert left == set()


def counts_once(pipeline: DeployedPipeline) -> None:
    """Send an id twice in its window, under another key, and in a later window."""
    assert pipeline.schedules.fire(pipeline.arns["roller"])["problems"] == []
    first = body("ada", now_ms(), 2, "ballot")
    window = window_of(pipeline, "ada", [first, first])
    settled(pipeline, body("bob", now_ms(), 2, "ballot"))
    while now_ms() < window_start(window) + LENGTH_MS:
        time.sleep(0.1)
    settled(pipeline, AGAIN, body("ada", now_ms(), 1))
    assert count(pipeline, "ada") == {"events": 2, "sum": "3"}
    assert count(pipeline, "bob") == {"events": 0, "sum": "0"}


def test_an_id_counts_once_at_all_and_the_table_stays_on_the_way_back(
    dynamodb_endpoint: str, tmp_path: Path
) -> None:
    check_tools()
    with MotoServer() as moto:
        deployment = Deployment(NAME, moto.endpoint, tmp_path, deploy=False)
        deploy(deployment, "identity=pipeline")
        assert deployment.outputs["IdentitiesTable"] == TABLE
        made = deployment.physical_ids()

        with closing(unpacked(deployment, tmp_path, dynamodb_endpoint, SHORT)) as pipeline:
            pipeline.make_tables()
            counts_once(pipeline)

        deploy(deployment, "identity=window", "keep_identities=true")
        assert deployment.physical_ids() == made
        for function in deployment.client("lambda").list_functions()["Functions"]:
            back = Settings.from_env(function["Environment"]["Variables"])
            assert (back.identity, back.keep_identities) == ("window", True)
