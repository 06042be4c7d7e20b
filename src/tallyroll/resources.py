"""Everything that a pipeline keeps in AWS, declared once.

`infra` makes constructs of the declarations, others create calls: `table_request` and
`queue_attributes` turn them into the parameters of CreateTable and CreateQueue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tallyroll.limits import QUEUE_MESSAGE_BYTES_MAX, RECEIVES_FUSE
from tallyroll.model.windows import WindowId
from tallyroll.settings import Settings

TAG_PIPELINE = "tallyroll"
"""The tag that every resource of a pipeline has; its value is the pipeline's name."""

TAG_PROVEN = "proven"
"""The tag that only cleanup sets, on a window table whose archive is proven; without it no drop."""

PARTITION_KEY = "pk"
SORT_KEY = "sk"
_DAY_SECONDS = 86_400
DEAD_LETTERS_RETENTION_SECONDS = 14 * _DAY_SECONDS  # they expire by their original time, so: longer


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDeclaration:
    """A DynamoDB table with two string keys, paid per request, encrypted by the service's key."""

    name: str
    tags: Mapping[str, str] = field(default_factory=dict)
    partition_key: str = PARTITION_KEY
    sort_key: str = SORT_KEY
    point_in_time_recovery: bool = True
    deletion_protection: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDeclaration:
    """A standard SQS queue; past `max_receives` messages move to the queue `dead_letters`."""

    name: str
    visibility_seconds: int
    retention_seconds: int
    encrypted: bool = True
    message_bytes_max: int = QUEUE_MESSAGE_BYTES_MAX
    dead_letters: str | None = None
    max_receives: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketDeclaration:
    """The archive bucket; `name` is empty where the deployment lets CloudFormation choose it.

    Objects move to colder storage after `cold_after_days`: an archive is read as a whole when it is
    proven, within hours, and seldom after. What was overwritten is kept for `noncurrent_days`.
    """

    name: str = ""
    versioned: bool = True
    block_public_access: bool = True
    cold_after_days: int = 30
    noncurrent_days: int = 90
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one pipeline has for ever, and the pattern of its window tables."""

    name: str
    queue: QueueDeclaration
    dead_letters: QueueDeclaration
    catalog: TableDeclaration
    totals: TableDeclaration
    bucket: BucketDeclaration
    windows: TableDeclaration
    """The window tables' pattern: its name is the prefix that window ids follow."""

    def window_table(self, window: WindowId) -> TableDeclaration:
        """The table of one window, `{name}-20261120T080000Z`."""
        return replace(self.windows, name=self.windows.name + window)


def function_name(pipeline: str, package: str) -> str:
    """The name of a pipeline's Lambda function: `package` is the one in `functions` it runs."""
    return f"{pipeline}-{package}"


def declare(settings: Settings) -> Resources:
    """The resources of the pipeline that `settings` describe."""
    name = settings.name
    tags = {TAG_PIPELINE: name}
    dead_letters = f"{name}-dead-letters"
    visibility_seconds = -(-settings.visibility_ms // 1000)
    return Resources(
        name=name,
        queue=QueueDeclaration(
            name=f"{name}-events",
            visibility_seconds=visibility_seconds,
            retention_seconds=settings.queue_retention_ms // 1000,
            dead_letters=dead_letters,
            max_receives=RECEIVES_FUSE,
            tags=tags,
        ),
        dead_letters=QueueDeclaration(
            name=dead_letters,
            visibility_seconds=visibility_seconds,
            retention_seconds=DEAD_LETTERS_RETENTION_SECONDS,
            tags=tags,
        ),
        catalog=TableDeclaration(name=f"{name}-catalog", tags=tags),
        totals=TableDeclaration(name=f"{name}-totals", tags=tags),
        bucket=BucketDeclaration(name=settings.bucket, tags=tags),
        windows=TableDeclaration(name=f"{name}-", tags=tags),
    )
