"""`tallyroll simulate`: a table's partitions under a load."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import util
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from tallyroll.cli.arguments import DURATION, Run, up_to
from tallyroll.cli.planning.inputs import GB, RATE, events_of
from tallyroll.cli.screen import Screen
from tallyroll.client.jsonlines import LineSource
from tallyroll.errors import Missing, UsageError
from tallyroll.limits import SHARDS_DEFAULT, SHARDS_MAX
from tallyroll.settings import Settings

if TYPE_CHECKING:
    from tallyroll.operations.rehearsal import Rehearsal
    from tallyroll.planning.partition_model.world import World

DONE, DONE_IN_PART = 0, 1


@Parameter(name="*")
@dataclass(frozen=True)
class WorldOptions:
    """The options that say what is simulated.

    :param rate: events a second
    :param shape: how the rate goes on (flat by default)
    :param peak: events a second from --at on, or at the top of the spike
    :param at: when the step or the spike comes (10m by default)
    :param mix: all events of one key, or of keys by Zipf's law, or a hotspot (one by default)
    :param distinct: how many keys there are (1000 by default), with zipf and hotspot
    :param hotspot: this share of the keys gets that share of the events (0.2/0.8 by default)
    :param event_bytes: bytes of an event as it is sent (128 by default)
    :param packed: events in a packet (1 by default: ids of their own)
    :param shards: N, the shards of a key (256 by default)
    :param warm_units: warm throughput of new tables (0: AWS's own, 4,000)
    :param provisioned: write units a second of tables that are not on demand
    :param writers: the most writers at once (4 by default)
    :param window: length of the windows, each a new table (1h by default)
    :param random_sort_keys: ids do not ascend with time, so DynamoDB can divide a shard
    :param partitions: how many the first table starts with (as its throughput needs by default)
    :param stored: the GB that the first table starts with (0 by default)
    :param reads: counts a second that are read from the table (0 by default)
    :param seed: of all chance (1 by default)
    """

    rate: Annotated[float | None, RATE] = None
    shape: Literal["flat", "step", "spike"] = "flat"
    peak: Annotated[float | None, RATE] = None
    at: Annotated[int, DURATION] = 600_000
    mix: Literal["one", "zipf", "hotspot"] = "one"
    distinct: Annotated[int, Parameter(metavar="N")] = 1_000
    hotspot: Annotated[str, Parameter(metavar="X/Y")] = "0.2/0.8"
    event_bytes: Annotated[int, Parameter(metavar="N")] = 128
    packed: Annotated[int, Parameter(metavar="N")] = 1
    shards: Annotated[int, up_to(SHARDS_MAX)] = SHARDS_DEFAULT
    warm_units: Annotated[int, Parameter(metavar="N")] = 0
    provisioned: Annotated[int, Parameter(metavar="N")] = 0
    writers: Annotated[int, up_to(1_000)] = 4
    window: Annotated[int, DURATION] = 3_600_000
    random_sort_keys: bool = False
    partitions: Annotated[int, Parameter(metavar="N")] = 0
    stored: Annotated[float, GB] = 0.0
    reads: Annotated[float, RATE] = 0.0
    seed: Annotated[int, Parameter(metavar="N")] = 1


A_WORLD = WorldOptions()


def simulate(
    file: Annotated[str | None, Parameter(metavar="FILE")] = None,
    /,
    *,
    of: WorldOptions = A_WORLD,
    lasts: Annotated[int | None, DURATION] = None,
    delay: Annotated[int | None, DURATION] = None,
    compare: bool = False,
    transactions: bool = False,
    report: Annotated[str | None, Parameter(metavar="FILE")] = None,
    run: Run,
) -> int:
    """Simulate a table's partitions under a load.

    Partitions are ranges of hashes, and take 1,000 write units a second each.
    Shown are throttles, the backlog, the delay, and how partitions split. This is
    a model: AWS shows nobody a table's partitions. It calls nothing.

    For example:
      tallyroll simulate --rate 3000 --shards 16 --report night.html
      tallyroll simulate --rate 500 --shape spike --peak 20000 --delay 60s
      tallyroll simulate events.jsonl --shards 32 --compare

    :param file: recorded events (JSON Lines) instead of --rate, as they happened
    :param lasts: how long to simulate (1h by default, or what the file covers)
    :param delay: also find the fewest shards that keep this delay
    :param compare: also simulate the other strategies of suffixes, and packing
    :param transactions: play the writer's own transactions, up to 10,000 events/s, in one window
    :param report: write a page with charts to this file
    """
    if util.find_spec("numpy") is None:
        raise Missing("the simulation needs numpy: pip install '.[planning]' in the clone", "numpy")
    from tallyroll.planning.partition_model.question import (  # the extra may be missing
        Question,
        ready,
    )

    bad: list[int] = []
    with ExitStack() as stack:
        source = stack.enter_context(closing(LineSource(file))) if file is not None else None
        if source and of.rate is not None:
            raise UsageError("give FILE or --rate, not both")
        given = asdict(of) | {"at": of.at / 1_000, "window": of.window / 1_000}
        events = None if source is None else _times(source, bad, run.screen)
        seconds = None if lasts is None else lasts / 1_000
        simulation = ready(Question(**given, events=events, lasts=seconds))
    writing = partial(rehearsal_of, seed=of.seed) if transactions else None
    course = simulation.course(writing)
    compared = simulation.compared() if compare else None
    fewest = None if delay is None else simulation.fewest(delay / 1_000)
    if report is not None:
        _write(report, simulation.page(course, compared))
        run.screen.tell(f"wrote {report}")
    if run.screen.json:
        asked = {} if delay is None else {"fewest_shards": fewest}
        strategies = {"strategies": compared} if compared else {}
        run.screen.emit(simulation.numbers(course) | asked | strategies)
        return DONE_IN_PART if bad else DONE
    summary = simulation.summary(course)
    if delay is not None:
        kept = "no number of shards" if fewest is None else f"{fewest:,} shards"
        summary.append((f"a delay of {delay / 1_000:g} s is kept by", kept))
    run.screen.table(summary[0], summary[1:], prose=True)
    if compared:
        run.screen.table(compared[0], compared[1:], prose=True)
    return DONE_IN_PART if bad else DONE


def rehearsal_of(world: World, seed: int) -> Rehearsal:
    """The writer's own transactions, for a window of so many shards."""
    from tallyroll.lifecycle.state_machine import freeze
    from tallyroll.model.states import Window
    from tallyroll.operations.rehearsal import Rehearsal
    from tallyroll.pipeline.stores import metering

    settings = replace(Settings(), shards=world.shards_used)
    spec = freeze(Window("20260101T000000Z", "", 1_767_225_600_000, 1_767_229_200_000), settings)
    chance = Random(seed)  # noqa: S311 # it decides about waits
    return Rehearsal(spec, metering(), chance, int(world.item_bytes))


def _times(source: LineSource, bad: list[int], screen: Screen) -> Iterator[tuple[str, int]]:
    """The keys and times of a file's events."""
    for event, _ in events_of(source, bad, screen):
        if event.ts is None:
            raise UsageError(f"{source.name}: an event of {event.key!r} has no ts")
        yield event.key, event.ts


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--report {path!r}: {error.strerror}") from None
