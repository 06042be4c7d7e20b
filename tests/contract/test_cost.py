"""Our reckoning of item sizes and write units beside DynamoDB Local's own."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tallyroll.adapters.aws.client import make_client
from tallyroll.adapters.aws.create_requests import table_request
from tallyroll.adapters.dynamodb.items import Item
from tallyroll.limits import write_units
from tallyroll.resources import TableDeclaration
from tests.harness.item_sizes import item_bytes

pytestmark = pytest.mark.engine
LETTERS = 'aZ0 ~#.éßЖ中文🗳\u0000\n"\\'


@pytest.fixture(scope="module")
def client(dynamodb_endpoint: str) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_endpoint)
        client = make_client("dynamodb")
    client.create_table(**table_request(TableDeclaration(name="cost")))
    return client


def _text(random: Random, most: int) -> str:
    return "".join(random.choice(LETTERS) for _ in range(random.randint(1, most)))


def _number(random: Random) -> str:
    digits = str(random.randrange(1, 10 ** random.randint(1, 38)))
    if random.random() < 0.3:
        digits += "0" * random.randint(1, 38 - len(digits)) if len(digits) < 38 else ""
    if random.random() < 0.5:
        point = random.randint(0, len(digits))
        digits = f"{digits[:point] or '0'}.{digits[point:] or '0'}"
    return random.choice(("", "-")) + digits


def _random_item(random: Random, sort: str, *, numbers: bool) -> Item:
    """An item of some attributes, padded so that it ends just below, on or above a KB's border."""
    item: Item = {"pk": {"S": _text(random, 60)}, "sk": {"S": sort}}
    for _ in range(random.randint(0, 6)):
        name = f"{_text(random, 5)}{len(item)}"
        kinds: list[dict[str, Any]] = [
            {"B": random.randbytes(random.randint(0, 300))},
            {"S": _text(random, 80)},
            {"BOOL": random.random() < 0.5},
            {"NULL": True},
        ]
        if numbers:
            kinds += [{"N": _number(random)}] * 3
        item[name] = random.choice(kinds)
    pad = 1_024 * random.randint(2, 9) + random.choice((0, 1, -1)) - item_bytes(item) - len("pad")
    item["pad"] = {"B": b"0" * pad}
    return item


with_and_without_numbers = pytest.mark.parametrize(
    "numbers", [False, True], ids=["plain", "numbers"]
)


@with_and_without_numbers
def test_single_puts_take_the_units_that_we_reckon(client: Any, numbers: bool) -> None:
    random = Random(11)
    for index in range(300):
        item = _random_item(random, f"single-{numbers}-{index}", numbers=numbers)
        reply = client.put_item(TableName="cost", Item=item, ReturnConsumedCapacity="TOTAL")
        reckoned = write_units(item_bytes(item))
        assert reply["ConsumedCapacity"]["CapacityUnits"] == reckoned, item


@with_and_without_numbers
def test_batches_take_the_units_that_we_reckon(client: Any, numbers: bool) -> None:
    random = Random(12)
    for batch in range(30):
        items = [
            _random_item(random, f"batch-{numbers}-{batch}-{index}", numbers=numbers)
            for index in range(25)
        ]
        reply = client.batch_write_item(
            RequestItems={"cost": [{"PutRequest": {"Item": item}} for item in items]},
            ReturnConsumedCapacity="TOTAL",
        )
        assert not reply["UnprocessedItems"]
        (consumed,) = reply["ConsumedCapacity"]
        assert consumed["CapacityUnits"] == sum(write_units(item_bytes(item)) for item in items)
