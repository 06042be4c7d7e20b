"""Whether `tallyroll doctor` names the cause of each of twelve planted faults: `make oncall`.

Runs a pipeline on this machine until windows are open, sealed and dropped. Then plants one fault
after another, runs the command once, looks for the cause in what it prints, and mends the fault.
The last two faults cannot be mended. The exit status is 1 if a cause was not found.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from local.aws.embedded import Embedded, scaled_settings
from local.pipeline import LocalPipeline
from tallyroll import Pipeline
from tallyroll.adapters.dynamodb.catalog_items import LIVE, key_of
from tallyroll.adapters.dynamodb.totals import listing_of
from tallyroll.archive.layout import proof_key
from tallyroll.limits import LISTING_BUCKETS
from tallyroll.model.states import Status, Window
from tallyroll.resources import declare

WINDOW_S = 10
WAIT_S = 600
KEYS = 5
_NOBODYS = "20200101T000000Z"  # no window of the pipeline's


class World:
    """A running pipeline with windows in every state."""

    def __init__(self, aws: Embedded, local: LocalPipeline) -> None:
        self.local, self.settings = local, aws.settings
        self.dynamodb, self.sqs, self.s3 = map(aws.client, ("dynamodb", "sqs", "s3"))
        self.declared = declare(self.settings)
        self.pipeline = Pipeline(self.settings)

    def send(self, body: str) -> None:
        """Put a message into the event queue."""
        self.sqs.send_message(QueueUrl=self.settings.queue_url, MessageBody=body)

    def window(self, status: Status) -> Window:
        """The newest window in this state with events."""
        found = self.pipeline.catalog.windows(0, int(time.time() * 1000))
        return [w for w in found if w.status is status and (w.keys or not w.status.sealed)][-1]

    def await_all(self, ready: Callable[[], bool], what: str) -> None:
        """Wait until something is so. Raises TimeoutError."""
        until = time.monotonic() + WAIT_S
        while not ready():
            if time.monotonic() > until:
                raise TimeoutError(f"after {WAIT_S} s: {what}")
            time.sleep(0.2)

    @contextmanager
    def item_changed(self, table: str, key: dict[str, Any], **values: Any) -> Iterator[None]:
        """An item has other values, or is gone if none are given, inside the block."""
        before = self.dynamodb.get_item(TableName=table, Key=key, ConsistentRead=True)["Item"]
        if values:
            self.dynamodb.put_item(TableName=table, Item=before | values)
        else:
            self.dynamodb.delete_item(TableName=table, Key=key)
        yield
        self.dynamodb.put_item(TableName=table, Item=before)

    @contextmanager
    def object_changed(self, key: str, body: bytes | None) -> Iterator[None]:
        """An object of the bucket has another body, or none, inside the block.

        It is mended as the doctor advises: by the version that was there before.
        """
        place = {"Bucket": self.settings.bucket, "Key": key}
        if body is None:
            newer = self.s3.delete_object(**place)
        else:
            newer = self.s3.put_object(**place, Body=body)
        yield
        self.s3.delete_object(**place, VersionId=newer["VersionId"])

    def archived(self, ending: str) -> str:
        """The key of an object of a dropped window's archive."""
        prefix = self.window(Status.DROPPED).attempt.archive
        listed: list[dict[str, str]] = self.s3.list_objects_v2(
            Bucket=self.settings.bucket, Prefix=prefix
        )["Contents"]
        return next(each["Key"] for each in listed if each["Key"].endswith(ending))


@contextmanager
def _unprotected(world: World) -> Iterator[None]:
    table = world.window(Status.OPEN).table
    world.dynamodb.update_table(TableName=table, DeletionProtectionEnabled=False)
    yield
    world.dynamodb.update_table(TableName=table, DeletionProtectionEnabled=True)


@contextmanager
def _stray_table(world: World) -> Iterator[None]:
    name = world.declared.window_table(_NOBODYS).name
    world.dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
    )
    yield
    world.dynamodb.delete_table(TableName=name)


@contextmanager
def _state_lost(world: World) -> Iterator[None]:
    key = key_of(world.window(Status.DROPPED).id, "state")
    with world.item_changed(world.declared.catalog.name, key):
        yield


@contextmanager
def _pointer_passed(world: World) -> Iterator[None]:
    since = {"N": str(world.window(Status.OPEN).end)}
    with (
        world.local.schedules["roller"].held(),  # it would mend the pointer
        world.item_changed(world.declared.catalog.name, LIVE, since=since),
    ):
        yield


@contextmanager
def _total_changed(world: World) -> Iterator[None]:
    key = {"pk": {"S": "k0"}, "sk": {"S": world.window(Status.SEALED).id}}
    with world.item_changed(world.declared.totals.name, key, n={"N": "1000000"}):
        yield


@contextmanager
def _listing_changed(world: World) -> Iterator[None]:
    window = world.window(Status.SEALED).id
    for bucket in range(1, LISTING_BUCKETS + 1):
        key = {"pk": {"S": listing_of(window, bucket)}, "sk": {"S": "k0"}}
        if "Item" in world.dynamodb.get_item(TableName=world.declared.totals.name, Key=key):
            with world.item_changed(world.declared.totals.name, key):
                yield


