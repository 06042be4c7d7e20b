"""What the tests of a deployed pipeline send, wait for and read."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Collection, Iterable
from typing import Any

from tests.e2e.conftest import BRIEF
from tests.e2e.pipeline import DeployedPipeline
from tests.e2e.triggers import Batch

# moto enforces a bucket's policy without looking at its conditions: ours, which denies whatever is
# not encrypted on its way, would deny everything.
NOT_MADE = {"AWS::S3::BucketPolicy"}
WAIT_S = 400.0  # twenty times as long as the writer hides what awaits its window

HASTE = {
    "TALLYROLL_NAME": BRIEF,
    "TALLYROLL_WINDOW_SECONDS": "5",
    "TALLYROLL_ACCEPT_FOR_MS": "3000",
    "TALLYROLL_SKEW_MS": "1000",
    "TALLYROLL_ROLLER_PERIOD_MS": "1000",
    "TALLYROLL_RETENTION_MS": "0",
    "TALLYROLL_DRAIN_PERIOD_MS": "1000",
    "TALLYROLL_DRAIN_MARGIN_MS": "0",
    "TALLYROLL_SETTLE_MS": "200",
    "TALLYROLL_VISIBILITY_MS": "1000",
    "TALLYROLL_GATES": "8",
    "TALLYROLL_BUCKETS": "4",
}


def body(key: str, ts: int, value: float = 1, id_: str | None = None) -> str:
    return json.dumps({"id": id_ or str(uuid.uuid4()), "key": key, "ts": ts, "value": value})


def ids(batch: Batch) -> set[str]:
    return {one["messageId"] for one in batch.records}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def complete(pipeline: DeployedPipeline, key: str) -> dict[str, Any]:
    """An answer with the count of a key, as soon as one is complete: on a busy machine reads run
    out of time, and on single rows a window that is being closed is missing until the roller has
    closed it.
    """
    deadline = time.monotonic() + WAIT_S
    status, answer = pipeline.api.get("/v1/counters", key=key, consistent="true")
    while status == 200 and not answer["complete"] and time.monotonic() < deadline:
        assert pipeline.schedules.fire(pipeline.arns["roller"])["problems"] == []
        status, answer = pipeline.api.get("/v1/counters", key=key, consistent="true")
    assert (status, answer["complete"]) == (200, True), answer
    return dict(answer)


def count(pipeline: DeployedPipeline, key: str) -> dict[str, Any]:
    """The count of a key, as soon as one is complete."""
    answer = complete(pipeline, key)
    return {name: answer[name] for name in ("events", "sum")}


def window_of(pipeline: DeployedPipeline, key: str, bodies: Iterable[str]) -> str:
    """Send events of one key, and wait until all are counted; the window that has them."""
    left = set(pipeline.send(*bodies))
    deadline = time.monotonic() + WAIT_S
    while left and time.monotonic() < deadline:
        batch = pipeline.events.poll()
        left -= ids(batch) - batch.left
        # On a busy machine the next window may have begun, before a run that opens it.
        assert pipeline.schedules.fire(pipeline.arns["roller"])["problems"] == []
    assert left == set()
    [window] = [one["window"] for one in complete(pipeline, key)["windows"] if one["events"]]
    return str(window)


def dropped(pipeline: DeployedPipeline, table: str, tables: Callable[[], Collection[str]]) -> None:
    """Run what closes, archives and drops windows until this table, which is there, is gone."""
    assert table in tables()
    deadline = time.monotonic() + WAIT_S
    while table in tables() and time.monotonic() < deadline:
        for package in ("roller", "cleanup", "dropper"):
            assert pipeline.schedules.fire(pipeline.arns[package])["problems"] == []
        time.sleep(0.2)
    assert table not in tables()
