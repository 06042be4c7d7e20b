"""What window tables are made with on Amazon Keyspaces: capacity, backups, a key, tags.

Sources: Amazon Keyspaces Developer Guide, "CQL language reference", at Tables (properties, tags,
and that an ALTER TABLE changes one property), "Create a new Amazon Keyspaces table with higher warm
throughput", "View the capacity mode of a table in Amazon Keyspaces".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tallyroll.adapters.dynamodb.throughput import warm_units
from tallyroll.limits import WARM_READ_UNITS_MIN
from tallyroll.resources import declare
from tallyroll.settings import Settings

CAPACITY = "capacity_mode"
READ, WRITE = "read_capacity_units", "write_capacity_units"

Properties = Mapping[str, Mapping[str, str | int]]


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options of the window tables of a pipeline with these settings."""

    settings: Settings

    def new(self, tags: Mapping[str, str], peak: int) -> str:
        """Those of a new table; `peak` is that of the last windows, in write units a second."""
        given = self.settings
        properties: dict[str, Mapping[str, str | int]] = {CAPACITY: self._capacity("write", "read")}
        warm = 0 if given.provisioned else warm_units(given, peak)
        if warm:
            properties["warm_throughput"] = {
                "read_units_per_second": WARM_READ_UNITS_MIN,
                "write_units_per_second": warm,
            }
        if given.kms_key:
            properties["encryption_specification"] = {
                "encryption_type": "CUSTOMER_MANAGED_KMS_KEY",
                "kms_key_identifier": given.kms_key,
            }
        backups = "enabled" if given.point_in_time_recovery else "disabled"
        properties["point_in_time_recovery"] = {"status": backups}
        own = {**declare(given).windows.tags, **tags}
        return f"{_property(properties)} AND TAGS = {literal(own)}"

    def cold(self, found: Mapping[str, Mapping[str, str]]) -> str:
        """The option that lowers the capacity of a table with these properties; "" if nothing is to
        be done.
        """
        if not self.settings.provisioned:
            return ""
        cold = self._capacity("cold_write", "cold_read")
        there = found.get(CAPACITY, {})
        if all(str(there.get(name)) == str(cold[name]) for name in (READ, WRITE)):
            return ""
        return _property({CAPACITY: cold})

    def _capacity(self, write: str, read: str) -> Mapping[str, str | int]:
        units = self.settings.provisioned
        if not units:
            return {"throughput_mode": "PAY_PER_REQUEST"}
        return {"throughput_mode": "PROVISIONED", READ: units[read], WRITE: units[write]}


def literal(value: Mapping[str, Any] | str | int) -> str:
    """A map, a text or a number, as CQL writes it."""
    if isinstance(value, Mapping):
        parts = (f"{literal(key)}: {literal(each)}" for key, each in value.items())
        return f"{{{', '.join(parts)}}}"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


def _property(properties: Properties) -> str:
    return f"CUSTOM_PROPERTIES = {literal(properties)}"
