"""A trial: a pipeline is deployed, counts a known load, and drops its windows, once an exporter."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from release.cdk_command import ROOT, CommandError, install, provide_python
from release.node import provide_node
from tallyroll.errors import StoreError
from tallyroll.model.states import Status, Window
from tallyroll.operations.deployed import deployed
from tallyroll.pipeline import Pipeline
from tallyroll.settings import Settings
from trial.account import Account
from trial.load import Load, Truth, send
from trial.measures import Measured, Metrics


class Step(StrEnum):
    """The steps of a trial, in their order; the first five once for each exporter. What each of
    them settles is in docs/deploy.md, "What is not proven on AWS".
    """

    DEPLOYING = "deploying"
    OPENING = "opening"
    SENDING = "sending"
    DROPPING = "dropping"
    KEYED = "keyed"  # only with a key
    COMPARING = "comparing"
    MEASURING = "measuring"
    REMOVING = "removing"


READ_MS = 30_000
_POLL_S = 5.0
_NO_TAGS = (
    "some are proven, and their tables stay. Do policies see tables' tags in this account?"
    " `tallyroll preflight` tries that"
)


class TrialError(Exception):
    """A trial cannot go on."""


@dataclass(frozen=True)
class Plan:
    """What a trial does.

    Args:
        exporters: One round of the load for each.
        minutes_most: How long it waits at the most for a round's windows to be dropped.
        metrics_s: How long AWS takes to show the last metrics.
        key: The ARN of the KMS key of all that is deployed; "" for AWS's own keys.
    """

    name: str
    window_seconds: int
    load: Load
    exporters: tuple[str, ...]
    minutes_most: float
    metrics_s: float
    key: str = ""

    def options(self, exporter: str) -> dict[str, Any]:
        """The deployment's options: everything as brief as it can be on AWS."""
        return {
            "name": self.name,
            "window_seconds": self.window_seconds,
            "accept_for_seconds": self.window_seconds,
            "skew_seconds": self.window_seconds,
            "retention_seconds": 0,
            "exporter": exporter,
            **({"kms_key": self.key} if self.key else {}),
        }


@dataclass
class Round:
    """What one exporter's round did.

    Attributes:
        windows: How many windows its events were in, and by which exporter they were archived.
        sealed: The events of these windows when they were sealed.
        seconds: What the parts took.
        unkeyed: Archived objects that are not under the trial's key, if it has one.
    """

    exporter: str
    truth: Truth = field(default_factory=Truth)
    windows: Counter[str] = field(default_factory=Counter)
    sealed: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    unkeyed: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        """What is wrong with it."""
        sent = sum(self.truth.events.values())
        found = []
        if self.sealed != sent:
            found.append(f"{self.exporter}: {sent:,} events were sent, {self.sealed:,} sealed")
        for exporter, windows in self.windows.items():
            if exporter != self.exporter:
                found.append(f"{self.exporter}: {windows} windows were archived by {exporter}")
        if self.unkeyed:
            objects, first = len(self.unkeyed), self.unkeyed[0]
            found.append(
                f"{self.exporter}: {objects} objects are not under the key, such as {first}"
            )
        return found


