"""The doctor's checks of permanent tables, window tables and stray tables."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from tallyroll.errors import Missing
from tallyroll.lifecycle import health
from tallyroll.lifecycle.overdue import roller_grace_ms
from tallyroll.limits import TABLE_QUOTA, TS_MS_MAX
from tallyroll.model.states import Moment, Status, Window
from tallyroll.model.windows import DYNAMODB, WindowId, name_in_store, window_start
from tallyroll.operations.doctor import keyspaces_checks
from tallyroll.operations.doctor.checkup import (
    Checkup,
    Sign,
    finding,
    finding_of,
    fine,
    restoring,
    warning,
)
from tallyroll.ports.table_listing import TableCard, TableListing, window_of
from tallyroll.resources import TAG_PIPELINE, TAG_PROVEN, TableDeclaration

_RESTORE = (
    "With point-in-time recovery AWS keeps a backup for 35 days: `aws dynamodb list-backups"
    " --table-name {table} --backup-type SYSTEM`, then `aws dynamodb"
    " restore-table-from-backup --target-table-name {table} --backup-arn ARN`."
)
DELETING, INACCESSIBLE = "DELETING", "INACCESSIBLE_ENCRYPTION_CREDENTIALS"
_USABLE = ("ACTIVE", "UPDATING")
_OWN_KEY = "DynamoDB's own key"
_MAY_BE_DROPPED = (Status.PROVEN, Status.DROPPING, Status.DROPPED)


def permanent(case: Checkup) -> Iterator[Sign]:
    """The permanent tables are as declared."""
    for declared in case.resources.permanent:
        card = case.tables.card(declared.name)
        if card is None:
            remedy = f"Deleted by hand? {_RESTORE.format(table=declared.name)}"
            yield finding(f"there is no table {declared.name}", remedy)
        else:
            yield from _as_declared(case, card, declared, None)
            yield from _expiring(case, card, declared)
    names = [declared.name for declared in case.resources.permanent]
    yield fine(f"{', '.join(names[:-1])} and {names[-1]} are as declared")


def tables(case: Checkup) -> Iterator[Sign]:
    """Every window that is not dropped has its table as declared."""
    dropped = (Status.DROPPING, Status.DROPPED)
    alive = [window for window in case.windows.values() if window.status not in dropped]
    for window, signs in zip(alive, case.each(alive, partial(_of_window, case)), strict=True):
        if signs and case.unchanged(window):
            yield from (replace(sign, window=window.id) for sign in signs)
    yield fine(f"tables of windows as declared: {len(alive):,}")


def foreign(
    card: TableCard, tags: Mapping[str, str] | None, declared: TableDeclaration, window: Window
) -> str:
    """Why another hand made the table that has a window's name; "" if this pipeline did. Its tags
    are None if the engine has none.
    """
    if card.keys != _keys(declared):
        return f"its keys are {', '.join(card.keys)}, not {', '.join(_keys(declared))}"
    taken = window.status is not Status.CREATING or Moment.CHECKED in window.times
    name = declared.tags[TAG_PIPELINE]
    if taken or tags is None or tags.get(TAG_PIPELINE) == name:
        return ""
    found = f"is {tags[TAG_PIPELINE]!r}" if TAG_PIPELINE in tags else "is missing"
    return f"its tag {TAG_PIPELINE} {found}, not {name!r}"


def why_creating(window: Window, tables: TableListing, declared: TableDeclaration) -> str:
    """Why a window is not open yet although it is time, by its table, for people."""
    name = window.table
    if keyspaces_checks.in_keyspaces(window):
        return f"its table {name_in_store(name)} is made in Keyspaces: the roller's log says more"
    with suppress(Missing):  # deleted meanwhile
        if card := tables.card(name):
            if card.status == "CREATING":  # its tags are not there yet
                return f"DynamoDB is still making its table {name}"
            if card.status == DELETING:
                return f"its table {name} is being deleted"
            if why := foreign(card, tables.tags(card), declared, window):
                return f"another hand made its table {name}: {why} (tallyroll doctor)"
            return f"its table {name} is there: the roller's next run opens it"
    return f"there is no table {name} yet: does the roller run? Its log says what stops it"


def _keys(declared: TableDeclaration) -> tuple[str, ...]:
    sort = (f"{declared.sort_key} S RANGE",) if declared.sort_key else ()
    return (f"{declared.partition_key} S HASH", *sort)


def _foreign_sign(card: TableCard, why: str, window: Window) -> Sign:
    delete = (
        f"nobody needs it, delete it (`aws dynamodb delete-table --table-name {card.name}`); else"
        " restore it from a backup under another name first."
    )
    if window.status is Status.CREATING:
        return finding_of(
            window.id,
            f"its table {card.name} was made by another hand: {why}; so the window does not open,"
            " and its events wait",
            f"Leave its tags and settings as they are. If {delete} The roller then makes its own.",
        )
    return finding_of(
        window.id,
        f"it is {window.status}, and its table is gone; another hand made {card.name}: {why}",
        f"Leave its tags and settings as they are. If {delete} Then restore the window's own:"
        f" {_RESTORE.format(table=card.name)}",
    )


def _of_window(case: Checkup, window: Window) -> list[Sign]:
    if keyspaces_checks.in_keyspaces(window):
        return keyspaces_checks.of_window(case, window)
    declared = case.resources.window_table(window.id)
    if window.table != declared.name:
        text = f"the catalog names the table {window.table}, not {declared.name}"
        return [finding_of(window.id, text, "Was the catalog edited? Restore it.")]
    card = case.tables.card(window.table)
    try:
        if card and card.status == "CREATING":  # its tags and backups are not there yet
            return []
        if card and card.status != DELETING:
            if why := foreign(card, case.tables.tags(card), declared, window):
                return [_foreign_sign(card, why, window)]
            return list(_as_declared(case, card, declared, window))
    except Missing:
        pass  # deleted meanwhile
    return [] if window.status is Status.CREATING else [_gone(window)]


def _gone(window: Window) -> Sign:
    lost = "its totals stand" if window.status.sealed else "with the tallies of all its events"
    return finding_of(
        window.id,
        f"it is {window.status}, and its table {window.table} is gone, {lost}",
        f"Deleted by hand? {_RESTORE.format(table=window.table)}",
    )


def _as_declared(
    case: Checkup, card: TableCard, declared: TableDeclaration, window: Window | None
) -> Iterator[Sign]:
    name, wanted = card.name, _keys(declared)
    if card.keys != wanted:
        yield finding(
            f"{name}: its keys are {', '.join(card.keys)}, not {', '.join(wanted)}",
            "Another hand made it: delete it, once nobody needs it, and deploy the pipeline again.",
        )
        return
    yield from _encrypted(card, declared)
    if window is None and card.status not in (*_USABLE, INACCESSIBLE):
        yield finding(
            f"{name} is {card.status}: nothing is read or written",
            f"`aws dynamodb describe-table --table-name {name}` says more."
            f" If it is being deleted: {_RESTORE.format(table=name)}",
        )
    if declared.deletion_protection and not card.protected:
        yield finding(
            f"{name}: it is not protected from deletion",
            f"`aws dynamodb update-table --table-name {name} --deletion-protection-enabled`",
        )
    yield from _tagged(case, card, declared, window)
    if _recovers(case, declared, window) and case.tables.recovery(card) is False:
        yield warning(
            f"{name}: point-in-time recovery is off",
            f"`aws dynamodb update-continuous-backups --table-name {name}"
            " --point-in-time-recovery-specification PointInTimeRecoveryEnabled=true`",
        )


def _expiring(case: Checkup, card: TableCard, declared: TableDeclaration) -> Iterator[Sign]:
    """Its items go by themselves once their time is past."""
    wanted = declared.expires_by
    if not wanted or case.tables.expires_by(card) in (None, wanted):
        return
    yield warning(
        f"{card.name}: its items are not deleted by their attribute {wanted}: ids stay taken for"
        " ever, and storage grows",
        f"`aws dynamodb update-time-to-live --table-name {card.name}"
        f" --time-to-live-specification Enabled=true,AttributeName={wanted}`",
    )


def _encrypted(card: TableCard, declared: TableDeclaration) -> Iterator[Sign]:
    """DynamoDB can use the table's key, which is the one of the settings."""
    if card.status == INACCESSIBLE:
        yield finding(
            f"{card.name}: DynamoDB cannot use its key {card.kms_key}: nothing is read or written",
            f"`aws kms describe-key --key-id {card.kms_key}` shows the key's state. Enable it again"
            " within seven days: after them DynamoDB archives the table.",
        )
    elif declared.kms_key != card.kms_key and card.arn:
        theirs = card.kms_key or _OWN_KEY
        yield warning(
            f"{card.name}: it is encrypted with {theirs}, not with {declared.kms_key or _OWN_KEY}",
            "Tables that are there keep their key when tallyroll:kms_key changes. Let the roles use"
            " the old key until they are dropped (docs/deploy.md, Your own key).",
        )


