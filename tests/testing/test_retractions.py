"""The fixture takes events back, on every engine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from decimal import Decimal

import pytest

from tallyroll.errors import Absent, UsageError
from tallyroll.testing import Tallyroll, running
from tests.testing.posting import post


@pytest.fixture(params=["memory", "moto"])
def tallyroll(request: pytest.FixtureRequest) -> Iterator[Tallyroll]:
    with running(engine=request.param, retraction="operator") as pipeline:
        yield pipeline


def now_ms() -> int:
    return int(time.time() * 1000)


def test_an_event_is_taken_back_once(tallyroll: Tallyroll) -> None:
    ts = now_ms()
    post(tallyroll.queue_url, "alice", id="a", ts=ts, value=2.5)
    post(tallyroll.queue_url, "alice", id="b", ts=ts)
    tallyroll.drain()
    tallyroll.retract("alice", "a", ts=ts, why="a test")
    assert tallyroll.count("alice") == 2
    tallyroll.drain()
    tallyroll.redeliver()
    tallyroll.retract("alice", "a", ts=ts)
    tallyroll.drain()
    assert (tallyroll.count("alice"), tallyroll.sum("alice")) == (1, Decimal(1))
    assert tallyroll.retracted("alice") == (1, Decimal("2.5"))
    assert type(tallyroll.retracted("alice").events) is int
    assert tallyroll.retracted("bob") == (0, Decimal(0))
    assert tallyroll.rejected() == []


def test_a_retraction_waits_for_its_event(tallyroll: Tallyroll) -> None:
    ts = now_ms()
    tallyroll.retract("alice", "a", ts=ts)
    post(tallyroll.queue_url, "alice", id="a", ts=ts)
    tallyroll.drain()
    assert tallyroll.count("alice") == 0
    assert tallyroll.retracted("alice").events == 1


@pytest.mark.parametrize("status", ["sealed", "dropped"])
def test_an_event_of_a_window_in_the_past_is_taken_back(tallyroll: Tallyroll, status: str) -> None:
    ts = now_ms()
    post(tallyroll.queue_url, "alice", id="a", ts=ts, value=2.5)
    post(tallyroll.queue_url, "alice", id="b", ts=ts)
    while next(iter(tallyroll.windows().values()), "") != status:
        tallyroll.advance(minutes=20)
    tallyroll.retract("alice", "a", ts=ts, by="ann")
    tallyroll.drain()
    tallyroll.redeliver()
    tallyroll.drain()
    assert (tallyroll.count("alice"), tallyroll.sum("alice")) == (1, Decimal(1))
    assert tallyroll.retracted("alice") == (1, Decimal("2.5"))
    assert tallyroll.rejected() == []
    tallyroll.retract("alice", "a", ts=ts)
    tallyroll.drain()
    assert tallyroll.retracted("alice").events == 1


def test_a_retraction_without_an_event_is_rejected(tallyroll: Tallyroll) -> None:
    ts = now_ms()
    tallyroll.retract("alice", "a", ts=ts)
    tallyroll.drain()
    assert [each.reason for each in tallyroll.rejected()] == ["nothing-to-retract"]
    tallyroll.advance(minutes=30)
    assert "sealed" in tallyroll.windows().values()
    with pytest.raises(Absent, match="no event 'a' of key 'alice'"):
        tallyroll.retract("alice", "a", ts=ts)


def test_nobody_may_retract_by_default(memory: Tallyroll) -> None:
    with pytest.raises(UsageError, match="nobody may take events back"):
        memory.retract("alice", "a", ts=1)


def test_wrong_fields_of_a_retraction(tallyroll: Tallyroll) -> None:
    with pytest.raises(UsageError, match="either the window or the ts"):
        tallyroll.retract("alice", "a")
