"""The deployment's settings, as far as the command can find them out."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from tallyroll import wiring
from tallyroll.cli_queues import with_queue, with_queues
from tallyroll.cli_screen import Screen
from tallyroll.diagnosis import Case
from tallyroll.errors import Missing, StoreError
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


def deployed(settings: Settings, screen: Screen | None) -> Deployed:
    """What the pipeline's roller was deployed with; `screen` is told if that is not known."""
    try:
        environment = wiring.adapters(settings).deployment.environment(settings.name)
    except StoreError as error:
        if screen:
            screen.tell(
                f"the deployment's settings are not known, this environment's are used: {error}"
            )
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


def case_of(arguments: Namespace, settings: Settings, screen: Screen, *, deep: bool) -> Case:
    """The pipeline as doctor and teardown look at it. Raises StoreError."""
    found = deployed(settings, screen)
    settings = found.settings
    if arguments.bucket:
        settings = replace(settings, bucket=arguments.bucket)
    settings, queue, dead_letters = _with_queues(settings, screen, arguments)
    made: Any = wiring.adapters(settings)
    return Case(
        settings=settings,
        catalog=made.catalog,
        store=made.store,
        totals=made.totals,
        tables=made.tables,
        queue=made.queue if queue else None,
        dead_letters=made.dead_letters_queue if dead_letters else None,
        bucket=made.bucket if settings.bucket else None,
        effects=made.effects,
        handed_back=made.queue_metrics.handed_back,
        deep=deep,
        deployed=found.there,
        wished=found.differ,
    )


def _with_queues(
    settings: Settings, screen: Screen, arguments: Namespace
) -> tuple[Settings, bool, bool]:
    """The settings with the queues' URLs, and which of them there are."""
    named = arguments.name is not None
    if settings.queue_url and settings.dead_letters_url and not named:
        return settings, True, True
    try:
        return with_queues(settings, screen, named=named), True, True
    except Missing:
        pass
    try:
        return with_queue(settings, screen, named=named), True, False
    except Missing:
        return settings, False, False
