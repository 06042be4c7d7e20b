"""Which engine keeps the tables, and the settings of a pipeline in a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from tallyroll.errors import UsageError
from tallyroll.settings import Settings

MEMORY, MOTO, DYNAMODB_LOCAL = ENGINES = ("memory", "moto", "dynamodb-local")

_OWN = ("engine", "endpoint", "region")
_KINDS = {bool: "True or False", int: "a whole number", str: "a text", Mapping: "a dict"}

DEFAULTS = Settings(
    name="tallyroll-test",
    # What only concurrency and load need costs a test its time: moto walks through every item.
    shards=4,
    shards_max=4,
    stripes_min=8,
    buckets=1,
    gates=2,
    export_segments=1,
    transactions_at_once=1,
    point_in_time_recovery=False,
    cache_live_ms=0,
    retention_ms=3_600_000,
)
"""The settings of the fixture: windows, times and rules are those of a default deployment, what
spreads load is small.
"""


@dataclass(frozen=True)
class FixtureOptions:
    """How a test's pipeline runs: on which engine, with which settings.

    `endpoint` is the address of DynamoDB Local, for the engine `dynamodb-local`. `region` is where
    the pipeline is, by default the Region of the environment. Raises UsageError for an unknown
    engine, or one without its endpoint.
    """

    engine: str = MOTO
    endpoint: str = ""
    region: str = ""
    settings: Settings = DEFAULTS

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise UsageError(f"engine {self.engine!r}: must be one of {', '.join(ENGINES)}")
        if self.engine == DYNAMODB_LOCAL and not self.endpoint:
            raise UsageError(
                "engine dynamodb-local: give the address of a running one, such as"
                " http://127.0.0.1:8000 (--tallyroll-dynamodb-endpoint, or"
                " tallyroll_dynamodb_endpoint in pytest's configuration)"
            )

    def changed(self, changes: Mapping[str, Any]) -> FixtureOptions:
        """These options with changes by name: `engine`, `endpoint`, `region`, or any setting.

        Raises UsageError for an unknown name and a value of a wrong type, SettingsError for one out
        of its range.
        """
        known = {setting.name for setting in fields(Settings)}
        own = {name: value for name, value in changes.items() if name in _OWN}
        rest = {name: value for name, value in changes.items() if name not in own}
        if unknown := sorted(rest.keys() - known):
            raise UsageError(
                f"{', '.join(unknown)}: no setting; give {', '.join(_OWN)}, or a setting of"
                " tallyroll.Settings"
            )
        for name, value in changes.items():
            of = self if name in _OWN else self.settings
            # A bool is an int of Python's, and comes first.
            wanted = next(kind for kind in _KINDS if isinstance(getattr(of, name), kind))
            if not isinstance(value, wanted) or isinstance(value, bool) is not (wanted is bool):
                raise UsageError(f"{name} {value!r}: give {_KINDS[wanted]}")
        return replace(self, **own, settings=replace(self.settings, **rest))
