"""Finds the URLs of a pipeline's queues."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from tallyroll.adapters.aws.client import Caller, make_client, translated
from tallyroll.adapters.system import SystemEffects
from tallyroll.errors import Missing, UsageError
from tallyroll.resources import declare
from tallyroll.settings import Settings

Tell = Callable[[str], None]


def with_queue(settings: Settings, tell: Tell, *, named: bool) -> Settings:
    """The settings with the event queue's URL.

    Raises UsageError if the URL is not that of the pipeline given by `--name`, and StoreError:
    Missing if there is no such queue.
    """
    name, given = declare(settings).queue.name, settings.queue_url
    return replace(settings, queue_url=_url(name, given, "QUEUE_URL", settings, tell, named=named))


def with_queues(settings: Settings, tell: Tell, *, named: bool) -> Settings:
    """The settings with the URLs of the event queue and the dead-letter queue."""
    settings = with_queue(settings, tell, named=named)
    name, given = declare(settings).dead_letters.name, settings.dead_letters_url
    url = _url(name, given, "DEAD_LETTERS_URL", settings, tell, named=named)
    return replace(settings, dead_letters_url=url)


def with_found_queues(
    settings: Settings, tell: Tell, *, named: bool
) -> tuple[Settings, bool, bool]:
    """The settings with the URLs of the queues that exist, and which of the two do."""
    if settings.queue_url and settings.dead_letters_url and not named:
        return settings, True, True
    for find, dead_letters in ((with_queues, True), (with_queue, False)):
        with suppress(Missing):
            return find(settings, tell, named=named), True, dead_letters
    return settings, False, False


def _url(
    name: str, given: str, variable: str, settings: Settings, tell: Tell, *, named: bool
) -> str:
    if not given:
        with translated("connect"):
            caller = Caller(make_client("sqs"), SystemEffects())
        return str(caller.read("GetQueueUrl", QueueName=name)["QueueUrl"])
    if given.rpartition("/")[2] != name:
        if named:
            raise UsageError(
                f"--name {settings.name!r} has the queue {name}, but TALLYROLL_{variable} is"
                f" {given}: unset the variable or leave out --name"
            )
        tell(f"TALLYROLL_{variable} leads to {given}, not to {name}")
    return given
