"""`tallyroll windows warm`: a window's table, prepared for more writes a second."""

from __future__ import annotations

from typing import Annotated, Any

from tallyroll.cli.arguments import DURATION, WINDOW, Run, up_to
from tallyroll.cli.screen import Screen
from tallyroll.errors import UsageError
from tallyroll.limits import TABLE_UNITS_QUOTA, WARM_UNITS_MAX
from tallyroll.operations.deployed import deployed
from tallyroll.operations.heat.warming import WarmRequest, planned, wait_warm
from tallyroll.planning.prices import REGION, WARM_ASSUMED, WARM_WRITE_UNIT


def warm_window(
    window: Annotated[str, WINDOW],
    /,
    *,
    units: Annotated[int, up_to(WARM_UNITS_MAX)],
    yes: bool = False,
    wait: bool = False,
    timeout: Annotated[int, DURATION] = 30 * 60_000,
    run: Run,
) -> int:
    """Prepare the table of an open or coming window for more writes a second.

    An on-demand table takes 4,000 write units a second at first (a single event
    of a cold key costs 6, one of many in a batch some 2), and grows by itself
    within half an hour. Warm throughput is there within minutes. AWS charges it
    once; it cannot be lowered, and goes with the table. It helps where the table
    is throttled, and a hot key as far as its shards lie on more partitions then.

    The cost is told first, and nothing is done before somebody agreed. With
    tallyroll:warm_units_max not more than that may be asked for. What is above
    the account's quota, 40,000 by default, stays throttled until it is raised.

    The exit status is 1 if the table is not warm in time (--wait).

    For example:
      tallyroll --name votes windows warm current --units 20000 --wait

    :param units: for how many write units a second
    :param yes: agree to the cost without being asked
    :param wait: wait until the table is warm
    :param timeout: wait no longer than that (30m by default)
    """
    made, screen = run.pipeline(), run.screen
    name = run.window(made, window)
    settings = deployed(run.settings, made.deployment, None).settings
    warming = planned(name, units, made.catalog, made.store, settings)
    if warming.wanted != warming.now:
        _tell(warming, screen)
        if not yes:
            question = f"tallyroll: warm the table of {name}? Type yes to go on: "
            if screen.ask(question, "give --yes") != "yes":
                raise UsageError("not agreed to: nothing was done")
        made.store.warm_table(warming.table, units)
    elif not warming.under_way:
        screen.line(_as_json(warming, "warm"), f"{name} is warm for {units:,} units")
        return 0
    if not wait:
        text = f"{name} gets warm for {units:,} units: the same call with --wait waits for it"
        screen.line(_as_json(warming, "begun"), text)
        return 0
    with screen.progress("warming") as bar:
        is_warm = wait_warm(
            warming, made.store, made.effects, timeout, lambda: bar(0, f"for {units:,} units")
        )
    if not is_warm:
        screen.line(_as_json(warming, "begun"), f"{name} is not warm yet")
        screen.tell("AWS goes on by itself: wait on with the same call")
        return 1
    screen.line(_as_json(warming, "warm"), f"{name} is warm for {units:,} units")
    return 0


def _tell(warming: WarmRequest, screen: Screen) -> None:
    more = warming.wanted - warming.now
    screen.tell(
        f"the table of {warming.window} takes {warming.now:,} write units a second now;"
        f" {more:,} more x ${WARM_WRITE_UNIT:g} are ${warming.dollars:,.2f}, once ({REGION};"
        f" {WARM_ASSUMED}). It cannot be undone"
    )
    if warming.over_quota:
        screen.tell(
            f"{warming.wanted:,} are above the default quota of {TABLE_UNITS_QUOTA:,} a table:"
            " DynamoDB refuses them, or throttles what is above it, unless Service Quotas gave"
            " more (L-AB614373)"
        )


def _as_json(warming: WarmRequest, result: str) -> dict[str, Any]:
    return {
        "window": warming.window,
        "table": warming.table,
        "units": warming.wanted,
        "before": warming.now,
        "dollars": round(warming.dollars, 2),
        "result": result,
    }
