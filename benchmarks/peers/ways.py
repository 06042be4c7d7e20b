"""The ways to count: four that are widely used, the cheapest that one can write, and this project's
writer.

Each widely used way is what its documentation shows, and counts one message after the other, as a
function with a loop does.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Protocol

import boto3
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.models import Model

from benchmarks.peers.load import Invocation
from tallyroll.adapters.aws.lambda_events import sqs_messages
from tallyroll.ingest.cost import commit_cost
from tallyroll.ingest.writer import Writer
from tallyroll.model.records import Increment, Record
from tallyroll.model.specs import Spec
from tallyroll.pipeline import Pipeline
from tallyroll.ports.store import Outcome, Store
from tallyroll.settings import Settings

TIME_LEFT_MS = 600_000
PROGRESS_MS = 1_000  # how long Powertools' record of a dead invocation holds an event back
REMEMBERED_DAYS = 31  # for which an id is taken, as is the default of `identity_days`
RANDOM_SHARDS = 200  # as in the DynamoDB Developer Guide, "Using write sharding"
GO = "UpdateItem"

_Commit = tuple[Sequence[Record], Sequence[Increment]]


class Way(Protocol):
    """One way to count. `units` are the write units so far, `parallel` the requests that its
    function has under way at once; it dies after `dies_after` replies to `operation`.
    """

    name: str
    operation: str
    dies_after: int
    parallel: int

    def start(self) -> None:
        """Begin in a new process: forget all that was in memory."""

    def handle(self, event: Invocation) -> list[str]:
        """Count a batch; the ids of the messages that must come again."""

    def totals(self) -> Counter[str]:
        """The events that are counted, by key."""

    def units(self, requests: Mapping[str, int]) -> float:
        """The write units of these requests, by AWS's rule."""


class _ByMessage:
    """A loop over the messages, each counted in an item of a table with numbers."""

    operation = GO
    parallel = 1

    def __init__(self, name: str, table: str) -> None:
        self.name = name
        self.dies_after = 489  # odd: Powertools updates an item of its own after each addition
        self._table = table
        make_table(table, "pk")
        self.start()

    def start(self) -> None:
        self._client = dynamodb_client()

    def handle(self, event: Invocation) -> list[str]:
        for record in event["Records"]:
            self.count(json.loads(record["body"]))
        return []

    def count(self, event: Mapping[str, Any]) -> None:
        """Add one event."""
        self.add(event["key"])

    def add(self, place: str, n: int = 1) -> None:
        """Add to an item."""
        self._client.update_item(
            TableName=self._table,
            Key={"pk": {"S": place}},
            UpdateExpression="ADD n :n",
            ExpressionAttributeValues={":n": {"N": str(n)}},
        )

    def totals(self) -> Counter[str]:
        pages = (
            dynamodb_client()
            .get_paginator("scan")
            .paginate(TableName=self._table, ConsistentRead=True)
        )
        found: Counter[str] = Counter()
        for page in pages:
            for item in page["Items"]:
                found[item["pk"]["S"].partition("#")[0]] += int(item["n"]["N"])
        return found

    def units(self, requests: Mapping[str, int]) -> float:
        """One for each write: all items are smaller than 1 KB, and a write whose condition fails
        takes one, too.
        """
        return sum(requests[name] for name in ("UpdateItem", "PutItem", "DeleteItem"))


class Adding(_ByMessage):
    """UpdateItem with ADD, for each message."""


class RandomShards(_ByMessage):
    """The same on one of 200 items of a key, chosen at random."""

    def count(self, event: Mapping[str, Any]) -> None:
        """Add one event."""
        self.add(f"{event['key']}#{random.randrange(RANDOM_SHARDS)}")


class Summing(_ByMessage):
    """A batch is summed by key in memory; then UpdateItem with ADD, once for each key."""

    def __init__(self, name: str, table: str, dies_after: int) -> None:
        super().__init__(name, table)
        self.dies_after = dies_after

    def handle(self, event: Invocation) -> list[str]:
        """Add the sums of a batch."""
        sums = Counter(json.loads(record["body"])["key"] for record in event["Records"])
        for key, n in sums.items():
            self.add(key, n)
        return []


class PynamoDB(_ByMessage):
    """PynamoDB's atomic update."""

    def start(self) -> None:
        """Make the model."""
        table = self._table

        class Counted(Model):
            class Meta:
                table_name = table
                host = os.environ["AWS_ENDPOINT_URL_DYNAMODB"]
                region = os.environ["AWS_REGION"]

            pk = UnicodeAttribute(hash_key=True)
            n = NumberAttribute()

        self._model = Counted

    def count(self, event: Mapping[str, Any]) -> None:
        """Add one event."""
        counted = self._model
        counted(event["key"]).update(actions=[counted.n.add(1)])


