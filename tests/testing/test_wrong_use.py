"""Wrong uses of `tallyroll.testing`, and what a failed test shows."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from moto import settings as moto_settings

from tallyroll.errors import SettingsError, UsageError
from tallyroll.testing import Tallyroll, TestingError, running
from tests.testing.posting import post_bodies


@pytest.mark.parametrize("wrong", [{}, {"hours": 0}, {"hours": -1}])
def test_time_goes_forward_only(memory: Tallyroll, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="give a time over 0"):
        memory.advance(**wrong)


def test_a_time_has_a_unit(memory: Tallyroll) -> None:
    with pytest.raises(
        UsageError, match=r"^advance by 5: give a unit, such as hours=2, or a timed"
    ):
        memory.advance(5)  # type: ignore[arg-type]


def test_a_failed_test_shows_what_became_of_the_messages(
    memory: Tallyroll, caplog: pytest.LogCaptureFixture
) -> None:
    assert repr(memory) == "<tallyroll: 0 sent, 0 waiting, 0 rejected>"
    post_bodies(memory.queue_url, ['{"kye": "alice"}', '{"key": "bob"}', "no JSON"])
    assert repr(memory) == "<tallyroll: 3 sent, 3 waiting for drain(), 0 rejected>"
    memory.drain()
    assert repr(memory) == ("<tallyroll: 3 sent, 0 waiting, 2 rejected (1 bad-key, 1 not-json)>")
    told = [record.message for record in caplog.records if record.name.endswith(".fixture")]
    missing = "key is missing: give a text of 1 to 512 bytes"
    assert told[0] == f"""rejected: bad-key: {missing}: '{{"kye": "alice"}}'"""
    assert told[1].startswith("rejected: not-json: ")
    memory.redeliver()
    memory.drain()
    assert len(memory.rejected()) == len(told) == 2
    boto3.client("sqs").delete_queue(QueueUrl=memory.queue_url)
    assert repr(memory).startswith("<tallyroll: moto has lost the queue")


@pytest.mark.parametrize("key", ["", None, 7, b"alice", "~alice"])
def test_what_can_be_no_key_has_no_count(tallyroll: Tallyroll, key: Any) -> None:
    for asked in (tallyroll.count, tallyroll.sum):
        with pytest.raises(UsageError, match=r"^key "):
            asked(key)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"window_seconds": "60"}, "^window_seconds '60': give a whole number$"),
        ({"shards": True}, "^shards True: give a whole number$"),
        ({"rollups": 1}, "^rollups 1: give True or False$"),
        ({"name": None}, "^name None: give a text$"),
        ({"mapping": "detail.key"}, "^mapping 'detail.key': give a dict$"),
        ({"region": None}, "^region None: give a text$"),
        ({"engine": "postgres"}, "must be one of memory, moto, dynamodb-local"),
        ({"engine": "dynamodb-local"}, "--tallyroll-dynamodb-endpoint"),
        ({"windows": 60}, "windows: no setting"),
        ({"window_seconds": 61}, "TALLYROLL_WINDOW_SECONDS"),
    ],
)
def test_wrong_options_are_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises((UsageError, SettingsError), match=said), running(**changes):
        pass


def test_a_queue_that_the_test_has_lost_is_named(memory: Tallyroll) -> None:
    boto3.client("sqs").delete_queue(QueueUrl=memory.queue_url)
    with pytest.raises(TestingError, match="moto has lost the queue"):
        memory.drain()


def test_a_moto_server_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moto_settings, "TEST_DECORATOR_MODE", False)
    with pytest.raises(TestingError, match="unset TEST_SERVER_MODE"), running():
        pass
