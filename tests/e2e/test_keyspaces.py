"""A pipeline with windows in Keyspaces: deployed to moto, and run on a node of Cassandra.

moto has neither keyspaces nor their tables, so the node gets those that the template has, and moto
does not give a function the layers of the template, so they are taken from the uploaded assets. The
node has no TLS and no signatures: `tests/contract/test_keyspaces.py` puts these before one. What
runs is the deployed zip with the deployed layer, as in `test_deployed`.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from local.cassandra import node
from local.cassandra.keyspace import make_keyspace
from tallyroll.adapters.cassandra.session import Connection, connect
from tallyroll.adapters.system import SystemEffects
from tests.e2e.conftest import check_tools
from tests.e2e.deployment import ASSETS, Deployment, MotoServer
from tests.e2e.lifetimes import HASTE, NOT_MADE, body, count, dropped, now_ms, window_of
from tests.e2e.pipeline import DeployedPipeline, unpacked

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.engine,
    pytest.mark.cassandra,
    pytest.mark.slow,
    pytest.mark.proof,
]

NAME, KEYSPACE = "in-keyspaces", "in_keyspaces"
EVENTS = 40
HERE = {name: text for name, text in HASTE.items() if name != "TALLYROLL_NAME"}


@dataclass
class Stored:
    """The running pipeline, and a connection to the keyspace of its windows."""

    deployment: Deployment
    pipeline: DeployedPipeline
    connection: Connection

    def windows(self) -> set[str]:
        """The window tables in the keyspace."""
        text = f"SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{KEYSPACE}'"
        return {name for (name,) in self.connection.session.execute(text) if KEYSPACE in name}


def layer_of(deployment: Deployment, folder: Path) -> Path:
    """Where the packages of the deployed layer are, unpacked into a folder."""
    [layer] = [
        one["Properties"]
        for one in deployment.template["Resources"].values()
        if one["Type"] == "AWS::Lambda::LayerVersion"
    ]
    key = layer["Content"]["S3Key"]
    found = deployment.client("s3").get_object(Bucket=ASSETS, Key=key)
    zipfile.ZipFile(io.BytesIO(found["Body"].read())).extractall(folder)
    return folder / "python"


@pytest.fixture(scope="module")
def stored(
    cassandra: node.Node, dynamodb_endpoint: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stored]:
    check_tools()
    folder = tmp_path_factory.mktemp("keyspaces")
    endpoint = make_keyspace(cassandra.port, KEYSPACE)
    with MotoServer() as moto, closing(connect(endpoint, SystemEffects())) as connection:
        deployment = Deployment(NAME, moto.endpoint, folder, deploy=False)
        options = ("tallyroll:store=keyspaces", "tallyroll:architecture=x86_64")
        chosen = [each for option in options for each in ("--context", option)]
        deployment.deploy("--method=direct", "--no-previous-parameters", *chosen)
        changed = {**HERE, "TALLYROLL_CASSANDRA": f"127.0.0.1:{cassandra.port}"}
        layer = layer_of(deployment, folder / "layer")
        running = unpacked(deployment, folder, dynamodb_endpoint, changed, [layer])
        with closing(running) as pipeline:
            pipeline.make_tables()
            yield Stored(deployment, pipeline, connection)


def test_all_but_the_keyspace_is_made(stored: Stored) -> None:
    resources = stored.deployment.template["Resources"]
    missing = {one["Type"] for id_, one in resources.items() if id_ not in stored.deployment.made}
    assert missing == {*NOT_MADE, "AWS::Cassandra::Keyspace", "AWS::Cassandra::Table"}
    for function in stored.deployment.functions.values():
        assert function["Environment"]["Variables"]["TALLYROLL_STORE"] == "keyspaces"


def test_windows_are_made_counted_sealed_archived_and_dropped(stored: Stored) -> None:
    pipeline = stored.pipeline
    assert pipeline.schedules.fire(pipeline.arns["roller"])["problems"] == []
    assert len(stored.windows()) >= 2
    at = now_ms()
    twice = body("ada", at, 0.25, "twice")
    bodies = [body("ada", at, 0.25) for _ in range(EVENTS - 1)]
    window = window_of(pipeline, "ada", [*bodies, twice, twice])
    dropped(pipeline, f"{KEYSPACE}_{window}", stored.windows)
    assert count(pipeline, "ada") == {"events": EVENTS, "sum": "10"}
    assert [key for key in pipeline.archived() if window in key and key.endswith("/proof.json")]
    assert {name for name in pipeline.tables() if name.startswith(NAME)} == {
        f"{NAME}-catalog",
        f"{NAME}-totals",
    }
    assert pipeline.dead_letters() == []
