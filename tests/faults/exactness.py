"""What must hold whatever struck: worked out from what was sent, with no code of the core's."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from botocore.awsrequest import AWSResponse

from tests.faults import wire
from tests.faults.injector import Call
from tests.faults.world import World, window_of

Sums = dict[str, tuple[int, Decimal]]
STATES = ("creating", "open", "closing", "sealed", "exporting", "proven", "dropping", "dropped")
PAGES_MAX = 40
# The queue's message ids, which events without an id of their own have.
MESSAGE_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
HIDDEN_MS = 6 * 60_000  # `tallyroll dlq` hides the letters that it looks at for five minutes


@dataclass
class Contents:
    """What a table or an archive holds: (events, sum) per key by its records, less its tombstones,
    and by its tallies;
    `named` are the ids that producers gave, each with the digest of its content.
    """

    records: Sums = field(default_factory=dict)
    tallies: Sums = field(default_factory=dict)
    ids: Counter[tuple[str, str]] = field(default_factory=Counter)
    named: set[tuple[str, bytes]] = field(default_factory=set)
    open_gates: int = 0

    @classmethod
    def of(cls, items: Iterable[Any]) -> Contents:
        """All items added up."""
        contents = cls()
        for item in items:
            contents.add(item)
        return contents

    def add(self, item: Any) -> None:
        """Count one item in DynamoDB JSON."""
        pk, sk = item["pk"]["S"], item["sk"]["S"]
        if pk.startswith("~g."):
            self.open_gates += bool(item["open"]["BOOL"])
        elif pk.startswith("~t."):
            _add(self.tallies, sk[2:].rpartition(".")[0], item)
        elif sk.startswith("e#"):
            key = pk.rpartition(".")[0]
            self.ids[key, sk] += 1
            if not MESSAGE_ID.fullmatch(sk.removeprefix("e#")):
                self.named.add((sk, _binary(item["h"])))
            _add(self.records, key, item)
        elif sk.startswith(("r#", "p#")):
            _add(self.records, pk.rpartition(".")[0], item, -1)


def _binary(value: Any) -> bytes:
    """A binary attribute, which is base64 in an archive."""
    held = value["B"]
    return base64.b64decode(held) if isinstance(held, str) else bytes(held)


def _add(sums: Sums, key: str, item: Any, sign: int = 1) -> None:
    n, amount = sums.get(key, (0, Decimal(0)))
    sums[key] = (n + sign * int(item["n"]["N"]), amount + sign * Decimal(item["v"]["N"]))


@dataclass
class Ledger:
    """What was sent, and what of it must stand: the truth that a world is held against."""

    world: World
    truth: dict[str, Sums] = field(default_factory=dict)
    letters: dict[str, str] = field(default_factory=dict)
    allowed: set[tuple[str, str]] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    ranks: dict[str, int] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    corrected: Counter[str] = field(default_factory=Counter)

    def expect(self, window: str, key: str, value: str = "1", n: int = 1) -> None:
        """Note events that must count."""
        sums = self.truth.setdefault(window, {})
        events, amount = sums.get(key, (0, Decimal(0)))
        sums[key] = (events + n, amount + Decimal(value) * n)

    def correct(self, key: str) -> None:
        """Note that an event of value 1 was retracted after its window was sealed."""
        self.corrected[key] += 1

    def expect_letter(self, body: str, reason: str) -> None:
        """Note a message that must be rejected."""
        self.letters[body] = reason

    def watch(self, call: Call, answer: AWSResponse) -> None:
        """The injector's: look at everything that the functions had carried out."""
        if answer.status_code >= wire.REFUSED:
            return
        params = wire.params_of(call.request)
        if call.operation == "PutItem" and "status" in params["Item"]:
            self._on_state(params["Item"])
        if call.operation == "DeleteTable":
            self._on_delete(params["TableName"])

    def _on_state(self, item: Any) -> None:
        window = item["sk"]["S"].partition("#")[0]
        rank = STATES.index(item["status"]["S"])
        if rank < self.ranks.get(window, 0):
            before = STATES[self.ranks[window]]
            self.problems.append(f"{window} went back from {before} to {STATES[rank]}")
        if "problem" in item:
            self.problems.append(f"{window}: {item['problem']['S']}")
        self.ranks[window] = max(rank, self.ranks.get(window, 0))

    def _on_delete(self, table: str) -> None:
        window = table.rpartition("-")[2]
        state = state_of(self.world, window)
        if not state or not self._proven(state):
            self.problems.append(f"{table} was deleted without a proof")
        if not state or state["status"]["S"] not in ("dropping", "dropped"):
            self.problems.append(f"{table} was deleted too early: {state}")
        self._compare(window, Contents.of(archived(self.world, window)), "archive when dropped")

    def _proven(self, state: Any) -> bool:
        s3, bucket = self.world.raw.s3, self.world.settings.bucket
        listed = s3.list_objects_v2(Bucket=bucket, Prefix=f"{state['archive']['S']}/proof.json")
        return bool(listed["KeyCount"])

    def check(self) -> list[str]:
        """Everything that is wrong at the end."""
        taken: Counter[tuple[str, bytes]] = Counter()
        for window, state in states(self.world).items():
            status = state["status"]["S"]
            if status == "creating":
                continue
            dropped = STATES.index(status) >= STATES.index("dropping")
            items = archived(self.world, window) if dropped else table_of(self.world, window)
            contents = Contents.of(items)
            taken.update((window, digest) for _, digest in contents.named)
            self._compare(window, contents, status)
            if status != "open":
                self._compare_sums(window, totals_of(self.world, window), f"{status}: totals")
                self.problems += [f"{window}: gate open"] * contents.open_gates
        if self.world.settings.identity != "window":
            self._check_identities(taken)
        self._check_letters()
        self._check_counts()
        return [*self.problems, *self.world.problems]

    def _compare(self, window: str, contents: Contents, where: str) -> None:
        self._compare_sums(window, contents.records, f"{where}: records")
        self._compare_sums(window, contents.tallies, f"{where}: tallies")
        twice = [identity for identity, times in contents.ids.items() if times > 1]
        self.problems += [f"{window}: {identity} stands twice" for identity in twice]

    def _compare_sums(self, window: str, found: Sums, what: str) -> None:
        truth = self.truth.get(window, {})
        if found != truth:
            self.problems.append(f"{window} {what} {_shown(found)}, truth {_shown(truth)}")

    def _check_identities(self, taken: Counter[tuple[str, bytes]]) -> None:
        """Every counted event with an id of its own has one identity, and there is no other."""
        found = Counter((item["w"]["S"], _binary(item["h"])) for item in identities(self.world))
        for window, digest in taken - found:
            self.problems.append(f"{window}: an id counts and is not taken: {digest.hex()}")
        for window, digest in found - taken:
            self.problems.append(f"{window}: an id is taken and does not count: {digest.hex()}")

    def _check_letters(self) -> None:
        self.world.time.pass_by(HIDDEN_MS)
        found = letters(self.world)
        for body, reason in self.letters.items():
            if reason not in found.get(body, ()):
                self.problems.append(f"no letter {reason} for {body[:80]!r}")
        for body, reasons in found.items():
            # A table that is gone cannot tell a duplicate: such a letter says "unverified".
            expected = {self.letters.get(body), "window-sealed unverified"}
            unexpected = {why for why in reasons - expected if (body, why) not in self.allowed}
            if more := sorted(unexpected):
                self.problems.append(f"letter {more} for {body[:80]!r}")

    def _check_counts(self) -> None:
        for key in sorted({key for sums in self.truth.values() for key in sums}):
            _, body = self.world.ask("/v1/counters", key=key)
            events = sum(sums[key][0] for sums in self.truth.values() if key in sums)
            events -= self.corrected[key]
            if body.get("events") != events or not body.get("complete"):
                self.problems.append(f"the aggregator counts {body}, truth {events} of {key}")

    def check_restored(self, window: str, table: str) -> None:
        """A restored table holds what its window held, and no gate of it is open."""
        items = self.world.raw.dynamodb.scan(TableName=table, ConsistentRead=True)["Items"]
        contents = Contents.of(items)
        self._compare(window, contents, "restored")
        if contents.open_gates:
            self.problems.append(f"{table} has open gates")

    def ask_midway(self, key: str) -> None:
        """Ask while faults strike: never more than was sent, never less than before."""
        for reads in ("consistent", "eventual"):  # DynamoDB Local shows no old data
            self._check_midway(key, *self.world.ask("/v1/counters", key=key, reads=reads))

    def _check_midway(self, key: str, status: int, body: dict[str, Any]) -> None:
        if status != 200 or not body["complete"]:
            return
        most = sum(sums[key][0] for sums in self.truth.values() if key in sums)
        if not self.seen.get(key, 0) <= body["events"] <= most:
            self.problems.append(f"{key}: {body['events']} after {self.seen.get(key)}, of {most}")
        self.seen[key] = body["events"]

    def page_through(self, window: str, key: str, **where: str) -> None:
        """List a key's events in a window while faults strike: in the end each of them once. They
        are asked for by the window, or by `where`.
        """
        cursor: dict[str, str] = {}
        ids: list[str] = []
        for _ in range(PAGES_MAX):
            asked = {"key": key, "limit": "2", **(where or {"window": window}), **cursor}
            status, body = self.world.ask("/v1/events", **asked)
            if status != 200:
                self.world.time.pass_by(1_000)
                continue
            ids += [found["id"] for found in body["events"]]
            if "cursor" not in body:
                break
            cursor = {"cursor": body["cursor"]}
        events, _ = self.truth[window][key]
        if len(ids) != events or len(set(ids)) != events:
            self.problems.append(f"{window} {key}: paged {ids}, truth {events} events")
        if where.get("archived") and not all(self._is_found(window, key, each) for each in ids):
            self.problems.append(f"{window} {key}: one of {ids} is not found in the archive")

    def _is_found(self, window: str, key: str, event_id: str) -> bool:
        """Whether an event is found in the archive of a dropped window while faults strike."""
        for _ in range(PAGES_MAX):
            asked = {"key": key, "id": event_id, "window": window, "archived": "true"}
            status, body = self.world.ask("/v1/event", **asked)
            if status in (200, 404, 410):
                return status == 200 and body["id"] == event_id
            self.world.time.pass_by(1_000)
        return False


