"""The busy price is small, the latest trade makes it, and each trade counts once."""

from __future__ import annotations

import time
from decimal import Decimal

import boto3
import pytest
import stock


@pytest.fixture(autouse=True)
def service(tallyroll, monkeypatch):
    for variable in ("COMPANIES_TABLE", "PRICES_TABLE"):
        boto3.client("dynamodb").create_table(
            TableName=variable.lower(),
            KeySchema=[{"AttributeName": "ticker", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "ticker", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        monkeypatch.setenv(variable, variable.lower())
    monkeypatch.setenv("TRADES_QUEUE_URL", tallyroll.queue_url)


def test_the_latest_trade_makes_the_price_whatever_comes_last(tallyroll):
    now = int(time.time() * 1000)
    stock.describe("ACME", "Anvils since 1949", b"logo" * 7_000)
    stock.trade("ACME", "t1", "10.50", 100, now - 2_000)
    stock.trade("ACME", "t3", "10.70", 50, now)
    stock.trade("ACME", "t2", "10.60", 10, now - 1_000)
    assert stock.price_of("ACME") == Decimal("10.70")
    tallyroll.drain()
    assert tallyroll.count("ACME") == 3
    assert tallyroll.sum("ACME") == 160


def test_a_trade_that_is_reported_twice_counts_once(tallyroll):
    now = int(time.time() * 1000)
    for _ in range(2):
        stock.trade("ACME", "t1", "10.50", 100, now)
    tallyroll.drain()
    assert tallyroll.count("ACME") == 1
    [item] = boto3.resource("dynamodb").Table("prices_table").scan()["Items"]
    assert item["version"] == 1
