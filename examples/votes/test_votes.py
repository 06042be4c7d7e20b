"""Every vote counts once, whatever happens on the way."""

from __future__ import annotations

import time

import pytest
import votes


def now():
    return time.time_ns() // 1_000_000


@pytest.fixture(autouse=True)
def queue(tallyroll, monkeypatch):
    monkeypatch.setenv("VOTES_QUEUE_URL", tallyroll.queue_url)


def test_votes_are_counted(tallyroll):
    votes.cast("ann", "Ada", now())
    votes.cast("bob", "Ada", now())
    votes.cast("eve", "Grace", now())
    tallyroll.drain()
    assert tallyroll.count("Ada") == 2
    assert tallyroll.count("Grace") == 1


def test_who_presses_twice_votes_once(tallyroll):
    at = now()
    votes.cast("ann", "Ada", at)
    votes.cast("ann", "Ada", at)
    tallyroll.drain()
    assert tallyroll.count("Ada") == 1


def test_a_ballot_that_comes_again_in_the_next_hour_counts_once(tallyroll):
    at = now()
    votes.cast("ann", "Ada", at)
    tallyroll.advance(hours=1)
    votes.cast("ann", "Ada", at)
    tallyroll.drain()
    assert tallyroll.count("Ada") == 1


def test_one_ballot_for_two_candidates_counts_for_both(tallyroll):
    """So the service must not post it."""
    votes.cast("ann", "Ada", now())
    votes.cast("ann", "Grace", now())
    tallyroll.drain()
    assert tallyroll.count("Ada") == tallyroll.count("Grace") == 1


def test_redeliveries_and_crashes_change_nothing(tallyroll):
    for voter in range(50):
        votes.cast(f"voter-{voter}", "Ada", now())
    tallyroll.crash_next_writer()
    tallyroll.drain()
    tallyroll.redeliver()
    tallyroll.drain()
    assert tallyroll.count("Ada") == 50


@pytest.mark.tallyroll(engine="memory")
def test_the_result_outlives_the_night(tallyroll):
    votes.cast("ann", "Ada", now())
    tallyroll.advance(days=7)
    assert tallyroll.count("Ada") == 1
    assert tallyroll.rejected() == []
