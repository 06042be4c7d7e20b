"""A pipeline that `cdk deploy` has deployed to a moto server, and what moto says is there."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Self
from urllib.parse import urlsplit

import boto3
from botocore.config import Config

from local.aws.guard import spawn_guarded
from release.cdk_command import ROOT
from tests.e2e import cdk_command
from tests.e2e.cdk_command import written_to

ACCOUNT, REGION = "123456789012", "us-east-1"  # moto's
ASSETS = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"  # the bucket that `cdk bootstrap` makes
START_TIMEOUT_S = 60.0
TIMEOUTS_S = {"bootstrap": 60.0, "deploy": 150.0, "destroy": 60.0}

Json = dict[str, Any]


class MotoServer:
    """The process of `tests.e2e.aws_server`, inside the `with` block."""

    def __init__(self) -> None:
        self.endpoint = ""
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed in __exit__)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Start it. Raises RuntimeError with its output if it does not listen in time."""
        with ExitStack() as stack:
            stack.enter_context(self._errors)
            command = [sys.executable, "-m", "tests.e2e.aws_server"]
            process = spawn_guarded(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=self._errors)
            stack.callback(process.stop)
            assert process.stdout
            stack.enter_context(process.stdout)
            ready, _, _ = select.select([process.stdout], [], [], START_TIMEOUT_S)
            port = process.stdout.readline().strip() if ready else b""
            if not port.isdigit():
                raise RuntimeError(f"the moto server did not start:\n{self.complaints()}")
            self.endpoint = f"http://127.0.0.1:{int(port)}"
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def complaints(self) -> str:
        """What it wrote to stderr so far: the tracebacks of requests that it could not answer."""
        return written_to(self._errors)


def addresses_of(endpoint: str) -> dict[str, str]:
    """The variables that lead the CDK's command to a moto server."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        # Templates' addresses name the bucket in the host, which an IP address cannot.
        "AWS_ENDPOINT_URL_S3_FOR_CLOUDFORMATION": f"http://localhost:{urlsplit(endpoint).port}",
    }


class Deployed:
    """What a moto server has of the stack of a name."""

    def __init__(self, name: str, endpoint: str) -> None:
        self.name = name
        self.endpoint = endpoint

    @cached_property
    def outputs(self) -> Mapping[str, str]:
        """The stack's outputs, by name."""
        [stack] = self.client("cloudformation").describe_stacks(StackName=self.name)["Stacks"]
        return {found["OutputKey"]: found["OutputValue"] for found in stack["Outputs"]}

    def client(self, service: str) -> Any:
        """A boto3 client of a service that it is deployed to."""
        made: Any = boto3.client(
            service,  # type: ignore[call-overload]
            endpoint_url=self.endpoint,
            region_name=REGION,
            config=Config(retries={"total_max_attempts": 1, "mode": "standard"}),
        )
        return made

    @cached_property
    def functions(self) -> dict[str, Json]:
        """Lambda's configurations of the functions, by ARN."""
        listed = self.client("lambda").list_functions()["Functions"]
        return {function["FunctionArn"]: function for function in listed}

    def function_arn(self, package: str) -> str:
        """The ARN of the function whose handler lies in a package of `functions`."""
        handler = f"functions.{package}.handler.handler"
        [arn] = [arn for arn, found in self.functions.items() if found["Handler"] == handler]
        return arn

    def physical_ids(self) -> dict[str, str]:
        """The physical ids of the stack's resources, by logical id."""
        pages = self.client("cloudformation").get_paginator("list_stack_resources")
        return {
            one["LogicalResourceId"]: one["PhysicalResourceId"]
            for page in pages.paginate(StackName=self.name)
            for one in page["StackResourceSummaries"]
        }

    def zip_of(self, arn: str) -> bytes:
        """The code of a function, from where its deployment put it."""
        found = self.client("lambda").get_function(FunctionName=arn)
        key = urlsplit(found["Code"]["Location"]).path.lstrip("/")
        # The location names a bucket of AWS's own, into which moto copies nothing.
        body: bytes = self.client("s3").get_object(Bucket=ASSETS, Key=key)["Body"].read()
        return body

    def tables(self) -> list[Json]:
        """CreateTable's parameters of the deployed tables, as far as every engine takes them."""
        client = self.client("dynamodb")
        described = [client.describe_table(TableName=t)["Table"] for t in self._table_names()]
        wanted = ("TableName", "KeySchema", "AttributeDefinitions")
        return [
            {name: table[name] for name in wanted}
            | {"BillingMode": table["BillingModeSummary"]["BillingMode"]}
            for table in described
        ]

    def _table_names(self) -> list[str]:
        names: list[str] = self.client("dynamodb").list_tables()["TableNames"]
        return names


class Deployment(Deployed):
    """The stack of a name, deployed by `cdk bootstrap` and `cdk deploy`.

    Attributes:
        seconds: What the parts took, s.
        template: What was synthesized, and `made` the ids of its resources that moto has made.
    """

    def __init__(self, name: str, endpoint: str, folder: Path, *, deploy: bool = True) -> None:
        super().__init__(name, endpoint)
        self.seconds: dict[str, float] = {}
        self.template: Json = {}
        self._folder = folder
        self._bootstrap()
        if deploy:
            self.deploy("--method=direct", "--no-previous-parameters")

    @cached_property
    def made(self) -> set[str]:
        """The logical ids of the template's resources that moto has."""
        return self.physical_ids().keys() & set(self.template["Resources"])

    def destroy(self) -> None:
        """Delete the stack by `cdk destroy`, from the assembly that was deployed."""
        assembly = str(self._folder / "cdk.out")
        self._cdk("destroy", [self.name, "--app", assembly, "--force"], ROOT)

    def _bootstrap(self) -> None:
        # Outside the project's directory, or the command would synthesize the app first.
        quiet = ("--no-notices", "--no-version-reporting")
        self._cdk("bootstrap", [f"aws://{ACCOUNT}/{REGION}", *quiet], self._folder)

    def deploy(self, *chosen: str) -> None:
        """Synthesize and deploy by `cdk deploy`. Raises CommandError."""
        arguments = [*chosen, "--require-approval=never"]
        arguments += ["--context", f"tallyroll:name={self.name}"]
        arguments += ["--output", str(self._folder / "cdk.out")]
        said = self._cdk("deploy", arguments, ROOT)
        template = self._folder / "cdk.out" / f"{self.name}.template.json"
        self.template = json.loads(template.read_text())
        if took := re.search(r"Synthesis time: ([\d.]+)s", said):
            self.seconds["deploy: synthesis"] = float(took[1])

    def _cdk(self, verb: str, arguments: list[str], folder: Path) -> str:
        # pip's settings are for the driver's layer.
        credentials = {
            name: text for name, text in os.environ.items() if name.startswith(("AWS_", "PIP_"))
        }
        began = time.monotonic()
        said = cdk_command.run(
            [verb, *arguments],
            folder=folder,
            home=self._folder / "cdk-home",
            environment={**credentials, **addresses_of(self.endpoint)},
            timeout_s=TIMEOUTS_S[verb],
        )
        self.seconds[verb] = time.monotonic() - began
        return said