@contextmanager
def _data_lost(world: World) -> Iterator[None]:
    with world.object_changed(world.archived(".json.gz"), None):
        yield


@contextmanager
def _manifest_destroyed(world: World) -> Iterator[None]:
    with world.object_changed(world.archived("manifest-files.json"), b"{"):
        yield


@contextmanager
def _proof_lost(world: World) -> Iterator[None]:
    prefix = world.window(Status.DROPPED).attempt.archive
    with world.object_changed(proof_key(prefix), None):
        yield


@contextmanager
def _unreadable_message(world: World) -> Iterator[None]:
    world.send("no JSON")
    world.await_all(lambda: world.pipeline.dead_letters_queue.backlog(0).visible > 0, "no letter")
    yield
    world.sqs.purge_queue(QueueUrl=world.settings.dead_letters_url)


@contextmanager
def _table_deleted(world: World) -> Iterator[None]:
    table = world.window(Status.OPEN).table
    world.dynamodb.update_table(TableName=table, DeletionProtectionEnabled=False)
    world.dynamodb.delete_table(TableName=table)
    yield


@contextmanager
def _roller_stopped(world: World) -> Iterator[None]:
    world.local.schedules["roller"].stop()
    made = world.pipeline.catalog.windows(0, 2 * int(time.time() * 1000))
    world.await_all(lambda: time.time() * 1000 > made[-1].end, "the last window has not ended")
    yield


@dataclass(frozen=True)
class Fault:
    """A fault, the check that finds it, what its line says, and whether it takes `--deep`."""

    name: str
    plant: Callable[[World], Any]
    check: str
    says: str
    deep: bool = False


FAULTS = (
    Fault("a table is not protected from deletion", _unprotected, "tables", "not protected"),
    Fault("a foreign table has a window's name", _stray_table, "stray-tables", "no window names"),
    Fault("a window's state is lost", _state_lost, "gaps", "no such window"),
    Fault("the live pointer is wrong", _pointer_passed, "live-pointer", "has passed it"),
    Fault("a total was changed", _total_changed, "totals", "its total (1000000", deep=True),
    Fault("a row of a listing is lost", _listing_changed, "listing", "by its listing"),
    Fault("a data file of an archive is lost", _data_lost, "archives", "changed since"),
    Fault("a manifest is destroyed", _manifest_destroyed, "archives", "manifest-files.json"),
    Fault("a proof is lost", _proof_lost, "archives", "WITHOUT A PROOF"),
    Fault("a producer sends what is no event", _unreadable_message, "dead-letters", "dead letter"),
    Fault("a live window's table was deleted", _table_deleted, "tables", "is gone"),
    Fault("the roller does not run", _roller_stopped, "roller", "it is missing"),
)


def main() -> int:
    """Plant the faults and print which were found, and how fast."""
    console = Console()
    settings = scaled_settings("oncall", WINDOW_S)
    settings = replace(settings, retention_ms=4_000 * WINDOW_S)
    table = Table(title="tallyroll doctor", title_justify="left")
    for name in ("fault", "named by", "seconds", "found"):
        table.add_column(name, justify="right" if name == "seconds" else "left")
    missed = 0
    with Embedded(settings) as aws, LocalPipeline(aws) as local:
        os.environ.update(aws.environment)
        world = World(aws, local)
        _live(console, world)
        for fault in (None, *FAULTS):
            name = fault.name if fault else "none"
            console.print(f"planting: {name}", style="dim")
            found, took, output = _diagnosed(world, fault)
            missed += not found
            table.add_row(
                name, fault.check if fault else "", f"{took:.1f}", "yes" if found else "NO"
            )
            if not found:
                console.print(output)
    console.print(table)
    return 1 if missed else 0


def _live(console: Console, world: World) -> None:
    """Count events until windows are in the states that the faults need."""
    console.print("waiting for windows that are open, sealed and dropped ...", style="dim")

    def ready() -> bool:
        for number in range(KEYS):
            world.send(f'{{"key": "k{number}", "value": 1.5}}')
        found = world.pipeline.catalog.windows(0, int(time.time() * 1000))
        states = {window.status for window in found if window.keys or not window.status.sealed}
        return {Status.OPEN, Status.SEALED, Status.DROPPED} <= states

    world.await_all(ready, "no window was dropped")


def _diagnosed(world: World, fault: Fault | None) -> tuple[bool, float, str]:
    """Whether one command names the fault, its seconds, and its output.

    Without a fault: whether it says that all is well.
    """
    command = [str(Path(sys.executable).with_name("tallyroll")), "doctor"]
    if fault is None:
        return _run(command, lambda status, _: status == 0)
    line = f"{fault.check} "

    def named(_status: int, output: str) -> bool:
        checks = output.split("\nok ")
        return any(line in part and fault.says in part for part in checks)

    with fault.plant(world):
        return _run([*command, *(["--deep"] if fault.deep else [])], named)


def _run(command: list[str], judged: Callable[[int, str], bool]) -> tuple[bool, float, str]:
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    took = time.monotonic() - began
    output = done.stdout + done.stderr
    return judged(done.returncode, output), took, output


if __name__ == "__main__":
    sys.exit(main())
