"""All settings of a pipeline. Deployments write them with `to_env`, handlers read them with
`from_env`.

Placement (shards, stripes, buckets, gates, accept times) is frozen into the spec of each window
before it starts: no existing window changes with a setting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from tallyroll.errors import SettingsError
from tallyroll.limits import (
    GATES_MAX,
    KEYSPACES_TABLE_QUOTA,
    KEYSPACES_TABLES_PERMANENT,
    QUEUE_RETENTION_MS_MAX,
    SHARDS_MAX,
    SKEW_MS_MAX,
    TABLE_QUOTA,
    VISIBILITY_MS,
)
from tallyroll.model.foreign.mappings import UNMAPPED
from tallyroll.model.formats.json_texts import canonical
from tallyroll.model.formats.payloads import PayloadLayout
from tallyroll.model.windows import KEYSPACES, length_of, text_of_length
from tallyroll.settings.common import EXPORTERS, NATIVE, SCAN, CommonSettings
from tallyroll.settings.kinds import ANY_TEXT, NODE, Whole, setting
from tallyroll.settings.texts import text_of

__all__ = ["EXPORTERS", "NATIVE", "SCAN", "Settings"]

_DAY_MS = 86_400_000


@dataclass(frozen=True, kw_only=True)
class Settings(CommonSettings):
    """A pipeline's settings. The environment variable of `name` is `TALLYROLL_NAME`, and so on.

    Raises SettingsError, which names the variable, for a value out of its range.
    """

    queue_url: str = setting("", ANY_TEXT, "URL of the event queue")
    dead_letters_url: str = setting("", ANY_TEXT, "URL of the dead-letter queue")
    bucket: str = setting("", ANY_TEXT, "name of the archive bucket")
    cassandra: str = setting(
        "",
        NODE,
        "`HOST:PORT` of a node of Apache Cassandra in place of Amazon Keyspaces, without TLS and"
        " signatures: for trials on one machine",
    )
    stripes_min: int = setting(
        64,
        Whole(8, SHARDS_MAX),
        "minimum stripes of a key's tally: four times the concurrent commits",
    )
    gates: int = setting(
        256, Whole(1, GATES_MAX), "gates of a window: eight times the concurrent commits"
    )
    accept_for_ms: int = setting(
        3_600_000,
        Whole(0, 366 * _DAY_MS, "ms"),
        "how long after its end a window accepts late events",
    )
    skew_ms: int = setting(
        300_000, Whole(0, SKEW_MS_MAX, "ms"), "how far an event's time may lie after its sending"
    )
    ahead_windows: int = setting(2, Whole(1, 48), "how many windows ahead tables are created")
    roller_period_ms: int = setting(
        60_000, Whole(100, 3_600_000, "ms"), "how often the roller runs"
    )
    retention_ms: int = setting(
        259_200_000,
        Whole(0, 10 * 366 * _DAY_MS, "ms"),
        "how long a window is kept after its sealing, before it is archived and dropped",
    )
    visibility_ms: int = setting(
        VISIBILITY_MS, Whole(1_000, 43_200_000, "ms"), "the event queue's visibility timeout"
    )
    queue_retention_ms: int = setting(
        864_000_000,
        Whole(60_000, QUEUE_RETENTION_MS_MAX, "ms"),
        "how long the event queue keeps a message",
    )
    drain_period_ms: int = setting(
        60_000,
        Whole(1_000, 3_600_000, "ms"),
        "period of the queue's age metric; on AWS whole minutes",
    )
    drain_margin_ms: int = setting(
        60_000,
        Whole(0, 3_600_000, "ms"),
        "a window closes when all queued messages are newer than its accept_until by this",
    )
    settle_ms: int = setting(
        60_000, Whole(0, 3_600_000, "ms"), "how long shut gates and tags get to take effect"
    )
    export_lease_ms: int = setting(
        960_000,
        Whole(1_000, _DAY_MS, "ms"),
        "after how long without progress a new export attempt begins",
    )
    export_segments: int = setting(1, Whole(1, 1_000), "minimum segments of the scan exporter")
    transactions_at_once: int = setting(8, Whole(1, 256), "concurrent transactions of one writer")
    cache_live_ms: int = setting(
        1_000,
        Whole(0, 60_000, "ms"),
        "how long the aggregator, and caches before it, keep a live window's counts; 0: not at all",
    )
    cache_calendar_ms: int = setting(
        60_000, Whole(0, 3_600_000, "ms"), "how long writers cache the calendar"
    )

    @classmethod
    def from_env(cls, environment: Mapping[str, str]) -> Settings:
        """The settings in an environment. An absent or empty variable leaves the default."""
        given: dict[str, Any] = {
            each.name: text
            for each in fields(cls)
            if (text := environment.get(cls.named(each.name)))
        }
        if "window" in given and "window_seconds" in given:
            raise cls.both_lengths(given["window"], given["window_seconds"])
        settings = cls(**given)
        settings.check_tables_fit()
        return settings

    def to_env(self) -> dict[str, str]:
        """The environment variables that differ from the defaults, and always the name."""
        defaults = Settings(shards=self.shards_unset)
        return {
            self.named(each.name): text_of(value)
            for each in fields(self)
            if (value := getattr(self, each.name)) != getattr(defaults, each.name)
            or each.name == "name"
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
        window_ms = self.lasting.shortest
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
        if surplus := self.surplus_of_tables(self.named):
            raise SettingsError(f"{self.named('retention_ms')} {self.retention_ms}: {surplus}")

    def surplus_of_tables(self, named: Callable[[str], str]) -> str:
        """What is wrong if the tables kept at once are more than the quota, which is named for
        users by `named`; else "".
        """
        tables = self.tables_kept + self.permanent_tables
        if tables <= self.quota:
            return ""
        windows = f"windows of {text_of_length(length_of(self.window_length))}"
        return (
            f"with {windows} there would be {tables:,} tables at once, over the quota of"
            f" {self.quota:,} ({named('table_quota')}): keep fewer, or make longer windows"
        )
