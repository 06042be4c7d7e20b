"""What is to be deployed: the options of the CDK's context, and the settings of an environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tallyroll.errors import UsageError
from tallyroll.settings import Settings
from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import MAX_CONCURRENCY
from tallyroll.settings.texts import text_of

# What tells the CDK's bootstraps of a Region apart, and its default. Source: AWS CDK Developer
# Guide, "Customize AWS CDK bootstrapping".
QUALIFIER, USUAL = "@aws-cdk/core:bootstrapQualifier", "hnb659fds"
_QUALIFIER = re.compile(r"[A-Za-z0-9_-]{1,10}")


@dataclass(frozen=True, slots=True)
class PlannedDeployment:
    """The settings, the most writers at once, how many are reserved for them, if any, the qualifier
    of the CDK's bootstrap, and all options.
    """

    settings: Settings
    writers: int = MAX_CONCURRENCY
    reserved: int | None = None
    qualifier: str = USUAL
    options: Options = field(default_factory=Options)


def wish_of(context: Mapping[str, Any], environment: Mapping[str, str]) -> PlannedDeployment:
    """What a context of the CDK and an environment ask for; the context goes first.

    Raises UsageError as a deployment does: for an unknown option, and for a wrong value.
    """
    options = Options.from_context(context)
    settings, given = options.settings(), options.settings_given(context)
    variables = {Settings.named(name): text_of(getattr(settings, name)) for name in given}
    return PlannedDeployment(
        Settings.from_env({**environment, **variables}),
        writers=options.writers_max,
        reserved=options.reserved_concurrency,
        qualifier=qualifier_of(context),
        options=options,
    )


def qualifier_of(context: Mapping[str, Any]) -> str:
    """The qualifier of the CDK's bootstrap. Raises UsageError for one that the CDK refuses."""
    found = context.get(QUALIFIER, USUAL)
    if not _QUALIFIER.fullmatch(str(found)):
        raise UsageError(f"{QUALIFIER} {found!r}: give 1 to 10 letters, digits, _ and -")
    return str(found)