class Powertools(_ByMessage):
    """Powertools' batch and idempotency utilities around UpdateItem with ADD: for each message its
    id is put if absent, the event added, and the id's item updated.
    """

    def __init__(self, name: str, table: str) -> None:
        self._done = f"{table}-done"
        make_table(self._done, "id")
        super().__init__(name, table)

    def start(self) -> None:
        """Make the utilities."""
        super().start()
        self._processor = BatchProcessor(event_type=EventType.SQS)
        config = IdempotencyConfig(
            event_key_jmespath="id", expires_after_seconds=REMEMBERED_DAYS * 86_400
        )
        config.register_lambda_context(_CONTEXT)
        store = DynamoDBPersistenceLayer(table_name=self._done, boto3_client=dynamodb_client())
        once: Any = idempotent_function(
            data_keyword_argument="event", config=config, persistence_store=store
        )
        self._count_once = once(self._counted)

    def _counted(self, event: dict[str, Any]) -> None:
        self.count(event)

    def handle(self, event: Invocation) -> list[str]:
        """Count a batch as a function does."""
        try:
            answer = process_partial_response(
                event=dict(event),
                record_handler=lambda record: self._count_once(event=json.loads(record.body)),
                processor=self._processor,
                context=_CONTEXT,
            )
        except BatchProcessingError:  # all of them failed
            return [record["messageId"] for record in event["Records"]]
        return [str(failure["itemIdentifier"]) for failure in answer["batchItemFailures"]]


class _Context:
    """A Lambda context whose invocation has so much time left."""

    function_name = "peer"
    aws_request_id = "1"

    def get_remaining_time_in_millis(self) -> int:
        return PROGRESS_MS


_CONTEXT: Any = _Context()


class _Noting:
    """A store that notes its commits. What they cost is computed later: the writer does that, too,
    but a writer that dies cannot tell.
    """

    def __init__(self, store: Store, commits: list[_Commit]) -> None:
        self._store, self._commits = store, commits

    def commit(
        self, spec: Spec, records: Sequence[Record], increments: Sequence[Increment]
    ) -> Outcome:
        """Commit, and note it, whether it succeeds or not."""
        self._commits.append((records, increments))
        return self._store.commit(spec, records, increments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Tallyroll:
    """This project's writer on one pipeline, whose window is open."""

    operation = "TransactWriteItems"
    parallel = 16

    def __init__(
        self, name: str, settings: Settings, dies_after: int, keys: AbstractSet[str]
    ) -> None:
        self.name, self.dies_after = name, dies_after
        self._settings, self._keys = settings, keys
        self._commits: list[_Commit] = []
        self._spec = current_spec(Pipeline(settings))
        self.start()

    def start(self) -> None:
        """Make a writer."""
        made = Pipeline(self._settings)
        self._store = made.store
        self._writer: Writer = made.writer
        self._writer.store = _Noting(made.store, self._commits)

    def handle(self, event: Invocation) -> list[str]:
        """Count a batch as a function does."""
        report = self._writer.write(sqs_messages(event), TIME_LEFT_MS)
        if report.rejected:
            raise RuntimeError(f"events were rejected: {report.rejected}")
        return report.failures

    def totals(self) -> Counter[str]:
        """The tallies of the load's keys."""
        tallies = self._store.tallies(self._spec, sorted(self._keys))
        return Counter({key: tally.n for key, tally in tallies.items() if tally.n})

    def units(self, _requests: Mapping[str, int]) -> float:
        """What its commits cost by AWS's rule, the failed ones included."""
        metering = self._store.metering_of(self._spec.table)
        return sum(commit_cost(*commit, metering).total for commit in self._commits)


def current_spec(made: Pipeline) -> Spec:
    """The spec of a pipeline's current window."""
    calendar = made.catalog.calendar()
    if calendar is None:
        raise RuntimeError("the roller has not run")
    window = calendar.grid.at(made.effects.now()).id
    return made.catalog.specs([window])[window]


def dynamodb_client() -> Any:
    """What people get who follow the documentation."""
    session: Any = boto3.session.Session()
    return session.client("dynamodb")


def make_table(name: str, key: str) -> None:
    """Make a table of one's own, on demand."""
    dynamodb_client().create_table(
        TableName=name,
        KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
