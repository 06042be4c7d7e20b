"""`tallyroll keys`: all keys of a range; shards of hot keys, wished ahead and listed. Each
gives its exit status.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Annotated, Any

from cyclopts import App, Parameter

from tallyroll.cli.arguments import SINCE, UNTIL, Run, instant, up_to
from tallyroll.cli.screen import Cell, known, some
from tallyroll.errors import StoreError, UsageError
from tallyroll.limits import SHARDS_MAX
from tallyroll.model.amounts import format_amount
from tallyroll.model.states import Wish
from tallyroll.model.totals import Listed
from tallyroll.model.windows import iso
from tallyroll.operations.heat.logging_advice import log_advice
from tallyroll.operations.heat.wishes import HotKey, WishDesk
from tallyroll.pipeline import Pipeline
from tallyroll.planning.alternatives import LogAdvice
from tallyroll.reads.counts import sums_json
from tallyroll.reads.http import required_key

DONE, DONE_IN_PART = 0, 1
_SPLIT = ("key", "shards", "window", "from", "until")
_COUNTED = ("key", "events", "sum", "retracted", "retracted sum")
ROWS_A_TABLE = 1_000
_LISTED = ("key", "window", "shards", "stripes", "since", "why", "wish", "lacks")

app = App(
    name="keys",
    help="""List keys with their counts; prepare a key that will be hot.

