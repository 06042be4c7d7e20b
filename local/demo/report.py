"""The tables at the end of a demo run, and the verdict on which its exit status rests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from local.demo.emf import Ledger
from tallyroll.adapters.dynamodb import throughput
from tallyroll.adapters.rows import metering as rows
from tallyroll.ingest.cost import WriteCost, commit_cost
from tallyroll.ingest.transactions import plan
from tallyroll.lifecycle.state_machine import freeze
from tallyroll.model.amounts import format_amount
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status, Window
from tallyroll.model.windows import DYNAMODB, KEYSPACES, iso
from tallyroll.settings import Settings

KEYS_SHOWN = 12
HOT_KEY_EVENTS = 9_800
_ITEMS = "items in the archive: a record for each single event or packet, tallies, gates"
_NUMBERS = ("keys", "events", "items")
_CONTENTS, _PROOF = ("state", "shards", *_NUMBERS), ("proven", "dropped", "read again")
_WIDE = 1_000  # columns, more than a table has
_STORES = {
    DYNAMODB: ("DynamoDB requests each", throughput.METERING),
    KEYSPACES: ("commits each", rows.METERING),
}


@dataclass(frozen=True, slots=True)
class Sum:
    """Events, and the sum of their values in millionths."""

    events: int = 0
    amount: int = 0


@dataclass(slots=True)
class Verdict:
    """What is wrong with a run, in words: `failures` of what was promised, and what this machine
    was too `slow` for. A run is good if there is neither.
    """

    failures: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)

    def check(self, good: bool, otherwise: str) -> bool:  # noqa: FBT001
        """Note `otherwise` unless `good`; give `good`."""
        if not good:
            self.failures.append(otherwise)
        return good


def judge_keys(truth: Mapping[str, Sum], counted: Mapping[str, Sum], verdict: Verdict) -> None:
    """Compare every key's count and sum with the truth."""
    for key in sorted({*truth, *counted}):
        wanted, found = truth.get(key, Sum()), counted.get(key, Sum())
        verdict.check(
            wanted == found,
            f"{key}: counted {found.events} (sum {format_amount(found.amount)}),"
            f" in truth {wanted.events} (sum {format_amount(wanted.amount)})",
        )


def judge_windows(windows: Sequence[Window], proofs: Mapping[str, bool], verdict: Verdict) -> None:
    """No table may be dropped before its archive was proven; `proofs` says by window whether its
    archive, read again now, agrees with its totals.
    """
    for window in windows:
        if window.status in (Status.DROPPING, Status.DROPPED):
            proven = window.times.get(Status.PROVEN)
            verdict.check(
                proven is not None and proven <= window.times[Status.DROPPING],
                f"window {window.id} was dropped before it was proven",
            )
        if window.id in proofs:
            verdict.check(proofs[window.id], f"window {window.id}: its archive does not verify")


def key_table(
    title: str, truth: Mapping[str, Sum], counted: Mapping[str, Sum], most: int = KEYS_SHOWN
) -> Table:
    """Keys, the largest first, what was counted of them, and the truth beside it."""
    table = Table(title=title, title_justify="left")
    table.add_column("key", overflow="fold")
    for name in ("counted", "truth", "sum counted", "sum in truth"):
        table.add_column(name, justify="right")
    table.add_column("exact")
    ranked = sorted(truth, key=lambda key: (-truth[key].events, key))
    for key in ranked[:most]:
        found, wanted = counted.get(key, Sum()), truth[key]
        table.add_row(key, *_row(found, wanted), _mark(good=found == wanted))
    if len(ranked) > most:
        rest = ranked[most:]
        found = _add_up(counted.get(key, Sum()) for key in rest)
        wanted = _add_up(truth[key] for key in rest)
        exact = all(counted.get(key) == truth[key] for key in rest)
        table.add_row(numbered(len(rest), "more key"), *_row(found, wanted), _mark(good=exact))
    found, wanted = _add_up(counted.values()), _add_up(truth.values())
    table.add_section()
    table.add_row("all", *_row(found, wanted), _mark(good=found == wanted))
    return table


