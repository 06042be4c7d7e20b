"""Events of EventBridge are counted by country, as they are."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime

import boto3
import pytest
from page_views import DETAIL_TYPE, MAPPING, SOURCE

pytestmark = pytest.mark.tallyroll(mapping=MAPPING)


@pytest.fixture
def view(tallyroll):
    """Sends what the rule sends for a page view."""

    def send(country, **changes):
        event = {
            "version": "0",
            "id": str(uuid.uuid4()),
            "detail-type": DETAIL_TYPE,
            "source": SOURCE,
            "account": "123456789012",
            "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": "us-east-1",
            "resources": [],
            "detail": {"country": country, "page": "/"},
        }
        body = json.dumps(event | changes)
        boto3.client("sqs").send_message(QueueUrl=tallyroll.queue_url, MessageBody=body)

    return send


def test_views_are_counted_by_country(tallyroll, view):
    for country in ("CH", "CH", "DE"):
        view(country)
    tallyroll.drain()
    assert tallyroll.count("CH") == 2
    assert tallyroll.count("DE") == 1


def test_an_event_that_the_rule_sends_twice_counts_once(tallyroll, view):
    happened = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    view("CH", id="one-view", time=happened)
    view("CH", id="one-view", time=happened)
    tallyroll.drain()
    assert tallyroll.count("CH") == 1


def test_a_view_without_country_is_rejected_with_the_path(tallyroll, view):
    view("CH", detail={"page": "/"})
    tallyroll.drain()
    [rejected] = tallyroll.rejected()
    assert rejected.reason == "mapping-failed"
    assert "detail.country" in rejected.detail
