"""Every vote counts once, whatever happens on the way."""

from __future__ import annotations

import pytest
import votes


@pytest.fixture(autouse=True)
def queue(tallyroll, monkeypatch):
    monkeypatch.setenv("VOTES_QUEUE_URL", tallyroll.queue_url)


def test_votes_are_counted(tallyroll):
    votes.cast("ann", "Ada")
    votes.cast("bob", "Ada")
    votes.cast("eve", "Grace")
    tallyroll.drain()
    assert tallyroll.count("Ada") == 2
    assert tallyroll.count("Grace") == 1


def test_who_presses_twice_votes_once(tallyroll):
    votes.cast("ann", "Ada")
    votes.cast("ann", "Ada")
    tallyroll.drain()
    assert tallyroll.count("Ada") == 1


def test_redeliveries_and_crashes_change_nothing(tallyroll):
    for voter in range(50):
        votes.cast(f"voter-{voter}", "Ada")
    tallyroll.crash_next_writer()
    tallyroll.drain()
    tallyroll.redeliver()
    tallyroll.drain()
    assert tallyroll.count("Ada") == 50


@pytest.mark.tallyroll(engine="memory")
def test_the_result_outlives_the_night(tallyroll):
    votes.cast("ann", "Ada")
    tallyroll.advance(days=7)
    assert tallyroll.count("Ada") == 1
    assert tallyroll.rejected() == []
