"""The options of windows: which events they take, and how their tables are made and kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tallyroll.cdk.options.kinds import (
    KEYSPACE_NAME,
    Flag,
    HotShards,
    Length,
    Mapped,
    Name,
    OneOf,
    Units,
    Whole,
)
from tallyroll.cdk.options.kinds import option as _option
from tallyroll.cdk.options.rules import Described
from tallyroll.limits import (
    CHUNK_BYTES_MAX,
    CHUNK_BYTES_MIN,
    GATES_MAX,
    INLINE_BYTES_MAX,
    ITEM_BYTES_MAX,
    SHARDS_MAX,
    SKEW_MS_MAX,
    WARM_UNITS_MAX,
)
from tallyroll.model.windows import STORES
from tallyroll.settings import EXPORTERS, Settings

_DEFAULTS = Settings()
_DAY = 86_400


@dataclass(frozen=True, kw_only=True)
class WindowOptions(Described):
    """The pipeline's name, and the options of its windows."""

    name: str = _option(_DEFAULTS.name, Name(), "the pipeline's name, and the stack's")
    window_seconds: int = _option(
        _DEFAULTS.window_seconds,
        Length(),
        "length of the windows that are not made yet, s; another one starts where both begin one",
    )
    store: str = _option(
        _DEFAULTS.store,
        OneOf(STORES),
        "where new windows are stored: `dynamodb`, or [`keyspaces`](keyspaces.md)",
    )
    keyspace: str = _option(
        _DEFAULTS.keyspace,
        KEYSPACE_NAME,
        "the keyspace of window tables; unset: the pipeline's name with underscores for `store`"
        " keyspaces, else none; keep it as long as windows are there",
    )
    shards: int = _option(_DEFAULTS.shards, Whole(1, SHARDS_MAX), "N, the shards of a key")
    hot_shards: Mapping[str, int] = _option(
        {}, HotShards(), 'N of hot keys at the least: `{"key": N}`'
    )
    shards_max: int = _option(
        _DEFAULTS.shards_max,
        Whole(1, SHARDS_MAX),
        "most N that a key gets by its traffic; as `shards` or less: N is not adapted",
    )
    stripes: int | None = _option(
        None,
        Whole(8, SHARDS_MAX, unset=True),
        "least stripes of a key's tally; unset: four times the commits that can run at once",
    )
    buckets: int = _option(
        _DEFAULTS.buckets, Whole(1, 1_024), "buckets under which a window's tallies are listed"
    )
    gates: int | None = _option(
        None,
        Whole(1, GATES_MAX, unset=True),
        "gates of a window; unset: eight times the commits that can run at once, 256 to 4,096",
    )
    retention_seconds: int = _option(
        _DEFAULTS.retention_ms // 1000,
        Whole(0, 10 * 366 * _DAY),
        "how long a sealed window's table stays before it is archived and dropped, s",
    )
    accept_for_seconds: int = _option(
        _DEFAULTS.accept_for_ms // 1000,
        Whole(0, 366 * _DAY),
        "how long after its end a window accepts late events, s",
    )
    skew_seconds: int = _option(
        _DEFAULTS.skew_ms // 1000,
        Whole(0, SKEW_MS_MAX // 1000),
        "how far ahead of its sending an event may lie, s",
    )
    require_ts: bool = _option(
        _DEFAULTS.require_ts, Flag(), "refuse events that have an id of their own but no time"
    )
    mapping: Mapping[str, str | Sequence[str]] = _option(
        {},
        Mapped(),
        "where the fields of an event are in messages of other systems, in JMESPath:"
        ' `{"key": "detail.videoId"}`, or `{"keys": ["video:{detail.videoId}", "hour:{%H}"]}` for'
        " several counters",
    )
    compress_over_bytes: int = _option(
        _DEFAULTS.compress_over_bytes,
        Whole(1_024, ITEM_BYTES_MAX),
        "payloads over this are compressed, if that saves a KB; items of 1 to 4 KB are best",
    )
    chunk_over_bytes: int = _option(
        _DEFAULTS.chunk_over_bytes,
        Whole(2 * CHUNK_BYTES_MIN, INLINE_BYTES_MAX),
        "payloads and packets that are still over this are stored in chunks; an item of 64 KB takes"
        " an eighth of the write units that its partition has in a second",
    )
    chunk_bytes: int = _option(
        _DEFAULTS.chunk_bytes,
        Whole(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX),
        "the least size of a chunk; smaller ones would cost more requests and keys",
    )
    warm_units: int = _option(
        _DEFAULTS.warm_units,
        Whole(0, WARM_UNITS_MAX),
        "write units a second that a table takes from its first second on, charged for each table;"
        " 0: as AWS makes them, 4,000",
    )
    warm_units_max: int = _option(
        _DEFAULTS.warm_units_max,
        Whole(0, WARM_UNITS_MAX),
        "the same, following the peak of the last windows, up to this; 0: it follows nothing",
    )
    provisioned: Mapping[str, int] = _option(
        {}, Units(), "capacity of window tables, hot and cold; `{}`: on demand"
    )
    write_rate: int = _option(
        _DEFAULTS.write_rate,
        Whole(0, WARM_UNITS_MAX),
        "most write units a second that all writers together write: a flood of events waits in the"
        " queue; 0: no limit",
    )
    point_in_time_recovery: bool = _option(
        _DEFAULTS.point_in_time_recovery,
        Flag(),
        "whether window tables have point-in-time recovery, which is charged",
    )
    table_quota: int = _option(
        _DEFAULTS.table_quota,
        Whole(1, 1_000_000),
        "how many tables the account may have in the region",
    )
    rollups: bool = _option(
        _DEFAULTS.rollups, Flag(), "whether totals are rolled up by day and month, for long reads"
    )
    exporter: str = _option(
        _DEFAULTS.exporter,
        OneOf(EXPORTERS),
        "who exports tables: `scan`; or `native`, DynamoDB itself, and `scan` where it cannot",
    )
