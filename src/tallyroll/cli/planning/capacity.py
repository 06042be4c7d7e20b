"""What `tallyroll plan` says beside a deployment: a load in a given time, and a table's partitions
by the classic arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from tallyroll.cli.arguments import DURATION, read_by
from tallyroll.cli.planning.inputs import GB, options_named
from tallyroll.cli.screen import Screen
from tallyroll.errors import UsageError
from tallyroll.planning import prices
from tallyroll.planning.bulk import BulkLoad, bulk_costs, bulk_lines
from tallyroll.planning.lines import told
from tallyroll.planning.partitions import PartitionUnits, table_steps
from tallyroll.planning.plan import Plan

BYTES_A_GB = 10**9
STORED_MAX = 10**9


def _units(text: str) -> PartitionUnits:
    """Read and write units a second. Raises UsageError."""
    try:
        read, write = (float(part.replace("_", "")) for part in text.split("/"))
    except ValueError:
        read = write = -1.0
    if not (0 <= read <= prices.GB and 0 <= write <= prices.GB):
        raise UsageError(
            f"{text!r}: give read and write units a second up to 10^9, such as 5000/2000"
        )
    return PartitionUnits(read, write)


_UNITS = Parameter(metavar="R/W", converter=read_by(_units), n_tokens=1)


@Parameter(name="*")
@dataclass(frozen=True)
class BulkOptions:
    """The options of a load in a given time.

    :param within: plan to load FILE, or --items, in this time, up to 30d, as tallyroll load
    :param items: how many items of --event-bytes, with --within, instead of FILE
    """

    within: Annotated[int | None, DURATION] = None
    items: Annotated[int | None, Parameter(metavar="N")] = None


@Parameter(name="*")
@dataclass(frozen=True)
class ProvisionedOptions:
    """The options that make a provisioned table.

    :param units: show the partitions of a provisioned table of these read/write units a second
    :param raised: the units that it is raised to, with --units
    :param stored: the GB that it is filled with then
    :param cut: the units that it is cut to at last
    """

    units: Annotated[PartitionUnits | None, _UNITS] = None
    raised: Annotated[PartitionUnits | None, _UNITS] = None
    stored: Annotated[float, GB] = 0.0
    cut: Annotated[PartitionUnits | None, _UNITS] = None


NO_BULK, NO_TABLE = BulkOptions(), ProvisionedOptions()


def show_table(of: ProvisionedOptions, screen: Screen) -> int:
    """Show a table's partitions, step by step; the exit status."""
    if of.units is None:
        raise UsageError("--raised, --stored and --cut: give --units R/W with them")
    if not 0 <= of.stored <= STORED_MAX:
        raise UsageError(f"--stored {of.stored:g}: give GB, from 0 to 10^9")
    stored = round(of.stored * BYTES_A_GB)
    with options_named({"raised": "--raised", "cut": "--cut"}):
        steps = [*table_steps(units=of.units, raised=of.raised, stored_bytes=stored, cut=of.cut)]
    if screen.json:
        shares = [
            [
                {"partitions": n, "read_units": each.read, "write_units": each.write}
                for each, n in step.shares.items()
            ]
            for step in steps
        ]
        rows = zip(steps, shares, strict=True)
        screen.emit(
            {"steps": [{"step": s.name, "partitions": s.partitions, "each": e} for s, e in rows]}
        )
        return 0
    screen.table(
        ("table, read/write units", "partitions", "of these", "read units", "write units"),
        [
            (
                "" if place else step.name,
                "" if place else f"{step.partitions:,}",
                f"{n:,}",
                f"{share.read:,.1f}",
                f"{share.write:,.1f}",
            )
            for step in steps
            for place, (share, n) in enumerate(step.shares.items())
        ],
    )
    screen.tell(
        "the arithmetic of provisioned tables as AWS published it; today a partition takes up to"
        " 1,000 write units a second, as long as its table has units left (docs/planning.md)"
    )
    return 0


def show_bulk(bulk: BulkLoad, made: Plan, screen: Screen) -> None:
    """Show what a load in a given time takes, and what it costs once."""
    lines, costs = bulk_lines(bulk, made), bulk_costs(bulk, made)
    dollars = sum(cost.dollars for cost in costs)
    if screen.json:
        once = {cost.name: round(cost.dollars, 2) for cost in costs}
        screen.emit({"lines": told(lines), "dollars_once": {**once, "in all": round(dollars, 2)}})
        return
    screen.table(
        ("what", "value", "how it is computed, and its source"),
        [(each.name, f"{each.value:,.10g}", f"{each.formula} [{each.source}]") for each in lines],
        prose=True,
    )
    screen.paragraph("Once, in US dollars, without storage")
    screen.table(
        ("of it", "dollars", "how it is computed"),
        [
            *((cost.name, f"{cost.dollars:,.2f}", cost.formula) for cost in costs),
            ("in all", f"{dollars:,.2f}", f"{prices.REGION}, prices of {prices.AS_OF}"),
        ],
        prose=True,
    )
    for line in lines:
        if line.warning:
            screen.tell(f"{line.name}: {line.warning}")