def _shown(sums: Sums) -> str:
    return str({key: (n, str(amount)) for key, (n, amount) in sorted(sums.items())})


def states(world: World) -> dict[str, Any]:
    """Every window's state item."""
    reply = world.raw.dynamodb.scan(TableName=f"{world.settings.name}-catalog", ConsistentRead=True)
    return {item["sk"]["S"].partition("#")[0]: item for item in reply["Items"] if "status" in item}


def state_of(world: World, window: str) -> Any | None:
    """A window's state item."""
    key = {"pk": {"S": f"{window[:4]}-{window[4:6]}"}, "sk": {"S": f"{window}#state"}}
    table = f"{world.settings.name}-catalog"
    return world.raw.dynamodb.get_item(TableName=table, Key=key, ConsistentRead=True).get("Item")


def status_of(world: World, window: str) -> str:
    """A window's state, or nothing."""
    state = state_of(world, window)
    return str(state["status"]["S"]) if state else ""


def rolled_up(world: World, ms: int) -> bool:
    """Whether the sums of the day in which an instant lies stand."""
    day = window_of(ms).partition("T")[0]
    reply = world.raw.dynamodb.get_item(
        TableName=f"{world.settings.name}-catalog",
        Key={"pk": {"S": "~periods"}, "sk": {"S": f"day#{day}"}},
        ConsistentRead=True,
    )
    state = reply.get("Item", {})
    return "rolled" in state and state["rolled"] == state["epoch"]


