"""The deployment's settings, as far as the command can find them out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields

from tallyroll.errors import StoreError
from tallyroll.ports.tables import Deployment
from tallyroll.settings import PREFIX, Settings

_PLACES = tuple(PREFIX + name for name in ("QUEUE_URL", "DEAD_LETTERS_URL", "BUCKET"))


@dataclass(frozen=True, slots=True)
class Deployed:
    """The settings that hold: the deployment's, or those of this environment where nothing is
    deployed or that could not be found out (`there` None). `differ` has those that are set
    otherwise here: variable to (here, there).
    """

    settings: Settings
    there: bool | None
    differ: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def deployed(
    settings: Settings, deployment: Deployment, tell: Callable[[str], None] | None
) -> Deployed:
    """What the pipeline's roller was deployed with; `tell` is called if that is not known."""
    try:
        environment = deployment.environment(settings.name)
    except StoreError as error:
        if tell:
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
