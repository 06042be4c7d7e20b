"""Explores the model's worlds and finds its planted mistakes: `make model`."""

# ruff: noqa: T201 (a program that people start: printing is its output)

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

from tests.model import counting, log_worlds, ranges, shared, stripes
from tests.model.explore import Explored, explore
from tests.model.marks import MARKS
from tests.model.mistakes import Mistake
from tests.model.search import Found
from tests.model.wishes import tell_wishes
from tests.model.words import told
from tests.model.world import World
from tests.model.worlds import LARGE, PLANTED, SMALL, world_named

M = TypeVar("M", bound=StrEnum)
P = TypeVar("P", bound=StrEnum)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print worlds, states and seconds, then each mistake with its shortest trace; 1 if a promise
    is broken, a mark is not reached, or a mistake is not found.
    """
    options = _options(arguments)
    if options.mistake:
        return _mistakes([options.mistake], options.world)
    if options.world:
        return _worlds([world_named(options.world)])
    if options.stripes:
        return _stripes()
    if options.reads:
        return _reads()
    if options.logs:
        return _logs(large=True)
    failed = _worlds((*SMALL, *LARGE) if options.large else SMALL)
    failed = _mistakes(PLANTED) or _stripes() or _reads() or failed
    return _logs(large=options.large) or tell_wishes() or failed


def named(mistake: StrEnum) -> str:
    """A mistake's name on the command line."""
    return mistake.name.lower().replace("_", "-")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    mistakes = {named(each): each for each in Mistake}
    worlds = [each.name for each in (*SMALL, *LARGE)]
    parser.add_argument("--world", choices=worlds, help="explore this world alone")
    parser.add_argument(
        "--mistake",
        type=mistakes.get,
        choices=list(Mistake),
        metavar="{" + ",".join(mistakes) + "}",
        help="plant this mistake alone, in its world or in that of --world",
    )
    parser.add_argument("--stripes", action="store_true", help="the raise of stripes alone")
    parser.add_argument("--reads", action="store_true", help="reads alone")
    parser.add_argument("--logs", action="store_true", help="logs alone, with the larger worlds")
    parser.add_argument("--large", action="store_true", help="explore the larger worlds, too")
    return parser.parse_args(arguments)


def _worlds(worlds: Iterable[World]) -> int:
    print(f"{'world':24}{'states':>11}{'steps':>12}{'seconds':>9}")
    failed, states, steps, seconds = 0, 0, 0, 0.0
    for world in worlds:
        result = explore(world, MARKS, progress=_tell)
        print(f"{world.name:24}{result.states:11,}{result.steps:12,}{result.seconds:9.1f}")
        states, steps, seconds = (
            states + result.states,
            steps + result.steps,
            seconds + result.seconds,
        )
        if result.broken:
            failed = 1
            _show(result)
        elif result.unseen:
            failed = 1
            print(f"  no state has the marks {', '.join(sorted(result.unseen))}")
    print(f"{'all':24}{states:11,}{steps:12,}{seconds:9.1f}")
    return failed


def _mistakes(mistakes: Iterable[Mistake], world: str | None = None) -> int:
    failed = 0
    for mistake in mistakes:
        name = world or PLANTED[mistake][0]
        result = explore(world_named(name, mistake), MARKS, progress=_tell)
        print(f"\n{named(mistake)}: {mistake}")
        print(f"  world {name}, {result.states:,} states, {result.seconds:.1f} s")
        if result.broken:
            _show(result)
        else:
            failed = 1
            print("  NOT FOUND")
    return failed


def _stripes() -> int:
    """The model of the raise of stripes, and its mistakes."""
    found = {each: stripes.explore(each) for each in stripes.Mistake}
    return _apart("the raise of stripes", stripes.explore(), found)


def _reads() -> int:
    """The models of reads, and their mistakes."""
    kept = {each: counting.explore_all(each) for each in counting.Mistake}
    caches = {each: shared.explore_all(each) for each in shared.Mistake}
    spans = {each: ranges.explore_all(each) for each in ranges.Mistake}
    return (
        _apart("counts that are kept", counting.explore_all(), kept)
        or _apart("counts that are shared", shared.explore_all(), caches)
        or _apart("reads over ranges", ranges.explore_all(), spans)
    )


def _apart(what: str, right: Found[P], planted: Mapping[M, Found[P]]) -> int:
    """Tell of a model of its own: without mistakes, and with each."""
    print(f"\n{what}: {right.states:,} states")
    for line in right.trace:
        print(f"  {line}")
    return _planted(planted) or int(bool(right.broken))


def _logs(*, large: bool) -> int:
    """The model of logs, world by world, and its mistakes."""
    worlds = (*log_worlds.SMALL, *log_worlds.LARGE) if large else log_worlds.SMALL
    failed = [_apart(f"logs, {each.name}", log_worlds.explore(each), {}) for each in worlds]
    return _planted({each: log_worlds.find(each) for each in log_worlds.PLANTED}) or max(failed)


def _planted(planted: Mapping[M, Found[P]]) -> int:
    """Tell of mistakes; 1 if one is not found."""
    failed = 0
    for mistake, found in planted.items():
        failed |= not found.broken
        print(f"\n{named(mistake)}: {mistake}\n  broken: {found.broken or 'NOT FOUND'}")
        for number, line in enumerate(found.trace, 1):
            print(f"  {number:3}. {line}")
    return int(failed)


def _show(result: Explored) -> None:
    print(f"  broken: {result.broken}")
    for line in told(result.world, result.trace):
        print(f"  {line}")


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
