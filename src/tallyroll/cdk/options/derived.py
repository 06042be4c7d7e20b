"""The pipeline's settings that follow from its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypedDict

from tallyroll.limits import GATES_MAX, GATES_PER_COMMIT, SHARDS_MAX, STRIPES_PER_COMMIT
from tallyroll.settings import Settings

if TYPE_CHECKING:
    from tallyroll.cdk.options import Options

_DEFAULTS = Settings()


class Given(TypedDict, total=False):
    """What the options do not say. `visibility_seconds` and `retention_seconds` are those of a
    given queue; `tags` and `kms_key` replace the options'.
    """

    queue_url: str
    dead_letters_url: str
    bucket: str
    visibility_seconds: int
    retention_seconds: int
    tags: Mapping[str, str]
    kms_key: str


def settings_of(options: Options, given: Given) -> Settings:
    """The settings of options, and of what is given beside them."""
    visible_seconds = given.get("visibility_seconds", options.visibility_seconds)
    kept_seconds = given.get("retention_seconds", _DEFAULTS.queue_retention_ms // 1000)
    at_once = options.writers_max * _DEFAULTS.transactions_at_once
    stripes = min(SHARDS_MAX, max(_DEFAULTS.stripes_min, STRIPES_PER_COMMIT * at_once))
    gates = min(GATES_MAX, max(_DEFAULTS.gates, GATES_PER_COMMIT * at_once))
    own = {option.name for option in fields(options)}
    computed: dict[str, Any] = {
        "queue_url": given.get("queue_url", ""),
        "dead_letters_url": given.get("dead_letters_url", ""),
        "bucket": given.get("bucket", ""),
        "stripes_min": options.stripes if options.stripes is not None else stripes,
        "gates": options.gates if options.gates is not None else gates,
        "accept_for_ms": options.accept_for_seconds * 1000,
        "skew_ms": options.skew_seconds * 1000,
        "retention_ms": options.retention_seconds * 1000,
        "visibility_ms": visible_seconds * 1000,
        "queue_retention_ms": kept_seconds * 1000,
        "tags": given.get("tags", options.tags),
        "kms_key": given.get("kms_key", options.kms_key),
    }
    names = [setting.name for setting in fields(Settings) if setting.name in own]
    return Settings(**{**{name: getattr(options, name) for name in names}, **computed})
