"""`tallyroll retract` proves an event of a dropped window in the archive."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.adapters.dynamodb.items import CODEC, tombstone_item
from tallyroll.archive.proof import prove
from tallyroll.errors import Missing
from tallyroll.model.records import Record
from tallyroll.model.retractions import Authorization, Tombstone
from tallyroll.model.states import Status
from tallyroll.model.totals import Correction
from tests.cli.command_line import CommandLine
from tests.cli.test_send_wait import work_while_asleep
from tests.harness.archives import Archived, sealed_and_exported
from tests.harness.payloads import noise
from tests.harness.pipeline import NOW, SECOND, SMALL, WINDOW, Pipeline, opened

LARGE = [[0, 1, noise(50_000)], [1, 4, noise(50_000)]]
BODIES = [
    {"id": "e1", "key": "k", "ts": NOW, "value": 2.5},
    {"id": "e1", "key": "other", "ts": NOW, "value": 7},
    {"v": 1, "id": "p", "key": "k", "t0": NOW, "events": [[0], [1, 4]]},
    {"v": 1, "id": "large", "key": "k", "t0": NOW, "events": LARGE},
]
ASK = ("retract", "k", "e1", "--window", WINDOW, "--by", "ann", "--why", "a test")
HERE = ("--bucket", "memory")


def proven(pipeline: Pipeline, archive: Archived) -> Archived:
    ports = (CODEC, pipeline.bucket, pipeline.totals, pipeline.effects)
    items = prove(archive.window, pipeline.spec(), *ports, NOW + 60 * SECOND)
    assert items
    window = archive.window
    return Archived(pipeline, replace(window, attempt=replace(window.attempt, items=items)))


def dropped(archive: Archived) -> None:
    window = archive.window
    sums: dict[str, Any] = {"keys": window.keys, "events": window.events, "amount": window.amount}
    archive.pipeline.move(Status.DROPPED, attempt=window.attempt, **sums)

    def gone(*_: object) -> Any:
        raise Missing("GetItem: ResourceNotFoundException")

    for verb in ("record", "lookup", "chunks", "tombstones"):
        setattr(archive.pipeline.store, verb, gone)


@pytest.fixture
def archive() -> Archived:
    return proven(*_exported(BODIES))


def _exported(bodies: list[dict[str, Any]]) -> tuple[Pipeline, Archived]:
    pipeline, window = sealed_and_exported(bodies)
    return pipeline, Archived(pipeline, window)


@pytest.fixture
def cli(
    archive: Archived, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    line = CommandLine(archive.pipeline, monkeypatch, capsys)
    line.deployment.there = {"TALLYROLL_RETRACTION": "operator"}
    return line


def stored(archive: Archived, key: str, record_id: str) -> Record:
    record = archive.pipeline.store.record(archive.pipeline.spec(), key, record_id)
    assert record
    return record


def authorized(cli: CommandLine, *target: Any) -> Authorization:
    place = target or (WINDOW, "k", "e1", None)
    return cli.pipeline.catalog.authorizations([place])[place]


def test_the_authorization_has_what_was_proven(cli: CommandLine, archive: Archived) -> None:
    digest = stored(archive, "k", "e1").digest
    dropped(archive)
    answer = cli.run(*ASK, *HERE)
    assert (answer.status, answer.err) == (0, "")
    assert answer.row("k", "e1", "2026-11-20T08:30:00.000Z", WINDOW, "dropped", "1", "2.5", "sent")
    assert authorized(cli).proven == (1, 2_500_000, digest)
    assert len(cli.producer.bodies) == 1


def test_the_bucket_is_the_deployments(cli: CommandLine, archive: Archived) -> None:
    dropped(archive)
    refused = cli.run(*ASK)
    assert (refused.status, cli.producer.tried) == (2, [])
    assert "give --bucket, or set TALLYROLL_BUCKET" in refused.err
    cli.deployment.there = {"TALLYROLL_RETRACTION": "queue", "TALLYROLL_BUCKET": "memory"}
    assert cli.run(*ASK).status == 0


@pytest.mark.parametrize("packet", ["p", "large"])
def test_an_event_of_a_packet(cli: CommandLine, archive: Archived, packet: str) -> None:
    record = stored(archive, "k", packet)
    assert record.in_chunks is (packet == "large")
    dropped(archive)
    argv = ("retract", "k", f"{packet}:1", "--window", WINDOW, "--json", *HERE)
    (said,) = cli.run(*argv).json
    assert (said["id"], said["index"], said["sum"]) == (packet, 1, "4")
    assert authorized(cli, WINDOW, "k", packet, 1).proven == (1, 4_000_000, record.digest)


def test_an_event_of_several_keys_by_any_of_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mapping = {"id": "id", "ts": "ts", "keys": ["a", "b"]}
    mapped = opened(replace(SMALL, mapping=mapping))
    monkeypatch.setattr("tests.harness.archives.opened", lambda *_: mapped)
    archive = proven(*_exported([{"id": "f", "ts": NOW}, {"id": "g", "ts": NOW}]))
    digest = stored(archive, "a", "f").digest
    dropped(archive)
    cli = CommandLine(archive.pipeline, monkeypatch, capsys)
    cli.deployment.there = {"TALLYROLL_RETRACTION": "operator"}
    (said,) = cli.run("retract", "b", "f", "--window", WINDOW, "--json", *HERE).json
    assert (said["key"], said["keys"]) == ("a", ["a", "b"])
    found = authorized(cli, WINDOW, "a", "f", None)
    assert (found.keys, found.proven) == (("a", "b"), (1, 1_000_000, digest))


def test_an_event_that_is_not_in_the_archive(cli: CommandLine, archive: Archived) -> None:
    dropped(archive)
    answer = cli.run("retract", "k", "none", "--window", WINDOW, *HERE)
    assert (answer.status, cli.producer.tried) == (3, [])
    assert "there is no event 'none'" in answer.err


def test_a_drop_while_it_looks(cli: CommandLine, archive: Archived) -> None:
    record = archive.pipeline.store.record

    def drop_first(*where: Any) -> Any:
        archive.pipeline.store.record = record  # type: ignore[method-assign]
        dropped(archive)
        raise Missing("GetItem: ResourceNotFoundException")

    archive.pipeline.store.record = drop_first  # type: ignore[method-assign,assignment]
    assert cli.run(*ASK, *HERE).status == 0
    assert authorized(cli).proven


def test_a_table_that_is_missing_without_a_drop(cli: CommandLine, archive: Archived) -> None:
    def gone(*_: object) -> Any:
        raise Missing("GetItem: ResourceNotFoundException")

    archive.pipeline.store.record = gone  # type: ignore[method-assign,assignment]
    answer = cli.run(*ASK, *HERE)
    assert (answer.status, cli.producer.tried) == (3, [])


# --- an archive that proves nothing


def spoil(archive: Archived) -> None:
    archive.spoil()


def unprove(archive: Archived) -> None:
    archive.remove(f"{archive.prefix}/proof.json")


@pytest.mark.parametrize("harm", [spoil, unprove])
def test_an_archive_that_is_not_the_proven_one(
    cli: CommandLine, archive: Archived, harm: Callable[[Archived], None]
) -> None:
    harm(archive)
    dropped(archive)
    answer = cli.run(*ASK, *HERE)
    assert (answer.status, cli.producer.tried) == (1, [])
    assert "proven" in answer.err


def test_a_damaged_file(
    cli: CommandLine, archive: Archived, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.spoil()
    monkeypatch.setattr("tallyroll.archive.evidence.check_proof", lambda *_: None)
    dropped(archive)
    answer = cli.run(*ASK, *HERE)
    assert (answer.status, cli.producer.tried) == (1, [])
    assert "data" in answer.err


def test_an_archive_of_another_attempt(cli: CommandLine, archive: Archived) -> None:
    archive.window = replace(
        archive.window, attempt=replace(archive.window.attempt, archive="archive/else/w/a1")
    )
    dropped(archive)
    answer = cli.run(*ASK, *HERE)
    assert (answer.status, cli.producer.tried) == (1, [])
    assert "names the archive" in answer.err


# --- what is done already


def test_a_tombstone_in_the_archive(
    cli: CommandLine, archive: Archived, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = stored(archive, "k", "e1")
    stone = Tombstone(
        *("k", "e1", record.shard, NOW, 1, 2_500_000, record.digest, 1, 30, "bob", "mine")
    )
    item = {**tombstone_item(stone), "h": {"B": b64encode(record.digest).decode()}}
    archive.rewrite([*archive.items(), item])
    monkeypatch.setattr("tallyroll.archive.evidence.check_proof", lambda *_: None)
    dropped(archive)
    (said,) = cli.run("--json", *ASK, *HERE).json
    assert (said["result"], said["by"], said["why"]) == ("already-retracted", "bob", "mine")


def test_a_correction(cli: CommandLine, archive: Archived) -> None:
    digest = stored(archive, "k", "e1").digest
    archive.pipeline.totals.correct(
        [Correction(WINDOW, "e1", ("k",), 1, 2_500_000, digest, NOW, "bob", "mine")]
    )
    dropped(archive)
    (said,) = cli.run("--json", *ASK, *HERE).json
    assert (said["result"], said["by"]) == ("already-retracted", "bob")


def test_it_waits_for_the_correction(
    cli: CommandLine, archive: Archived, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = stored(archive, "k", "e1").digest
    mine = Correction(WINDOW, "e1", ("k",), 1, 2_500_000, digest, NOW, "ann", "a test")
    dropped(archive)
    work_while_asleep(cli, monkeypatch, lambda: archive.pipeline.totals.correct([mine]))
    (said,) = cli.run("--json", *ASK, "--wait", *HERE).json
    assert (said["result"], said["at"]) == ("retracted", "2026-11-20T08:30:00.000Z")


def test_the_reading_is_told(
    cli: CommandLine, archive: Archived, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallyroll.archive.evidence.TOLD_EVERY", 1)
    monkeypatch.setattr("tallyroll.cli.screen.FIRST_LINE_S", 0)
    dropped(archive)
    assert "looking: 1 items of the archive" in cli.run(*ASK, *HERE).err
