"""`tallyroll archive restore`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any
from uuid import UUID

import pytest

from tallyroll.adapters.dynamodb.items import Item
from tallyroll.adapters.dynamodb.tools.restore import Import
from tallyroll.errors import UsageError
from tallyroll.model.formats.payloads import FORMAT_LOG
from tallyroll.model.items import StoredItem
from tallyroll.model.messages import Message
from tests.cli.command_line import Answer, CommandLine
from tests.harness.archives import Archived, archived
from tests.harness.pipeline import WINDOW, Pipeline
from tests.harness.retracted_archives import retracted_archive

HERE = ("--bucket", "memory")


@pytest.fixture
def whole() -> Archived:
    return archived()


@pytest.fixture
def cli(
    whole: Archived, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    return CommandLine(whole.pipeline, monkeypatch, capsys)


@dataclass
class FakeRestore:
    """Notes what is restored; `ended` says how an import ends."""

    tables: dict[str, list[Item]] = field(default_factory=dict)
    unfinished: set[str] = field(default_factory=set)
    ended: Import | None = None
    imports: list[tuple[str, str, str]] = field(default_factory=list)

    def begin(self, table: str, archive: str) -> bool:
        if table in self.tables and table not in self.unfinished:
            raise UsageError(f"table {table!r} exists")
        self.unfinished.add(table)
        return self.tables.setdefault(table, []) != []

    def put(self, table: str, items: Iterable[StoredItem]) -> None:
        self.tables[table] = [dict(item.attributes) for item in items]

    def end(self, table: str) -> None:
        self.unfinished.discard(table)

    def start_import(self, table: str, bucket: str, prefix: str) -> Import:
        self.imports.append((table, bucket, prefix))
        return Import("arn:import", "IN_PROGRESS", 0, 0)

    def await_import(self, started: Import, told: Callable[[int], None]) -> Import:
        told(1)
        assert self.ended
        return self.ended


@pytest.fixture
def restores(cli: CommandLine) -> FakeRestore:
    cli.restore = FakeRestore()
    return cli.restore


def restore(cli: CommandLine, *more: str, table: str = "restored", archive: str = WINDOW) -> Answer:
    return cli.run("archive", "restore", archive, "--table", table, *more, *HERE)


@pytest.mark.parametrize("layout", ["dynamodb", "parquet"])
def test_an_archive_is_restored(
    layout: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One with records of every form, logged ones, too."""
    numbers, made = count(1), Pipeline.message

    def of_the_queue(self: Pipeline, *given: Any, **more: Any) -> Message:
        return replace(made(self, *given, **more), id=str(UUID(int=next(numbers), version=4)))

    monkeypatch.setattr(Pipeline, "message", of_the_queue)
    plain = [{"key": "home", "value": n, "payload": ["ä", n], "v": 1} for n in range(7)]
    whole = retracted_archive(more=plain, logs={"home": 1_000})
    items = whole.items()
    assert any(item.get("fmt") == {"S": FORMAT_LOG} for item in items)
    cli = CommandLine(whole.pipeline, monkeypatch, capsys)
    cli.restore = restores = FakeRestore()
    prefix = whole.prefix
    if layout == "parquet":
        [compacted] = cli.run("archive", "compact", "--json", *HERE).json
        prefix = compacted["prefix"]
    answer = restore(cli, archive=prefix)
    assert answer.status == 0
    assert f"restored holds the {len(items)} items of {prefix}" in answer.err
    assert [*restores.tables] == ["restored"]
    assert by_name(restores.tables["restored"]) == by_name(items)
    assert not restores.unfinished
    again = restore(cli, archive=prefix)
    assert again.status == 2
    assert "'restored' exists" in again.err
    assert restore(cli, "--json", table="other", archive=prefix).json == [
        {"table": "other", "items": len(items), "archive": prefix}
    ]


def by_name(items: Iterable[Item]) -> list[Item]:
    """Items in the order of their keys; files of Parquet have another one."""
    return sorted(items, key=lambda item: (item["pk"]["S"], item["sk"]["S"]))


@pytest.mark.parametrize("native", [(), ("--native",)])
def test_a_restored_table_gets_the_deployments_tags_and_key(
    cli: CommandLine, restores: FakeRestore, native: tuple[str, ...]
) -> None:
    restores.ended = Import("arn:import", "COMPLETED", 0, 0)
    cli.deployment.there = {"TALLYROLL_TAGS": '{"team":"a"}', "TALLYROLL_KMS_KEY": "arn:key"}
    restore(cli, *native)
    assert cli.settings is not None
    assert (cli.settings.tags, cli.settings.kms_key) == ({"team": "a"}, "arn:key")
    assert cli.settings.bucket == "memory"


def test_an_imported_table_is_tagged_at_the_end(
    cli: CommandLine, whole: Archived, restores: FakeRestore
) -> None:
    """An import makes tables without tags."""
    cli.deployment.there = {"TALLYROLL_TAGS": '{"team":"a"}'}
    restores.ended = Import("arn:import", "COMPLETED", len(whole.items()), 0)
    answer = restore(cli, "--native")
    assert answer.status == 0
    assert "restored has no tags, give it some by TagResource: there is no table" in answer.err

    cli.pipeline.store.make_table("other")
    answer = restore(cli, "--native", table="other")
    assert answer.status == 0
    assert "no tags" not in answer.err
    assert cli.pipeline.store.tags("other") == {"team": "a"}

    restores.ended = Import("arn:import", "FAILED", 0, 0)
    assert "no tags" not in restore(cli, "--native").err


def test_a_damaged_archive_leaves_an_unfinished_table(
    cli: CommandLine, whole: Archived, restores: FakeRestore
) -> None:
    whole.spoil()
    answer = restore(cli)
    assert answer.status == 1
    assert "3 differences" in answer.err
    assert "restored holds what could be read, and stays marked as not whole" in answer.err
    assert restores.unfinished == {"restored"}
    assert "going on with restored" in restore(cli).err


@pytest.mark.parametrize(
    "table", [f"tallyroll-{WINDOW}", f"other-{WINDOW}", "tallyroll-catalog", "tallyroll-totals"]
)
def test_no_table_of_a_pipeline_is_restored_into(
    cli: CommandLine, restores: FakeRestore, table: str
) -> None:
    answer = restore(cli, table=table)
    assert answer.status == 2
    assert repr(table) in answer.err
    assert not restores.tables


def test_an_archive_is_imported_natively(
    cli: CommandLine, whole: Archived, restores: FakeRestore
) -> None:
    items = len(whole.items())
    restores.ended = Import("arn:import", "COMPLETED", items, 0)
    answer = restore(cli, "--native")
    assert answer.status == 0
    assert "arn:import" in answer.err
    data = f"{whole.prefix}/AWSDynamoDB/a1/data/"
    assert restores.imports == [("restored", "memory", data)]

    for ended in (
        Import("arn:import", "COMPLETED", items - 1, 1),
        Import("arn:import", "FAILED", 0, 0, "S3NoSuchBucket: gone"),
    ):
        restores.ended = ended
        failed = restore(cli, "--native")
        assert failed.status == 1
        said = f"{ended.status}: {ended.imported} of {items} items imported, {ended.errors} refused"
        assert f"{said} {ended.problem}".rstrip() in failed.err


def test_only_a_proven_archive_is_imported_natively(
    cli: CommandLine, whole: Archived, restores: FakeRestore
) -> None:
    whole.remove(f"{whole.prefix}/proof.json")
    answer = restore(cli, "--native")
    assert answer.status == 2
    assert "restore it without --native" in answer.err
    assert not restores.imports
