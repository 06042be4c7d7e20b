"""The lives that the suite runs, each by a name from which it can be run again."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from moto import mock_aws

from tallyroll.archive.indexed import making
from tests.faults import clients
from tests.faults.clients import Switchboard
from tests.faults.compacting import compacted_life
from tests.faults.exactness import Ledger
from tests.faults.injector import GOES_WELL, Blow, Plan
from tests.faults.kinds import WRITES, Kind
from tests.faults.lives import (
    StuckLife,
    busy_life,
    live_on,
    poisoned_life,
    retracted_life,
    short_life,
)
from tests.faults.logging import LOGS, logged_life
from tests.faults.plans import At, LostReplies, Only, Seeded, crash
from tests.faults.results import Result, Results
from tests.faults.wishing import wished_life
from tests.faults.world import FUNCTIONS, World

SEEDS = tuple(range(7))
MORE_SEEDS = tuple(range(7, 24))  # as many of them as the matrix still needs
PARTS = 4
WISH = "adapters/dynamodb/wishes.py:DynamoWishes.put_wishes.<locals>.once PutItem"
COMMIT = "adapters/dynamodb/store.py:DynamoStore.commit TransactWriteItems"
RETRACT = "adapters/dynamodb/store.py:DynamoStore.retract TransactWriteItems"
NEWER = "adapters/dynamodb/store.py:DynamoStore._query_eventually Query"
PASSES = "adapters/aws/s3.py:S3Bucket.let_pass PutObjectTagging"
PIPELINE: Mapping[str, Any] = {"identity": "pipeline"}
KEY: Mapping[str, Any] = {"identity": "key"}
"""Within what an id counts once in short lives, and in every second busy one."""


@contextmanager
def running(endpoint: str) -> Iterator[tuple[Switchboard, pytest.MonkeyPatch]]:
    """Moto in this process and the DynamoDB Local at `endpoint`, all requests on a switchboard."""
    with pytest.MonkeyPatch.context() as patch, mock_aws(), warnings.catch_warnings():
        # A function that crashed has no metrics.
        warnings.filterwarnings("ignore", "No application metrics", UserWarning)
        patch.setenv("AWS_ENDPOINT_URL_DYNAMODB", endpoint)
        patch.setattr(making, "INDEXED_OVER", 0)  # so that small archives have an index
        switchboard = clients.wire_up(patch)
        try:
            yield switchboard, patch
        finally:
            for module in FUNCTIONS.values():
                module.use_case.cache_clear()


@dataclass(frozen=True)
class Scenarios:
    """Runs lives on one DynamoDB Local; their results are shared with the other processes."""

    endpoint: str
    results: Results

    def busy(self, seed: int) -> Result:
        """A busy life under the faults of a seed."""

        def make() -> Result:
            plan = Seeded(seed)
            with TemporaryDirectory() as folder:
                return self._live(
                    f"seed {seed}",
                    seed,
                    plan,
                    lambda world, ledger: busy_life(world, ledger, plan, Path(folder)),
                    exporter="native",
                    retraction="operator",
                    read_archives=True,
                    **(KEY if seed % 2 == 0 else {}),
                )

        return self.results.of(f"seed-{seed}", make)

    def retracted(self, name: str, plan: Plan) -> Result:
        """A life in which an operator takes an event back."""
        changes: Mapping[str, Any] = {"retraction": "operator", "write_rate": 0}
        return self._live(f"retracted, {name}", 0, plan, retracted_life, **changes)

    def retract_under(self, kind: Kind) -> Result:
        """The same, in which one kind of fault strikes the transaction of its tombstone."""

        def make() -> Result:
            return self.retracted(f"{RETRACT} {kind}", Only(RETRACT, kind))

        return self.results.of(f"retract-{kind.name.lower()}", make)

    def wished(self, name: str, plan: Plan) -> Result:
        """A life in which an operator wishes shards for a key, and withdraws another wish."""
        return self._live(f"wished, {name}", 0, plan, wished_life, write_rate=0)

    def wish_under(self, kind: Kind) -> Result:
        """The same, in which one kind of fault strikes the put of the wishes."""

        def make() -> Result:
            return self.wished(f"{WISH} {kind}", Only(WISH, kind))

        return self.results.of(f"wish-{kind.name.lower()}", make)

    def compacted(self, name: str, plan: Plan) -> Result:
        """A life whose archive is made as Parquet, and expires."""
        return self._live(f"compacted, {name}", 0, plan, compacted_life, archive="parquet")

    def compact_under(self, kind: Kind) -> Result:
        """The same, in which one kind of fault strikes the tags by which the archive expires."""

        def make() -> Result:
            return self.compacted(f"{PASSES} {kind}", Only(PASSES, kind))

        return self.results.of(f"compact-{kind.name.lower()}", make)

    def logged(self, name: str, plan: Plan) -> Result:
        """A life with a logged key."""
        return self._live(f"logged, {name}", 0, plan, logged_life, logs=LOGS)

    def log_under(self, kind: Kind) -> Result:
        """The same, in which one kind of fault strikes the first read of each slot."""

        def make() -> Result:
            return self.logged(f"{NEWER} {kind}", Only(NEWER, kind))

        return self.results.of(f"log-{kind.name.lower()}", make)

    def reference(self) -> Result:
        """The short life without any fault; its result has the sites of all its calls."""

        def make() -> Result:
            plan = At(0, GOES_WELL)
            result = self._live("no fault", 0, plan, short_life, **PIPELINE)
            return Result(result.problems, result.strikes, tuple(plan.sites))

        return self.results.of("reference", make)

    def crashes(self, part: int) -> Result:
        """Short lives, a crash in each: before the first call, or after one that writes.

        A crash leaves nothing behind but what the engines hold, so one before a call and one after
        a call that only reads are the same as one after the last call that wrote.
        """
        points = [0, *self._writes()][part::PARTS]
        blows = [(point, Blow(after=crash) if point else Blow(before=crash)) for point in points]
        return self._each(f"crash-{part}", [(point or 1, blow) for point, blow in blows])

    def lost_replies(self, part: int) -> Result:
        """A short life in which the replies to every `PARTS`-th call that writes are lost."""

        def make() -> Result:
            plan = LostReplies(part, PARTS)
            return self._live(f"lost replies, part {part}", 0, plan, short_life, **PIPELINE)

        return self.results.of(f"lost-{part}", make)

    def stalls(self, part: int) -> Result:
        """Short lives, in each of which a function sleeps through the window's whole life before
        its first call of some site that writes, and then goes on.
        """
        sites = self.reference().sites
        points = sorted({sites[number - 1]: number for number in reversed(self._writes())}.values())
        points = points[part::PARTS]

        def make() -> Result:
            return _sum(
                self.stall(sites[number - 1], until)
                for number, until in zip(points, cycle(("sealed", "dropped")), strict=False)
            )

        return self.results.of(f"stall-{part}", make)

    def poisoned(self) -> Result:
        """A life without any fault but a message that kills writers."""
        return self._live("poisoned", 0, At(0, GOES_WELL), poisoned_life)

    def only(self, site: str, kind: Kind) -> Result:
        """A short life, in which one kind of fault strikes one site's first calls."""
        return self._live(f"{site} {kind}", 0, Only(site, kind), short_life, **PIPELINE)

    def stall(self, site: str, until: str) -> Result:
        """A short life, in which a function sleeps before its first call from a site while all
        others work on until the window is sealed or dropped.
        """
        number = self.reference().sites.index(site) + 1
        plan = At(number, GOES_WELL)

        def life(world: World, ledger: Ledger) -> None:
            def sleep() -> None:
                world.renew(*FUNCTIONS)  # others work on while this one sleeps
                live_on(world, until)

            plan.one = Blow(before=sleep)
            short_life(world, ledger)

        return self._live(f"asleep until {until} before {site}", 0, plan, life, **PIPELINE)

    def _writes(self) -> list[int]:
        """The numbers of the reference life's calls that change something."""
        sites = self.reference().sites
        return [at for at, site in enumerate(sites, 1) if site.split()[1] in WRITES]

    def _each(self, name: str, points: Sequence[tuple[int, Blow]]) -> Result:
        def make() -> Result:
            return _sum(
                self._live(f"{name}: call {number}", 0, At(number, blow), short_life, **PIPELINE)
                for number, blow in points
            )

        return self.results.of(name, make)

    def _live(
        self,
        name: str,
        seed: int,
        plan: Plan,
        life: Callable[[World, Ledger], object],
        **changes: Any,
    ) -> Result:
        with running(self.endpoint) as (switchboard, patch):
            return lived(name, World.made(switchboard, patch, seed, plan, **changes), life)


def lived(name: str, world: World, life: Callable[[World, Ledger], object]) -> Result:
    """Live a life, then hold what stands against the truth."""
    ledger = Ledger(world)
    world.injector.watch = ledger.watch
    try:
        life(world, ledger)
    except StuckLife as stuck:
        problems = (str(stuck), *ledger.problems, *world.problems)
        return Result(tuple(f"{name}: {problem}" for problem in problems), world.injector.strikes)
    world.injector.plan = None
    problems = tuple(f"{name}: {problem}" for problem in ledger.check())
    return Result(problems, world.injector.strikes)


def _sum(results: Iterator[Result]) -> Result:
    problems: list[str] = []
    strikes: Any = type(Result().strikes)()
    lives = 0
    for result in results:
        problems += result.problems
        strikes += result.strikes
        lives += result.lives
    return Result(tuple(problems), strikes, lives=lives)
