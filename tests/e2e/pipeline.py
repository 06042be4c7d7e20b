"""The deployed pipeline, running: its functions on the emulators, and what calls them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import boto3

from local.runtime.packages import lay_out_runtime
from tests.e2e.deployment import REGION, Deployed, Json
from tests.e2e.lambda_runtime import DeployedFunction
from tests.e2e.triggers import EventSource, HttpApi, Schedules


def started(
    deployment: Deployed, folder: Path, dynamodb_endpoint: str, endpoint: str = ""
) -> DeployedPipeline:
    """The pipeline of a deployment, on DynamoDB Local, whose tables are made; to be closed.

    `endpoint` is the address of all other services, by default that of the deployment.
    """
    made = unpacked(deployment, folder, dynamodb_endpoint, endpoint=endpoint)
    made.make_tables()
    return made


def unpacked(
    deployment: Deployed,
    folder: Path,
    dynamodb_endpoint: str,
    changed: Mapping[str, str] = MappingProxyType({}),
    layers: Sequence[Path] = (),
    endpoint: str = "",
) -> DeployedPipeline:
    """The pipeline of a deployment, from its zip, on tables that are there; to be closed."""
    code = deployment.zip_of(deployment.function_arn("writer"))
    zipfile.ZipFile(io.BytesIO(code)).extractall(folder / "task")
    lay_out_runtime(folder / "runtime")
    addresses = {
        "AWS_ENDPOINT_URL": endpoint or deployment.endpoint,
        "AWS_ENDPOINT_URL_DYNAMODB": dynamodb_endpoint,
    }
    return DeployedPipeline(deployment, folder, addresses, changed, layers)


class DeployedPipeline:
    """The functions of a deployment, its event source, HTTP API and schedules.

    Args:
        changed: Variables that differ from the deployed ones.
        layers: Where the packages of the functions' layers are.

    Attributes:
        functions: By the package of the handler.
    """

    def __init__(
        self,
        deployment: Deployed,
        folder: Path,
        addresses: dict[str, str],
        changed: Mapping[str, str] = MappingProxyType({}),
        layers: Sequence[Path] = (),
    ) -> None:
        self.deployment = deployment
        self.folder = folder
        self.addresses = addresses
        self.arns = {
            found["Handler"].split(".")[1]: arn for arn, found in deployment.functions.items()
        }
        self.functions = {
            package: DeployedFunction(
                deployment.functions[arn],
                folder / "task",
                folder / "runtime",
                addresses,
                changed,
                layers,
            )
            for package, arn in self.arns.items()
        }
        self.events = EventSource(deployment, self._invoke)
        self.api = HttpApi(deployment, self._invoke)
        self.schedules = Schedules(deployment, self._invoke)
        self.dynamodb: Any = boto3.client(
            "dynamodb", endpoint_url=addresses["AWS_ENDPOINT_URL_DYNAMODB"], region_name=REGION
        )
        self._sqs = deployment.client("sqs")

    def send(self, *bodies: str) -> list[str]:
        """Send messages to the deployed queue; their ids."""
        queue = self.deployment.outputs["QueueUrl"]
        sent = [self._sqs.send_message(QueueUrl=queue, MessageBody=body) for body in bodies]
        return [reply["MessageId"] for reply in sent]

    def dead_letters(self) -> list[Json]:
        """Take all messages out of the deployed dead-letter queue."""
        queue = self.deployment.outputs["DeadLettersUrl"]
        found: list[Json] = []
        while True:
            asked = self._sqs.receive_message(
                QueueUrl=queue, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
            )
            messages = asked.get("Messages", [])
            for message in messages:
                self._sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
            if not messages:
                return found
            found += messages

    def tables(self) -> set[str]:
        """The names of all tables in DynamoDB Local."""
        pages = self.dynamodb.get_paginator("list_tables").paginate()
        return {name for page in pages for name in page["TableNames"]}

    def archived(self) -> list[str]:
        """The keys of all objects in the deployed bucket."""
        bucket = self.deployment.outputs["BucketName"]
        listed = self.deployment.client("s3").list_objects_v2(Bucket=bucket)
        return [found["Key"] for found in listed.get("Contents", [])]

    def make_tables(self, renamed: Callable[[str], str] = str) -> None:
        """Make the deployed tables in DynamoDB Local too: moto's transactions are not isolated."""
        for table in self.deployment.tables():
            name = renamed(table["TableName"])
            self.dynamodb.create_table(**{**table, "TableName": name})
            self.dynamodb.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1})

    def close(self) -> None:
        """End the functions."""
        for function in self.functions.values():
            function.close()

    def _invoke(self, arn: str, event: Any) -> Any:
        [package] = [package for package, its in self.arns.items() if its == arn]
        return self.functions[package].invoke(event)
