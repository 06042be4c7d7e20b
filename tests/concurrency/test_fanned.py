"""Writers that get the same events of several keys at once: the counters never disagree."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace

import pytest

from tallyroll.model.messages import Message
from tests.concurrency.crowd import Crowd

pytestmark = pytest.mark.engine
EVENTS, COPIES = 60, 4
MAPPING = {
    "keys": ["candidate:{candidate}", "state:{state}", "all", "first:{first}"],
    "id": "id",
    "ts": "at",
}


def ballot(crowd: Crowd, number: int) -> Message:
    body = {
        "candidate": f"c{number % 3}",
        "state": f"s{number % 7}",
        # Some events share their id and the key `all` with another one.
        "first": f"{number}",
        "id": f"e{number // 2 * 2 if number % 10 < 2 else number}",
        "at": crowd.now,
    }
    return Message(f"m{number}", json.dumps(body), crowd.now, 1, f"r{number}")


def test_several_writers_get_the_same_messages(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_endpoint)
    crowd = Crowd.gathered(stripes=8, mapping=MAPPING)
    messages = [ballot(crowd, number) for number in range(EVENTS)]
    # Several writers get all of them, each in another order.
    turned = [messages[at:] + messages[:at] for at in range(0, EVENTS, EVENTS // COPIES)]
    crowd.deliver([replace(each, receives=2) for part in turned for each in part], seed=1)

    keys_of: dict[str, list[str]] = defaultdict(list)
    for record in crowd.records():
        keys_of[record.id].append(record.key.partition(":")[0])
    ids = {json.loads(message.body)["id"] for message in messages}
    assert keys_of.keys() == ids
    assert all(sorted(keys) == ["all", "candidate", "first", "state"] for keys in keys_of.values())
    tallies = {
        record.key: crowd.made.store.tallies(crowd.spec, [record.key])[record.key].n
        for record in crowd.records()
        if not record.key.startswith("first:")
    }
    sums = Counter[str]()
    for key, n in tallies.items():
        sums[key.partition(":")[0]] += n
    assert sums == dict.fromkeys(("all", "candidate", "state"), len(ids))
