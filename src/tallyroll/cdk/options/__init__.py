"""The options of a deployment: the keys `tallyroll:...` of the CDK's context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Unpack

from tallyroll.cdk.options.derived import Given, settings_of
from tallyroll.cdk.options.kinds import (
    EMAIL,
    ENDPOINT,
    JWT_AUDIENCES,
    JWT_ISSUER,
    KMS_KEY,
    LAYER_VERSION,
    RUNBOOK_URL,
    AutoFlag,
    Flag,
    OneOf,
    Pollers,
    Tagged,
    Whole,
    ids,
)
from tallyroll.cdk.options.kinds import option as _option
from tallyroll.cdk.options.rules import (
    LOG_DAYS,
    MAX_CONCURRENCY,
    POLLER_INVOCATIONS_MAX,
    PREFIX,
    RUNTIMES,
    VISIBILITY_BATCHES,
    WRITER_TIMEOUT_SECONDS,
    both_given,
    check_names,
    check_together,
    read_option,
)
from tallyroll.cdk.options.windows import WindowOptions
from tallyroll.limits import RECEIVES_FUSE, VISIBILITY_MS
from tallyroll.settings import Settings

_DEFAULTS = Settings()


@dataclass(frozen=True, kw_only=True)
class Options(WindowOptions):
    """A deployment's options; each is given by the context key `tallyroll:{name}`. Values may be
    text, as `cdk -c` gives them.

    Raises OptionsError for a value out of its range, and for values that contradict each other.
    """

    # The ranges of the event source: AWS Lambda Developer Guide, "Using Lambda with Amazon SQS".
    batch_size: int = _option(
        1_000, Whole(1, 10_000), "the most messages that the writer is given at once"
    )
    batch_window_seconds: int = _option(
        1,
        Whole(0, 300),
        "how long Lambda gathers a batch, s; events count that much later at the most",
    )
    max_concurrency: int = _option(
        MAX_CONCURRENCY,
        Whole(2, 1_000),
        "the most writers at once; a new account runs 10 functions at once, all told",
    )
    pollers: Mapping[str, int] = _option(
        {},
        Pollers(),
        "Lambda's provisioned pollers of the queue, charged by the hour, each for ten writers at"
        ' most, instead of `max_concurrency`: `{"min": 2, "max": 20}`; `{}`: none',
    )
    reserved_concurrency: int | None = _option(
        None,
        Whole(2, 1_000, unset=True),
        "concurrency set aside for the writer; unset: none, since a new account has none to spare",
    )
    rollout: str = _option(
        "none",
        OneOf(("none", "at-once", "canary")),
        "how a new writer takes over: `none`: it gets all batches at once; `canary`: a tenth of"
        " them for half an hour, and on an alarm the old writer gets them back; `at-once`: all"
        " batches at once, in a pipeline that uses `canary` otherwise",
    )
    architecture: str = _option(
        "arm64", OneOf(("arm64", "x86_64")), "the functions' processor architecture"
    )
    runtime: str = _option(
        RUNTIMES[0],
        OneOf(RUNTIMES),
        "the functions' Lambda runtime; with another one than the asset was built for, functions"
        " start more slowly",
    )
    boto3: str = _option(
        "runtime",
        OneOf(("runtime", "pinned")),
        "whose boto3 the functions run: Lambda's runtime's, or the lock file's, in the asset",
    )
    tracing: bool = _option(
        default=False, kind=Flag(), doc="Lambda's own X-Ray segments; no library is imported"
    )
    tracer: bool = _option(
        _DEFAULTS.tracer,
        Flag(),
        "Powertools' Tracer: X-Ray segments of each handler and each call of AWS; functions start"
        " more slowly",
    )
    tracing_layer: str = _option(
        "",
        LAYER_VERSION,
        "with `tracing`: ARN of AWS's layer for OpenTelemetry in this Region, which adds a span for"
        " each call of AWS; functions start more slowly",
    )
    vpc_subnets: str = _option(
        "",
        ids("subnet"),
        "the subnets of a VPC that the functions run in, separated by commas; unset: in no VPC",
    )
    vpc_security_groups: str = _option(
        "",
        ids("sg", most=5),
        "with `vpc_subnets`: the functions' security groups, separated by commas",
    )
    snap_start: bool = _option(
        default=False,
        kind=Flag(),
        doc="start the aggregator from a snapshot, charged; from `runtime` python3.12 on",
    )
    log_days: int = _option(30, OneOf(LOG_DAYS), "how long logs are kept, days")
    tags: Mapping[str, str] = _option(
        {},
        Tagged(),
        "tags of all that is deployed, and of the window tables that are made from then on:"
        ' `{"team": "elections"}`',
    )
    kms_key: str = _option(
        "",
        KMS_KEY,
        "ARN of the KMS key of all that is deployed, and of the window tables that are made from"
        " then on; unset: AWS's own keys",
    )
    deny_drops: bool = _option(
        _DEFAULTS.deny_drops,
        Flag(),
        "whether window tables that are made from then on have a resource policy that denies"
        " everybody, also administrators, to delete them before they are proven",
    )
    deny_sqs_redrive: bool = _option(
        default=True, kind=Flag(), doc="whether the dead-letter queue denies SQS's own redrive"
    )
    redrive_allow_policy: bool = _option(
        default=True, kind=Flag(), doc="whether the dead-letter queue names its only source queue"
    )
    api: str = _option(
        "http",
        OneOf(("http", "private", "none")),
        "who lets readers in: an HTTP API, which is public; `private`, a REST API that only an"
        " endpoint in a VPC reaches; or `none`, and callers in the account invoke the aggregator",
    )
    api_endpoint: str = _option(
        "",
        ENDPOINT,
        "with `private`: id of the interface endpoint for `execute-api` that callers use; unset: a"
        " new one, in the VPC that is passed in",
    )
    api_log_role: bool | str = _option(
        "auto",
        AutoFlag(),
        "with `private`: whether to set the role by which API Gateway writes logs, one of an"
        " account and Region; `auto`: if there is none; `true`: in the place of any other",
    )
    auth: str = _option(
        "iam", OneOf(("iam", "jwt")), "how callers of the HTTP API are known: signed requests, JWT"
    )
    jwt_issuer: str = _option(
        "",
        JWT_ISSUER,
        "with `jwt`: who issues the tokens",
    )
    jwt_audience: str = _option(
        "",
        JWT_AUDIENCES,
        "with `jwt`: whom the tokens are for, separated by commas",
    )
    reads_per_second: int = _option(
        100,
        Whole(1, 10_000),
        "requests a second that the API lets through; twice that in a burst",
    )
    runbook_url: str = _option(
        "",
        RUNBOOK_URL,
        "where alarms say what to do: the address of `docs/operations.md` or your own runbook, with"
        " a heading for each alarm",
    )
    ticket_email: str = _option(
        "", EMAIL, "the address that gets the alarms that can wait; unset: `alarm_email`"
    )
    budget: int = _option(
        0, Whole(0, 1_000_000), "dollars a month, of which `alarm_email` is told; 0: no budget"
    )
    budget_monitor: bool = _option(
        default=False,
        kind=Flag(),
        doc="with `budget`: whether there is a monitor of cost anomalies, which in an organization"
        " only the management account can make",
    )
    alarm_email: str = _option("", EMAIL, "the address that gets the alarms, once it is confirmed")

    def __post_init__(self) -> None:
        for option in fields(self):
            value = read_option(option.name, option.metadata["kind"], getattr(self, option.name))
            object.__setattr__(self, option.name, value)  # a number may have been given as text
        check_together(self)

    @classmethod
    def from_context(cls, context: Mapping[str, Any]) -> Options:
        """The options in a CDK context; values may be text, as `cdk -c key=value` gives them.

        Ignores keys without the prefix. Raises OptionsError for an unknown key with it.
        """
        kinds = {option.name: option.metadata["kind"] for option in fields(cls)}
        given: dict[str, Any] = {}
        for key, value in context.items():
            if not key.startswith(PREFIX):
                continue
            name = key.removeprefix(PREFIX)
            check_names([name], list(kinds))
            given[name] = read_option(name, kinds[name], value)
        if given.get("pollers") and "max_concurrency" in given:
            raise both_given(given["pollers"], given["max_concurrency"])
        return cls(**given)

    @property
    def writers_max(self) -> int:
        """The most writers at once."""
        if self.pollers:
            return POLLER_INVOCATIONS_MAX * self.pollers["max"]
        return self.max_concurrency

    @property
    def visibility_seconds(self) -> int:
        """The visibility timeout of the pipeline's own event queue, s."""
        return max(VISIBILITY_MS // 1000, self.visibility_seconds_of(0))

    def visibility_seconds_of(self, retention_seconds: int) -> int:
        """The least visibility timeout of an event queue with this retention, s.

        Six batches, and a thousandth of the retention: a queue may give a message up after 1,000
        receives, and a message whose writers always crash must not reach that before it expires.
        """
        batches = VISIBILITY_BATCHES * (WRITER_TIMEOUT_SECONDS + self.batch_window_seconds)
        return max(batches, -(-retention_seconds // RECEIVES_FUSE))

    @property
    def traces(self) -> bool:
        """Whether functions send traces to X-Ray."""
        return self.tracing or self.tracer

    @property
    def audiences(self) -> list[str]:
        """The audiences of the tokens."""
        return self.jwt_audience.split(",") if self.jwt_audience else []

    def settings(self, **given: Unpack[Given]) -> Settings:
        """The pipeline's settings; URLs and the bucket's name are known once these exist."""
        return settings_of(self, given)
