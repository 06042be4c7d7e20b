"""The settings that a deployment gives by options of the same names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tallyroll.errors import UsageError
from tallyroll.limits import (
    ARCHIVE_DAYS_MAX,
    CHUNK_BYTES_MAX,
    CHUNK_BYTES_MIN,
    IDENTITY_DAYS_MAX,
    INLINE_BYTES_MAX,
    ITEM_BYTES_MAX,
    KEYSPACES_NAME_MAX,
    KEYSPACES_TABLE_QUOTA,
    SHARDS_DEFAULT,
    SHARDS_FEW,
    SHARDS_MAX,
    TABLE_QUOTA,
    WARM_UNITS_MAX,
    WARM_WRITE_UNITS_MIN,
)
from tallyroll.model.formats.payloads import LAYOUT
from tallyroll.model.sharding import STRATEGIES, WHY_NOT_RANDOM
from tallyroll.model.specs import IdentityScope
from tallyroll.model.windows import (
    DYNAMODB,
    KEYSPACES,
    STORES,
    TABLE_SUFFIX,
    WINDOW_LENGTHS,
    WINDOW_NAMES,
    Lasting,
    lasting_of,
    length_of,
)
from tallyroll.settings.kinds import (
    ANY_TEXT,
    CACHE_URL,
    CAPACITY,
    EXPIRY,
    FLAG,
    HOT_SHARDS,
    LENGTH,
    LOGS,
    MAPPING,
    NAME,
    TAGS,
    Described,
    Kind,
    Whole,
    one_of,
    optional,
    setting,
    text,
)
from tallyroll.settings.stores import check_without_transactions

WINDOW_SECONDS = 3600
STRIPES_OWN, STRIPES_OF_SHARDS = STRIPES_RULES = ("own", "shards")
SCAN, NATIVE = EXPORTERS = ("scan", "native")
DYNAMODB_JSON, PARQUET, BOTH = ARCHIVES = ("dynamodb", "parquet", "both")
GOVERNANCE, COMPLIANCE = LOCKS = ("governance", "compliance")
RETRACTION_OFF, RETRACTION_OPERATOR, RETRACTION_QUEUE = RETRACTIONS = ("off", "operator", "queue")


INSIGHTS_IN_PLAIN_TEXT = (
    "with contributor_insights the keys of throttled events stand in CloudWatch, where the KMS key"
    " of the tables does not encrypt them: everyone with cloudwatch:GetInsightRuleReport reads"
    " them"
)


@dataclass(frozen=True, kw_only=True)
class CommonSettings(Described):
    """What is a setting, and an option under the same name."""

    name: str = setting(
        "tallyroll", NAME, "the pipeline's name, and its stack's; tables and queues begin with it"
    )
    window_seconds: int = setting(
        WINDOW_SECONDS,
        LENGTH,
        f"length of the windows that are not made yet, {WINDOW_LENGTHS}, over a minute in whole"
        " minutes; another length starts where both begin a window",
    )
    window: str = setting(
        "",
        one_of("", *WINDOW_NAMES),
        "length of the windows that are not made yet by the calendar, in UTC, in place of"
        " `window_seconds`: `hour`, `day`, `week` (from Monday on), `month`, `quarter` or `year`"
        " ([windows](windows.md))",
    )
    store: str = setting(
        DYNAMODB,
        one_of(*STORES),
        "where new windows are stored: `dynamodb`; or [`keyspaces`](keyspaces.md): Amazon"
        " Keyspaces. A window stays in the store that it was made in",
    )
    keyspace: str = setting(
        "",
        text(
            rf"[a-z][a-z0-9_]{{0,{KEYSPACES_NAME_MAX - 1}}}",
            f"give 1 to {KEYSPACES_NAME_MAX} lower-case letters, digits and _, a letter first",
        ),
        "the keyspace of window tables; empty: the pipeline's name, with underscores, if `store` is"
        " `keyspaces`, else none. Leave it set until no window is in Keyspaces any more",
    )
    shards: int = setting(
        None,
        optional(Whole(1, SHARDS_MAX)),
        f"N, the shards of a key, frozen into each window's spec; unset: {SHARDS_DEFAULT}, and"
        f" {SHARDS_FEW} in Keyspaces or with `stripes_rule` `{STRIPES_OF_SHARDS}`",
    )
    stripes_rule: str = setting(
        STRIPES_OWN,
        one_of(*STRIPES_RULES),
        f"how wide a tally is: `{STRIPES_OWN}`: as the writers need it, whatever N is;"
        f" `{STRIPES_OF_SHARDS}`: at least N, as in the release before, whose writers hand back"
        " the messages of windows under the other rule",
    )
    suffix: str = setting(
        "calculated",
        Kind(f"give one of {', '.join(STRATEGIES)}; {WHY_NOT_RANDOM}", one_of(*STRATEGIES).read),
        "how a record's shard follows from its id: `calculated`, by a hash; or `product`, the"
        " formula of AWS's guide, [far from even](sharding.md), for tables that were filled by it."
        " Frozen into each window's spec",
    )
    hot_shards: Mapping[str, int] = setting(
        {}, HOT_SHARDS, 'minimum N of hot keys, as JSON: `{"key": N}`'
    )
    logs: Mapping[str, int] = setting(
        {},
        LOGS,
        'keys whose events without an id of their own are [logged](sharding.md), as JSON: `{"key":'
        " 5000}`, events a second, rather too low than too high. Frozen into each window's spec",
    )
    shards_max: int = setting(
        1_000,
        Whole(1, SHARDS_MAX),
        "maximum N that a key gets by its traffic; `shards` or less: N is not adapted",
    )
    buckets: int = setting(64, Whole(1, 1_024), "buckets under which a window's tallies are listed")
    require_ts: bool = setting(
        default=False, kind=FLAG, text="reject events that have an id of their own but no time"
    )
    identity: str = setting(
        IdentityScope.WINDOW,
        one_of(*IdentityScope),
        "within what an id that a producer gave counts once: `window`: its key and window; `key`:"
        " its key, whatever the hour; `pipeline`: at all, such as one vote a voter. Frozen into"
        " each window's spec",
    )
    identity_days: int = setting(
        31,
        Whole(1, IDENTITY_DAYS_MAX, "days"),
        "how long an id stays taken at least, if `identity` is `key` or `pipeline`",
    )
    keep_identities: bool = setting(
        default=False,
        kind=FLAG,
        text="whether to keep the table of identities while `identity` is `window`: set it before"
        " you go back, until no window under the former rule takes events",
    )
    retraction: str = setting(
        RETRACTION_OFF,
        one_of(*RETRACTIONS),
        "who may take events back: `off`: nobody; `operator`: those who may run `tallyroll"
        " retract`; `queue`: also those who may send to the event queue. Holds for windows that"
        " exist, too. Go back to `off` by way of `operator`, until all windows with retracted"
        " events are dropped, and a day longer: cleanup then has the rights to prove and archive"
        " them",
    )
    mapping: Mapping[str, str | Sequence[str]] = setting(
        {},
        MAPPING,
        "where the fields of an event are in messages of other systems, in JMESPath, as JSON:"
        ' `{"key": "detail.videoId"}`, or `{"keys": ["video:{detail.videoId}", "hour:{%H}"]}` for'
        " several counters",
    )
    compress_over_bytes: int = setting(
        LAYOUT.compress_over,
        Whole(1_024, ITEM_BYTES_MAX, "bytes"),
        "payloads over this are compressed, if that saves a KB: items of 1 to 4 KB are best",
    )
    chunk_over_bytes: int = setting(
        LAYOUT.chunk_over,
        Whole(2 * CHUNK_BYTES_MIN, INLINE_BYTES_MAX, "bytes"),
        "payloads and packets that are still over this are stored in chunks: an item of 64 KB takes"
        " an eighth of the write units that its partition has in a second",
    )
    chunk_bytes: int = setting(
        LAYOUT.chunk_bytes,
        Whole(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX, "bytes"),
        "minimum size of a chunk: smaller ones cost more requests and keys",
    )
    warm_units: int = setting(
        0,
        Whole(0, WARM_UNITS_MAX),
        "warm throughput of a new table, in write units a second, charged for each table;"
        f" 0: AWS's default, {WARM_WRITE_UNITS_MIN:,}",
    )
    warm_units_max: int = setting(
        0,
        Whole(0, WARM_UNITS_MAX),
        "maximum warm throughput that a table gets by itself: a new one by the peak of the last"
        " windows, an open one twice what it takes when it is throttled as a whole; also the bound"
        " of `tallyroll windows warm`; 0: none gets any by itself, and the command has no"
        " bound",
    )
    provisioned: Mapping[str, int] = setting(
        {},
        CAPACITY,
        "capacity of window tables, as JSON: `write` and `read` units a second, `cold_write` and"
        " `cold_read` after a window is sealed; `{}`: on demand",
    )
    write_rate: int = setting(
        0,
        Whole(0, WARM_UNITS_MAX),
        "maximum write units a second of all writers together: a flood of events waits in the"
        " queue; 0: no limit",
    )
    point_in_time_recovery: bool = setting(
        default=True,
        kind=FLAG,
        text="whether window tables have point-in-time recovery, which AWS charges",
    )
    contributor_insights: bool = setting(
        default=False,
        kind=FLAG,
        text="whether DynamoDB notes in CloudWatch which keys of window tables that are made from"
        " then on are throttled: charged by AWS, and in plain text also with a `kms_key`",
    )
    table_quota: int = setting(
        TABLE_QUOTA,
        Whole(1, 1_000_000),
        "how many tables the account may have in the region, in `store`; as long as it is the"
        f" default, {KEYSPACES_TABLE_QUOTA} in Keyspaces",
    )
    rollups: bool = setting(
        default=True,
        kind=FLAG,
        text="also sum totals by day and month, for fast counts over long times",
    )
    exporter: str = setting(
        SCAN,
        one_of(*EXPORTERS),
        "what exports tables: `scan`; or `native`: DynamoDB itself, and `scan` where it cannot",
    )
    archive: str = setting(
        DYNAMODB_JSON,
        one_of(*ARCHIVES),
        "in which layout archives stay: `dynamodb`: that of DynamoDB's exports; `both`: also as"
        " Parquet, which one more function makes of it; `parquet`: so as well, and the other"
        " expires once the Parquet is proven ([archives](archive.md#which-layouts-stay)). For"
        " windows that are dropped from then on",
    )
    archive_lock_days: int = setting(
        0,
        Whole(0, ARCHIVE_DAYS_MAX, "days"),
        "how long each object of an archive is locked from its writing on, by S3's Object Lock:"
        " its version cannot be deleted; 0: none is locked"
        " ([archives](archive.md#locked-copied-and-expiring))",
    )
    archive_lock: str = setting(
        GOVERNANCE,
        one_of(*LOCKS),
        "with `archive_lock_days`: `governance`: who may `s3:BypassGovernanceRetention` can still"
        " delete; `compliance`: nobody can, and nothing can take that back",
    )
    archive_expire_days: int = setting(
        0,
        EXPIRY,
        "after how many days a rule of the bucket deletes archives, which are all that is left of"
        " dropped tables, beside their totals; 0: never",
    )
    tracer: bool = setting(
        default=False,
        kind=FLAG,
        text="whether functions send X-Ray segments of each handler and each call of AWS with"
        " Powertools' Tracer (the `tracer` extra); they start more slowly",
    )
    tags: Mapping[str, str] = setting(
        {},
        TAGS,
        "tags of all that is deployed, and of the tables that are made from then on, as JSON:"
        ' `{"team": "elections"}`',
    )
    kms_key: str = setting(
        "",
        ANY_TEXT,  # while an app is synthesized it is a token of the CDK
        "ARN of the KMS key of all that is deployed, of the tables that are made from then on, and"
        " of their archives by DynamoDB itself; empty: the services' own keys",
    )
    cache_url: str = setting(
        "",
        CACHE_URL,
        "a cache of Valkey or Redis in which the aggregators share counts: `rediss://"
        "USER:PASSWORD@HOST:PORT`; `PASSWORD` may be `{{resolve:secretsmanager:...}}`, which"
        " CloudFormation resolves ([reading](reading.md#a-shared-cache)); empty: none",
    )
    read_archives: bool = setting(
        default=False,
        kind=FLAG,
        text="whether the aggregator may read archives, for `archived=true` in `GET /v1/event` and"
        " `/v1/events`",
    )
    deny_drops: bool = setting(
        default=False,
        kind=FLAG,
        text="whether window tables that are made from then on have a resource policy that denies"
        " everybody, also administrators, to delete them without the tag `proven`",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window and self.window_seconds != WINDOW_SECONDS:
            raise self.both_lengths(self.window, self.window_seconds)
        given: Any = self.shards
        if given is None:
            object.__setattr__(self, "shards", self.shards_unset)
        most = KEYSPACES_NAME_MAX - len(TABLE_SUFFIX)
        if self.store == KEYSPACES and len(self.name) > most:
            name = self.name
            raise self.error(
                f"{self.named('name')} {name!r}: the tables of windows in Keyspaces are named"
                f" {name}{TABLE_SUFFIX}, and a name has at most {KEYSPACES_NAME_MAX} characters"
                f" there: give a name of at most {most}, or {self.named('store')} {DYNAMODB}"
            )

    @property
    def window_keyspace(self) -> str:
        """The keyspace of window tables; "" if the pipeline has none."""
        of_name = self.name.replace("-", "_") if self.store == KEYSPACES else ""
        return self.keyspace or of_name

    @property
    def own_stripes(self) -> bool:
        """Whether the tallies of new windows have a width of their own, whatever N is."""
        return self.stripes_rule == STRIPES_OWN and self.store != KEYSPACES

    @property
    def shards_unset(self) -> int:
        """N of a key, unless it is set."""
        return SHARDS_DEFAULT if self.own_stripes else SHARDS_FEW

    @property
    def remembers_ids(self) -> bool:
        """Whether the ids of new windows stay taken beyond these."""
        return self.identity != IdentityScope.WINDOW

    @property
    def has_identities(self) -> bool:
        """Whether the pipeline has a table of identities."""
        return self.keep_identities or self.remembers_ids

    @property
    def compacts(self) -> bool:
        """Whether archives are made as Parquet, too."""
        return self.archive != DYNAMODB_JSON

    @property
    def retracts(self) -> bool:
        """Whether anybody may take events back."""
        return self.retraction != RETRACTION_OFF

    def check_store(self, *, transactional: bool) -> None:
        """Raise `error` for what a store without transactions cannot do: count an event under
        several keys, put an identity together with a record, or take an event back.
        """
        if not transactional:
            check_without_transactions(self, RETRACTION_OFF)

    @classmethod
    def both_lengths(cls, window: object, seconds: object) -> UsageError:
        """The error of two lengths of windows."""
        name, other = cls.named("window"), cls.named("window_seconds")
        return cls.error(f"{name} {window} and {other} {seconds}: give one of them")

    @property
    def window_length(self) -> int | str:
        """The length of windows: seconds, or a calendar's name."""
        length = length_of(self.window or self.window_seconds)
        return length // 1000 if isinstance(length, int) else length

    @property
    def lasting(self) -> Lasting:
        """How long windows are, ms."""
        return lasting_of(length_of(self.window_length))
