"""How fast dead letters are redriven, by how many workers.

`make bench`, or

    python -m benchmarks.redriving [LETTERS] [--call-ms 7.5]

The command's own code redrives letters on in-memory ports, by real threads, where every call of a
port waits as long as a request to AWS takes. An event of every letter is read, decoded, looked up,
claimed, sent and deleted. What botocore computes for a request is no part of that: it is measured
alone, by requests of the real client to a canned reply.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from threading import Lock
from typing import Any

from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from benchmarks.tables import Rows, show
from tallyroll.adapters.aws.client import make_client
from tallyroll.adapters.memory import MemoryCatalog, MemoryQueue, MemoryStore, MemoryTotals
from tallyroll.adapters.system import SystemEffects
from tallyroll.lifecycle.roller import Roller
from tallyroll.limits import QUEUE_BATCH_MAX
from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.operations.dead_letter_scan import JOBS, DeadLetterScan
from tallyroll.operations.letter_events import LetterOutcome
from tallyroll.operations.redrive import Redriver
from tallyroll.ports.dead_letters import Resend
from tallyroll.ports.queue import Backlog
from tallyroll.settings import Settings

LETTERS = 10_000
MANY = 10_000_000
CALL_MS = 7.5
JOBS_TRIED = (1, 2, 4, JOBS)
CLIENT_CALLS = 1_000
HOUR_S = 3_600
TIME_LEFT_MS = 60_000
SETTINGS = Settings(name="benchmark", gates=1, buckets=1)


class Letters:
    """So many dead letters, each with an event of its own that the current window still takes."""

    def __init__(self, number: int, now: int) -> None:
        self._number = number
        self._now = now
        self._numbers = iter(range(number))
        self._lock = Lock()
        self.deleted = 0

    def peek(self, most: int, _seconds: int) -> list[ReceivedLetter]:
        """The next letters."""
        with self._lock:
            numbers = list(islice(self._numbers, most))
        return [self._letter(n) for n in numbers]

    def _letter(self, number: int) -> ReceivedLetter:
        event = {"key": f"key-{number % 1_000}", "id": f"event-{number:08d}", "ts": self._now}
        name = f"{number:08d}-0000-4000-8000-000000000000"
        return ReceivedLetter(
            name, "r" * 400, 1, self._now, json.dumps(event), "x", "", None, name, self._now
        )

    def give_back(self, letters: Sequence[ReceivedLetter]) -> None:
        """Nothing stays."""

    def delete(self, letters: Sequence[ReceivedLetter]) -> list[bool]:
        """Delete letters."""
        with self._lock:
            self.deleted += len(letters)
        return [True] * len(letters)

    def count(self) -> Backlog:
        """How many there are."""
        return Backlog(self._number, 0, 0)

    def body(self, letter: ReceivedLetter) -> str:
        """No body is in a bucket."""
        return letter.body

    def resend(self, resends: Sequence[Resend]) -> list[str]:
        """All of them are there."""
        return [""] * len(resends)


class Slow:
    """A port whose every request takes a while; `requests` counts them by name."""

    def __init__(self, port: Any, call_ms: float, requests: Counter[str]) -> None:
        self._port = port
        self._call_ms = call_ms
        self._requests = requests

    def __getattr__(self, verb: str) -> Any:
        found = getattr(self._port, verb)

        def call(*arguments: Any) -> Any:
            several = verb in ("delete", "resend")
            # Batches of ten go side by side, as SqsDeadLetters sends them.
            self._requests[verb] += -(-len(arguments[0]) // QUEUE_BATCH_MAX) if several else 1
            time.sleep(self._call_ms / 1000)
            return found(*arguments)

        return found if verb == "body" else call


def measure(letters: int, jobs: int, call_ms: float) -> tuple[float, Counter[str]]:
    """Redrive so many letters by so many workers: seconds, and requests by name. Raises
    RuntimeError if any letter is left.
    """
    effects = SystemEffects()
    catalog = MemoryCatalog()
    store = MemoryStore(effects, catalog)
    roller = Roller(SETTINGS, store, catalog, MemoryTotals(), MemoryQueue(effects), effects)
    for _ in range(2):  # a window opens one run after its table is made
        roller.run(TIME_LEFT_MS)
    dead = Letters(letters, effects.now())
    requests: Counter[str] = Counter()
    slow = [Slow(port, call_ms, requests) for port in (store, catalog, dead)]
    redriver = Redriver(SETTINGS, slow[0], slow[1], slow[2], effects)
    scan = DeadLetterScan(slow[2], effects)

    def treat(batch: Sequence[ReceivedLetter]) -> None:
        decisions = redriver.redrive(batch)
        scan.forget([one.letter for one in decisions if one.course is LetterOutcome.REDRIVEN])

    began = time.monotonic()
    scan.each(treat, jobs)
    seconds = time.monotonic() - began
    if dead.deleted != letters:
        raise RuntimeError(f"{letters - dead.deleted} letters were left")
    return seconds, requests


def client_ms(calls: int = CLIENT_CALLS) -> float:
    """The processor time that botocore takes for one PutItem, canned reply included, ms."""
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "none")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "none")
    client = make_client("dynamodb")

    class Raw:
        def stream(self, **_: object) -> list[bytes]:
            return [b"{}"]

    def reply(request: Any, **_: object) -> AWSResponse:
        return AWSResponse(request.url, 200, HTTPHeaders(), Raw())

    client.meta.events.register("before-send.dynamodb.PutItem", reply)
    began = time.process_time()
    for number in range(calls):
        client.put_item(
            TableName="benchmark-catalog",
            Item={
                "pk": {"S": "~claim#20261120T080000Z#key"},
                "sk": {"S": f"event-{number:08d}"},
                "target": {"S": "20261120T090000Z"},
                "at": {"N": "1795163400000"},
            },
            ConditionExpression="attribute_not_exists(pk)",
        )
    return (time.process_time() - began) * 1000 / calls


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("letters", nargs="?", type=int, default=LETTERS)
    parser.add_argument("--call-ms", type=float, default=CALL_MS)
    arguments = parser.parse_args()
    rows: Rows = [("workers", "letters/s", "requests a letter", "hours for 10 million")]
    each = 0.0
    for jobs in JOBS_TRIED:
        seconds, requests = measure(arguments.letters, jobs, arguments.call_ms)
        each = requests.total() / arguments.letters
        rate = arguments.letters / seconds
        rows.append((str(jobs), f"{rate:,.0f}", f"{each:.2f}", f"{MANY / rate / HOUR_S:.1f}"))
    spent = client_ms() * each
    show(
        f"Redriving {arguments.letters:,} letters, {arguments.call_ms} ms a call",
        rows,
        f"botocore's processor time: {spent:.2f} ms a letter, {MANY * spent / 1000 / HOUR_S:.1f}"
        " hours for 10 million on one processor",
    )


if __name__ == "__main__":
    main()