def _recovers(case: Checkup, declared: TableDeclaration, window: Window | None) -> bool:
    """Whether a table should have point-in-time recovery by now. The roller switches a window's on
    in a separate step.
    """
    if window is None:
        return declared.point_in_time_recovery
    made = window.times.get(Status.CREATING, 0)
    fresh = case.effects.now() < made + roller_grace_ms(case.settings)
    return case.settings.point_in_time_recovery and (
        Moment.RECOVERABLE in window.times or not fresh
    )


def _tagged(
    case: Checkup, card: TableCard, declared: TableDeclaration, window: Window | None
) -> Iterator[Sign]:
    tags = case.tables.tags(card)
    if tags is None:  # the engine has no tags
        return
    differing = {key: value for key, value in declared.tags.items() if tags.get(key) != value}
    for key, value in differing.items():
        found = f"is {tags[key]!r}" if key in tags else "is missing"
        text = f"{card.name}: its tag {key} {found}, not {value!r}"
        command = (
            f"`aws dynamodb tag-resource --resource-arn {card.arn} --tags"
            f" Key={shlex.quote(key)},Value={shlex.quote(value)}`"
        )
        if key == TAG_PIPELINE:
            yield finding(text, command)
        else:  # of the deployment's settings, for people and their policies
            yield warning(
                text, f"Tables that are there keep their tags when tallyroll:tags change: {command}"
            )
    if TAG_PROVEN in tags and (window is None or window.status not in _MAY_BE_DROPPED):
        yield finding(
            f"{card.name}: it has the tag {TAG_PROVEN}, and is not proven: it may be deleted",
            f"`aws dynamodb untag-resource --resource-arn {card.arn} --tag-keys {TAG_PROVEN}`",
        )


