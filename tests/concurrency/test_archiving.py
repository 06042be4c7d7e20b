"""Exported, proven and dropped by processes that are killed in the middle of it; real engines."""

from __future__ import annotations

import gzip
import json
import time
from random import Random
from typing import Any

import pytest

from benchmarks.archiving import SETTINGS, fill, records_of, spawned
from benchmarks.processes import taken
from local.aws.embedded import Embedded
from tallyroll import pipeline
from tallyroll.adapters.dynamodb.items import Item, jsonable, record_item
from tallyroll.model.states import Status, Window
from tallyroll.pipeline import Pipeline

pytestmark = pytest.mark.engine
RECORDS = 30_000
KEYS = 500
KILLS, KILLS_LEAST = 6, 3  # a fast machine is through before the last
KILLED_BY_S = 1.0
RUN_MS = 2_500
RESERVE_MS = 500
RUNS_MAX = 60
TIME_LEFT_MS = 60_000


def data_files(aws: Embedded, window: Window) -> dict[str, bytes]:
    """The data files that stand, listed and read without the core."""
    s3 = aws.client("s3")
    bucket = aws.settings.bucket
    listed = s3.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, Prefix=f"{window.attempt.archive}/"
    )
    keys = [entry["Key"] for page in listed for entry in page.get("Contents", ())]
    return {
        key: s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys if "/data/" in key
    }


def by_key(items: list[Item]) -> dict[tuple[str, str], Item]:
    found = {(item["pk"]["S"], item["sk"]["S"]): item for item in items}
    assert len(found) == len(items), "an item stands in two data files"
    return found


def state(made: Pipeline, window: Window) -> Window:
    found = made.catalog.window(window.id)
    assert found
    return found


def killed_in(chance: Random, process: Any) -> bool:
    """Whether a process was still at it when it was killed, after a time by chance."""
    assert process.stdout.readline() == "begun\n"
    time.sleep(chance.random() * KILLED_BY_S)
    with process:
        process.kill()
    return bool(process.returncode < 0)


@pytest.mark.proof
def test_killed_again_and_again_the_archive_is_the_table(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, kills = Random(7), 0
    with Embedded(SETTINGS, dynamodb_endpoint=dynamodb_endpoint) as aws:
        for name, value in aws.environment.items():
            monkeypatch.setenv(name, value)
        made = pipeline.Pipeline(aws.settings)
        window = fill(made, RECORDS, KEYS)
        spec = made.catalog.specs([window.id])[window.id]
        limits = (f"--time-left-ms={RUN_MS}", f"--reserve-ms={RESERVE_MS}")
        for _ in range(RUNS_MAX):
            now = state(made, window)
            if now.status is Status.DROPPED:
                break
            made.dropper.run(TIME_LEFT_MS)
            if wait_ms := max(0, now.attempt.busy_until - made.effects.now()):
                time.sleep(wait_ms / 1000)
            process = spawned(aws.environment, *limits)
            if kills < KILLS:
                kills += killed_in(chance, process)
            else:
                done = taken(process)
                assert done.problems == []
                assert done.peak_mib < 200
        now = state(made, window)
        assert (now.status, now.attempt.number) == (Status.DROPPED, 1)
        assert kills >= KILLS_LEAST
        files = data_files(aws, now)
    lines = [line for body in files.values() for line in gzip.decompress(body).splitlines()]
    archived = by_key([json.loads(line)["Item"] for line in lines])
    records = {key: item for key, item in archived.items() if key[1].startswith("e#")}
    wanted = [jsonable(record_item(record)) for record in records_of(spec, RECORDS, KEYS)]
    assert records == by_key(wanted)
    assert len(archived) == RECORDS + KEYS + spec.gates == now.attempt.items
