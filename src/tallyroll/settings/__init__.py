"""All settings of a pipeline. Deployments write them with `to_env`, handlers read them with
`from_env`.

Placement (shards, stripes, buckets, gates, accept times) is frozen into the spec of each window
before it starts: no existing window changes with a setting.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from tallyroll.errors import SettingsError, UsageError
from tallyroll.limits import (
    CHUNK_BYTES_MAX,
    CHUNK_BYTES_MIN,
    GATES_MAX,
    INLINE_BYTES_MAX,
    ITEM_BYTES_MAX,
    KEYSPACES_TABLE_QUOTA,
    KEYSPACES_TABLES_PERMANENT,
    SHARDS_MAX,
    SKEW_MS_MAX,
    TABLE_QUOTA,
    VISIBILITY_MS,
    WARM_UNITS_MAX,
    WARM_WRITE_UNITS_MIN,
)
from tallyroll.model.foreign.mappings import UNMAPPED, Fields
from tallyroll.model.formats.json_texts import canonical
from tallyroll.model.formats.payloads import LAYOUT, PayloadLayout
from tallyroll.model.sharding import strategy
from tallyroll.model.windows import DYNAMODB, KEYSPACES, WINDOW_LENGTHS, check_length
from tallyroll.settings.stores import check_stores, keyspace_of
from tallyroll.settings.tags import check_tags
from tallyroll.settings.texts import PREFIX, parse, text_of

CAPACITIES = ("write", "read", "cold_write", "cold_read")
SCAN, NATIVE = EXPORTERS = ("scan", "native")
_NAME = re.compile(r"[a-z][a-z0-9-]{1,46}[a-z0-9]")


def _described(default: Any, doc: str) -> Any:
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata={"doc": doc})
    return field(default=default, metadata={"doc": doc})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A pipeline's settings. The environment variable of `name` is `TALLYROLL_NAME`, and so on.

    Raises SettingsError, which names the variable, for a value out of its range.
    """

    name: str = _described("tallyroll", "the pipeline's name; its tables and queues begin with it")
    queue_url: str = _described("", "URL of the event queue")
    dead_letters_url: str = _described("", "URL of the dead-letter queue")
    bucket: str = _described("", "name of the archive bucket")
    store: str = _described(
        DYNAMODB,
        "where new windows are stored: `dynamodb`; or `keyspaces`: Amazon Keyspaces. A window stays"
        " in the store that it was made in",
    )
    keyspace: str = _described(
        "",
        "the keyspace of window tables; empty: the pipeline's name, with underscores, if `store` is"
        " `keyspaces`, else none. Leave it set until no window is in Keyspaces any more",
    )
    cassandra: str = _described(
        "",
        "`HOST:PORT` of a node of Apache Cassandra in place of Amazon Keyspaces, without TLS and"
        " signatures: for trials on one machine",
    )
    window_seconds: int = _described(
        3600, f"length of new windows, {WINDOW_LENGTHS}; over a minute in whole minutes"
    )
    suffix: str = _described("calculated", "record suffix strategy: calculated or product")
    shards: int = _described(16, "N, the shards of a key, frozen into each window's spec")
    hot_shards: Mapping[str, int] = _described({}, 'minimum N of hot keys, as JSON: `{"key": N}`')
    shards_max: int = _described(
        1_000, "maximum N that a key gets by its traffic; `shards` or less: N is not adapted"
    )
    stripes_min: int = _described(
        64, "minimum stripes of a key's tally: four times the concurrent commits"
    )
    buckets: int = _described(64, "buckets under which a window's tallies are listed")
    gates: int = _described(256, "gates of a window: eight times the concurrent commits")
    accept_for_ms: int = _described(
        3_600_000, "how long after its end a window accepts late events, ms"
    )
    skew_ms: int = _described(300_000, "how far an event's time may lie after its sending, ms")
    require_ts: bool = _described(
        default=False, doc="reject events that have an id of their own but no time"
    )
    mapping: Mapping[str, str | Sequence[str]] = _described(
        {},
        "where the fields of an event are in messages of other systems, in JMESPath, as JSON:"
        ' `{"key": "detail.videoId"}`, or `{"keys": ["video:{detail.videoId}", "hour:{%H}"]}` for'
        " several counters",
    )
    compress_over_bytes: int = _described(
        LAYOUT.compress_over,
        "payloads over this are compressed, if that saves a KB, bytes: items of 1 to 4 KB are best",
    )
    chunk_over_bytes: int = _described(
        LAYOUT.chunk_over,
        "payloads and packets that are still over this are stored in chunks, bytes: an item of"
        " 64 KB takes an eighth of the write units that its partition has in a second",
    )
    chunk_bytes: int = _described(
        LAYOUT.chunk_bytes,
        "minimum size of a chunk, bytes: smaller ones cost more requests and keys",
    )
    ahead_windows: int = _described(2, "how many windows ahead tables are created")
    warm_units: int = _described(
        0,
        "warm throughput of a new table, in write units a second, charged for each table;"
        f" 0: AWS's default, {WARM_WRITE_UNITS_MIN:,}",
    )
    warm_units_max: int = _described(
        0,
        "maximum warm throughput that a new table gets by the peak of the last windows;"
        " 0: it does not follow the peak",
    )
    provisioned: Mapping[str, int] = _described(
        {},
        "capacity of window tables, as JSON: `write` and `read` units a second, `cold_write` and"
        " `cold_read` after a window is sealed; `{}`: on demand",
    )
    point_in_time_recovery: bool = _described(
        default=True, doc="whether window tables have point-in-time recovery, which AWS charges"
    )
    table_quota: int = _described(
        TABLE_QUOTA,
        "how many tables the account may have in the region, in `store`; as long as it is the"
        f" default, {KEYSPACES_TABLE_QUOTA} in Keyspaces",
    )
    tags: Mapping[str, str] = _described(
        {}, 'tags of the tables that are made, as JSON: `{"team": "elections"}`'
    )
    kms_key: str = _described(
        "",
        "ARN of the KMS key of the tables that are made, and of their archives by DynamoDB itself;"
        " empty: the services' own keys",
    )
    deny_drops: bool = _described(
        default=False,
        doc="whether new window tables have a resource policy that denies everybody to delete them"
        " without the tag `proven`",
    )
    roller_period_ms: int = _described(60_000, "how often the roller runs, ms")
    retention_ms: int = _described(259_200_000, "how long a window is kept after its sealing, ms")
    visibility_ms: int = _described(VISIBILITY_MS, "the event queue's visibility timeout, ms")
    queue_retention_ms: int = _described(
        864_000_000, "how long the event queue keeps a message, ms"
    )
    drain_period_ms: int = _described(
        60_000, "period of the queue's age metric, ms; on AWS whole minutes"
    )
    drain_margin_ms: int = _described(
        60_000,
        "a window closes when all queued messages are newer than its accept_until by this, ms",
    )
    settle_ms: int = _described(60_000, "how long shut gates and tags get to take effect, ms")
    export_lease_ms: int = _described(
        960_000, "after how long without progress a new export attempt begins, ms"
    )
    export_segments: int = _described(8, "minimum segments of the scan exporter")
    exporter: str = _described(
        "scan",
        "what exports tables: `scan`; or `native`: DynamoDB itself, and `scan` where it cannot",
    )
    transactions_at_once: int = _described(8, "concurrent transactions of one writer")
    write_rate: int = _described(
        0, "maximum write units a second of all writers together; 0: no limit"
    )
    rollups: bool = _described(
        default=True, doc="also sum totals by day and month, for fast counts over long times"
    )
    cache_live_ms: int = _described(
        1_000, "how long the aggregator caches a live window's counts, ms; 0: not at all"
    )
    cache_calendar_ms: int = _described(60_000, "how long writers cache the calendar, ms")
    tracer: bool = _described(
        default=False,
        doc="whether functions send segments to X-Ray with Powertools' Tracer (the `tracer` extra)",
    )

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise SettingsError(
                f"{PREFIX}NAME {self.name!r}: 3 to 48 lower-case letters, digits and hyphens,"
                " a letter first"
            )
        for variable, check in (
            ("WINDOW_SECONDS", lambda: check_length(self.window_seconds)),
            ("SUFFIX", lambda: strategy(self.suffix)),
        ):
            try:
                check()
            except UsageError as error:
                raise SettingsError(f"{PREFIX}{variable}: {error}") from None
        try:
            _check_mapping(self.mapping)
        except UsageError as error:
            raise SettingsError(f"{PREFIX}MAPPING {text_of(self.mapping)}: {error}") from None
        try:
            check_tags(self.tags)
        except UsageError as error:
            raise SettingsError(f"{PREFIX}TAGS {error}") from None
        check_stores(self.name, self.store, self.keyspace, self.cassandra)
        if self.exporter not in EXPORTERS:
            raise SettingsError(f"{PREFIX}EXPORTER {self.exporter!r}: must be scan or native")
        for name, least, most in _RANGES:
            value = getattr(self, name)
            if not least <= value <= most:
                raise SettingsError(
                    f"{PREFIX}{name.upper()} {value}: must be from {least} to {most}"
                )
        units = self.provisioned
        if units and (set(units) != set(CAPACITIES) or min(units.values()) < 1):
            raise SettingsError(
                f"{PREFIX}PROVISIONED {text_of(units)}: give write, read, cold_write and cold_read,"
                " each at least 1; or {} for tables on demand"
            )
        if not all(1 <= shards <= SHARDS_MAX for shards in self.hot_shards.values()):
            hot = text_of(self.hot_shards)
            raise SettingsError(f"{PREFIX}HOT_SHARDS {hot}: each N must be from 1 to {SHARDS_MAX}")

    @classmethod
    def from_env(cls, environment: Mapping[str, str]) -> Settings:
        """The settings in an environment. An absent or empty variable leaves the default."""
        defaults = cls()
        given = {
            setting.name: parse(setting.name, text, getattr(defaults, setting.name))
            for setting in fields(cls)
            if (text := environment.get(PREFIX + setting.name.upper()))
        }
        settings = cls(**given)
        settings.check_tables_fit()
        return settings

    def to_env(self) -> dict[str, str]:
        """The environment variables that differ from the defaults, and always the name."""
        defaults = Settings()
        return {
            PREFIX + setting.name.upper(): text_of(value)
            for setting in fields(self)
            if (value := getattr(self, setting.name)) != getattr(defaults, setting.name)
            or setting.name == "name"
        }

    @property
    def freeze_lead_ms(self) -> int:
        """How long before its start a window's spec is frozen: the allowed skew and two periods of
        the roller.
        """
        return self.skew_ms + 2 * self.roller_period_ms

    @property
    def writer_lasts_ms(self) -> int:
        """The longest time that a writer works on a batch, ms: a sixth of the visibility timeout.

        Source: AWS Lambda Developer Guide, "Using Lambda with Amazon SQS".
        """
        return self.visibility_ms // 6

    @property
    def layout(self) -> PayloadLayout:
        """How payloads are stored by their size."""
        return PayloadLayout(self.compress_over_bytes, self.chunk_over_bytes, self.chunk_bytes)

    @property
    def mapping_text(self) -> str:
        """The mapping's canonical text; empty for none."""
        return canonical(dict(self.mapping)) if self.mapping else UNMAPPED

    def check_store(self, *, transactional: bool) -> None:
        """Raise SettingsError if the mapping counts an event under several keys, which a store
        without transactions cannot do together.
        """
        if "keys" in self.mapping and not transactional:
            raise SettingsError(
                f"{PREFIX}MAPPING {text_of(self.mapping)}: keys: windows in Keyspaces have no"
                " transactions, so the counters of an event could disagree: give one `key` as long"
                f" as {PREFIX}STORE is {KEYSPACES} or {PREFIX}KEYSPACE is set"
            )

    @property
    def window_keyspace(self) -> str:
        """The keyspace of window tables; "" if the pipeline has none."""
        return keyspace_of(self.name, self.store, self.keyspace)

    @property
    def adapts(self) -> bool:
        """Whether keys get shards by their traffic."""
        return self.shards_max > self.shards

    @property
    def follows_peaks(self) -> bool:
        """Whether new tables are made for the peak of the last windows."""
        return self.warm_units_max > 0

    @property
    def cools(self) -> bool:
        """Whether tables get another throughput once their window is sealed."""
        return bool(self.provisioned)

    @property
    def tables_kept(self) -> int:
        """How many window tables exist at once, if windows close and are dropped in time."""
        window_ms = self.window_seconds * 1000
        return self.ahead_windows + 1 + -(-(self.accept_for_ms + self.retention_ms) // window_ms)

    @property
    def quota(self) -> int:
        """How many tables the account may have where new windows are stored."""
        given = self.table_quota
        return KEYSPACES_TABLE_QUOTA if self._in_keyspaces and given == TABLE_QUOTA else given

    @property
    def permanent_tables(self) -> int:
        """How many tables the pipeline has beside those of windows, where new ones are stored."""
        return KEYSPACES_TABLES_PERMANENT if self._in_keyspaces else 0

    @property
    def _in_keyspaces(self) -> bool:
        return self.store == KEYSPACES

    def check_tables_fit(self) -> None:
        """Raise SettingsError if the tables kept at once are more than the quota."""
        tables = self.tables_kept + self.permanent_tables
        if tables > self.quota:
            raise SettingsError(
                f"{PREFIX}RETENTION_MS {self.retention_ms}: with windows of {self.window_seconds} s"
                f" there would be {tables:,} tables at once, over the quota of"
                f" {self.quota:,} ({PREFIX}TABLE_QUOTA): keep fewer, or make longer windows"
            )


_RANGES = (
    ("shards", 1, SHARDS_MAX),
    ("shards_max", 1, SHARDS_MAX),
    ("stripes_min", 8, SHARDS_MAX),
    ("buckets", 1, 1_024),
    ("gates", 1, GATES_MAX),
    ("accept_for_ms", 0, 366 * 86_400_000),
    ("skew_ms", 0, SKEW_MS_MAX),
    ("compress_over_bytes", 1_024, ITEM_BYTES_MAX),
    ("chunk_over_bytes", 2 * CHUNK_BYTES_MIN, INLINE_BYTES_MAX),
    ("chunk_bytes", CHUNK_BYTES_MIN, CHUNK_BYTES_MAX),
    ("ahead_windows", 1, 48),
    ("warm_units", 0, WARM_UNITS_MAX),
    ("warm_units_max", 0, WARM_UNITS_MAX),
    ("table_quota", 1, 1_000_000),
    ("roller_period_ms", 100, 3_600_000),
    ("retention_ms", 0, 10 * 366 * 86_400_000),
    ("visibility_ms", 1_000, 43_200_000),
    ("queue_retention_ms", 60_000, 1_209_600_000),
    ("drain_period_ms", 1_000, 3_600_000),
    ("drain_margin_ms", 0, 3_600_000),
    ("settle_ms", 0, 3_600_000),
    ("export_lease_ms", 1_000, 86_400_000),
    ("export_segments", 1, 1_000),
    ("transactions_at_once", 1, 256),
    ("write_rate", 0, WARM_UNITS_MAX),
    ("cache_live_ms", 0, 60_000),
    ("cache_calendar_ms", 0, 3_600_000),
)


def _check_mapping(mapping: Fields) -> None:
    if mapping:
        from tallyroll.model.foreign.mapping import check_mapping  # imports JMESPath

        check_mapping(mapping)
