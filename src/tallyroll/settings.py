"""Every setting, once: `infra` and `local` write them with `to_env`, handlers read them with
`from_env`.

Placement (shards, stripes, buckets, gates, accept times) is frozen from here into the specs of
future windows; no existing window ever changes with a setting.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from tallyroll.errors import SettingsError, UsageError
from tallyroll.limits import (
    GATES_MAX,
    SHARDS_MAX,
    SKEW_MS_MAX,
    TABLE_QUOTA,
    VISIBILITY_MS,
    WARM_UNITS_MAX,
)
from tallyroll.model.sharding import strategy
from tallyroll.model.windows import check_length

PREFIX = "TALLYROLL_"
CAPACITIES = ("write", "read", "cold_write", "cold_read")
SCAN, NATIVE = EXPORTERS = ("scan", "native")
_NAME = re.compile(r"[a-z][a-z0-9-]{1,46}[a-z0-9]")


def _described(default: Any, doc: str) -> Any:
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata={"doc": doc})
    return field(default=default, metadata={"doc": doc})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A pipeline's settings; each is read from the environment variable TALLYROLL_ and its name in
    capitals.

    Raises SettingsError, naming the variable, for a value out of its range.
    """

    name: str = _described("tallyroll", "the pipeline's name; its tables and queues begin with it")
    queue_url: str = _described("", "URL of the event queue")
    dead_letters_url: str = _described("", "URL of the dead-letter queue")
    bucket: str = _described("", "name of the archive bucket")
    window_seconds: int = _described(
        3600,
        "length of windows not made yet, 1 s to 366 days; over a minute in whole minutes",
    )
    suffix: str = _described("calculated", "record suffix strategy: calculated or product")
    shards: int = _described(16, "N, the shards of a key, frozen into each window's spec")
    hot_shards: Mapping[str, int] = _described(
        {}, 'N of hot keys at the least, as JSON: `{"key": N}`'
    )
    shards_max: int = _described(
        1_000, "most N that a key gets by its traffic; as `shards` or less: N is not adapted"
    )
    stripes_min: int = _described(
        64, "least stripes of a key's tally: four times the commits that run at once"
    )
    buckets: int = _described(64, "buckets under which a window's tallies are listed")
    gates: int = _described(256, "gates of a window: eight times the commits that run at once")
    accept_for_ms: int = _described(
        3_600_000, "how long after its end a window accepts late events, ms"
    )
    skew_ms: int = _described(300_000, "how far ahead of its sending an event may lie, ms")
    require_ts: bool = _described(
        default=False, doc="refuse events that have an id of their own but no time"
    )
    ahead_windows: int = _described(2, "how many windows ahead tables are made")
    warm_units: int = _described(
        0,
        "write units a second that a table takes from its first second on, charged for each table;"
        " 0: as AWS makes them, 4,000",
    )
    warm_units_max: int = _described(
        0, "the same, following the peak of the last windows, up to this; 0: it follows nothing"
    )
    provisioned: Mapping[str, int] = _described(
        {},
        "capacity of window tables, as JSON: `write` and `read` units a second, `cold_write` and"
        " `cold_read` once a window is sealed; `{}`: on demand",
    )
    point_in_time_recovery: bool = _described(
        default=True, doc="whether window tables have point-in-time recovery, which is charged"
    )
    table_quota: int = _described(TABLE_QUOTA, "how many tables the account may have in the region")
    roller_period_ms: int = _described(60_000, "how often the roller runs, ms")
    retention_ms: int = _described(259_200_000, "how long a window is kept after it was sealed, ms")
    visibility_ms: int = _described(VISIBILITY_MS, "the event queue's visibility timeout, ms")
    queue_retention_ms: int = _described(
        864_000_000, "how long the event queue keeps a message, ms"
    )
    drain_period_ms: int = _described(
        60_000, "period of the queue's age metric, ms; on AWS whole minutes"
    )
    drain_margin_ms: int = _described(
        60_000, "by how much all that is queued must be newer than accept_until, ms"
    )
    settle_ms: int = _described(60_000, "how long shut gates and tags are given to take effect, ms")
    export_lease_ms: int = _described(
        960_000, "after how long without progress an attempt at an archive is begun anew, ms"
    )
    export_segments: int = _described(8, "least segments of the scan exporter")
    exporter: str = _described(
        "scan",
        "who exports tables: `scan`; or `native`, DynamoDB itself, and `scan` where it cannot",
    )
    transactions_at_once: int = _described(8, "transactions that one writer runs side by side")
    rollups: bool = _described(
        default=True, doc="sum the totals of whole days and months once more, for counts over long"
    )
    cache_live_ms: int = _described(
        1_000, "how long the aggregator keeps a live window's counts, ms; 0: not at all"
    )
    cache_calendar_ms: int = _described(60_000, "how long writers keep the calendar, ms")

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
        if self.exporter not in EXPORTERS:
            raise SettingsError(f"{PREFIX}EXPORTER {self.exporter!r}: must be scan or native")
        for name, least, most in _RANGES:
            value = getattr(self, name)
            if not least <= value <= most:
                raise SettingsError(
                    f"{PREFIX}{name.upper()} {value}: must be from {least} to {most}"
                )
        _check_provisioned(self.provisioned)
        if not all(1 <= shards <= SHARDS_MAX for shards in self.hot_shards.values()):
            hot = _text(self.hot_shards)
            raise SettingsError(f"{PREFIX}HOT_SHARDS {hot}: each N must be from 1 to {SHARDS_MAX}")

    @property
    def freeze_lead_ms(self) -> int:
        """How long before its start a window's spec is frozen: the allowed skew and two runs of the
        roller.
        """
        return self.skew_ms + 2 * self.roller_period_ms

    @property
    def writer_lasts_ms(self) -> int:
        """How long a writer works on a batch at the most: a queue must hide messages for six times
        as long. Source: AWS Lambda Developer Guide, "Using Lambda with Amazon SQS".
        """
        return self.visibility_ms // 6

    @classmethod
    def from_env(cls, environment: Mapping[str, str]) -> Settings:
        """The settings in an environment; a variable that is absent or empty leaves its default."""
        given: dict[str, Any] = {}
        for setting in fields(cls):
            text = environment.get(PREFIX + setting.name.upper(), "")
            if text:
                given[setting.name] = _parse(setting.name, text, str(setting.type))
        settings = cls(**given)
        settings.check_tables_fit()
        return settings

    @property
    def tables_kept(self) -> int:
        """How many window tables there are at once, if windows close and are dropped in time."""
        window_ms = self.window_seconds * 1000
        return self.ahead_windows + 1 + -(-(self.accept_for_ms + self.retention_ms) // window_ms)

    def check_tables_fit(self) -> None:
        """Raise SettingsError if windows are kept for so long that their tables pass the quota."""
        if self.tables_kept > self.table_quota:
            raise SettingsError(
                f"{PREFIX}RETENTION_MS {self.retention_ms}: with windows of {self.window_seconds} s"
                f" there would be {self.tables_kept:,} tables at once, over the quota of"
                f" {self.table_quota:,} ({PREFIX}TABLE_QUOTA): keep fewer, or make longer windows"
            )

    def to_env(self) -> dict[str, str]:
        """The environment variables that differ from the defaults, and always the name."""
        environment = {}
        for setting in fields(self):
            value = getattr(self, setting.name)
            default = setting.default if setting.default is not MISSING else {}
            if value != default or setting.name == "name":
                environment[PREFIX + setting.name.upper()] = _text(value)
        return environment


_RANGES = (
    ("shards", 1, SHARDS_MAX),
    ("shards_max", 1, SHARDS_MAX),
    ("stripes_min", 8, SHARDS_MAX),
    ("buckets", 1, 1_024),
    ("gates", 1, GATES_MAX),
    ("accept_for_ms", 0, 366 * 86_400_000),
    ("skew_ms", 0, SKEW_MS_MAX),
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
    ("cache_live_ms", 0, 60_000),
    ("cache_calendar_ms", 0, 3_600_000),
)


def _parse(name: str, text: str, kind: str) -> Any:
    variable = PREFIX + name.upper()
    try:
        if kind == "bool":
            return {"true": True, "false": False, "1": True, "0": False}[text.lower()]
        if kind == "int":
            return int(text)
        if kind == "str":
            return text
        return _numbers(text)
    except (KeyError, ValueError):
        wanted = {"bool": "true or false", "int": "a whole number"}.get(
            kind, 'JSON, {"name": number}'
        )
        raise SettingsError(f"{variable} {text!r}: must be {wanted}") from None


def _numbers(text: str) -> dict[str, int]:
    numbers = json.loads(text)
    if not isinstance(numbers, dict) or not all(type(n) is int for n in numbers.values()):
        raise ValueError(text)
    return numbers


def _check_provisioned(units: Mapping[str, int]) -> None:
    if not units:
        return
    known = set(units) == set(CAPACITIES)
    if not known or min(units.values()) < 1:
        raise SettingsError(
            f"{PREFIX}PROVISIONED {_text(units)}: give write, read, cold_write and cold_read, each"
            " at least 1; or {} for tables on demand"
        )


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return json.dumps(dict(value), separators=(",", ":"))
    return str(value).lower() if isinstance(value, bool) else str(value)


def adapts(settings: Settings) -> bool:
    """Whether keys get shards by their traffic."""
    return settings.shards_max > settings.shards
