"""What it takes to seal windows of very many keys and to roll up their day, on DynamoDB Local.

`make bench`, or

    python -m benchmarks.sealing [KEYS]

The roller runs in a process of its own, whose memory is watched. Machines are noisy, and an
emulator is no partition: look at the memory, and at the ratio of sealing to rolling up.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace

from benchmarks import processes
from benchmarks.archiving import put_all
from local.aws.embedded import Embedded
from tallyroll import pipeline
from tallyroll.adapters.dynamodb.items import SLOT_NAMES, Item, tally_key
from tallyroll.lifecycle import rollups, sealing
from tallyroll.lifecycle.roller import Roller
from tallyroll.lifecycle.rollups import RollUps
from tallyroll.lifecycle.state_machine import freeze
from tallyroll.model.amounts import format_amount
from tallyroll.model.periods import DAY_MS, day_of
from tallyroll.model.specs import Spec
from tallyroll.model.states import Moment, Status, Window
from tallyroll.model.windows import table_name, window_id
from tallyroll.pipeline import Pipeline
from tallyroll.settings import Settings

KEYS = 100_000
WINDOWS = 2
HOUR_MS = 3_600_000
MICROS = 1_000_000
TIME_LEFT_MS = 300_000  # the roller's, as it is deployed
SETTINGS = Settings(name="sealing", gates=16, settle_ms=0, ahead_windows=1, shards_max=16)


def stripes_of(spec: Spec, keys: int) -> Iterator[tuple[str, Item]]:
    """The keys' tallies, every third with a second stripe: one event, or one and 2.5."""
    for number in range(keys):
        key = f"key-{number:07d}"
        for stripe in range(1, 2 + (number % 3 == 0)):
            numbers = {"n": "1", "v": format_amount(stripe * MICROS), "u": "2"}
            numbers[SLOT_NAMES[number % 60]] = "1"
            item = {name: {"N": text} for name, text in numbers.items()}
            yield key, {**tally_key(spec, key, stripe), **item}


def fill(made: Pipeline, settings: Settings, keys: int) -> list[Window]:
    """Two windows of the day before yesterday with tallies of so many keys each, closed and shut:
    their states.
    """
    day = day_of(made.effects.now() - 2 * DAY_MS)
    return [
        _filled(made, settings, day.start + number * HOUR_MS, keys) for number in range(WINDOWS)
    ]


def _filled(made: Pipeline, settings: Settings, start: int, keys: int) -> Window:
    name = window_id(start)
    table = table_name(settings.name, name)
    window = Window(name, table, start, start + HOUR_MS, accept_from=1, accept_until=2)
    made.catalog.create(window)
    spec = made.catalog.put_spec(freeze(window, settings))
    made.store.make_table(window.table, {})
    put_all(window.table, (item for _, item in stripes_of(spec, keys)))
    made.store.shut_gates(spec)
    now = made.effects.now()
    times: dict[str, int] = {Status.OPEN: now, Status.CLOSING: now, Moment.SHUT: now}
    return made.catalog.advance(replace(window, status=Status.CLOSING, times=times))


def roll(time_left_ms: int) -> None:
    """One run of the roller in this process, timed."""
    seconds = {"seal": 0.0, "roll up": 0.0}

    for owner, method, name in ((Roller, "_seal", "seal"), (RollUps, "run", "roll up")):
        setattr(owner, method, processes.timed(seconds, name, getattr(owner, method)))
    settings = Settings.from_env(os.environ)
    processes.tell_taken(seconds, pipeline.Pipeline(settings).roller.run(time_left_ms).problems)


def spawned(environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    """A process of the roller, which prints what it took."""
    return processes.spawned("benchmarks.sealing", environment, "--roll", *arguments)


def measure(keys: int) -> None:
    """Fill two windows with so many keys each, have them sealed and their day rolled up, and print
    what that took. Raises RuntimeError if the sums are wrong.
    """
    with Embedded(SETTINGS) as aws:
        os.environ.update(aws.environment)
        made = pipeline.Pipeline(aws.settings)
        windows = fill(made, aws.settings, keys)
        day = day_of(windows[0].start).name
        runs = []
        while not all(state.complete for state in made.catalog.periods(day, day)):
            runs.append(processes.taken(spawned(aws.environment)))
            if runs[-1].problems:
                raise RuntimeError(f"not sealed: {runs[-1].problems}")
        events = keys + -(-keys // 3)
        for window in windows:
            sealed = made.catalog.window(window.id)
            if sealed is None or (sealed.keys, sealed.events) != (keys, events):
                raise RuntimeError(f"{keys} keys and {events} events were to be sealed: {sealed}")
    title = f"{WINDOWS} windows of {keys:,} keys, and their day, DynamoDB Local"
    processes.show_taken(title, "totals", runs, {"seal": WINDOWS * keys, "roll up": keys})


def main() -> None:
    """Measure, and print the table; or be the process that is measured."""
    options = argparse.ArgumentParser()
    options.add_argument("keys", type=int, nargs="?", default=KEYS)
    options.add_argument("--roll", action="store_true", help=argparse.SUPPRESS)
    options.add_argument("--time-left-ms", type=int, default=TIME_LEFT_MS, help=argparse.SUPPRESS)
    options.add_argument("--slice", type=int, help=argparse.SUPPRESS)
    given = options.parse_args()
    if not given.roll:
        measure(given.keys)
        return
    if given.slice:
        for module, name in ((sealing, "STRIPES_PER_SLICE"), (rollups, "KEYS_PER_SLICE")):
            setattr(module, name, given.slice)
    roll(given.time_left_ms)


if __name__ == "__main__":
    main()
