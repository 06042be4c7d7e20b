"""The embedded AWS: what it creates, and that nothing stays behind, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import boto3
import pytest

from local.aws.embedded import Embedded, resident_bytes, scaled_settings
from tallyroll.adapters.aws.create_requests import table_request
from tallyroll.resources import declare
from tallyroll.settings import Settings

ROOT = Path(__file__).parent.parent.parent

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")


def descendants(pid: int) -> list[int]:
    """The living processes that descend from one, itself left out."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = entry.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state != "Z":
            parents[int(entry.parent.name)] = int(parent)
    found = [pid]
    for known in found:
        found += [child for child, parent in parents.items() if parent == known]
    return found[1:]


def alive(pids: list[int]) -> list[int]:
    def state(pid: int) -> str:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return "Z"

    return [pid for pid in pids if state(pid) != "Z"]


def await_none(pids: list[int], within_s: float = 120.0) -> None:
    until = time.monotonic() + within_s
    while alive(pids) and time.monotonic() < until:
        time.sleep(0.05)
    assert alive(pids) == []


def test_queues_bucket_and_settings(aws: Embedded) -> None:
    settings = Settings.from_env(aws.environment)
    assert settings == aws.settings
    resources = declare(settings)
    sqs = aws.client("sqs")
    attributes = sqs.get_queue_attributes(QueueUrl=settings.queue_url, AttributeNames=["All"])
    assert attributes["Attributes"]["RedrivePolicy"].count(resources.dead_letters.name) == 1
    assert attributes["Attributes"]["VisibilityTimeout"] == str(settings.visibility_ms // 1000)
    assert settings.dead_letters_url.endswith(resources.dead_letters.name)
    versioning = aws.client("s3").get_bucket_versioning(Bucket=settings.bucket)
    assert versioning["Status"] == "Enabled"
    tables = aws.client("dynamodb").list_tables()["TableNames"]
    assert {resources.catalog.name, resources.totals.name} <= set(tables)


@needs_proc
def test_memory(aws: Embedded) -> None:
    told = aws.memory()
    assert told.keys() == {"moto"}
    assert 20_000_000 < (told["moto"] or 0) < 500_000_000
    assert resident_bytes(0) is None


@pytest.mark.engine
def test_a_dynamodb_that_runs_already(dynamodb_endpoint: str) -> None:
    settings = scaled_settings("embedded-tests", 60)
    resources = declare(settings)
    dynamodb = boto3.client("dynamodb", endpoint_url=dynamodb_endpoint)
    dynamodb.create_table(**table_request(resources.catalog))
    with Embedded(settings, dynamodb_endpoint=dynamodb_endpoint) as embedded:
        assert embedded.pids.keys() == {"moto"}
        assert embedded.environment["AWS_ENDPOINT_URL_DYNAMODB"] == dynamodb_endpoint
        tables = embedded.client("dynamodb").list_tables()["TableNames"]
    assert {resources.catalog.name, resources.totals.name} <= set(tables)


@pytest.mark.engine
def test_identities_expire_also_on_a_second_start(dynamodb_endpoint: str) -> None:
    settings = replace(scaled_settings("embedded-ids", 60), identity="pipeline")
    for _ in range(2):
        with Embedded(settings, dynamodb_endpoint=dynamodb_endpoint) as embedded:
            dynamodb = embedded.client("dynamodb")
            found = dynamodb.describe_time_to_live(TableName="embedded-ids-identities")
            assert found["TimeToLiveDescription"]["AttributeName"] == "expires"
            assert found["TimeToLiveDescription"]["TimeToLiveStatus"] == "ENABLED"
            card = dynamodb.describe_table(TableName="embedded-ids-identities")["Table"]
            assert card["KeySchema"] == [{"AttributeName": "pk", "KeyType": "HASH"}]


@needs_proc
@pytest.mark.engine
def test_both_engines_end_with_the_block(dynamodb_endpoint: str) -> None:
    with Embedded(scaled_settings("embedded-tests", 60)) as embedded:
        pids = list(embedded.pids.values())
        assert len(alive(pids)) == 2
        assert embedded.memory().keys() == {"moto", "dynamodb-local"}
    assert alive(pids) == []


def test_scaled_settings() -> None:
    assert scaled_settings("tallyroll", 3600) == Settings()
    minute = scaled_settings("tallyroll", 60)
    assert (minute.accept_for_ms, minute.skew_ms, minute.roller_period_ms) == (60_000, 5_000, 1_000)
    assert scaled_settings("tallyroll", 86_400).roller_period_ms == Settings().roller_period_ms


def test_an_unknown_engine() -> None:
    with pytest.raises(ValueError, match="postgres"):
        Embedded(Settings(), engine="postgres")


def _stop_in_order(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 0


def _kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


@needs_proc
@pytest.mark.parametrize("end", [_stop_in_order, _kill])
def test_the_command_leaves_nothing_running(end: Callable[[subprocess.Popen[str]], None]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "local", "--engine", "moto", "--name", "mine"],
        cwd=ROOT,
        env=os.environ,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    with process.stdout as lines:
        told = []
        for line in lines:
            told.append(line.strip())
            if line.startswith("#"):
                break
        assert "export TALLYROLL_NAME=mine" in told
        assert any(line.startswith("export AWS_ENDPOINT_URL=http://127.0.0.1:") for line in told)
        until = time.monotonic() + 300
        while len(children := descendants(process.pid)) < 4 and time.monotonic() < until:
            time.sleep(0.05)
        # The guard and moto, the sandboxes of roller and cleanup.
        assert len(children) >= 4
        end(process)
    await_none(children)


def test_complaints_of_moto_can_be_read(aws: Embedded) -> None:
    before = aws.complaints()
    # A parameter without which moto fails with a traceback; boto3 would not let it pass.
    url = f"{aws.environment['AWS_ENDPOINT_URL']}/?Action=GetMetricStatistics&Version=2010-08-01"
    scope = "Credential=local/20261120/us-east-1/monitoring/aws4_request"
    headers = {"Authorization": f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0"}
    request = urllib.request.Request(f"{url}&Statistics.member.1=Sum", headers=headers)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    caught.value.close()
    assert caught.value.code >= 400
    assert "Traceback" in aws.complaints().removeprefix(before)
