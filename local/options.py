"""The pipeline's options on this machine: the same `-c tallyroll:NAME=VALUE` as in a deployment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from local.aws.embedded import scaled_settings
from local.pipeline import BATCH_SIZE, BATCH_WINDOW_S
from tallyroll.model.windows import DYNAMODB
from tallyroll.settings import Settings
from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import PREFIX, VISIBILITY_BATCHES, OptionsError, check_names

# The settings that an option of another name decides.
_DECIDES = {
    "accept_for_seconds": ("accept_for_ms",),
    "gates": ("gates",),
    "max_concurrency": ("stripes_min", "gates"),
    "pollers": ("stripes_min", "gates"),
    "retention_seconds": ("retention_ms",),
    "skew_seconds": ("skew_ms",),
    "stripes": ("stripes_min",),
}
# The settings of AWS's services that the emulators lack.
_OF_AWS_ALONE = frozenset(
    {
        *("archive_expire_days", "archive_lock", "archive_lock_days"),
        *("contributor_insights", "deny_drops", "exporter", "keyspace", "kms_key"),
        "point_in_time_recovery",
        *("provisioned", "tags", "tracer", "warm_units", "warm_units_max"),
    }
)
_OF_THE_POLLER = ("batch_size", "batch_window_seconds")


_OPTIONS = [option.name for option in fields(Options)]
_SETTINGS = frozenset(setting.name for setting in fields(Settings))


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """The settings, the poller's batches, and the given options that change nothing here."""

    settings: Settings
    batch_size: int
    batch_window_s: float
    without_effect: tuple[str, ...]


def options_of(
    given: Sequence[str],
    *,
    name: str,
    window_seconds: int,
    retention_seconds: int | None = None,
    store: str = DYNAMODB,
) -> LocalOptions:
    """What the texts `tallyroll:NAME=VALUE` ask for; they go before the other arguments.

    Times that are not given keep their default proportion to the window. Raises OptionsError with
    the remedy, as a deployment does.
    """
    named = {"name": name, "window_seconds": str(window_seconds)}
    if retention_seconds is not None:
        named["retention_seconds"] = str(retention_seconds)
    asked = {**named, **_by_name(given)}
    length = Options.read("window_seconds", asked["window_seconds"])
    scaled = scaled_settings(Settings().name, length)
    whole = {
        "accept_for_seconds": str(scaled.accept_for_ms // 1000),
        "retention_seconds": str(scaled.retention_ms // 1000),
        "skew_seconds": str(scaled.skew_ms // 1000),
        "store": store,
    }
    options = Options.from_context({PREFIX + key: v for key, v in (whole | asked).items()})
    if options.store != store:
        raise OptionsError(
            f"{PREFIX}store {options.store}: leave it out; --engine says where the windows are"
            " (with make, ENGINE=cassandra)"
        )
    decided = {
        setting: getattr(options.settings(), setting)
        for option in asked.keys() - _OF_AWS_ALONE - {"store"}
        for setting in _DECIDES.get(option, (option,))
        if setting in _SETTINGS
    }
    settings = replace(scaled, **decided)
    gathered = options.batch_window_seconds if "batch_window_seconds" in asked else None
    if gathered:
        longer = 1000 * VISIBILITY_BATCHES * gathered
        settings = replace(settings, visibility_ms=settings.visibility_ms + longer)
    used = {*_SETTINGS - _OF_AWS_ALONE, *_DECIDES, *_OF_THE_POLLER}
    return LocalOptions(
        settings,
        batch_size=options.batch_size if "batch_size" in asked else BATCH_SIZE,
        batch_window_s=BATCH_WINDOW_S if gathered is None else gathered,
        without_effect=tuple(sorted(asked.keys() - used)),
    )


def _by_name(given: Sequence[str]) -> dict[str, str]:
    """The values of texts `tallyroll:NAME=VALUE` by name."""
    values = {}
    for text in given:
        key, equals, value = text.partition("=")
        name = key.removeprefix(PREFIX)
        check_names([name], _OPTIONS)
        if not equals or name == key:
            raise OptionsError(f"-c {text}: give -c {PREFIX}{name}={value or 'VALUE'}")
        values[name] = value
    return values
