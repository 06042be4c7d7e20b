"""A node of Apache Cassandra, from packages alone."""

from __future__ import annotations

import hashlib
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cassandra.cluster import Cluster

from local.cassandra import jars, node

LOCKED = [jars.Jar.of(line) for line in jars.LOCK.read_text().splitlines()]


@contextmanager
def session(running: node.Node) -> Iterator[Any]:
    cluster = Cluster([node.LOCALHOST], port=running.port, protocol_version=4)
    try:
        yield cluster.connect()
    finally:
        cluster.shutdown()


@pytest.mark.cassandra
@pytest.mark.slow
def test_a_row_is_inserted_once(cassandra: node.Node) -> None:
    insert = "INSERT INTO local_once.t (key, shard, id) VALUES (%s, %s, %s) IF NOT EXISTS"
    with session(cassandra) as cql:
        cql.execute(
            "CREATE KEYSPACE local_once WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        cql.execute(
            "CREATE TABLE local_once.t"
            " (key text, shard int, id text, PRIMARY KEY ((key, shard), id))"
        )
        assert cql.execute(insert, ("Ada", 1, "e1")).one().applied
        assert not cql.execute(insert, ("Ada", 1, "e1")).one().applied
        assert cql.execute("SELECT COUNT(*) FROM local_once.t").one().count == 1


@pytest.mark.cassandra
def test_it_listens_on_one_address_alone(cassandra: node.Node) -> None:
    socket.create_connection((node.LOCALHOST, cassandra.port)).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", cassandra.port))


@pytest.mark.cassandra
@pytest.mark.slow
def test_stop_ends_the_process_and_removes_its_data() -> None:
    running = node.start()
    with running:
        folder = Path(running._home.name)
        assert (folder / "commitlog").is_dir()
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(running.pid, 0)
    running.stop()


@pytest.mark.cassandra
def test_a_taken_port_is_named(cassandra: node.Node) -> None:
    with pytest.raises(node.NodeError, match=f"port {cassandra.port} is not free"):
        node.start(cassandra.port)


@pytest.mark.cassandra
def test_what_a_node_said_last_is_told(
    cassandra: node.Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [sys.executable, "-c", "print('no heap left'); raise SystemExit(3)"]
    monkeypatch.setattr(node, "_java", lambda *_: said)
    with pytest.raises(node.NodeError, match=r"\(status 3\):\nno heap left"):
        node.start()


class Repository:
    """A repository of Maven's with these jars."""

    def __init__(self, folder: Path, contents: dict[str, bytes | Exception]) -> None:
        self._folder, self._contents = folder, contents

    def project(self, _group: str, artifact: str) -> Repository:
        self.filename = f"{artifact}.jar"
        return self

    def at_version(self, _version: str) -> Repository:
        return self

    def artifact(self, _classifier: str) -> Repository:
        found = Repository(self._folder, self._contents)
        found.filename = self.filename
        return found

    def resolve(self) -> Path:
        content = self._contents[self.filename]
        if isinstance(content, Exception):
            raise content
        path = self._folder / self.filename
        path.write_bytes(content)
        return path


def fetch(here: Path, patch: pytest.MonkeyPatch, contents: dict[str, bytes | Exception]) -> Path:
    lock, folder = here / "jars.lock", here / "remote"
    folder.mkdir(exist_ok=True)
    sha256 = hashlib.sha256(b"right").hexdigest()
    lines = [f"org.x:{name.removesuffix('.jar')}:1.0 {sha256} 5\n" for name in contents]
    lock.write_text("".join(lines))
    patch.setattr(jars, "AT_ONCE", 1)
    patch.setattr(jars, "_repository", lambda _: Repository(folder, contents))
    return jars.fetched(here / "cache", lock)


def test_jars_are_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fetch(tmp_path, monkeypatch, {"a.jar": b"right", "b.jar": b"right"})
    assert sorted(path.name for path in home.iterdir()) == ["a.jar", "b.jar"]
    monkeypatch.setattr(jars, "_repository", None)
    assert jars.fetched(tmp_path / "cache", tmp_path / "jars.lock") == home
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [home.name]


def test_another_jar_than_the_locked_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(jars.JarsError, match=r"org\.x:b:1\.0 is not the locked jar") as caught:
        fetch(tmp_path, monkeypatch, {"a.jar": b"right", "b.jar": b"wrong"})
    assert not isinstance(caught.value, jars.NoAnswerError)
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_repository_without_an_answer_is_told_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = ConnectionError("no route")
    with pytest.raises(jars.NoAnswerError, match=r"not answer: org\.x:a:1\.0: no route") as error:
        fetch(tmp_path, monkeypatch, {"a.jar": gone, "b.jar": gone})

    def fetched() -> Path:
        raise error.value

    monkeypatch.setattr(jars, "fetched", fetched)
    capsys.readouterr()
    assert jars.main() == 0
    assert capsys.readouterr().err.count("\n") == 1


def test_a_jar_that_is_not_there_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents: dict[str, bytes | Exception] = {"a.jar": b"right", "b.jar": RuntimeError("not found")}
    with pytest.raises(jars.JarsError, match=r"not complete: org\.x:b:1\.0: not found"):
        fetch(tmp_path, monkeypatch, contents)


def test_the_lock_names_cassandra_and_no_place() -> None:
    versions = {jar.artifact: jar.version for jar in LOCKED}
    assert versions["cassandra-all"].startswith("5.0.")
    assert len(versions) == len(LOCKED)
    assert all(len(jar.sha256) == 64 for jar in LOCKED)
    assert "://" not in jars.LOCK.read_text()


def test_no_port_is_held_after_a_failed_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> node.Node:
        raise node.NodeError("it failed")

    with socket.socket() as free:
        free.bind((node.LOCALHOST, 0))
        port = free.getsockname()[1]
    monkeypatch.setattr(node, "fetched", lambda _: Path())
    monkeypatch.setattr(node, "_launched", failing)
    with pytest.raises(node.NodeError, match="it failed"):
        node.start(port)
    with socket.socket() as again:
        again.bind((node.LOCALHOST, port))
