"""`make aws-test` on moto: the same commands and calls as on AWS, and the deployed functions.

Lambda, its triggers and CloudWatch's metrics are played here: by AWS's runtime client, and by
putting what functions log in the embedded metric format. DynamoDB Local has no exports of its own,
so that windows of a pipeline with native exports are archived by scans: the command has to say so.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from local.runtime.api import FunctionFailed
from tests.e2e.conftest import check_tools
from tests.e2e.deployment import ACCOUNT, Deployed, Deployment, MotoServer, addresses_of
from tests.e2e.lifetimes import HASTE
from tests.e2e.pipeline import DeployedPipeline, unpacked
from trial.__main__ import main

pytestmark = [pytest.mark.e2e, pytest.mark.engine, pytest.mark.slow, pytest.mark.proof]

NAME = "aws-test-e2e"
SINGLES, PACKETS = 50, 2
CHANGED = {name: text for name, text in HASTE.items() if name != "TALLYROLL_NAME"}
log = logging.getLogger(__name__)


class Lambda(threading.Thread):
    """Runs what is deployed for as long as it is deployed, and puts its metrics."""

    def __init__(self, endpoint: str, folder: Path, dynamodb_endpoint: str) -> None:
        super().__init__(daemon=True)
        self.deployed = Deployed(NAME, endpoint)
        self._folder, self._dynamodb = folder, dynamodb_endpoint
        self._put: dict[str, int] = {}
        self.stop = threading.Event()

    def run(self) -> None:
        """Wait for a deployment, run it until its functions are gone."""
        while not self._has_functions():
            if self.stop.wait(0.2):
                return
        with closing(unpacked(self.deployed, self._folder, self._dynamodb, CHANGED)) as pipeline:
            pipeline.make_tables()
            while not self.stop.is_set() and self._has_functions():
                try:
                    self._turn(pipeline)
                except FunctionFailed:  # its tables went, while it was at work
                    if self._has_functions():
                        raise
                time.sleep(0.1)

    def _has_functions(self) -> bool:
        """Whether the stack is complete: its outputs are there last."""
        try:
            [stack] = self.deployed.client("cloudformation").describe_stacks(StackName=NAME)[
                "Stacks"
            ]
        except self.deployed.client("cloudformation").exceptions.ClientError:
            return False
        return bool(stack["StackStatus"].endswith("E_COMPLETE")) and bool(stack.get("Outputs"))

    def _turn(self, pipeline: DeployedPipeline) -> None:
        began = time.monotonic()
        batch = pipeline.events.poll()
        if batch.records:
            name, took = pipeline.functions["writer"].name, 1e3 * (time.monotonic() - began)
            self._metric("AWS/Lambda", "Duration", took, FunctionName=name)
            queue = f"{NAME}-events"
            received = len(batch.records)
            self._metric("AWS/SQS", "NumberOfMessagesReceived", received, QueueName=queue)
        for arn in pipeline.schedules.by_target:
            pipeline.schedules.fire(arn)
        for function in pipeline.functions.values():
            found = function.metrics()
            for entry in found[self._put.get(function.name, 0) :]:
                self._put_embedded(entry)
            self._put[function.name] = len(found)

    def _put_embedded(self, entry: dict[str, Any]) -> None:
        for directive in entry["_aws"]["CloudWatchMetrics"]:
            for group in directive["Dimensions"]:
                of = {name: entry[name] for name in group}
                for metric in directive["Metrics"]:
                    values = entry[metric["Name"]]
                    for value in values if isinstance(values, list) else [values]:
                        self._metric(directive["Namespace"], metric["Name"], value, **of)

    def _metric(self, namespace: str, name: str, value: float, **of: str) -> None:
        dimensions = [{"Name": key, "Value": text} for key, text in of.items()]
        data = [{"MetricName": name, "Dimensions": dimensions, "Value": value}]
        self.deployed.client("cloudwatch").put_metric_data(Namespace=namespace, MetricData=data)


def test_a_trial_counts_exactly_tells_what_it_measured_and_leaves_nothing(
    dynamodb_endpoint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    check_tools()
    with MotoServer() as moto:
        Deployment(NAME, moto.endpoint, tmp_path, deploy=False)  # which bootstraps
        for name, value in addresses_of(moto.endpoint).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_endpoint)
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
            monkeypatch.setenv(name, "us-east-1")
        runtime = Lambda(moto.endpoint, tmp_path, dynamodb_endpoint)
        runtime.start()
        written = tmp_path / "found.json"
        given = ["--account", ACCOUNT, "--yes", ACCOUNT, "--name", NAME, "--json", str(written)]
        given += ["--exporters", "native", "--window-seconds", "5", "--seconds", "2"]
        given += ["--singles", str(SINGLES), "--packets", str(PACKETS), "--minutes-most", "6"]
        try:
            status = main([*given, "--metrics-seconds", "0"])
        finally:
            runtime.stop.set()
            runtime.join(60)
        left = runtime.deployed.client("lambda").list_functions()["Functions"]

    said = capsys.readouterr()
    log.info("%s%s", said.err, said.out)
    found = json.loads(written.read_text())
    [one] = found["rounds"]
    events = 2 * SINGLES + PACKETS * 500
    assert (one["events"], one["sealed"]) == (events, events), said
    assert one["messages"] == 2 * SINGLES + 2 + PACKETS
    assert found["keysCompared"] == SINGLES + 2
    windows = one["windowsByExporter"]["scan"]
    assert found["problems"] == [f"native: {windows} windows were archived by scan"]
    assert status == 1
    measured = found["measured"]
    assert measured["writer"]["EventsCounted"] == events
    assert measured["writer"]["Duplicates"] == 2
    assert measured["functions"][f"{NAME}-writer"]["samples"] >= 1
    assert measured["queue"]["NumberOfMessagesReceived"] >= one["messages"]
    assert found["dollars"]["Lambda time"] > 0
    assert f"EXACT  {events:,}" not in said.out
    assert "everything was removed" in said.err
    assert left == []
