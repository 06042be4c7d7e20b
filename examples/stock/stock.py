"""Companies and their stock price: what is large and still is apart from what is small and busy.

Information, mission and logo are an item of some 30 KB that is seldom read. In the same item each
change of the price would write all of it: 30 write units instead of 1. So the price has a table of
its own. It is updated by optimistic locking, and only by a newer trade. Each trade is an event,
too, so the number of trades and their volume are exact, also if a trade is reported twice.
"""

from __future__ import annotations

import json
import os
from decimal import Decimal
from typing import Any

import boto3

from tallyroll import VersionedTable


def describe(ticker: str, information: str, logo: bytes) -> None:
    """Store what seldom changes."""
    item = {"ticker": ticker, "information": information, "logo": logo}
    _table("COMPANIES_TABLE").put_item(Item=item)


def trade(ticker: str, trade_id: str, price: str, shares: int, at_ms: int) -> None:
    """Take a trade: the latest one makes the price."""
    event = {"key": ticker, "id": trade_id, "value": shares, "ts": at_ms}
    boto3.client("sqs").send_message(
        QueueUrl=os.environ["TRADES_QUEUE_URL"], MessageBody=json.dumps(event)
    )

    def newer(item: dict[str, Any]) -> dict[str, Any]:
        if item.get("at_ms", 0) >= at_ms:
            return item
        return {**item, "price": Decimal(price), "at_ms": at_ms}

    VersionedTable(_table("PRICES_TABLE")).update({"ticker": ticker}, newer)


def price_of(ticker: str) -> Decimal:
    """The latest price: half a read unit."""
    found: Decimal = _table("PRICES_TABLE").get_item(Key={"ticker": ticker})["Item"]["price"]
    return found


def _table(variable: str) -> Any:
    return boto3.resource("dynamodb").Table(os.environ[variable])
