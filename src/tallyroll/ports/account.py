"""An account and Region into which a pipeline is deployed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks: the account's number, the identity's ARN, and the Region that is asked."""

    account: str
    arn: str
    region: str

    @property
    def partition(self) -> str:
        """The part of AWS, such as `aws` or `aws-cn`."""
        return self.arn.split(":")[1]


@dataclass(frozen=True, slots=True)
class Concurrency:
    """How many functions may run at once: all, and those without a reserve of their own."""

    limit: int
    unreserved: int


@dataclass(frozen=True, slots=True)
class WriteLimits:
    """The most write units a second that can be provisioned, for all tables and for one."""

    account: int
    table: int


@dataclass(frozen=True, slots=True)
class BucketFacts:
    """A bucket's Region, and whether it keeps versions."""

    region: str
    versioned: bool


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """A KMS key's Region, AWS's word for its state (`Enabled`), and whether it is a symmetric one
    that encrypts.
    """

    region: str
    state: str
    symmetric: bool


class Account(Protocol):
    """An account in a Region. All reads raise StoreError."""

    def identity(self) -> Identity:
        """Who asks."""

    def principal(self, identity: Identity) -> str:
        """The ARN by which an identity's policies can be simulated; "" if they cannot."""

    def concurrency(self) -> Concurrency:
        """The limits of functions."""

    def write_limits(self) -> WriteLimits:
        """The limits of provisioned tables."""

    def bootstrap_version(self, qualifier: str) -> int | None:
        """The version of the CDK's bootstrap of this qualifier; None if there is none."""

    def stack_status(self, name: str) -> str | None:
        """The status of a stack, in capitals; None if there is none."""

    def queue_url(self, name: str) -> str | None:
        """A queue's URL; None if there is none."""

    def log_groups(self, prefix: str) -> Sequence[str]:
        """The names of all log groups that begin so."""

    def bucket(self, name: str) -> BucketFacts:
        """A bucket's facts. Raises Missing; Refused if it is another account's."""

    def key(self, arn: str) -> KeyFacts:
        """A KMS key's facts. Raises Missing."""

    def key_policy(self, arn: str) -> str:
        """A KMS key's policy as JSON."""

    def api_log_role(self) -> str:
        """The ARN of the role by which API Gateway writes the logs of REST APIs; "" for none."""

    def log_policies(self) -> Mapping[str, str]:
        """The account's resource policies of CloudWatch Logs in this Region, as JSON by name."""


class Canary(Protocol):
    """An empty table whose policy denies everybody to delete it without the tag `proven`."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def arn(self) -> str:
        """Its ARN; "" if it does not exist. Raises StoreError."""

    def make(self) -> None:
        """Make it, and wait until it can be deleted. Raises StoreError."""

    def tag(self) -> None:
        """Give it the tag. Raises StoreError."""

    def drop(self) -> bool:
        """Delete it; False if that is denied. Raises StoreError. Does nothing if it is gone."""

    def unguard(self) -> None:
        """Take its policy off. Raises StoreError."""
