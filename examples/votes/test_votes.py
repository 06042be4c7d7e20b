"""Every voter has one vote, whatever happens on the way."""

from __future__ import annotations

import pytest
import votes

pytestmark = pytest.mark.tallyroll(identity="pipeline")


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


def test_who_votes_again_in_the_next_hour_has_one_vote(tallyroll):
    votes.cast("ann", "Ada")
    tallyroll.advance(hours=1)
    votes.cast("ann", "Ada")
    tallyroll.drain()
    assert tallyroll.count("Ada") == 1
    assert tallyroll.rejected() == []


def test_of_votes_for_two_candidates_the_first_counts(tallyroll):
    votes.cast("ann", "Ada")
    tallyroll.advance(hours=1)
    votes.cast("ann", "Grace")
    votes.cast("bob", "Grace")
    tallyroll.drain()
    assert tallyroll.count("Ada") == 1
    assert tallyroll.count("Grace") == 1
    [rejected] = tallyroll.rejected()
    assert rejected.reason == "id-conflict"
    assert min(tallyroll.windows()) in rejected.detail


def test_of_two_votes_at_once_one_counts(tallyroll):
    votes.cast("ann", "Ada")
    votes.cast("ann", "Grace")
    tallyroll.drain()
    assert tallyroll.count("Ada") + tallyroll.count("Grace") == 1
    [rejected] = tallyroll.rejected()
    assert rejected.reason == "id-conflict"


def test_redeliveries_and_crashes_change_nothing(tallyroll):
    for voter in range(50):
        votes.cast(f"voter-{voter}", "Ada")
    tallyroll.crash_next_writer()
    tallyroll.drain()
    tallyroll.redeliver()
    tallyroll.advance(hours=1)
    tallyroll.redeliver()
    tallyroll.drain()
    assert tallyroll.count("Ada") == 50


@pytest.mark.tallyroll(engine="memory", identity="pipeline")
def test_a_vote_stays_cast_when_its_hour_is_archived(tallyroll):
    votes.cast("ann", "Ada")
    tallyroll.advance(days=7)
    assert "dropped" in tallyroll.windows().values()
    votes.cast("ann", "Ada")
    tallyroll.drain()
    assert tallyroll.count("Ada") == 1
    assert tallyroll.rejected() == []