def table_of(world: World, window: str) -> list[Any]:
    """The items of a window's table."""
    name = f"{world.settings.name}-{window}"
    return list(world.raw.dynamodb.scan(TableName=name, ConsistentRead=True)["Items"])


def identities(world: World) -> list[Any]:
    """The items of the pipeline's table of identities."""
    name = f"{world.settings.name}-identities"
    return list(world.raw.dynamodb.scan(TableName=name, ConsistentRead=True)["Items"])


def totals_of(world: World, window: str) -> Sums:
    """The totals of a window."""
    name = f"{world.settings.name}-totals"
    sums: Sums = {}
    for item in world.raw.dynamodb.scan(TableName=name, ConsistentRead=True)["Items"]:
        if item["sk"]["S"] == window:
            _add(sums, item["pk"]["S"], item)
    return sums


def archived(world: World, window: str) -> Iterator[Any]:
    """The items of the archive that the window's state names."""
    state = state_of(world, window)
    if not state or "archive" not in state:
        return
    prefix = f"{state['archive']['S']}/AWSDynamoDB/"
    yield from world.raw.archived(world.settings.bucket, prefix)


def letters(world: World) -> dict[str, set[str]]:
    """The dead letters' bodies, and under which reasons they stand there."""
    found: dict[str, set[str]] = {}
    while messages := world.raw.sqs.receive_message(
        QueueUrl=world.settings.dead_letters_url,
        MaxNumberOfMessages=10,
        MessageAttributeNames=["All"],
    ).get("Messages"):
        for message in messages:
            attributes = {
                name: attribute["StringValue"]
                for name, attribute in message.get("MessageAttributes", {}).items()
            }
            reason = attributes.get("tallyroll-reason", "none")
            if "unverified" in attributes.get("tallyroll-detail", ""):
                reason += " unverified"
            body = message["Body"]
            if attributes.get("tallyroll-body") == "s3":
                pointer = json.loads(body)
                stored = world.raw.s3.get_object(Bucket=pointer["bucket"], Key=pointer["key"])
                body = stored["Body"].read().decode()
            found.setdefault(body, set()).add(reason)
    return found