def _add_up(sums: Iterable[Sum]) -> Sum:
    events = amount = 0
    for part in sums:
        events += part.events
        amount += part.amount
    return Sum(events, amount)


def _mark(*, good: bool) -> str:
    return "[green]✓[/]" if good else "[bold red]✗[/]"


def _row(found: Sum, wanted: Sum) -> tuple[str, str, str, str]:
    return (
        f"{found.events:,}",
        f"{wanted.events:,}",
        format_amount(found.amount),
        format_amount(wanted.amount),
    )


@dataclass(frozen=True, slots=True)
class Traffic:
    """What went in, and the results; all but `sent`, `twice`, `repeats` and `counted` are messages.

    `twice` of those sent are the first votes of voters whose second ones are then rejected.
    `repeats` of them are equal to another event that was sent, so they do not count again.
    """

    sent: int
    messages: int
    deliveries: int
    counted: int
    duplicates: int
    kills: int
    rejected: Mapping[str, int]
    twice: int = 0
    repeats: int = 0


def traffic_table(traffic: Traffic) -> Table:
    """Sent, delivered, counted, absorbed, rejected."""
    table = Table(title="Events and messages", title_justify="left", show_header=False)
    table.add_column("")
    table.add_column("", justify="right")
    table.add_row("events sent", f"{traffic.sent:,}")
    if traffic.twice:
        table.add_row("  as planned", f"{traffic.sent - traffic.twice:,}")
        table.add_row("  first vote of a voter, the second is rejected", f"{traffic.twice:,}")
    if traffic.repeats:
        table.add_row("  repeats of another, not counted again", f"{traffic.repeats:,}")
    table.add_row("  in messages", f"{traffic.messages:,}")
    table.add_row("  delivered, redeliveries included", f"{traffic.deliveries:,}")
    table.add_row("writers killed at work", f"{traffic.kills:,}")
    table.add_section()
    table.add_row("events counted", f"{traffic.counted:,}")
    table.add_row("duplicate messages absorbed", f"{traffic.duplicates:,}")
    table.add_row("messages rejected, with a reason", f"{sum(traffic.rejected.values()):,}")
    for reason, number in sorted(traffic.rejected.items()):
        table.add_row(f"  {reason}", f"{number:,}")
    return table


def window_tables(
    windows: Sequence[Window],
    specs: Mapping[str, Spec],
    proofs: Mapping[str, bool],
    console: Console,
) -> list[Table]:
    """Windows with their shards, contents, items of the archive, times (UTC) and proof: one table,
    or two where one is wider than the console.
    """
    whole = _window_table(windows, specs, proofs, [*_CONTENTS, *_PROOF])
    wide = console.options.update(max_width=_WIDE)
    if console.measure(whole, options=wide).maximum <= console.width:
        whole.caption = _caption(specs)
        return [whole]
    contents = _window_table(windows, specs, proofs, _CONTENTS)
    contents.caption = _caption(specs)
    return [contents, _window_table(windows, specs, proofs, _PROOF)]


def _caption(specs: Mapping[str, Spec]) -> str:
    shards = next(iter(specs.values())).hot
    hot = f"\nshards of hot keys: {_hot(shards)}" if _alike(specs) and shards else ""
    return _ITEMS + hot


def _alike(specs: Mapping[str, Spec]) -> bool:
    """Whether all windows have the same hot keys."""
    return len({json.dumps(dict(spec.hot)) for spec in specs.values()}) == 1


