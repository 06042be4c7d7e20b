"""What is to be deployed: the options of the CDK's context, as far as an account limits them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tallyroll.errors import UsageError
from tallyroll.settings import Settings
from tallyroll.settings.texts import PREFIX

OPTION = "tallyroll:"
# What tells the CDK's bootstraps of a Region apart, and its default. Source: AWS CDK Developer
# Guide, "Customize AWS CDK bootstrapping".
QUALIFIER, USUAL = "@aws-cdk/core:bootstrapQualifier", "hnb659fds"
_QUALIFIER = re.compile(r"[A-Za-z0-9_-]{1,10}")
# The defaults of the options `max_concurrency` and, with pollers, the writers that one runs.
MAX_CONCURRENCY, POLLER_WRITERS = 4, 10
API_LOG_ROLE = "auto"  # the default of the option `api_log_role`
_SAME = (
    "deny_drops",
    "keyspace",
    "kms_key",
    "name",
    "provisioned",
    "store",
    "table_quota",
    "tags",
    "warm_units",
    "warm_units_max",
    "window_seconds",
    "write_rate",
)
_IN_SECONDS = {"accept_for_seconds": "accept_for_ms", "retention_seconds": "retention_ms"}


@dataclass(frozen=True, slots=True)
class PlannedDeployment:
    """The settings, the most writers at once, how many are reserved for them, if any, the qualifier
    of the CDK's bootstrap, and all options as they were given, without their prefix.
    """

    settings: Settings
    writers: int = MAX_CONCURRENCY
    reserved: int | None = None
    qualifier: str = USUAL
    options: Mapping[str, Any] = field(default_factory=dict)

    def option(self, name: str, default: str = "") -> str:
        """An option as a text, truth values in small letters."""
        value = self.options.get(name, default)
        return str(value).lower() if isinstance(value, bool) else str(value)


def wish_of(context: Mapping[str, Any], environment: Mapping[str, str]) -> PlannedDeployment:
    """What a context of the CDK and an environment ask for; the context goes first.

    Raises UsageError for a value that is no option's.
    """
    given = {
        key.removeprefix(OPTION): value for key, value in context.items() if key.startswith(OPTION)
    }
    variables = {
        PREFIX + name.upper(): _text(given[name]) for name in _SAME if given.get(name) is not None
    }
    for name, setting in _IN_SECONDS.items():
        if given.get(name) is not None:
            variables[PREFIX + setting.upper()] = str(_whole(name, given[name]) * 1000)
    settings = Settings.from_env({**environment, **variables})
    reserved = given.get("reserved_concurrency")
    return PlannedDeployment(
        settings,
        writers=_writers(given),
        reserved=None if reserved in (None, "") else _whole("reserved_concurrency", reserved),
        qualifier=qualifier_of(context),
        options=given,
    )


def qualifier_of(context: Mapping[str, Any]) -> str:
    """The qualifier of the CDK's bootstrap. Raises UsageError for one that the CDK refuses."""
    found = context.get(QUALIFIER, USUAL)
    if not _QUALIFIER.fullmatch(str(found)):
        raise UsageError(f"{QUALIFIER} {found!r}: give 1 to 10 letters, digits, _ and -")
    return str(found)


def _writers(given: Mapping[str, Any]) -> int:
    pollers = given.get("pollers") or {}
    if isinstance(pollers, str):
        try:
            pollers = json.loads(pollers)
        except ValueError:
            pollers = None
    if not isinstance(pollers, dict):
        raise UsageError(f'{OPTION}pollers {given["pollers"]!r}: give {{"min": 2, "max": 20}}')
    if pollers:
        return _whole("pollers", pollers.get("max")) * POLLER_WRITERS
    return _whole("max_concurrency", given.get("max_concurrency", MAX_CONCURRENCY))


def _whole(name: str, value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise UsageError(f"{OPTION}{name} {value!r}: give a whole number") from None


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value)
