"""Sealing and rolling up on DynamoDB Local, killed for real in the middle, several times."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

from benchmarks.processes import taken
from benchmarks.sealing import SETTINGS, fill, spawned, stripes_of
from local.aws.embedded import Embedded
from tallyroll import pipeline
from tallyroll.lifecycle.sealing import Sealing
from tallyroll.limits import LISTING_BUCKETS
from tallyroll.model.periods import day_of
from tallyroll.model.states import Status, Window
from tallyroll.pipeline import Pipeline

pytestmark = pytest.mark.engine
KEYS = 2_000
KILLS = 4
SLICE = 150
WAIT_S = 600


@pytest.fixture
def aws(dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Embedded]:
    with Embedded(SETTINGS, dynamodb_endpoint=dynamodb_endpoint) as embedded:
        for name, value in embedded.environment.items():
            monkeypatch.setenv(name, value)
        yield embedded


def progress(made: Pipeline, windows: list[Window]) -> tuple[object, ...]:
    """How far sealing and rolling up have come: it only ever grows."""
    states = [made.catalog.window(window.id) for window in windows]
    day = day_of(windows[0].start).name
    [period] = made.catalog.periods(day, day)
    places = [
        state and (state.status.sealed, Sealing.parse(state.sealing).place) for state in states
    ]
    return (*places, period.version)


def test_a_roller_that_is_killed_again_and_again_seals_and_rolls_up_exactly(aws: Embedded) -> None:
    made = pipeline.Pipeline(aws.settings)
    windows = fill(made, aws.settings, KEYS)
    before = progress(made, windows)
    for _ in range(KILLS):
        with spawned(aws.environment, f"--slice={SLICE}") as process:
            until = time.monotonic() + WAIT_S
            while progress(made, windows) == before and time.monotonic() < until:
                time.sleep(0.01)
            process.kill()
        assert process.returncode == -signal.SIGKILL
        now = progress(made, windows)
        assert now > before, "a run begins where the last one ended"
        before = now
    assert not taken(spawned(aws.environment, f"--slice={SLICE}")).problems

    truth: dict[str, tuple[int, int]] = {}
    spec = made.catalog.specs([windows[0].id])[windows[0].id]
    for key, item in stripes_of(spec, KEYS):
        n, amount = truth.get(key, (0, 0))
        truth[key] = (n + 1, amount + int(item["v"]["N"]) * 1_000_000)
    for window in windows:
        sealed = made.catalog.window(window.id)
        assert sealed
        assert sealed.status is Status.SEALED
        assert (sealed.keys, sealed.events) == (KEYS, sum(n for n, _ in truth.values()))
        assert sealed.amount == sum(amount for _, amount in truth.values())
        assert listed(made, window.id) == truth
        totals = made.totals.of_window(window.id, list(truth))
        assert {key: (total.n, total.amount) for key, total in totals.items()} == truth
    day = day_of(windows[0].start).name
    [period] = made.catalog.periods(day, day)
    assert period.complete
    assert listed(made, day) == {key: (2 * n, 2 * amount) for key, (n, amount) in truth.items()}


def listed(made: Pipeline, name: str) -> dict[str, tuple[int, int]]:
    """What a window's or a day's listing holds."""
    return {
        row.key: (row.n, row.amount)
        for bucket in range(1, LISTING_BUCKETS + 1)
        for page in made.totals.listing(name, bucket, "", 500)
        for row in page
    }
