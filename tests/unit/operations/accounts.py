"""An account that a test describes, before a preflight."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tallyroll.errors import Refused, StoreError
from tallyroll.model.states import Calendar
from tallyroll.model.windows import Grid
from tallyroll.operations.doctor.checkup import Check, Level, Sign
from tallyroll.operations.preflight.case import Preflight
from tallyroll.operations.preflight.checks import preflight
from tallyroll.operations.preflight.planned_deployment import QUALIFIER, USUAL, wish_of
from tallyroll.ports.account import BucketFacts, Concurrency, Identity, KeyFacts, WriteLimits
from tallyroll.ports.gauges import Quota
from tallyroll.ports.table_listing import TableCard
from tests.cli.command_line import FakeGauges
from tests.docs.commands import check, of_sentences
from tests.harness.doctoring import FakeStack, case_of
from tests.harness.pipeline import Pipeline

DENIED = Refused("Call: AccessDeniedException: no", "AccessDeniedException")
ROLE = "arn:aws:iam::1:role/Deployer"
KEY = "arn:aws:kms:eu-west-1:123456789012:key/11111111-2222-3333-4444-555555555555"
SESSION = "arn:aws:sts::1:assumed-role/Deployer/me"


@dataclass
class FakeAccount:
    """An account with what a test has put there; what is an error is raised."""

    who: Identity = field(
        default_factory=lambda: Identity(
            "1", "arn:aws:sts::1:assumed-role/Deployer/me", "eu-west-1"
        )
    )
    role: Any = ROLE
    at_once: Any = field(default_factory=lambda: Concurrency(1_000, 1_000))
    units: Any = field(default_factory=lambda: WriteLimits(80_000, 40_000))
    bootstrap: Any = 21
    qualifier: str = USUAL
    stack: Any = None
    queues: Mapping[str, str] = field(default_factory=dict)
    groups: Sequence[str] = ()
    held: Any = field(default_factory=lambda: BucketFacts("eu-west-1", versioned=True))
    held_key: Any = field(default_factory=lambda: KeyFacts("eu-west-1", "Enabled", symmetric=True))
    policy: Any = ""
    log_role: Any = ""
    deliveries: Any = field(default_factory=dict)

    def identity(self) -> Identity:
        return self.who

    def principal(self, identity: Identity) -> str:
        return str(given(self.role))

    def concurrency(self) -> Concurrency:
        found: Concurrency = given(self.at_once)
        return found

    def write_limits(self) -> WriteLimits:
        found: WriteLimits = given(self.units)
        return found

    def bootstrap_version(self, qualifier: str) -> int | None:
        found: int | None = given(self.bootstrap) if qualifier == self.qualifier else None
        return found

    def stack_status(self, name: str) -> str | None:
        found: str | None = given(self.stack)
        return found

    def queue_url(self, name: str) -> str | None:
        return self.queues.get(name)

    def log_groups(self, prefix: str) -> Sequence[str]:
        return [name for name in self.groups if name.startswith(prefix)]

    def bucket(self, name: str) -> BucketFacts:
        found: BucketFacts = given(self.held)
        return found

    def key(self, arn: str) -> KeyFacts:
        found: KeyFacts = given(self.held_key)
        return found

    def key_policy(self, arn: str) -> str:
        return str(given(self.policy or POLICY))

    def api_log_role(self) -> str:
        return str(given(self.log_role))

    def log_policies(self) -> Mapping[str, str]:
        found: Mapping[str, str] = given(self.deliveries)
        return found


def key_policy(
    allowed: str = "arn:aws:iam::1:root",
    logs: str = "logs.eu-west-1.amazonaws.com",
    *more: Mapping[str, Any],
) -> str:
    """A key's policy as the documents advise, of which a test changes a part."""
    used = ["kms:De*", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"]
    statements = [
        {"Effect": "Allow", "Principal": {"AWS": allowed}, "Action": "kms:*", "Resource": "*"},
        {"Effect": "Allow", "Principal": {"Service": logs}, "Action": used, "Resource": "*"},
        *more,
    ]
    return json.dumps({"Statement": statements})


POLICY = key_policy()


def given(value: Any) -> Any:
    if isinstance(value, StoreError):
        raise value
    return value


@dataclass
class FakeTables:
    """Tables of these names."""

    there: Sequence[str] = ()

    def names(self) -> Iterator[str]:
        yield from self.there

    def card(self, table: str) -> TableCard | None:
        return None

    def tags(self, card: TableCard) -> Mapping[str, str] | None:
        return None

    def recovery(self, card: TableCard) -> bool | None:
        return None

    def expires_by(self, card: TableCard) -> str | None:
        return None

    def protect(self, table: str) -> None:
        """Nothing is protected here."""


@dataclass
class FakeRights:
    """An identity that may not do what is `refused`."""

    refused: Sequence[str] = ()
    error: StoreError | None = None
    asked: dict[str, Sequence[str]] = field(default_factory=dict)
    identities: list[str] = field(default_factory=list)

    def denied(self, identity: str, wanted: Mapping[str, Sequence[str]]) -> Sequence[str]:
        if self.error:
            raise self.error
        self.asked.update(wanted)
        self.identities.append(identity)
        calls = [f"{action} on {arn}" for arn, actions in wanted.items() for action in actions]
        return [call for call in calls if any(one in call for one in self.refused)]


QUOTAS: dict[Quota, float | StoreError] = {Quota.TABLES: 2_500.0, Quota.TABLE_WRITES: 40_000.0}


def looked(
    account: FakeAccount | None = None,
    *,
    tables: Sequence[str] = (),
    quotas: Mapping[Quota, float | StoreError] | None = None,
    rights: FakeRights | None = None,
    stack: FakeStack | None = None,
    deployed: bool | None = False,
    bucket: str = "",
    canary: Any = None,
    qualifier: str = USUAL,
    windows: Grid | None = None,
    **context: Any,
) -> dict[str, Check]:
    """The checks of a preflight, by name; the context is that of the CDK."""
    options = {f"tallyroll:{name}": value for name, value in context.items()}
    planned = wish_of({**options, QUALIFIER: qualifier}, {})
    pipeline = Pipeline()
    if windows:
        pipeline.catalog.found(Calendar(windows, 0))
    made = case_of(
        pipeline, stack=stack or FakeStack(), rights=rights or FakeRights(), deployed=deployed
    )
    gauges = FakeGauges(quotas=dict(quotas or QUOTAS))
    of = Preflight(
        planned, made, account or FakeAccount(), gauges, FakeTables(tables), bucket, canary
    )
    return {each.name: each for each in preflight(of)}


def only(found: Mapping[str, Check], name: str, level: Level) -> Sign:
    """The one bad sign of a check, of this level, whose remedy's commands are right."""
    [sign] = found[name].bad
    assert sign.level is level, sign
    for command in of_sentences(name, sign.remedy):
        check(command)
    return sign
