"""`tallyroll plan`: what a load needs and costs, before it is deployed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Annotated

from cyclopts import Parameter

from tallyroll.cli.arguments import DURATION, Run, duration, read_by
from tallyroll.cli.planning.capacity import (
    NO_BULK,
    NO_TABLE,
    BulkOptions,
    ProvisionedOptions,
    show_bulk,
    show_table,
)
from tallyroll.cli.planning.inputs import RATE, events_of, options_named
from tallyroll.cli.screen import Screen
from tallyroll.client.jsonlines import LineSource
from tallyroll.errors import UsageError
from tallyroll.model.specs import IdentityScope
from tallyroll.model.windows import WINDOW_NAMES, iso
from tallyroll.planning import prices
from tallyroll.planning.alternatives import cheaper, explained
from tallyroll.planning.bulk import BulkLoad, bulk_of, bulk_plan
from tallyroll.planning.costs import CostLine, deleting_month, dollars_of, month_of
from tallyroll.planning.keys import score_lines, scored_key
from tallyroll.planning.lines import as_json, lines_of
from tallyroll.planning.load import LoggedKey, PeakLoad, Sample, sampled
from tallyroll.planning.plan import Plan, planned
from tallyroll.settings import Settings

DONE, DONE_IN_PART = 0, 1


def _length(text: str) -> int | str:
    """The length of windows: ms, or a name. Raises UsageError."""
    return text if text in WINDOW_NAMES else duration(text)


def _logs(text: str) -> Mapping[str, int]:
    """The keys that are logged. Raises UsageError, which does not name the setting."""
    try:
        logs: Mapping[str, int] = Settings.read("logs", text)
    except UsageError as error:
        raise UsageError(str(error).removeprefix(f"{Settings.named('logs')} ")) from None
    return logs


_LENGTH = Parameter(metavar="TIME", converter=read_by(_length), n_tokens=1)
_LOGS = Parameter(metavar="JSON", converter=read_by(_logs), n_tokens=1)
_OF_READS = {"reads_per_second": "--reads", "staleness_seconds": "--staleness"}
_OF_FILES = {**_OF_READS, "packed": "--packed", "logs": "--logs", "keys_asked": "--asked"}
_OF_BULK = {
    "events_per_second": "--within is too short: events a second of",
    "hottest_per_second": "--within is too short: events a second of the hottest key,",
    "within": "--within",
    "items": "--items",
    "event_bytes": "--event-bytes",
    "packed": "--packed",
}


@Parameter(name="*")
@dataclass(frozen=True)
class LoadOptions:
    """The options that say what load is planned for.

    :param rate: events a second at the peak, of all keys
    :param hottest: events a second at the peak, of the hottest key (--rate by default)
    :param mean: events a second on average over a month (--rate by default)
    :param event_bytes: bytes of an event as it is sent (128 by default)
    :param distinct: how many keys a window has (1000 by default; 1 with --hottest as --rate)
    :param packed: events in a packet, up to 1000 (1 by default: ids of their own)
    :param logs: keys whose plain events are logged, with events a second at the peak
    :param reads: counts a second that are asked for (0 by default)
    :param asked: how many keys counts are asked for of (all by default)
    :param staleness: how old a count may be, 1s by default; 0s: counts are not cached
    """

    rate: Annotated[float | None, RATE] = None
    hottest: Annotated[float | None, RATE] = None
    mean: Annotated[float | None, RATE] = None
    event_bytes: Annotated[int, Parameter(metavar="N")] = 128
    distinct: Annotated[int, Parameter(metavar="N")] = 1_000
    packed: Annotated[int, Parameter(metavar="N")] = 1
    logs: Annotated[Mapping[str, int] | None, _LOGS] = None
    reads: Annotated[float, RATE] = 0.0
    asked: Annotated[int | None, Parameter(metavar="N")] = None
    staleness: Annotated[int, DURATION] = 1_000

    def load(self) -> PeakLoad:
        """The load that they say. Raises UsageError."""
        if self.rate is None:
            raise UsageError("give --rate, events a second at the peak, or a FILE of events")
        hottest = self.rate if self.hottest is None else self.hottest
        one = hottest == self.rate
        if one and (self.asked or 1) > 1:
            raise UsageError(
                f"--asked {self.asked:,}: --rate alone plans one key; give --hottest with it, and"
                " --distinct keys"
            )
        return PeakLoad(
            events_per_second=self.rate,
            hottest_per_second=hottest,
            mean_per_second=self.mean,
            event_bytes=self.event_bytes,
            keys=1 if one else self.distinct,
            packed=self.packed,
            logs={key: LoggedKey(rate, rate) for key, rate in (self.logs or {}).items()},
            reads_per_second=self.reads,
            staleness_seconds=self.staleness / 1_000,
            keys_asked=self.asked,
        )

    @property
    def names(self) -> Mapping[str, str]:
        """The options by the fields of a `PeakLoad` that they are."""
        return {
            **_OF_FILES,
            "events_per_second": "--rate",
            "hottest_per_second": "--rate" if self.hottest is None else "--hottest",
            "mean_per_second": "--mean",
            "event_bytes": "--event-bytes",
            "keys": "--distinct",
        }


NO_LOAD = LoadOptions()


def plan(
    file: Annotated[str | None, Parameter(metavar="FILE")] = None,
    /,
    *,
    from_deployment: bool = False,
    of: LoadOptions = NO_LOAD,
    window: Annotated[int | str | None, _LENGTH] = None,
    retention: Annotated[int | None, DURATION] = None,
    identity: Annotated[IdentityScope | None, Parameter(metavar="SCOPE")] = None,
    keys: Annotated[str | None, Parameter(metavar="FILE")] = None,
    by: Annotated[str | None, Parameter(metavar="FIELD")] = None,
    sort: Annotated[str | None, Parameter(metavar="FIELD")] = None,
    bulk: BulkOptions = NO_BULK,
    table: ProvisionedOptions = NO_TABLE,
    context: bool = False,
    run: Run,
) -> int:
    """Plan a deployment.

    How many shards, partitions and writers a load needs, whether its tables need
    warm throughput, and what a month costs, line by line. Each number has its
    formula and its source. AWS is called with --from-deployment alone.

    The load is that of a FILE of events (JSON Lines, as `tallyroll send` takes it)
    at its busiest second, or that of --rate and --hottest. With --within it plans
    to load the FILE in that time, with --keys it scores a field of items as
    partition key, with --units it shows the partitions of a provisioned table.

    With --from-deployment the load is that of the running pipeline in its last
    windows. It reads catalog, tallies, metrics and quotas, changes nothing, and
    says beside each setting what it should be and why.

    For example:
      tallyroll plan --rate 5000 --hottest 2000 --mean 300
      tallyroll plan events.jsonl --packed 1000 --context
      tallyroll --name votes plan --from-deployment
      tallyroll plan history.jsonl --within 30m
      tallyroll plan --keys orders.jsonl --by customer --sort placed_at
      tallyroll plan --units 5000/2000 --raised 8000/2000 --stored 90 --cut 500/200

    :param file: plan for these events (JSON Lines) instead of --rate, as they happened
    :param from_deployment: measure the running pipeline, and say what to change
    :param window: length of the windows (1h by default), or week, month, quarter, year
    :param retention: how long a sealed window's table is kept (3d by default)
    :param identity: within what an id counts once: window (the default), key or pipeline
    :param keys: score a partition key of the items in this FILE of JSON Lines
    :param by: the field that is to be the partition key, with --keys
    :param sort: the field that is to be the sort key, with --keys
    :param context: print the CDK context that deploys it; with --from-deployment, what to change
    """
    given = {file, window, retention, identity, keys, by, sort} != {None} or bulk != NO_BULK
    if table != NO_TABLE:
        if given or from_deployment or context or of != NO_LOAD:
            raise UsageError(
                "--units makes a table: give only --raised, --stored and --cut with it"
            )
        return show_table(table, run.screen)
    if from_deployment:
        if given or replace(of, reads=0.0, staleness=1_000) != NO_LOAD:
            raise UsageError("--from-deployment measures the load: give only --reads, --staleness")
        return _from_deployment(of, run, context=context)
    if keys is not None or by is not None:
        others = {file, window, retention, identity} != {None} or bulk != NO_BULK
        if context or others or of != NO_LOAD:
            raise UsageError("--keys scores a partition key: give only --by and --sort with it")
        return _score(keys, by, sort, run.screen)
    settings = _settings(sort, window, retention, identity or IdentityScope.WINDOW)
    if bulk != NO_BULK:
        return _bulk(file, bulk, of, settings, run.screen, context=context)
    return _of_peak(file, of, settings, run.screen, context=context)


def _of_peak(
    file: str | None, of: LoadOptions, settings: Settings, screen: Screen, *, context: bool
) -> int:
    """Plan for the peak of a file, or of the options."""
    if file is None:
        with options_named(of.names):
            made, bad = planned(of.load(), settings), 0
    elif (of.rate, of.hottest, of.mean) != (None, None, None):
        raise UsageError("give FILE, or --rate, --hottest and --mean, not both")
    elif (of.event_bytes, of.distinct) != (NO_LOAD.event_bytes, NO_LOAD.distinct):
        raise UsageError("FILE says how large and how many: leave out --event-bytes, --distinct")
    else:
        with options_named(_OF_FILES):
            load, bad = _load_of(file, of, screen)
            made = planned(load, settings)
    _show(made, screen, context=context)
    return DONE_IN_PART if bad else DONE


def _settings(
    sort: str | None,
    window: int | str | None,
    retention: int | None,
    identity: IdentityScope,
) -> Settings:
    """The settings to plan for. Raises UsageError."""
    if sort is not None:
        raise UsageError("--sort: give --keys FILE and --by FIELD with it")
    settings = Settings(identity=identity)
    there = Settings.from_env(os.environ)
    if there.suffix != settings.suffix:
        settings = replace(settings, suffix=there.suffix, shards=there.shards)
    if isinstance(window, str):
        settings = replace(settings, window=window)
    elif window is not None and window % 1000:
        raise UsageError(f"--window {window}ms: windows have whole seconds")
    elif window is not None:
        settings = replace(settings, window_seconds=window // 1000)
    return settings if retention is None else replace(settings, retention_ms=retention)


def _from_deployment(of: LoadOptions, run: Run, *, context: bool) -> int:
    """Measure the pipeline, and show what to change."""
    from tallyroll.operations.survey import survey
    from tallyroll.planning.feedback import feedback

    case, screen = run.checkup(None), run.screen
    made = run.pipeline(case.settings)
    facts, not_known = survey(case, run.calendar(made), made.gauges)
    with options_named(_OF_READS):
        found = feedback(facts, of.reads, of.staleness / 1_000)
    if context:
        screen.line(found.context, json.dumps(found.context, indent=2))
    elif screen.json:
        about = {"pipeline": case.settings.name, "as_of": iso(case.effects.now())}
        screen.emit({**about, **found.as_json(), "not_known": not_known})
    else:
        screen.table(("measured", "value", "source"), found.measured, prose=True)
        screen.table(("setting", "now", "planned", "do", "why"), found.settings, prose=True)
    for line in [*(f"not known: {each}" for each in not_known), *found.notes]:
        screen.tell(line)
    return DONE


def _bulk(
    file: str | None,
    bulk: BulkOptions,
    of: LoadOptions,
    settings: Settings,
    screen: Screen,
    *,
    context: bool,
) -> int:
    """Plan to load a file, or so many items, in a given time."""
    if context:
        raise UsageError("--within plans a load, no deployment: leave out --context")
    if bulk.within is None or (file is None) == (bulk.items is None):
        raise UsageError("--within TIME: give FILE with it, or --items N of --event-bytes")
    plain = LoadOptions(packed=of.packed)
    if file is None:
        plain = replace(plain, event_bytes=of.event_bytes, distinct=of.distinct)
    if of != plain:
        sizes = "--packed" if file else "--event-bytes, --distinct, --packed"
        raise UsageError(f"--within says the rate of a load: give only {sizes} of a load with it")
    with options_named(_OF_BULK):
        if file is not None:
            sample, bad = _sampled(file, of, screen)
            load = bulk_of(sample, settings)
        else:
            keys, bad = max(1, min(of.distinct, bulk.items or 0)), 0
            load = BulkLoad(
                items=bulk.items or 0,
                item_bytes=of.event_bytes,
                keys=keys,
                hottest_share=1 / keys,
                windows=1,
                totals=keys,
            )
        made = bulk_plan(load, settings, seconds=bulk.within / 1_000, packed=of.packed)
    show_bulk(load, made, screen)
    return DONE_IN_PART if bad else DONE


def _sampled(file: str, of: LoadOptions, screen: Screen) -> tuple[Sample, int]:
    """The sample of a file, and how many of its lines are no events."""
    bad: list[int] = []
    with closing(LineSource(file)) as source:
        sample = sampled(events_of(source, bad, screen))
    if of.packed > 1 and sample.with_ids:
        screen.tell(
            f"{sample.with_ids:,} of {sample.events:,} events have ids of their own: these are"
            " deduplicated singly and not packed; the plan takes them as packed all the same"
        )
    return sample, len(bad)


def _load_of(file: str, of: LoadOptions, screen: Screen) -> tuple[PeakLoad, int]:
    """The load of a file, and how many of its lines are no events."""
    sample, bad = _sampled(file, of, screen)
    load = sample.load(
        packed=of.packed,
        reads_per_second=of.reads,
        staleness_seconds=of.staleness / 1_000,
        logs=of.logs,
    )
    return replace(load, keys_asked=of.asked), bad


def _show(made: Plan, screen: Screen, *, context: bool) -> None:
    """Show a plan: its context alone, or JSON, or its tables."""
    if context:
        screen.line(made.context(), json.dumps(made.context(), indent=2))
        return
    dollars, instead, others = dollars_of(made), deleting_month(made), cheaper(made)
    if screen.json:
        more = {
            "deleting_instead": round(instead.dollars, 2),
            "cheaper": [
                {"name": each.name, "dollars": round(each.dollars, 2), "loses": each.loses}
                for each in others
            ],
            "explained": explained(made),
        }
        screen.emit(as_json(made, dollars) | more)
        return
    lines = lines_of(made)
    screen.table(
        ("what", "value", "how it is computed, and its source"),
        [(each.name, f"{each.value:,.10g}", f"{each.formula} [{each.source}]") for each in lines],
        prose=True,
    )
    in_all = CostLine("in all", dollars["in all"], f"{prices.REGION}, prices of {prices.AS_OF}")
    screen.paragraph("A month, in US dollars")
    screen.table(
        ("of it", "dollars", "how it is computed"),
        [
            (cost.name, f"{cost.dollars:,.2f}", cost.formula)
            for cost in (*month_of(made), in_all, instead)
        ],
        prose=True,
    )
    if others:
        screen.paragraph("Cheaper, a month in US dollars")
        screen.table(
            ("instead", "dollars", "what it loses"),
            [(each.name, f"{each.dollars:,.2f}", each.loses) for each in others],
            prose=True,
        )
    for text in explained(made):
        screen.paragraph(text)
    for line in lines:
        if line.warning:
            screen.tell(f"{line.name}: {line.warning}")
    if made.load.mean_per_second is None:
        screen.tell("the month is at the peak all the time: give --mean for another rate")


def _score(keys: str | None, by: str | None, sort: str | None, screen: Screen) -> int:
    if keys is None or by is None:
        raise UsageError("give --keys FILE and --by FIELD together")
    with closing(LineSource(keys)) as source:
        score = scored_key(source.objects(), by=by, sort=sort)
    screen.line({"by": by, **asdict(score)}, "\n".join(score_lines(by, score)))
    return DONE
