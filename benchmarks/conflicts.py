"""How often transactions of many writers conflict, by a model: `python -m benchmarks.conflicts`.

A transaction touches a gate and, of one hot key, a stripe of its tally, both drawn at random. It is
cancelled if another one in flight holds either of them. The DynamoDB Developer Guide, "Amazon
DynamoDB Transactions: How it works", section "Transaction conflict handling in DynamoDB", names as
a conflict: "An item within a TransactWriteItems request is part of another ongoing
TransactWriteItems request". It makes no exception for condition checks, so two checks of one gate
are taken to conflict. (The API Reference says, more narrowly, "in the process of updating the same
item"; by that wording gates would never conflict.) Nothing of this was measured on AWS.

The model:

- `in_flight` transactions run side by side, as many as writers have places for them. When one is
  committed, its place begins the next at once. This is the worst case: writers always have work.
- An attempt takes `transaction_ms`, whether it is committed or cancelled, and holds for that time
  those of its items that it found free.
- After a cancelled attempt the place waits as `commits.after` says: full jitter below a bound that
  doubles. So back-off lowers the number of attempts at one moment, and conflicts raise the number
  of attempts for each commit.
- Records do not conflict: each is put by one transaction. Only a redelivery beside its first
  delivery would.

With n attempts at one moment on K items, each item is offered n/K attempts per `transaction_ms` and
accepts one at a time, so it is held with chance a/(1 + a), a = n/K (Erlang's loss formula for one
server). `solved` finds the n that agrees with the share of conflicts that follows from it;
`simulated` plays the same places one by one, with the back-off of `commits.after` itself.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from benchmarks.costs import EVENTS, START_MS, loads, store_cost
from benchmarks.tables import Rows, show
from tallyroll.adapters.dynamodb.store import GATES_AT_ONCE, GATES_PER_TRANSACTION
from tallyroll.ingest.transactions import Commit, after
from tallyroll.lifecycle.state_machine import freeze
from tallyroll.limits import TRANSACTION_ACTIONS_MAX
from tallyroll.model.records import Record
from tallyroll.model.sharding import random_suffix
from tallyroll.model.specs import Spec
from tallyroll.model.states import Window
from tallyroll.planning.costs import HOURS_A_MONTH
from tallyroll.planning.prices import WRITE_UNIT
from tallyroll.planning.writes import gate_units
from tallyroll.ports.backoff import COMMIT_CONFLICT
from tallyroll.ports.store import Answer, Element, Outcome, Verdict
from tallyroll.settings import Settings
from tallyroll.settings.options import Options

RECORDS_EACH = TRANSACTION_ACTIONS_MAX - 2  # beside a gate and a tally
TRANSACTION_MS = 20  # assumed: of a full transaction, from prepare to commit
SHUT_MS = 20  # assumed: of an update of one gate, the client's own time included
WARM_UP_MS = 12_000  # simulated, until the places are spread over all lengths of back-off
COUNTED_MS = 8_000  # simulated after that
SIMULATED_MAX = 800  # places that are simulated for the command's table; more take minutes
SEED = 20261120
BISECTIONS = 60
TRIES_MAX = 400  # after so many the chance of another conflict is counted as none
WRITERS = (4, 20, 100, 1_000)
GATES_BEFORE = 256  # what every deployment had, whatever its concurrency


@dataclass(frozen=True, slots=True)
class Load:
    """`in_flight` places for transactions, on so many gates and stripes; each attempt takes
    `transaction_ms`.
    """

    in_flight: int
    gates: int
    stripes: int
    transaction_ms: int = TRANSACTION_MS


@dataclass(frozen=True, slots=True)
class Conflicts:
    """Of all attempts the `share` that conflict and the share that conflict `on_gates` (perhaps on
    a stripe as well), from 0 to 1; and how many attempts run `at_once` on average.
    """

    share: float
    on_gates: float
    at_once: float

    @property
    def attempts(self) -> float:
        """Attempts per commit."""
        return 1 / (1 - self.share)


def solved(load: Load) -> Conflicts:
    """The model's fixed point, by bisection: a higher share means fewer attempts at once, by
    back-off, and these would conflict less.
    """
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if _that_follows(load, middle).share > middle:
            low = middle
        else:
            high = middle
    return _that_follows(load, low)


def _that_follows(load: Load, share: float) -> Conflicts:
    """What follows if this share of the attempts conflicts."""
    waits = sum(share ** (tried + 1) * mean_wait_ms(tried) for tried in range(TRIES_MAX))
    # Sums over the attempts of one commit: the attempt number k is made with chance share^k.
    busy = load.transaction_ms * sum(share**tried for tried in range(TRIES_MAX))
    at_once = load.in_flight * busy / (busy + waits)
    others = at_once * (load.in_flight - 1) / load.in_flight
    return Conflicts(*held(others, load.gates, load.stripes), at_once)


def held(attempts: float, gates: int, stripes: int) -> tuple[float, float]:
    """The chances that of a random gate and stripe one at least is held, and that the gate is, by
    so many attempts at one moment.
    """
    gate, stripe = (attempts / (items + attempts) for items in (gates, stripes))
    return 1 - (1 - gate) * (1 - stripe), gate


def mean_wait_ms(tried: int) -> float:
    """The mean wait after attempt 0, 1, ... of a commit was cancelled by a conflict, ms."""
    return (COMMIT_CONFLICT.bound_ms(tried) + 1) / 2  # whole ms, from 1 to the bound


def simulated(
    load: Load, seed: int = SEED, warm_up_ms: int = WARM_UP_MS, counted_ms: int = COUNTED_MS
) -> Conflicts:
    """The same by playing the places for `counted_ms`, after `warm_up_ms` that do not count.

    The times of attempts vary by half, so that places do not march in step.
    """
    chance = random.Random(seed)
    spec = _spec(Settings())
    fresh = Commit(spec, (Record("hot", "e", 1, START_MS, 1, 1, b"digest", ((0, 1),)),))
    fine = (Element(Answer.FINE),)
    cancelled = Outcome(Verdict.CANCELLED, fine, fine, gate_contended=True)
    ms = load.transaction_ms
    due = [(chance.random() * ms, place, fresh) for place in range(load.in_flight)]
    heapq.heapify(due)
    gate_free = [0.0] * (load.gates + 1)
    stripe_free = [0.0] * (load.stripes + 1)
    counted = conflicts = on_gates = 0
    busy, until = 0.0, float(warm_up_ms + counted_ms)
    while due[0][0] < until:
        now, place, commit = heapq.heappop(due)
        end = now + ms * (0.5 + chance.random())
        gate = _taken(gate_free, random_suffix(load.gates, chance), now, end)
        stripe = _taken(stripe_free, random_suffix(load.stripes, chance), now, end)
        if now >= warm_up_ms:
            counted += 1
            conflicts += not (gate and stripe)
            on_gates += not gate
            busy += end - now
        if gate and stripe:
            following, at = fresh, end
        else:
            [following] = after(commit, cancelled, 0, 1_000_000, chance).commits
            at = end + following.not_before
        heapq.heappush(due, (at, place, following))
    return Conflicts(conflicts / counted, on_gates / counted, busy / counted_ms)


def _taken(free_at: list[float], number: int, now: float, end: float) -> bool:
    """Whether the item is free now; it is then held until `end`."""
    if free_at[number] > now:
        return False
    free_at[number] = end
    return True


def _spec(settings: Settings) -> Spec:
    return freeze(Window("20261120T080000Z", "", START_MS, START_MS + 3_600_000), settings)


@cache
def units_each() -> float:
    """Write units of an event without conflicts: one hot key, ids of their own, full batches."""
    hot = next(loads())
    return store_cost(_spec(Settings()), hot.bodies).total / EVENTS


def loads_of_deployments() -> list[Load]:
    """Deployments of some writers, each with the gates that all had before and with those that
    follow from its concurrency.
    """
    found: list[Load] = []
    for writers in WRITERS:
        settings = Options(max_concurrency=writers).settings()
        at_once = writers * settings.transactions_at_once
        choices = sorted({GATES_BEFORE, settings.gates})
        found += [Load(at_once, gates, settings.stripes_min) for gates in choices]
    return found


def of_deployments() -> Rows:
    """Conflicts by concurrency and gates."""
    return [
        ("in flight", "gates", "stripes", *_HEADINGS),
        *((*_sizes(load), *_columns(load, solved(load))) for load in loads_of_deployments()),
    ]


def of_times() -> Rows:
    """The same of 800 in flight on 256 gates, by how long a transaction takes."""
    times = [Load(800, GATES_BEFORE, 3_200, ms) for ms in (10, 20, 50, 100)]
    return [
        ("a transaction takes, ms", *_HEADINGS),
        *((str(load.transaction_ms), *_columns(load, solved(load))) for load in times),
    ]


def of_tables() -> Rows:
    """Conflicts where the table's throughput bounds what is in flight: by the write units a second
    that it takes, cancelled attempts included, with the gates and stripes of four writers.
    """
    settings = Options().settings()
    rows: Rows = [("write units a second", "attempts at once", "attempts in conflict")]
    for units in (4_000, 10_000, 40_000):
        at_once = units / (RECORDS_EACH * units_each()) * TRANSACTION_MS / 1_000
        share, _ = held(at_once, settings.gates, settings.stripes_min)
        rows.append((f"{units:,}", f"{at_once:.1f}", f"{share:.1%}"))
    return rows


def of_simulations() -> Rows:
    """The share of attempts that conflict: by the formula, and played."""
    rows: Rows = [("in flight", "gates", "stripes", "solved", "simulated")]
    for load in loads_of_deployments():
        if load.in_flight > SIMULATED_MAX:
            continue
        shares = (solved(load).share, simulated(load).share)
        rows.append((*_sizes(load), *(f"{share:.1%}" for share in shares)))
    return rows


def of_gates(gates: Sequence[int] = (256, 1_024, 2_048, 4_096)) -> Rows:
    """What gates cost, in tables by the hour, and how long it takes to open and shut them."""
    rows: Rows = [
        ("gates", "write units a window", "US dollars a month", "transactions to put", "s to shut")
    ]
    for count in gates:
        puts = -(-count // GATES_PER_TRANSACTION)
        units = gate_units(gates=count)
        month = units * WRITE_UNIT * HOURS_A_MONTH
        shut = -(-count // GATES_AT_ONCE) * SHUT_MS / 1_000
        rows.append((f"{count:,}", f"{units:,}", f"{month:.2f}", str(puts), f"{shut:.1f}"))
    return rows


_HEADINGS = (
    "attempts in conflict",
    "of these on gates",
    "attempts per commit",
    "units per event",
    "million units a second",
)


def _sizes(load: Load) -> tuple[str, str, str]:
    return f"{load.in_flight:,}", f"{load.gates:,}", f"{load.stripes:,}"


def _columns(load: Load, found: Conflicts) -> tuple[str, ...]:
    each = units_each()
    units_a_second = found.at_once / load.transaction_ms * 1_000 * RECORDS_EACH * each
    return (
        f"{found.share:.0%}",
        f"{found.on_gates / found.share:.0%}",
        f"{found.attempts:.2f}",
        f"{found.attempts * each:.2f}",
        f"{units_a_second / 1_000_000:.2f}",
    )


def main() -> None:
    """Print the tables."""
    for title, rows in (
        ("Transactions of one hot key that are in flight all the time", of_deployments()),
        ("800 in flight on 256 gates and 3,200 stripes", of_times()),
        ("The same shares of conflicts, simulated", of_simulations()),
        ("Where the table's throughput bounds what is in flight", of_tables()),
        ("What gates cost", of_gates()),
    ):
        show(title, rows, left=0)
    print(
        f"assumed: a transaction takes {TRANSACTION_MS} ms, an update of a gate {SHUT_MS} ms;"
        " cancelled attempts are charged like committed ones; gates conflict"
    )


if __name__ == "__main__":
    main()
