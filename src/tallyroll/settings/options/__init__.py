"""The options of a deployment: the keys `tallyroll:...` of the CDK's context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from tallyroll.limits import (
    GATES_MAX,
    GATES_PER_COMMIT,
    RECEIVES_FUSE,
    SHARDS_MAX,
    STRIPES_PER_COMMIT,
    VISIBILITY_MS,
)
from tallyroll.settings import Settings
from tallyroll.settings.common import CommonSettings
from tallyroll.settings.kinds import FLAG, Kind, Whole, one_of, optional, setting
from tallyroll.settings.options.kinds import (
    AUTO_FLAG,
    BUCKET,
    EMAIL,
    ENDPOINT,
    JWT_AUDIENCES,
    JWT_ISSUER,
    KMS_KEY,
    LAYER_VERSION,
    ORIGINS,
    POLLERS,
    RUNBOOK_URL,
    ids,
)
from tallyroll.settings.options.rules import (
    LOG_DAYS,
    MAX_CONCURRENCY,
    POLLER_INVOCATIONS_MAX,
    PREFIX,
    RUNTIMES,
    VISIBILITY_BATCHES,
    WRITER_TIMEOUT_SECONDS,
    OptionsError,
    both_given,
    check_names,
    check_together,
)

_SETTINGS: Mapping[str, Any] = {each.name: each for each in fields(Settings)}


def _narrower(name: str, kind: Kind) -> Any:
    """The option of a setting's name, which takes fewer values."""
    of = _SETTINGS[name]
    return setting(of.default, kind, of.metadata["text"])


def _unset(name: str) -> Any:
    """The option of a setting that follows from the number of writers, unless it is given."""
    of = _SETTINGS[name]
    text = f"{of.metadata['text']}; unset: as many as all writers need, at least {of.default}"
    return setting(None, optional(of.metadata["kind"]), text, setting=name)


