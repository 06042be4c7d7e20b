"""Prepares the table of a window for more writes a second: warm throughput, which is charged.

Source: DynamoDB Developer Guide, "Understanding DynamoDB warm throughput".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tallyroll.errors import Missing, UsageError
from tallyroll.limits import TABLE_UNITS_QUOTA
from tallyroll.model.states import Status, Window
from tallyroll.model.windows import DYNAMODB, WindowId, iso, store_of, window_start
from tallyroll.planning.prices import WARM_WRITE_UNIT
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Store
from tallyroll.ports.table_listing import TableFacts, TableStatus
from tallyroll.settings import Settings

WAIT_POLL_MS = 2_000


@dataclass(frozen=True, slots=True)
class WarmRequest:
    """The write units a second that a window's table takes at once `now`, and those `wanted`. If
    they are the same, nothing is to be done but, while it is `under_way`, to wait.
    """

    window: WindowId
    table: str
    now: int
    wanted: int
    under_way: bool = False

    @property
    def dollars(self) -> float:
        """What it costs, once, by the assumed price of a unit."""
        return (self.wanted - self.now) * WARM_WRITE_UNIT

    @property
    def over_quota(self) -> bool:
        """Whether it is more than an account lets a table take by default."""
        return self.wanted > TABLE_UNITS_QUOTA


def planned(
    window_id: WindowId, units: int, catalog: Catalog, store: Store, settings: Settings
) -> WarmRequest:
    """What warming a window's table takes. Raises UsageError, with the remedy, if it cannot be
    done or is over `warm_units_max`; Missing if there is no such window.
    """
    most = settings.warm_units_max
    if most and units > most:
        raise UsageError(
            f"{units:,} units are over the bound of {most:,} (tallyroll:warm_units_max): give at"
            " most that, or deploy with a higher bound"
        )
    window = catalog.window(window_id) or _absent(window_id, catalog, settings)
    if store_of(window.table) != DYNAMODB:
        raise UsageError(
            f"window {window_id} is in Amazon Keyspaces, whose tables are warmed when they are"
            " made: set tallyroll:warm_units for the next windows"
        )
    if window.status not in (Status.CREATING, Status.OPEN):
        raise UsageError(
            f"window {window_id} is {window.status} and takes no more events: warm one that is"
            " open or coming (tallyroll windows list)"
        )
    facts = store.describe_table(window.table)
    now = _taken(window, facts, settings)
    under_way = facts is not None and _changing(facts)
    if under_way and units != now:
        raise UsageError(
            f"window {window_id}: its table is being made or changed: try again in a minute"
        )
    if units < now:
        raise UsageError(
            f"window {window_id}: its table is warm for {now:,} write units a second, and warm"
            f" throughput cannot be lowered: give more than {now:,}"
        )
    return WarmRequest(window_id, window.table, now, units, under_way)


def _absent(window_id: WindowId, catalog: Catalog, settings: Settings) -> Window:
    """Raises what says why there is no such window."""
    calendar, start = catalog.calendar(), window_start(window_id)
    span = calendar.grid.at(start) if calendar else None
    if calendar is None or span is None or start < calendar.genesis:
        raise Missing(f"there is no window {window_id}: see tallyroll windows list")
    if span.id != window_id:
        raise UsageError(f"{window_id} lies in the window {span.id}: give that")
    made = span
    for _ in range(settings.ahead_windows):
        made = calendar.grid.at(max(0, made.start - 1))
    raise UsageError(
        f"window {window_id} has no table yet: it is made from {iso(made.start)} on"
        f" (tallyroll:ahead_windows {settings.ahead_windows}). Warm it then; or set"
        " tallyroll:warm_units, by which all new tables are made"
    )


def _taken(window: Window, facts: TableFacts | None, settings: Settings) -> int:
    """How many write units a second a table takes at once."""
    if facts is None:
        raise UsageError(
            f"window {window.id} has no table yet: the roller makes it within a minute"
            " (tallyroll doctor says what keeps it). Warm it then"
        )
    if facts.provisioned or settings.provisioned:
        raise UsageError(
            f"window {window.id}: its table is provisioned, and takes no more than its capacity:"
            " raise that (aws dynamodb update-table --provisioned-throughput), and"
            " tallyroll:provisioned for the next windows"
        )
    if facts.warm is None:
        raise UsageError(
            f"window {window.id}: this engine tells no warm throughput of its tables: is it a"
            " local one (AWS_ENDPOINT_URL)?"
        )
    return facts.warm


def _changing(facts: TableFacts) -> bool:
    return facts.warming or facts.status is not TableStatus.ACTIVE


def wait_warm(
    warming: WarmRequest,
    store: Store,
    effects: Effects,
    timeout_ms: int,
    on_progress: Callable[[], object],
) -> bool:
    """Wait until a table is warm, or for `timeout_ms`; whether it is. Calls `on_progress` with each
    read. Raises StoreError.
    """
    deadline = effects.now() + timeout_ms
    while True:
        facts = store.describe_table(warming.table)
        on_progress()
        if facts and not _changing(facts) and (facts.warm or 0) >= warming.wanted:
            return True
        now = effects.now()
        if now >= deadline:
            return False
        effects.sleep(min(WAIT_POLL_MS, deadline - now))
