"""The account that a trial runs in: whose it is, whether it looks like production, what is in the
way there.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from release.cdk_command import ROOT
from tallyroll.operations.preflight.planned_deployment import qualifier_of

_PRODUCTION = re.compile(r"(?:^|[^a-z])(?:prod|prd|production|live)(?:[^a-z]|$)")
CDK_FILE = ROOT / "cdk.json"
_OURS = "Tallyroll pipeline "  # a stack's description begins so
_GONE = "DELETE_COMPLETE"


class AccountError(Exception):
    """A trial cannot begin; the message says why, and the remedy."""


@dataclass(frozen=True)
class Account:
    """What the caller's credentials and Region lead to."""

    region: str | None = None
    _clients: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def session(self) -> Any:
        """The boto3 session. Raises AccountError without a Region."""
        made = boto3.Session(region_name=self.region)
        if made.region_name is None:
            raise AccountError("no Region is set: give AWS_REGION=eu-west-1, for instance")
        return made

    def client(self, service: str) -> Any:
        """The client of a service."""
        if service not in self._clients:
            config = Config(retries={"mode": "standard"})
            self._clients[service] = self.session.client(service, config=config)
        return self._clients[service]

    @cached_property
    def id(self) -> str:
        """The account's id."""
        found: str = self.client("sts").get_caller_identity()["Account"]
        return found

    @property
    def where(self) -> str:
        """Account and Region in words."""
        return f"account {self.id}, Region {self.session.region_name}"

    def check(self, named: str | None, pipeline: str) -> None:
        """Raise AccountError if the account is not the one that was `named`; if none was, and it
        looks like production; or if something is in the way of a pipeline of this name.
        """
        if named and named != self.id:
            raise AccountError(
                f"ACCOUNT={named} is not the caller's: these credentials are of {self.where}"
            )
        signs = self.signs_of_production(pipeline)
        if signs and not named:
            raise AccountError(
                f"{self.where} looks like production: {'; '.join(signs)}."
                f" If it is for trials all the same, name it: ACCOUNT={self.id}"
            )
        context = json.loads(CDK_FILE.read_text("utf-8"))["context"]  # a trial deploys by it
        if not self._has_parameter(f"/cdk-bootstrap/{qualifier_of(context)}/version"):
            raise AccountError(
                f"{self.where} is not bootstrapped for the CDK: run"
                " `make deploy CDK=bootstrap` once"
            )

    def signs_of_production(self, pipeline: str) -> list[str]:
        """Why the account looks like production; empty: it does not."""
        try:
            aliases = self.client("iam").list_account_aliases()["AccountAliases"]
        except ClientError as error:
            signs = [f"its alias cannot be read ({error.response['Error']['Code']})"]
        else:
            signs = [f"its alias is {name}" for name in aliases if _PRODUCTION.search(name)]
        pages = self.client("cloudformation").get_paginator("describe_stacks").paginate()
        others = sorted(
            stack["StackName"]
            for page in pages
            for stack in page["Stacks"]
            if stack.get("Description", "").startswith(_OURS)
            and stack["StackName"] != pipeline
            and stack["StackStatus"] != _GONE
        )
        if others:
            signs.append(f"it has pipelines: {', '.join(others)}")
        return signs

    def _has_parameter(self, name: str) -> bool:
        ssm = self.client("ssm")
        try:
            ssm.get_parameter(Name=name)
        except ssm.exceptions.ParameterNotFound:
            return False
        return True
