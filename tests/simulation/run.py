"""Runs the simulation: `make simulate SEEDS=10000 FROM=0`, `SEED=7`, or `BUGS=all`."""

# ruff: noqa: T201 (a program that people start: printing is its output)

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.simulation import marks
from tests.simulation.lanes import (
    Hunt,
    Summary,
    bug_name,
    hunt_bugs,
    in_place,
    planted_named,
    run_seeds,
)
from tests.simulation.modes import DYNAMODB, MODES
from tests.simulation.pipeline import Result
from tests.simulation.planted import Planted
from tests.simulation.resuming import NotResumed, Resumable
from tests.simulation.shrinking import concerning, promise_of, shrink
from tests.simulation.weather import LETTER, parse_weather, weather_text
from tests.simulation.world import Bounds

TRACE_LINES = 60
SHRINK_SECONDS = 20.0
SHRUNK_MAX = 3  # of different violations; other failing seeds are named, and can be run alone
TOLD_MAX = 20  # violations are told as they come; of others, only the seeds in the end
BUG_SEEDS = 300
LINE_EVERY_SECONDS = 10.0  # where no terminal redraws the line
INTERRUPTED = 130
WRONG_USE = 2
MARKED_SEEDS = 1_000  # so many seeds come to every mark


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for; 1 if an invariant was violated, a planted bug survived, or a run of at
    least 1,000 seeds never came to some mark.
    """
    options = _options(arguments)
    if options.seed is not None:
        return _one(options)
    return _hunt(options) if options.bugs else _many(options)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed and show its trace")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument(
        "--weather", type=_weather, default={}, help='e.g. "crash=0 slow_verb=stripes"'
    )
    parser.add_argument(
        "--only-faults",
        type=_names,
        help="leave out all faults and letters but these: names from a trace, or none",
    )
    parser.add_argument(
        "--store", choices=MODES, default=DYNAMODB, help="the store on which the pipeline runs"
    )
    parser.add_argument("--bugs", help="plant a bug: its name, or all, one after the other")
    parser.add_argument("--lines", type=int, default=TRACE_LINES, help="trace lines to show")
    parser.add_argument(
        "--shrink", type=float, default=SHRINK_SECONDS, help="seconds for shrinking a failure"
    )
    parser.add_argument(
        "--resume", type=Path, help="keep in this file what was run, and go on from there"
    )
    options = parser.parse_args(arguments)
    known = [bug_name(planted) for planted in MODES[options.store].planted]
    if options.bugs and options.bugs not in ("all", *known):
        parser.error(f"no planted bug is named {options.bugs!r}: all, {', '.join(known)}")
    if options.seed is not None and options.bugs == "all":
        parser.error("a seed is run with one planted bug at a time")
    if options.resume and (options.seed is not None or options.bugs):
        parser.error("only a run of many seeds is resumed")
    for name, least in (("seeds", 1), ("jobs", 1), ("first", 0)):
        if getattr(options, name) < least:
            parser.error(f"--{'from' if name == 'first' else name} must be at least {least}")
    return options


def _weather(text: str) -> dict[str, Any]:
    try:
        return parse_weather(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _names(text: str) -> tuple[str, ...]:
    """The names in "3fa9c1,77ab02"; "none" are none."""
    return tuple(name for name in text.replace(",", " ").split() if name != "none")


def _bounds(only: Sequence[str] | None) -> Bounds:
    names = None if only is None else frozenset(only)
    return Bounds(names, names)


def _one(options: argparse.Namespace) -> int:
    """Run one seed and show its trace; shrink it if it fails, unless its faults were named."""
    bug = planted_named(options.bugs, options.store) if options.bugs else None
    with in_place(bug) as weather:
        tweaks = {**weather, **options.weather}
        result = MODES[options.store].simulate(options.seed, _bounds(options.only_faults), **tweaks)
        print(_shown(result))
        if not result.violation:
            _show_lines(result.trace, options.lines)
        elif options.only_faults is None:
            _explain(result, tweaks, options, bug)
        else:
            _tell(result, options.lines)
    return int(result.violation is not None)


def _many(options: argparse.Namespace) -> int:
    """Run many seeds on all cores; tell what failed as it fails, and explain it in the end."""
    seeds = range(options.first, options.first + options.seeds)
    try:
        kept = Resumable(options.resume, options.weather, options.store)
    except NotResumed as error:
        print(error)
        return WRONG_USE
    summary, left = kept.summary, kept.left(seeds)
    progress = _Progress(summary.seeds + len(left))
    interrupted = False
    try:
        for result in run_seeds(left, options.weather, options.jobs, options.store):
            summary.add(result)
            kept.done(result.seed)
            if result.violation and len(summary.failed) <= TOLD_MAX:
                progress.clear()
                print(f"{_shown(result)}\n  VIOLATION {result.violation}", flush=True)
            progress.show(summary)
    except KeyboardInterrupt:
        interrupted = True
    kept.save()
    progress.clear()
    print(_summed(summary, progress.seconds))
    names = MODES[options.store].marks
    print(f"\n{marks.table(summary.marks, names)}")
    unmet = marks.never_met(summary.marks, names)
    if unmet:
        print(f"never met: {', '.join(unmet)}")
    failed = sorted(summary.failed, key=lambda result: result.seed)
    if failed:
        print(f"failed seeds: {' '.join(str(result.seed) for result in failed)}", flush=True)
    broken = {promise_of(str(result.violation)): result for result in reversed(failed)}
    for result in [] if interrupted else [*broken.values()][:SHRUNK_MAX]:
        print()
        _explain(result, options.weather, options, None)
    if interrupted and not failed:
        return INTERRUPTED
    # A few seeds, or other weather, may well not come to everything.
    expected = summary.seeds >= MARKED_SEEDS and not options.weather
    return int(bool(failed or (unmet and expected)))


def _hunt(options: argparse.Namespace) -> int:
    """Plant bugs one at a time and look for a seed that finds each."""
    known = map(bug_name, MODES[options.store].planted)
    names = [name for name in known if options.bugs in ("all", name)]
    seeds = range(options.first, options.first + BUG_SEEDS)
    hunts: dict[str, Hunt] = {}
    try:
        for hunt in hunt_bugs(names, seeds, min(options.jobs, len(names)), options.store):
            hunts[hunt.name] = hunt
            print(f"{hunt.name}: {'survived' if hunt.seed is None else 'found'}", flush=True)
    except KeyboardInterrupt:
        print(f"interrupted after {len(hunts)} of {len(names)} bugs")
    width = max(map(len, names))
    print(f"\n{'bug':{width}}  {'seed':>6}  {'tried':>5}  violation")
    for name in (name for name in names if name in hunts):
        hunt = hunts[name]
        first = (hunt.violation.splitlines() or ["SURVIVED"])[0]
        seed = "-" if hunt.seed is None else hunt.seed
        print(f"{name:{width}}  {seed:>6}  {hunt.tried:>5}  {first[:100]}")
    survived = [hunt.name for hunt in hunts.values() if hunt.seed is None]
    if survived:
        print(f"survived: {', '.join(survived)}")
        return 1
    return 0 if len(hunts) == len(names) else INTERRUPTED


def _explain(
    result: Result, tweaks: Mapping[str, Any], options: argparse.Namespace, bug: Planted | None
) -> None:
    """Shrink a failure, show what is left of its trace, and the commands that bring it back."""
    print(f"seed {result.seed}: shrinking for up to {options.shrink:.0f} s ...", flush=True)
    simulate = MODES[options.store].simulate
    shrunk = shrink(result, tweaks, options.shrink, simulate=simulate)
    _tell(shrunk.result, options.lines)
    print(
        f"shrunk in {shrunk.runs} runs: {_happened(result)}, now {_happened(shrunk.result)};"
        f" {len(result.trace)} lines of trace, now {len(shrunk.result.trace)}"
    )
    store = options.store
    print(f"replay: {replay_command(result.seed, tweaks, None, bug, store)}")
    if shrunk.only is not None:
        print(f"shrunk: {replay_command(result.seed, shrunk.tweaks, shrunk.only, bug, store)}")


def replay_command(
    seed: int,
    tweaks: Mapping[str, Any],
    only: Sequence[str] | None,
    bug: Planted | None,
    store: str = DYNAMODB,
) -> str:
    """The command that brings a run back; a planted bug's own weather goes without saying."""
    own = bug.weather if bug else {}
    named = {name: given for name, given in tweaks.items() if own.get(name) != given}
    words = [f"make simulate SEED={seed}"]
    words += [f"STORE={store}"] if store != DYNAMODB else []
    words += [f"BUGS={bug_name(bug)}"] if bug else []
    words += [f'WEATHER="{weather_text(named)}"'] if named else []
    words += [f"ONLY_FAULTS={','.join(only) or 'none'}"] if only is not None else []
    return " ".join(words)


