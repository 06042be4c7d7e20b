"""Takes down all that a trial may have left, by the pipeline's name, and says what stays."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from trial.account import Account

_WAIT_S, _TRIES = 5.0, 60
_ROUNDS = 15
TAG = "tallyroll"


@dataclass(frozen=True)
class Left:
    """Something that is still there, and the command that removes it."""

    what: str
    command: str


@dataclass(frozen=True)
class Remover:
    """Removes a pipeline with all that it holds: its archives, counts and messages, too."""

    account: Account
    name: str
    tell: Callable[[str], None]
    sleep: Callable[[float], None] = time.sleep
    _told: set[str] = field(default_factory=set)

    def run(self) -> list[Left]:
        """Remove everything; what is left. What cannot be removed does not keep the rest.

        It looks again and again: SQS lists a queue for a minute after its deletion, and a roller
        that was at work when the stack went may have made a table.
        """
        left: list[Left] = []
        for attempt in range(_ROUNDS):
            if attempt:
                self.sleep(_WAIT_S)
            self._remove(self._stack)  # first: while the roller runs, it makes tables
            for table in self._its_tables():
                self._remove(self._table, table)
            for url in self._its_queues():
                self._remove(self._queue, url)
            for bucket in self._its_buckets():
                self._remove(self._bucket, bucket)
            for group in self._its_logs():
                self._remove(self._log, group)
            left = self.left()
            if not left:
                break
        return left

    def _remove(self, remove: Callable[..., None], *what: str) -> None:
        try:
            remove(*what)
        except (BotoCoreError, ClientError) as error:
            self._tell_once(" ".join((*what, str(error))))

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self.tell(text)

    def left(self) -> list[Left]:
        """What is there of the pipeline."""
        commands = {}
        if self._stack_status():
            command = f"aws cloudformation delete-stack --stack-name {self.name}"
            commands[f"stack {self.name}"] = command
        for table in self._its_tables():
            commands[f"table {table}"] = (
                f"aws dynamodb update-table --table-name {table} --no-deletion-protection-enabled"
                f" && aws dynamodb delete-table --table-name {table}"
            )
        for url in self._its_queues():
            commands[f"queue {url}"] = f"aws sqs delete-queue --queue-url {url}"
        for bucket in self._its_buckets():
            commands[f"bucket {bucket}"] = (
                f"aws s3api delete-bucket --bucket {bucket}"
                "  (once all versions of its objects are deleted: *Empty* in the console)"
            )
        for group in self._its_logs():
            command = f"aws logs delete-log-group --log-group-name {group}"
            commands[f"log group {group}"] = command
        return [Left(what, command) for what, command in commands.items()]

    def _stack_status(self) -> str | None:
        cloudformation = self.account.client("cloudformation")
        try:
            [stack] = cloudformation.describe_stacks(StackName=self.name)["Stacks"]
        except ClientError as error:
            if "does not exist" in str(error):
                return None
            raise
        status: str = stack["StackStatus"]
        return None if status == "DELETE_COMPLETE" else status

    def _stack(self) -> None:
        for _ in range(_TRIES):  # an update that was interrupted goes on
            status = self._stack_status() or ""
            if not status.endswith("IN_PROGRESS") or status == "CREATE_IN_PROGRESS":
                break
            self.sleep(_WAIT_S)
        if self._stack_status():
            self._tell_once(f"deleting the stack {self.name}")
            cloudformation = self.account.client("cloudformation")
            cloudformation.delete_stack(StackName=self.name)
            cloudformation.get_waiter("stack_delete_complete").wait(StackName=self.name)

    def _its_tables(self) -> list[str]:
        pattern = re.compile(rf"{re.escape(self.name)}-(?:catalog|totals|\d{{8}}T\d{{6}}Z)")
        pages = self.account.client("dynamodb").get_paginator("list_tables").paginate()
        names = (name for page in pages for name in page["TableNames"])
        return sorted(name for name in names if pattern.fullmatch(name))

    def _table(self, table: str) -> None:
        self._tell_once(f"deleting the table {table}")
        dynamodb = self.account.client("dynamodb")
        unprotect = partial(dynamodb.update_table, DeletionProtectionEnabled=False)
        for call in (unprotect, dynamodb.delete_table):
            self._when_usable(partial(call, TableName=table))

    def _when_usable(self, call: Callable[[], Any]) -> None:
        """Call when a table that is being changed or exported takes it, or is gone."""
        for attempt in range(_TRIES):
            try:
                call()
            except ClientError as error:
                code = error.response["Error"]["Code"]
                if code == "ResourceNotFoundException":
                    return
                if code not in {"ResourceInUseException", "LimitExceededException"}:
                    raise
                if attempt == _TRIES - 1:
                    raise
                self.sleep(_WAIT_S)
            else:
                return

    def _its_queues(self) -> list[str]:
        sqs = self.account.client("sqs")
        wanted = {f"{self.name}-events", f"{self.name}-dead-letters"}
        urls = sqs.list_queues(QueueNamePrefix=f"{self.name}-").get("QueueUrls", [])
        return [url for url in urls if url.rpartition("/")[2] in wanted]

    def _queue(self, url: str) -> None:
        self.account.client("sqs").delete_queue(QueueUrl=url)

    def _its_buckets(self) -> list[str]:
        s3 = self.account.client("s3")
        found = []
        for bucket in s3.list_buckets()["Buckets"]:
            name: str = bucket["Name"]
            if name.startswith(f"{self.name}-"):
                try:
                    tags = s3.get_bucket_tagging(Bucket=name)["TagSet"]
                except ClientError:
                    continue
                if {"Key": TAG, "Value": self.name} in tags:
                    found.append(name)
        return found

    def _bucket(self, bucket: str) -> None:
        self._tell_once(f"emptying the bucket {bucket}")
        s3 = self.account.client("s3")
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
            versions = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
            objects = [{"Key": one["Key"], "VersionId": one["VersionId"]} for one in versions]
            if objects:
                s3.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
        s3.delete_bucket(Bucket=bucket)

    def _its_logs(self) -> list[str]:
        logs = self.account.client("logs")
        # Not those of a pipeline whose name only begins so.
        pattern = re.compile(
            rf"/aws/(?:lambda/{self.name}-[a-z]+|vendedlogs/apigateway/{self.name})"
        )
        groups = []
        for service in ("lambda", "vendedlogs/apigateway"):
            prefix = f"/aws/{service}/{self.name}"
            pages = logs.get_paginator("describe_log_groups").paginate(logGroupNamePrefix=prefix)
            groups += [one["logGroupName"] for page in pages for one in page["logGroups"]]
        return [group for group in groups if pattern.fullmatch(group)]

    def _log(self, group: str) -> None:
        self.account.client("logs").delete_log_group(logGroupName=group)
