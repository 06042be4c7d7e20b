"""What a preflight looks at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tallyroll.errors import StoreError
from tallyroll.operations.doctor.checkup import Checkup
from tallyroll.operations.preflight.planned_deployment import USUAL, PlannedDeployment
from tallyroll.ports.account import Account, Canary, Identity
from tallyroll.ports.gauges import Gauges, Quota
from tallyroll.ports.table_listing import TableListing, window_of
from tallyroll.resources import Resources, declare


@dataclass
class Preflight:
    """An account, and the pipeline that is or will be there. `case` is the pipeline as it is
    deployed; `bucket` was passed in, if it is not ""; without a `canary` no table is made.
    """

    planned: PlannedDeployment
    case: Checkup
    account: Account
    gauges: Gauges
    tables: TableListing
    bucket: str
    canary: Canary | None

    @property
    def deployed(self) -> bool:
        """Whether the pipeline's functions are there."""
        return bool(self.case.deployed)

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.planned.settings.name

    @cached_property
    def resources(self) -> Resources:
        """What is to be deployed."""
        return declare(self.planned.settings)

    @cached_property
    def identity(self) -> Identity:
        """Who asks."""
        return self.account.identity()

    @cached_property
    def names(self) -> list[str]:
        """The names of all tables."""
        return list(self.tables.names())

    @cached_property
    def windows(self) -> list[str]:
        """The names of this pipeline's window tables."""
        prefix = self.resources.windows.name
        return [name for name in self.names if window_of(name, prefix)]

    def bootstrapped(self, role: str) -> str:
        """The ARN of a role that the CDK's bootstrap makes, such as `deploy-role`."""
        who = self.identity
        name = f"cdk-{self.planned.qualifier}-{role}-{who.account}-{who.region}"
        return f"arn:{who.partition}:iam::{who.account}:role/{name}"

    @property
    def bootstrapping(self) -> str:
        """The command that bootstraps the Region, without a backtick at its end."""
        who, qualifier = self.identity, self.planned.qualifier
        command = f"npx cdk bootstrap aws://{who.account}/{who.region}"
        return command if qualifier == USUAL else f"{command} --qualifier {qualifier}"

    def quota(self, quota: Quota) -> tuple[float | None, str]:
        """A quota, or None and why it is not known."""
        try:
            return self.gauges.quota(quota), ""
        except StoreError as error:
            return None, str(error)