def stray_tables(case: Checkup) -> Iterator[Sign]:
    """Every table of this pipeline's pattern belongs to a window that is not dropped. Tables of
    `votes-eu` do not match the pattern of `votes`.
    """
    ours = of_pattern(case)
    for window_id, table in ours.items():
        read = case.windows.get(window_id)
        if read and read.status is not Status.DROPPED:
            continue
        window = case.catalog.window(window_id)  # made since the windows were read?
        if window and window.status is not Status.DROPPED:
            continue
        card = case.tables.card(table)
        if card and card.status != DELETING:
            yield replace(_stray(case, card, window), window=window.id if window else None)
    yield fine(f"tables of windows that are not dropped: {len(ours):,}")


def of_pattern(case: Checkup) -> dict[WindowId, str]:
    """The tables whose names fit this pipeline's pattern, by window."""
    prefix = case.resources.windows.name
    found = ((window_of(name, prefix), name) for name in sorted(case.names))
    return {window: name for window, name in found if window}


def _stray(case: Checkup, card: TableCard, window: Window | None) -> Sign:
    tags = case.tables.tags(card) or {}
    other = tags.get(TAG_PIPELINE)
    why = "its window is dropped, and the table is back" if window else "no window names it"
    if other not in (None, case.settings.name):
        text = f"{card.name}: {why}; by its tag it is the pipeline {other!r}'s"
        return warning(text, "Nothing, if that is so.")
    if window is None and _made_by_roller(case, card):
        return finding(
            f"{card.name}: {why}, and the roller made it: the catalog is older than this table",
            "Was the catalog put back to an earlier time? Leave this table as it is, stop the"
            " roller, and put the items back that the catalog lost:"
            f" {restoring(case.resources.catalog.name)}.",
        )
    empty = not next(case.store.scan(card.name, 0, 1), None)
    return finding(
        f"{card.name}: {why}; it {'is empty' if empty else 'holds items'}",
        ("" if empty else "Look what it holds, and who wrote it (CloudTrail). ")
        + f"To delete it: `aws dynamodb update-table --table-name {card.name}"
        " --no-deletion-protection-enabled`, then `aws dynamodb delete-table --table-name"
        f" {card.name}`.",
    )


def _made_by_roller(case: Checkup, card: TableCard) -> bool:
    """Whether a table has this pipeline's tag and belongs to a window since the first one."""
    tags = case.tables.tags(card) or {}
    window = window_of(card.name, case.resources.windows.name)
    since = case.calendar.genesis if case.calendar else TS_MS_MAX
    ours = tags.get(TAG_PIPELINE) == case.settings.name
    return ours and window is not None and window_start(window) >= since


def quota(case: Checkup) -> Iterator[Sign]:
    """The account has room for the tables that retention will need."""
    here = case.settings.store == DYNAMODB
    quota = case.settings.quota if here else TABLE_QUOTA
    total, ours = len(case.names), len(of_pattern(case))
    kept = case.settings.tables_kept if here else ours
    others = total - ours
    text = f"{total:,} tables of a quota of {quota:,}"
    remedy = (
        "Ask for a higher quota (Service Quotas, DynamoDB), shorten the retention, or make longer"
        " windows (docs/operations.md, window-tables)."
    )
    if total >= quota:
        yield finding(text, remedy)
    elif others + kept > quota:
        needed = (
            f"retention needs {kept:,} tables, others are {others:,}: over a quota of {quota:,}"
        )
        yield finding(needed, remedy)
    elif total >= health.TABLES_SHARE * quota:
        yield warning(text, remedy)
    if not here:
        yield from keyspaces_checks.quota(case)
    yield fine(f"tables: {total:,}, of windows {ours:,}; to be kept {kept:,}, allowed {quota:,}")
