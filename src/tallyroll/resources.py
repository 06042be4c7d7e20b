"""Declarations of everything that a pipeline owns in AWS.

The CDK constructs are made from them, and so are the parameters of CreateTable and CreateQueue.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from tallyroll.errors import UsageError
from tallyroll.limits import QUEUE_MESSAGE_BYTES_MAX, RECEIVES_FUSE
from tallyroll.model.ids import EXPIRES
from tallyroll.model.windows import WindowId
from tallyroll.settings import Settings

TAG_PIPELINE = "tallyroll"
"""Tag of every resource of a pipeline; its value is the pipeline's name."""

TAG_PROVEN = "proven"
"""Tag that cleanup alone sets, on a window table whose archive is proven. Without it, IAM does not
let the dropper delete the table.
"""

THROTTLED_KEYS_RULE = "DynamoDBContributorInsights-PKT-"
"""Begins the names of CloudWatch's rules on throttled partition keys, before table and time."""

TAG_RESTORED = "tallyroll-restored"
"""Tag of a table that an archive was restored into; its value is the archive's prefix."""

ALIAS_LIVE = "live"
"""The alias of the version of a function that callers invoke, where versions are published."""

LOG_ROLE_WRITER = "log-role"
"""The function that sets API Gateway's role for logs; it is no package in `functions`."""

PARTITION_KEY = "pk"
SORT_KEY = "sk"
_DAY_SECONDS = 86_400
_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")  # DynamoDB Developer Guide, "Naming rules"
_WINDOW_TABLE = re.compile(r".+-[0-9]{8}T[0-9]{6}Z")
# Longer than the event queue's: a message that SQS moves keeps its original send time.
DEAD_LETTERS_RETENTION_SECONDS = 14 * _DAY_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDeclaration:
    """A DynamoDB table with two string keys (or one, if `sort_key` is empty), on demand, encrypted
    with the KMS key of this ARN, or with the service's own key. A resource policy denies everybody
    to delete it without the tag `drop_needs`, if that is given. DynamoDB deletes an item once the
    time in its attribute `expires_by` (s since the epoch) is past, if that is given.
    """

    name: str
    tags: Mapping[str, str] = field(default_factory=dict)
    partition_key: str = PARTITION_KEY
    sort_key: str = SORT_KEY
    point_in_time_recovery: bool = True
    deletion_protection: bool = True
    kms_key: str = ""
    drop_needs: str = ""
    expires_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDeclaration:
    """A standard SQS queue. After `max_receives`, messages move to the queue `dead_letters`."""

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
    """The archive bucket; `name` is empty if CloudFormation chooses it.

    Objects move to colder storage after `cold_after_days`: an archive is read completely when it is
    proven, within hours, and seldom later. Notes of exports and proofs are deleted after
    `progress_days`. What was overwritten or deleted is kept for `noncurrent_days`. Archives are
    deleted after `expire_days`, unless these are 0. Where it `locks`, an object may be put so that
    nobody can delete it for some time.
    """

    name: str = ""
    versioned: bool = True
    block_public_access: bool = True
    cold_after_days: int = 30
    progress_days: int = 30
    noncurrent_days: int = 90
    locks: bool = False
    expire_days: int = 0
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The permanent resources of one pipeline, and the pattern of its window tables."""

    name: str
    queue: QueueDeclaration
    dead_letters: QueueDeclaration
    catalog: TableDeclaration
    totals: TableDeclaration
    bucket: BucketDeclaration
    windows: TableDeclaration
    """The window tables' pattern: its name is the prefix that window ids follow."""

    identities: TableDeclaration | None = None
    """The table of ids that outlive their windows, if there is one."""

    keyspace: str = ""
    """The keyspace in Amazon Keyspaces that window tables may be in; empty for none."""

    @property
    def permanent(self) -> tuple[TableDeclaration, ...]:
        """The tables in DynamoDB that outlive windows."""
        beside = (self.identities,) if self.identities else ()
        return (self.catalog, self.totals, *beside)

    def window_table(self, window: WindowId) -> TableDeclaration:
        """The table of one window, `{name}-20261120T080000Z`."""
        return replace(self.windows, name=self.windows.name + window)


def function_name(pipeline: str, package: str) -> str:
    """The name of a pipeline's Lambda function; `package` is its package in `functions`."""
    return f"{pipeline}-{package}"


def identities_table(pipeline: str) -> str:
    """The name of a pipeline's table of identities."""
    return f"{pipeline}-identities"


def declare(settings: Settings) -> Resources:
    """The resources of the pipeline that `settings` describe."""
    name = settings.name
    tags = {**settings.tags, TAG_PIPELINE: name}
    table = partial(TableDeclaration, tags=tags, kms_key=settings.kms_key)
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
        catalog=table(name=f"{name}-catalog"),
        totals=table(name=f"{name}-totals"),
        bucket=BucketDeclaration(
            name=settings.bucket,
            tags=tags,
            locks=settings.archive_lock_days > 0,
            expire_days=settings.archive_expire_days,
        ),
        windows=table(name=f"{name}-", drop_needs=TAG_PROVEN if settings.deny_drops else ""),
        identities=table(name=identities_table(name), sort_key="", expires_by=EXPIRES)
        if settings.has_identities
        else None,
        keyspace=settings.window_keyspace,
    )


def check_table(name: str, taken: Iterable[str]) -> None:
    """Raise UsageError unless a restored table may have this name.

    It must not be a window table's name, since functions have permissions for those, nor one of
    `taken`.
    """
    if not _TABLE.fullmatch(name):
        raise UsageError(
            f"table {name!r}: 3 to 255 letters, digits, underscores, hyphens and full stops"
        )
    if _WINDOW_TABLE.fullmatch(name):
        raise UsageError(
            f"table {name!r}: that is the name of a window's table, which writers may write to and"
            f" the dropper may drop; restore into another one, such as {name + '-inspected'!r}"
        )
    if name in taken:
        raise UsageError(f"table {name!r} belongs to the pipeline: restore into another one")
