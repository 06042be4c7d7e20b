"""What a deployment may choose: the keys `tallyroll:...` of the CDK's context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from tallyroll.errors import SettingsError, UsageError
from tallyroll.limits import SHARDS_MAX
from tallyroll.settings import Settings

PREFIX = "tallyroll:"
WRITER_TIMEOUT_SECONDS = 60
BATCH_SIZE_UNBUFFERED = 10  # a larger batch needs a window of at least 1 s
# The queue must hide messages for that many times what a batch may take, so that Lambda can try
# again while it is throttled. Source: AWS Lambda Developer Guide, "Using Lambda with Amazon SQS".
VISIBILITY_BATCHES = 6
STRIPES_PER_COMMIT = 4  # with fewer, commits that run at once meet on one stripe too often

_DEFAULTS = Settings()


class OptionsError(UsageError):
    """The context's keys do not describe a pipeline; the message names the one that is wrong."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """A deployment's choices; each is the context's key `tallyroll:` and its name.

    Raises OptionsError, naming the key, for a value out of its range.
    """

    name: str = _DEFAULTS.name
    """The pipeline's name, and the stack's."""
    window_seconds: int = _DEFAULTS.window_seconds
    """The length of a window; it stays as it was when the pipeline first ran."""
    shards: int = _DEFAULTS.shards
    """N, the shards of a key."""
    retention_seconds: int = _DEFAULTS.retention_ms // 1000
    """How long a sealed window's table stays before it is archived and dropped."""
    accept_for_seconds: int = _DEFAULTS.accept_for_ms // 1000
    """How long after its end a window accepts late events."""
    batch_size: int = 1_000
    """The most messages that the writer is given at once."""
    batch_window_seconds: int = 1
    """How long Lambda gathers a batch; events count that much later at the most."""
    max_concurrency: int = 4
    """The most writers at once. A new account runs 10 functions at once, all told."""

    def __post_init__(self) -> None:
        for name, least, most in _RANGES:
            value = getattr(self, name)
            if not least <= value <= most:
                raise OptionsError(f"{PREFIX}{name} {value}: must be from {least} to {most}")
        if self.batch_size > BATCH_SIZE_UNBUFFERED and not self.batch_window_seconds:
            raise OptionsError(
                f"{PREFIX}batch_window_seconds 0: must be at least 1 for a batch of more than"
                f" {BATCH_SIZE_UNBUFFERED} ({PREFIX}batch_size {self.batch_size})"
            )
        try:
            self.settings()
        except SettingsError as error:
            raise OptionsError(f"a key {PREFIX}... of the context: {error}") from None

    @classmethod
    def from_context(cls, context: Mapping[str, Any]) -> Options:
        """The options in a CDK context; numbers may be text, as `cdk -c key=value` gives them.

        Keys without the prefix are the CDK's own. Raises OptionsError for an unknown one with it.
        """
        kinds = {option.name: option.type for option in fields(cls)}
        given: dict[str, Any] = {}
        for key, value in context.items():
            if not key.startswith(PREFIX):
                continue
            name = key.removeprefix(PREFIX)
            if name not in kinds:
                known = ", ".join(PREFIX + known for known in kinds)
                raise OptionsError(f"{key}: there is no such option; there are {known}")
            given[name] = _number(key, value) if kinds[name] == "int" else str(value)
        return cls(**given)

    def settings(
        self, *, queue_url: str = "", dead_letters_url: str = "", bucket: str = ""
    ) -> Settings:
        """The pipeline's settings; the URLs and the bucket's name are known once they are made."""
        at_once = self.max_concurrency * _DEFAULTS.transactions_at_once
        visibility_s = VISIBILITY_BATCHES * (WRITER_TIMEOUT_SECONDS + self.batch_window_seconds)
        return Settings(
            name=self.name,
            queue_url=queue_url,
            dead_letters_url=dead_letters_url,
            bucket=bucket,
            window_seconds=self.window_seconds,
            shards=self.shards,
            stripes_min=min(SHARDS_MAX, max(_DEFAULTS.stripes_min, STRIPES_PER_COMMIT * at_once)),
            accept_for_ms=self.accept_for_seconds * 1000,
            retention_ms=self.retention_seconds * 1000,
            visibility_ms=visibility_s * 1000,
        )


# Those of the event source; `Settings` checks the others. Source: AWS Lambda Developer Guide,
# "Using Lambda with Amazon SQS".
_RANGES = (
    ("batch_size", 1, 10_000),
    ("batch_window_seconds", 0, 300),
    ("max_concurrency", 2, 1_000),
)


def _number(key: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        return int(str(value))
    except ValueError:
        raise OptionsError(f"{key} {value!r}: must be a whole number") from None