def _window_table(
    windows: Sequence[Window],
    specs: Mapping[str, Spec],
    proofs: Mapping[str, bool],
    columns: Sequence[str],
) -> Table:
    """A table of these columns, beside the window's own."""
    one_day = len({window.id[:8] for window in windows}) == 1
    title = f"Windows of {iso(windows[0].start)[:10]} (UTC)" if one_day else "Windows (UTC)"
    table = Table(title=title, title_justify="left")
    for name in ("window", *columns):
        number = name in ("shards", *_NUMBERS)
        table.add_column(name, no_wrap=name != "shards", justify="right" if number else "left")
    for window in windows:
        shown = iso(window.start)
        proven, dropped = window.times.get(Status.PROVEN), window.times.get(Status.DROPPED)
        reads_back, spec = proofs.get(window.id), specs[window.id]
        shards = str(spec.shards)
        cells = {
            "state": str(window.status),
            "shards": shards if _alike(specs) else f"{shards}; {_hot(spec.hot)}".rstrip("; "),
            "keys": "" if window.keys is None else f"{window.keys:,}",
            "events": "" if window.events is None else f"{window.events:,}",
            "items": f"{window.attempt.items:,}" if window.attempt.items else "",
            "proven": "" if proven is None else iso(proven)[11:19],
            "dropped": "" if dropped is None else iso(dropped)[11:19],
            "read again": "" if reads_back is None else _mark(good=reads_back),
        }
        name = shown[11:19] if one_day else f"{shown[5:10]} {shown[11:19]}"
        table.add_row(name, *(cells[column] for column in columns))
    return table


def _hot(shards: Mapping[str, int]) -> str:
    return ", ".join(f"{key} {number}" for key, number in shards.items())


def cost_table(ledger: Ledger, settings: Settings) -> Table:
    """Write units and store requests per event, as the writers reported them, and a hot key's by
    the rule.
    """
    table = Table(title="What an event cost", title_justify="left")
    table.add_column("events")
    requests, _ = _STORES[settings.store]
    for name in ("counted", "write units each", requests):
        table.add_column(name, justify="right")
    kinds = {"Single": "single, with ids of their own", "Packed": "packed", "Logged": "logged"}
    for kind, label in kinds.items():
        events = ledger.sum(f"{kind}EventsCounted")
        if events:
            table.add_row(
                label,
                f"{events:,.0f}",
                f"{ledger.sum(f'WriteUnits{kind}') / events:.3f}",
                f"{ledger.sum(f'StoreRequests{kind}') / events:.4f}",
            )
    table.add_section()
    cost = hot_key_cost(settings, HOT_KEY_EVENTS)
    table.add_row(
        "one hot key, full batches",
        "(computed)",
        f"{cost.total / HOT_KEY_EVENTS:.3f}",
        f"{cost.requests / HOT_KEY_EVENTS:.4f}",
    )
    table.caption = (
        "by AWS's rule, from the requests; of killed writers nothing is reported\n"
        "computed: without conflicts of transactions"
    )
    return table


def hot_key_cost(settings: Settings, events: int) -> WriteCost:
    """What this many single events of one key cost in full batches, by AWS's rule."""
    window = Window("20260101T000000Z", "", 0, settings.window_seconds * 1000)
    spec = freeze(window, settings)
    records = [
        Record("Ada", voter, spec.shard("Ada", voter), 0, 1, 1_000_000, bytes(17), ((0, 1),))
        for voter in (f"voter-{number:06d}" for number in range(events))
    ]
    cost = WriteCost()
    _, metering = _STORES[settings.store]
    for commit in plan(spec, records, metering):
        cost += commit_cost(commit.records, commit.increments, metering)
    return cost


def print_verdict(console: Console, verdict: Verdict, good: str, problems: Sequence[str]) -> None:
    """The last line: what was shown; or each finding, and what the functions complained of."""
    if not verdict.failures and not verdict.slow:
        console.print(f"[bold green]EXACT[/]  {good}", soft_wrap=True)
        return
    if verdict.failures:
        findings = [*verdict.failures, *verdict.slow]
        console.print(f"[bold red]NOT EXACT[/]  {numbered(len(findings), 'finding')}:")
    else:
        findings = verdict.slow
        console.print("[bold yellow]TOO SLOW HERE[/]  nothing is lost or counted twice, but:")
    for failure in findings[:20]:
        console.print(f"  {failure}", highlight=False, markup=False)
    for problem in problems:
        console.print(f"  log: {problem}", highlight=False, markup=False)


def numbered(number: int, noun: str) -> str:
    """`1 writer`, `3,000 writers`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