@dataclass
class Trial:
    """A trial in an account, step by step; what is known so far stays if it ends early.

    Attributes:
        counted: What the pipeline counts by key, where that differs from the truth: both numbers.
        dead_letters: Messages in the dead-letter queue.
    """

    account: Account
    plan: Plan
    folder: Path
    tell: Callable[[str], None]
    rounds: list[Round] = field(default_factory=list)
    counted: dict[str, tuple[int, int]] = field(default_factory=dict)
    compared: int = 0
    dead_letters: int = 0
    measured: Measured | None = None
    _told: str = ""

    def run(self) -> None:
        """Go through all of it. Raises CommandError, TrialError, SendingError and AWS's errors."""
        began = time.time()
        for exporter in self.plan.exporters:
            now = Round(exporter)
            self.rounds.append(now)
            self._step(now, Step.DEPLOYING, self._deploy)
            self._step(now, Step.OPENING, self._await_window)
            self._step(now, Step.SENDING, self._send)
            self._step(now, Step.DROPPING, self._await_end)
            if self.plan.key:
                self._step(now, Step.KEYED, self._check_key)
        self.tell(Step.COMPARING)
        self._compare()
        self.tell(f"{Step.MEASURING}: waiting {self.plan.metrics_s:.0f} s for the last metrics")
        time.sleep(self.plan.metrics_s)
        self.measured = self._measure(began)

    @property
    def problems(self) -> list[str]:
        """What was found wrong so far."""
        return [
            *(problem for one in self.rounds for problem in one.problems),
            *(f"{key}: {sent} sent, {got} counted" for key, (sent, got) in self.counted.items()),
            *([f"{self.dead_letters} dead letters"] if self.dead_letters else []),
        ]

    def _deploy(self, now: Round) -> None:
        """Deploy the pipeline with a round's exporter, by the CDK's command."""
        environment = dict(os.environ)
        provide_python(environment)
        provide_node(environment)
        options = self.plan.options(now.exporter)
        context = [f"--context=tallyroll:{name}={value}" for name, value in options.items()]
        command = [environment["JSII_NODE"], str(install()), "deploy", "--require-approval=never"]
        # Directly: a change set only takes longer, where nobody looks at it.
        command += ["--method=direct", "--no-previous-parameters", *context]
        command += ["--output", str(self.folder / "cdk.out")]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise CommandError(f"cdk deploy: status {done.returncode}\n{done.stdout}{done.stderr}")

    @cached_property
    def outputs(self) -> Mapping[str, str]:
        """The stack's outputs."""
        asked = self.account.client("cloudformation").describe_stacks(StackName=self.plan.name)
        return {one["OutputKey"]: one["OutputValue"] for one in asked["Stacks"][0]["Outputs"]}

    @cached_property
    def pipeline(self) -> Pipeline:
        """The deployed pipeline's use cases, with the deployment's settings."""
        named = Settings(name=self.plan.name)
        settings = deployed(named, Pipeline(named).deployment, self.tell).settings
        queue, bucket = self.outputs["QueueUrl"], self.outputs["BucketName"]
        return Pipeline(replace(settings, queue_url=queue, bucket=bucket))

    def _step(self, now: Round, name: Step, work: Callable[[Round], None]) -> None:
        self.tell(f"{now.exporter}: {name}")
        began = time.monotonic()
        try:
            work(now)
        finally:
            now.seconds[name] = time.monotonic() - began

    def _await_window(self, _now: Round) -> None:
        """Until the current window takes events: the roller's first runs make it."""

        def is_open() -> bool:
            now = self.pipeline.effects.now()
            length = self.plan.window_seconds * 1000
            found = self.pipeline.catalog.windows(now - 2 * length, now + 1)
            return any(one.status is Status.OPEN and one.start <= now < one.end for one in found)

        self._until(is_open, "no window is open")

    def _send(self, now: Round) -> None:
        """Send a round's events, until the writer has counted some of them."""
        send(self.plan.load, now.truth, self.account.client("sqs"), self.outputs["QueueUrl"])
        [(key, _)] = now.truth.events.most_common(1)
        before = sum(one.truth.events[key] for one in self.rounds if one is not now)

        def counts() -> bool:
            found = self.pipeline.reader.count(key, None, None, READ_MS, consistent=True)
            return found.events > before

        self._until(counts, "no event was counted")

    def _await_end(self, now: Round) -> None:
        """Until the windows of a round's events are dropped."""

        def all_dropped() -> bool:
            found = self._windows(now.truth)
            states = Counter(str(one.status) for one in found)
            self._tell_change(", ".join(f"{n} {state}" for state, n in sorted(states.items())))
            return states.keys() == {Status.DROPPED}

        try:
            self._until(all_dropped, "its windows are not dropped")
        except TrialError as error:
            if any(one.status is Status.DROPPING for one in self._windows(now.truth)):
                raise TrialError(f"{error}; {_NO_TAGS}") from None
            raise
        finally:
            found = self._windows(now.truth)
            now.windows = Counter(one.attempt.exporter or "nobody yet" for one in found)
            now.sealed = sum(one.events or 0 for one in found)

    def _check_key(self, now: Round) -> None:
        """See that all that was archived of the round's windows lies under the key."""
        s3, bucket = self.account.client("s3"), self.outputs["BucketName"]
        for window in self._windows(now.truth):
            pages = s3.get_paginator("list_objects_v2").paginate(
                Bucket=bucket, Prefix=window.attempt.archive
            )
            for name in (one["Key"] for page in pages for one in page.get("Contents", ())):
                head = s3.head_object(Bucket=bucket, Key=name)
                if head.get("SSEKMSKeyId") != self.plan.key:
                    now.unkeyed.append(name)

    def _windows(self, truth: Truth) -> list[Window]:
        length = self.plan.window_seconds * 1000
        found = self.pipeline.catalog.windows(truth.since - length, truth.until + 1)
        return [one for one in found if one.end > truth.since]

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + 60 * self.plan.minutes_most
        while not self._holds(holds):
            if time.monotonic() > deadline:
                raise TrialError(f"after {self.plan.minutes_most:g} minutes {what}")
            time.sleep(min(_POLL_S, self.plan.window_seconds / 10))

    def _holds(self, holds: Callable[[], bool]) -> bool:
        try:
            return holds()
        except StoreError as error:  # the next look may be answered
            self._tell_change(str(error))
            return False

    def _tell_change(self, text: str) -> None:
        if text != self._told:
            self._told = text
            self.tell(text)

    def _compare(self) -> None:
        """Count every key, and compare with what was sent in all rounds."""
        sent: Counter[str] = Counter()
        for one in self.rounds:
            sent.update(one.truth.events)
        self.compared = len(sent)
        for key, events in sorted(sent.items()):
            count = self.pipeline.reader.count(key, None, None, READ_MS, consistent=True)
            if not count.complete or count.events != events:
                self.counted[key] = (events, count.events)
        name = "ApproximateNumberOfMessages"
        asked = self.account.client("sqs").get_queue_attributes(
            QueueUrl=self.outputs["DeadLettersUrl"], AttributeNames=[name]
        )
        self.dead_letters = int(asked["Attributes"][name])

    def _measure(self, began: float) -> Measured:
        cloudformation = self.account.client("cloudformation")
        pages = cloudformation.get_paginator("list_stack_resources").paginate(
            StackName=self.plan.name
        )
        functions = [
            one["PhysicalResourceId"]
            for page in pages
            for one in page["StackResourceSummaries"]
            if one["ResourceType"] == "AWS::Lambda::Function"
        ]
        now = time.time()
        windows = self.pipeline.catalog.windows(int(began * 1000), int(now * 1000))
        tables = [self.outputs["CatalogTable"], self.outputs["TotalsTable"]]
        tables += [one.table for one in windows]
        metrics = Metrics(self.account.client("cloudwatch"), self.plan.name)
        return metrics.measured(began, now, functions, tables)

    def as_json(self) -> dict[str, Any]:
        """All that is known so far."""
        return {
            "account": self.account.id,
            "region": self.account.session.region_name,
            "pipeline": self.plan.name,
            "rounds": [
                {
                    "exporter": one.exporter,
                    "events": sum(one.truth.events.values()),
                    "messages": one.truth.messages,
                    "sealed": one.sealed,
                    "windowsByExporter": dict(one.windows),
                    "seconds": one.seconds,
                }
                for one in self.rounds
            ],
            "keysCompared": self.compared,
            "problems": self.problems,
            "measured": self.measured and self.measured.as_json(),
            "dollars": self.measured and self.measured.bill(self.sent),
        }

    @property
    def sent(self) -> int:
        """How many messages were sent."""
        return sum(one.truth.messages for one in self.rounds)

    def write(self, path: Path) -> None:
        """Write what is known to a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.as_json(), indent=2) + "\n", encoding="utf-8")