def _seconds(name: str) -> Any:
    """The option of a setting in ms, in seconds."""
    of, kind = _SETTINGS[name], _SETTINGS[name].metadata["kind"]
    whole = Whole(kind.least // 1000, kind.most // 1000, "s")
    return setting(of.default // 1000, whole, of.metadata["text"], setting=name)


@dataclass(frozen=True, kw_only=True)
class Options(CommonSettings):
    """A deployment's options; each is given by the context key `tallyroll:{name}`. Values may be
    text, as `cdk -c` gives them.

    Raises OptionsError for a value out of its range, and for values that contradict each other.
    """

    error: ClassVar[type[OptionsError]] = OptionsError

    kms_key: str = _narrower("kms_key", KMS_KEY)
    stripes: int | None = _unset("stripes_min")
    gates: int | None = _unset("gates")
    retention_seconds: int = _seconds("retention_ms")
    accept_for_seconds: int = _seconds("accept_for_ms")
    skew_seconds: int = _seconds("skew_ms")
    cache_live_seconds: int = _seconds("cache_live_ms")
    # The ranges of the event source: AWS Lambda Developer Guide, "Using Lambda with Amazon SQS".
    batch_size: int = setting(
        1_000, Whole(1, 10_000), "the most messages that the writer is given at once"
    )
    batch_window_seconds: int = setting(
        1,
        Whole(0, 300, "s"),
        "how long Lambda gathers a batch; events count that much later at the most",
    )
    max_concurrency: int = setting(
        MAX_CONCURRENCY,
        Whole(2, 1_000),
        "the most writers at once; a new account runs 10 functions at once, all told",
    )
    pollers: Mapping[str, int] = setting(
        {},
        POLLERS,
        "Lambda's provisioned pollers of the queue, charged by the hour, each for ten writers at"
        ' most, instead of `max_concurrency`: `{"min": 2, "max": 20}`; `{}`: none',
    )
    reserved_concurrency: int | None = setting(
        None,
        optional(Whole(2, 1_000)),
        "concurrency set aside for the writer; unset: none, since a new account has none to spare",
    )
    rollout: str = setting(
        "none",
        one_of("none", "at-once", "canary"),
        "how a new writer takes over: `none`: it gets all batches at once; `canary`: a tenth of"
        " them for half an hour, and on an alarm the old writer gets them back; `at-once`: all"
        " batches at once, in a pipeline that uses `canary` otherwise",
    )
    architecture: str = setting(
        "arm64", one_of("arm64", "x86_64"), "the functions' processor architecture"
    )
    runtime: str = setting(
        RUNTIMES[0],
        one_of(*RUNTIMES),
        "the functions' Lambda runtime; with another one than the asset was built for, functions"
        " start more slowly",
    )
    boto3: str = setting(
        "runtime",
        one_of("runtime", "pinned"),
        "whose boto3 the functions run: Lambda's runtime's, or the lock file's, in the asset",
    )
    tracing: bool = setting(
        default=False, kind=FLAG, text="Lambda's own X-Ray segments; no library is imported"
    )
    tracing_layer: str = setting(
        "",
        LAYER_VERSION,
        "with `tracing`: ARN of AWS's layer for OpenTelemetry in this Region, which adds a span for"
        " each call of AWS; functions start more slowly",
    )
    vpc_subnets: str = setting(
        "",
        ids("subnet"),
        "the subnets of a VPC that the functions run in, separated by commas; unset: in no VPC",
    )
    vpc_security_groups: str = setting(
        "",
        ids("sg", most=5),
        "with `vpc_subnets`: the functions' security groups, separated by commas",
    )
    snap_start: bool = setting(
        default=False,
        kind=FLAG,
        text="start the aggregator from a snapshot, charged; from `runtime` python3.12 on",
    )
    log_days: int = setting(30, one_of(*LOG_DAYS), "how long logs are kept, days")
    deny_sqs_redrive: bool = setting(
        default=True, kind=FLAG, text="whether the dead-letter queue denies SQS's own redrive"
    )
    redrive_allow_policy: bool = setting(
        default=True, kind=FLAG, text="whether the dead-letter queue names its only source queue"
    )
    api: str = setting(
        "http",
        one_of("http", "private", "none"),
        "who lets readers in: an HTTP API, which is public; `private`, a REST API that only an"
        " endpoint in a VPC reaches; or `none`, and callers in the account invoke the aggregator",
    )
    api_endpoint: str = setting(
        "",
        ENDPOINT,
        "with `private`: id of the interface endpoint for `execute-api` that callers use; unset: a"
        " new one, in the VPC that is passed in",
    )
    api_log_role: bool | str = setting(
        "auto",
        AUTO_FLAG,
        "with `private`: whether to set the role by which API Gateway writes logs, one of an"
        " account and Region; `auto`: if there is none; `true`: in the place of any other",
    )
    auth: str = setting(
        "iam", one_of("iam", "jwt"), "how callers of the HTTP API are known: signed requests, JWT"
    )
    jwt_issuer: str = setting("", JWT_ISSUER, "with `jwt`: who issues the tokens")
    jwt_audience: str = setting(
        "", JWT_AUDIENCES, "with `jwt`: whom the tokens are for, separated by commas"
    )
    cors_origins: str = setting(
        "",
        ORIGINS,
        "with `jwt`: origins of web pages that may read (CORS), separated by commas; unset: none",
    )
    reads_per_second: int = setting(
        100, Whole(1, 10_000), "requests a second that the API lets through; twice that in a burst"
    )
    archive_replica: str = setting(
        "",
        BUCKET,
        "ARN of a bucket, in another Region as a rule, to which S3 copies archives and uploaded"
        " payloads; unset: to none",
    )
    archive_replica_key: str = setting(
        "", KMS_KEY, "with `archive_replica` and `kms_key`: ARN of the KMS key of the copies"
    )
    runbook_url: str = setting(
        "",
        RUNBOOK_URL,
        "where alarms say what to do: the address of `docs/operations.md` or your own runbook, with"
        " a heading for each alarm",
    )
    ticket_email: str = setting(
        "", EMAIL, "the address that gets the alarms that can wait; unset: `alarm_email`"
    )
    budget: int = setting(
        0, Whole(0, 1_000_000), "dollars a month, of which `alarm_email` is told; 0: no budget"
    )
    budget_monitor: bool = setting(
        default=False,
        kind=FLAG,
        text="with `budget`: whether there is a monitor of cost anomalies, which in an organization"
        " only the management account can make",
    )
    alarm_email: str = setting("", EMAIL, "the address that gets the alarms, once it is confirmed")

    def __new__(cls, /, **given: Any) -> Self:
        """Options, whose fields the dataclass then fills."""
        check_names(given, [option.name for option in fields(cls)])
        return super().__new__(cls)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_together(self)

    @staticmethod
    def named(name: str) -> str:
        """An option's name for users: its key in the CDK's context."""
        return PREFIX + name

    @classmethod
    def from_context(cls, context: Mapping[str, Any]) -> Options:
        """The options in a CDK context; values may be text, as `cdk -c key=value` gives them.

        Ignores keys without the prefix. Raises OptionsError for an unknown key with it.
        """
        given = {
            key.removeprefix(PREFIX): value
            for key, value in context.items()
            if key.startswith(PREFIX)
        }
        if "window" in given and "window_seconds" in given:
            raise cls.both_lengths(given["window"], given["window_seconds"])
        options = cls(**given)
        if options.pollers and "max_concurrency" in given:
            raise both_given(options.pollers, options.max_concurrency)
        return options

    @classmethod
    def settings_given(cls, context: Mapping[str, Any]) -> list[str]:
        """The names of the settings whose options are in a CDK context."""
        given = [option for option in fields(cls) if cls.named(option.name) in context]
        names = [option.metadata.get("setting", option.name) for option in given]
        return [name for name in names if name in _SETTINGS]

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

    @property
    def origins(self) -> list[str]:
        """The origins of web pages that may read."""
        return self.cors_origins.split(",") if self.cors_origins else []

    def settings(self, **given: Any) -> Settings:
        """The pipeline's settings. Those that are given by name go before the options': URLs and
        the bucket's name are known once these exist.
        """
        defaults = Settings()
        at_once = self.writers_max * defaults.transactions_at_once
        computed = {
            "stripes_min": min(SHARDS_MAX, max(defaults.stripes_min, STRIPES_PER_COMMIT * at_once)),
            "gates": min(GATES_MAX, max(defaults.gates, GATES_PER_COMMIT * at_once)),
            "visibility_ms": self.visibility_seconds * 1000,
        }
        for option in fields(self):
            name, value = option.metadata.get("setting", option.name), getattr(self, option.name)
            if name in _SETTINGS and value is not None:
                computed[name] = value * 1000 if name.endswith("_ms") else value
        return Settings(**computed | given)
