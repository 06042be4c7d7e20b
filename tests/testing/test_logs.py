"""Keys whose plain events are logged, under the fixture."""

from __future__ import annotations

import boto3
import pytest

from tallyroll.testing import running
from tests.testing.posting import post


@pytest.mark.parametrize("engine", ["moto", "memory"])
def test_events_of_a_logged_key_share_items_and_count_once(engine: str) -> None:
    with running(engine=engine, logs={"home": 1_000}) as tallyroll:
        post(tallyroll.queue_url, *["home"] * 5, "other")
        tallyroll.drain()
        tallyroll.redeliver()
        tallyroll.drain()
        assert (tallyroll.count("home"), tallyroll.count("other")) == (5, 1)
        if engine == "moto":
            window = next(iter(tallyroll.windows()))
            table = boto3.resource("dynamodb").Table(f"{tallyroll.settings.name}-{window}")
            items = [item for item in table.scan()["Items"] if "e#" in str(item["sk"])]
            leaves = [int(str(item["n"])) for item in items if "e#~log." in str(item["sk"])]
            assert (sum(leaves), len(items) - len(leaves)) == (5, 1)  # in a slot or two
            assert len(leaves) <= 2
        tallyroll.advance(hours=5)
        assert (tallyroll.count("home"), tallyroll.count("other")) == (5, 1)
