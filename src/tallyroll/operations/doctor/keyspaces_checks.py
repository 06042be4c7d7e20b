"""The doctor's checks of windows whose tables are in Keyspaces. The store says what is there, since
the listing of tables is DynamoDB's.
"""

from __future__ import annotations

from collections.abc import Iterator

from tallyroll.errors import Missing, StoreError
from tallyroll.model.states import Moment, Status, Window
from tallyroll.model.windows import KEYSPACES, name_in_store, store_of, table_name
from tallyroll.operations.doctor.checkup import Checkup, Level, Sign, finding, finding_of, fine
from tallyroll.ports.table_listing import TableStatus
from tallyroll.resources import TAG_PIPELINE

_RESTORE = (
    "Deleted by hand? With point-in-time recovery AWS keeps its rows for 35 days: `aws keyspaces"
    " restore-table --source-keyspace-name {keyspace} --source-table-name {table}"
    " --target-keyspace-name {keyspace} --target-table-name {table} --restore-timestamp TIME`."
)


def in_keyspaces(window: Window) -> bool:
    """Whether a window's table is in Keyspaces."""
    return store_of(window.table) == KEYSPACES


def of_window(case: Checkup, window: Window) -> list[Sign]:
    """A window has its table, and this pipeline made it."""
    own = table_name(case.settings.name, window.id, KEYSPACES)
    if window.table != own:
        text = f"the catalog names the table {window.table}, not {own}"
        return [finding_of(window.id, text, "Was the catalog edited? Restore it.")]
    try:
        why = without_table(case, window)
    except StoreError as error:
        text = f"{window.id}: its table in Keyspaces could not be looked at: {error}"
        return [Sign(Level.UNCHECKED, text, "Do what the error says, or try again.", window.id)]
    if not why:
        return []
    names = {"keyspace": case.settings.window_keyspace, "table": _in_cql(window)}
    return [finding_of(window.id, f"it is {window.status}, and {why}", _RESTORE.format(**names))]


def without_table(case: Checkup, window: Window) -> str:
    """Why a window has no table of this pipeline in Keyspaces; "" if it has one, or none yet.
    Raises StoreError.
    """
    facts = case.store.describe_table(window.table)
    if facts is None or facts.status is TableStatus.DELETING:
        made = window.status is not Status.CREATING  # else it is made
        return f"its table {name_in_store(window.table)} is gone from Keyspaces" if made else ""
    try:
        tags = case.store.tags(window.table) or {}
    except Missing:
        return ""  # deleted meanwhile
    taken = window.status is not Status.CREATING or Moment.CHECKED in window.times
    if taken or tags.get(TAG_PIPELINE) == case.settings.name:
        return ""
    return f"another hand made its table {name_in_store(window.table)}: it lacks our tag"


def quota(case: Checkup) -> Iterator[Sign]:
    """The account has room in Keyspaces for the tables that retention will need, as the settings
    say: nothing lists all tables there.
    """
    settings = case.settings
    there = sum(
        in_keyspaces(window) and window.status is not Status.DROPPED
        for window in case.windows.values()
    )
    needed = settings.tables_kept + settings.permanent_tables
    text = (
        f"in Keyspaces {there:,} tables of windows; to be kept {needed:,} with the permanent ones"
    )
    if needed > settings.quota or there + settings.permanent_tables >= settings.quota:
        yield finding(
            f"{text}, over a quota of {settings.quota:,}",
            "Ask for a higher quota (Service Quotas, Amazon Keyspaces), shorten the retention, or"
            " make longer windows.",
        )
    yield fine(f"{text}, allowed {settings.quota:,}")


def _in_cql(window: Window) -> str:
    return name_in_store(window.table).replace("-", "_")