def _happened(result: Result) -> str:
    letters = sum(fault.kind == LETTER.kind for fault in result.faults)
    return f"{letters} letters and {len(result.faults) - letters} faults"


def _tell(result: Result, lines: int) -> None:
    """Show a failing run: the lines that concern the violation, and the violation."""
    _show_lines(concerning(result), lines)
    print(f"VIOLATION {result.violation}")


def _show_lines(trace: Sequence[str], most: int) -> None:
    shown = trace[-most:] if most else []
    if shown and len(trace) > len(shown):
        print(f"... {len(trace) - len(shown)} lines before")
    print("\n".join(shown), end="\n" if shown else "")


def _shown(result: Result) -> str:
    return (
        f"seed {result.seed}: {result.messages} messages, {result.commits} commits,"
        f" {result.dropped} tables dropped,"
        f" {result.orphans} made again, {result.steps} steps, trace {result.trace_hash}"
    )


def _summed(summary: Summary, seconds: float) -> str:
    kinds = Counter({kind: n for kind, n in summary.faults.items() if kind != LETTER.kind})
    faults = ", ".join(f"{kind} {n:,}" for kind, n in sorted(kinds.items()))
    return (
        f"{summary.seeds:,} seeds in {seconds:.0f} s, {summary.seeds / seconds:.1f} a second;"
        f" {summary.messages:,} messages, {summary.commits:,} commits,"
        f" {summary.steps:,} steps, {summary.dropped:,} tables dropped\n"
        f"{kinds.total():,} faults: {faults or 'none'}\n"
        f"{len(summary.failed)} violation{'s' * (len(summary.failed) != 1)}"
    )


class _Progress:
    """One line, redrawn on a terminal, printed now and then elsewhere."""

    def __init__(self, seeds: int) -> None:
        self._seeds = seeds
        self._began = time.monotonic()
        self._next = self._began
        self._redraws = sys.stdout.isatty()

    @property
    def seconds(self) -> float:
        """How long it has taken so far, not 0."""
        return max(1e-3, time.monotonic() - self._began)

    def show(self, summary: Summary) -> None:
        """Show how far it has come, if that is due."""
        if not self._redraws and time.monotonic() < self._next:
            return
        self._next = time.monotonic() + LINE_EVERY_SECONDS
        print(
            f"{summary.seeds}/{self._seeds} seeds, {summary.seeds / self.seconds:.1f} a second,"
            f" {summary.dropped} tables dropped, {len(summary.failed)} failed",
            end="\r" if self._redraws else "\n",
            flush=True,
        )

    def clear(self) -> None:
        """Leave no line behind on a terminal."""
        if self._redraws:
            print("\033[K", end="", flush=True)


if __name__ == "__main__":
    sys.exit(main())
