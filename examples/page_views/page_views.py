"""Page views by country, from events that were there before anybody counted them.

A web shop publishes `PageViewed` to EventBridge. A rule sends these events to the pipeline's queue,
and a mapping says what is counted. No producer changes.
"""

from __future__ import annotations

SOURCE, DETAIL_TYPE = "com.example.shop", "PageViewed"
MAPPING = {"key": "detail.country"}
"""The key is the country. Id and time are those of the EventBridge event."""
