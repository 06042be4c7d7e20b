"""Finds the deployment's settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields

from tallyroll.errors import StoreError
from tallyroll.ports.table_listing import Deployment
from tallyroll.settings import Settings
from tallyroll.settings.texts import PREFIX

_PLACES = tuple(PREFIX + name for name in ("QUEUE_URL", "DEAD_LETTERS_URL", "BUCKET", "CACHE_URL"))


@dataclass(frozen=True, slots=True)
class Deployed:
    """The settings to use: the deployment's, or this environment's if nothing is deployed (`there`
    is False) or that is not known (`there` is None).

    `differ` has the settings with another value here: variable to (here, there).
    """

    settings: Settings
    there: bool | None
    differ: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def deployed(
    settings: Settings, deployment: Deployment, tell: Callable[[str], None] | None
) -> Deployed:
    """The settings of the pipeline's roller; calls `tell` if they cannot be read. Of a missing
    identity or Region the next call tells, with the remedy.
    """
    try:
        environment = deployment.environment(settings.name)
    except StoreError as error:
        if tell and not error.of_environment:
            tell(f"the deployment's settings are not known, this environment's are used: {error}")
        return Deployed(settings, None)
    if environment is None:
        return Deployed(settings, there=False)
    places = {name: text for name, text in settings.to_env().items() if name in _PLACES}
    theirs = Settings.from_env({**places, **environment, PREFIX + "NAME": settings.name})
    differ = {}
    for setting in fields(Settings):
        variable = PREFIX + setting.name.upper()
        here, there = getattr(settings, setting.name), getattr(theirs, setting.name)
        if os.environ.get(variable) and setting.name != "name" and here != there:
            differ[variable] = (str(here), str(there))
    return Deployed(theirs, there=True, differ=differ)