For example:
  tallyroll keys list --since today
  tallyroll keys list --hot""",
)


@app.command
def split(
    key: str,
    /,
    *,
    shards: Annotated[int, up_to(SHARDS_MAX)],
    since: Annotated[
        int | None, instant("the first window, by any time in it"), Parameter("--from")
    ] = None,
    until: Annotated[int | None, instant("only windows that start before then")] = None,
    run: Run,
) -> int:
    """Wish more shards for a key, ahead of a night on which it will be hot.

    The roller gives the key at least N shards in each window that it freezes from
    then on: until the time of --until, or until `keys merge`. A window's shards
    never change once it is frozen, some minutes before it starts: one that is
    frozen is refused, and the first that takes the wish is named. Another wish
    replaces the key's. The option shards_max does not bound it.

    For example:
      tallyroll keys split candidate-7 --shards 1024 --from 2026-11-20T20:00Z

    :param key: the key
    :param shards: how many at least, up to 10,000
    """
    key, made = required_key(key), run.pipeline()
    desk = WishDesk(made.catalog, run.calendar(made), made.effects)
    done = desk.split(key, shards, since, until)
    wish = {"key": key, **_wish_json(done.wish), "window": done.window}
    run.screen.show(_SPLIT, [wish], dict, lambda _: {})
    if done.replaced:
        run.screen.tell(f"it replaces the wish of {_in_words(done.replaced)}")
    return DONE


@app.command
def merge(key: str, /, *, run: Run) -> int:
    """Withdraw the wish for a key's shards.

    Windows that are frozen with it keep their shards. In later ones the key has
    what hot_shards or its traffic gives it; that halves from window to window.

    For example:
      tallyroll keys merge candidate-7

    :param key: the key
    """
    key, made = required_key(key), run.pipeline()
    desk = WishDesk(made.catalog, run.calendar(made), made.effects)
    wish = desk.merge(key)
    kept = desk.frozen_with(key, wish)
    run.screen.line(
        {"key": key, **_wish_json(wish), "kept": kept},
        f"{key}: withdrawn, {_in_words(wish)}",
    )
    if kept:
        run.screen.tell(f"frozen with it, and keeping it: {some(kept)}")
    return DONE


@app.command(name="list")
def list_keys(
    *,
    since: Annotated[int | None, SINCE] = None,
    until: Annotated[int | None, UNTIL] = None,
    prefix: str | None = None,
    hot: bool = False,
    run: Run,
) -> int:
    """List all keys with events in the windows in [since, until), each with its
    count; without both, those of today (UTC).

    Each key comes once, in code point order, but behind those that begin with it
    and a character up to the dot. A key whose events were all retracted has 0. A
    range may have 400 windows and rolled-up days; windows of months in which
    events were retracted count twice. If a read fails for good, exit status 3,
    and a message tells up to which key the list goes.

    With --hot, list hot keys: those with shards of their own, and wishes. Of each
    in the current window: its shards and stripes (a key with shards of its own
    never gets more stripes within a window), since which window it has as many
    shards (100 are looked at), and why: wish, option (hot_shards), throttles or
    rate. Then the changes in coming windows that are frozen, and wishes for
    windows that are not. `lacks` names a wish that a window was frozen without,
    as by a roller of an older release: exit status 1. Messages tell what a log of
    its events without ids would save, for keys that writers noted as hot.

    For example:
      tallyroll keys list --since today --prefix candidate- --json
      tallyroll keys list --hot

    :param prefix: only keys that begin with this text
    :param hot: hot keys alone, without counts
    """
    if hot:
        if since is not None or until is not None or prefix is not None:
            raise UsageError("--hot: give it without --since, --until and --prefix")
        return _list_hot(run)
    made, screen = run.pipeline(), run.screen
    since, until = run.bounds(made, since, until)
    found = made.reader.keys(since, until, prefix or "")
    some = False
    while rows := list(islice(found, ROWS_A_TABLE)):
        some = True
        screen.show(_COUNTED, rows, lambda row: {"key": row.key, **sums_json(row)}, _count_words)
    if not some:
        screen.tell("no keys in the range" if since or until else "no keys today (UTC)")
    return DONE


def _count_words(row: Listed) -> Mapping[str, Cell]:
    events, amount = row.retracted
    if not events:
        return {"retracted": None}
    return {"retracted": events, "retracted sum": format_amount(amount)}


def _list_hot(run: Run) -> int:
    made, screen = run.pipeline(), run.screen
    desk = WishDesk(made.catalog, run.calendar(made), made.effects)
    found = desk.hot_keys()
    advised = {each.key: each for each in _logs_advised(run, made)}
    screen.show(_LISTED, found, partial(_hot_json, advised=advised), _hot_words)
    if not found:
        screen.tell("no key has shards of its own, and there is no wish")
    for one in found:
        if one.lacks and one.wish:
            screen.tell(
                f"{one.key}: window {one.window} was frozen without the wish of"
                f" {one.wish.shards:,} shards: did a roller of an older release run?"
                " tallyroll windows list shows the windows that follow"
            )
    for advice in advised.values():
        screen.tell(advice.text)
    return DONE_IN_PART if any(one.lacks for one in found) else DONE


def _logs_advised(run: Run, made: Pipeline) -> list[LogAdvice]:
    """The keys that writers noted as hot in the current window, and that would gain from a log."""
    now = made.effects.now()
    window = run.calendar(made).grid.at(now).id
    spec = made.catalog.specs([window]).get(window)
    if spec is None or not made.store.metering_of(spec.table).tallied:
        return []
    keys = [*dict.fromkeys([*spec.hot, *made.catalog.hot(window)])]
    with suppress(StoreError):  # it is no part of what was asked for
        return log_advice(made.store, spec, keys, now) if keys else []
    return []


def _wish_json(wish: Wish) -> dict[str, Any]:
    return {"shards": wish.shards, "from": iso(wish.since)} | known(
        until=None if wish.until is None else iso(wish.until)
    )


def _hot_json(one: HotKey, advised: Mapping[str, LogAdvice]) -> Mapping[str, Any]:
    ways = advised.get(one.key)
    wish = one.wish and {**_wish_json(one.wish), "made": iso(one.wish.at)}
    return {"key": one.key, "window": one.window, "lacks": one.lacks} | known(
        shards=one.shards,
        stripes=one.stripes,
        since=one.since,
        why=one.why or None,
        wish=wish,
        log=ways and ways.as_json(),
    )


def _hot_words(one: HotKey) -> Mapping[str, Cell]:
    return {
        "wish": _in_words(one.wish) if one.wish else "",
        "lacks": "lacks it" if one.lacks else "",
    }


def _in_words(wish: Wish) -> str:
    until = "" if wish.until is None else f" until {iso(wish.until)}"
    return f"{wish.shards:,} from {iso(wish.since)}{until}"
