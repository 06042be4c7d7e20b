"""Runs seeds of the simulation: `python -m tests.simulation.run --seed 7`, or `--seeds 500`."""

# ruff: noqa: T201 (a program that people start: printing is its output)

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.pipeline import Result, simulate

TRACE_LINES = 60
LINE_EVERY_SEEDS = 50  # where no terminal redraws the line


def show(result: Result, *, lines: int) -> None:
    """Print what a seed came to; of a violation also the end of its trace and how to replay it."""
    print(
        f"seed {result.seed}: {result.messages} messages, {result.commits} commits,"
        f" {result.dropped} tables dropped,"
        f" {result.orphans} made again, {result.steps} steps, trace {result.trace_hash}"
    )
    if lines:
        print("\n".join(result.trace[-lines:]))
    if result.violation:
        print(f"VIOLATION: {result.violation}")
        print(f"replay: python -m tests.simulation.run --seed {result.seed}")


def main() -> int:
    """Run the seeds; 1 if an invariant was violated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one seed and show the end of its trace")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument("--lines", type=int, default=TRACE_LINES, help="trace lines to show")
    options = parser.parse_args()
    if options.seed is not None:
        result = simulate(options.seed)
        show(result, lines=options.lines)
        return int(result.violation is not None)
    began, failed, dropped = time.monotonic(), [], 0
    for done in range(1, options.seeds + 1):
        result = simulate(options.first + done - 1)
        dropped += result.dropped
        if result.violation:
            failed.append(result.seed)
            print("\r", end="")
            show(result, lines=options.lines)
        if sys.stdout.isatty() or done % LINE_EVERY_SEEDS == 0 or done == options.seeds:
            start = "\r" if sys.stdout.isatty() else ""
            rate = done / (time.monotonic() - began)
            print(
                f"{start}{done}/{options.seeds} seeds, {rate:.1f} a second,"
                f" {dropped} tables dropped, {len(failed)} failed",
                end="" if sys.stdout.isatty() else "\n",
                flush=True,
            )
    if sys.stdout.isatty():
        print()
    if failed:
        print(f"failed seeds: {failed}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
