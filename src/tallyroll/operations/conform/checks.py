"""The checks of an endpoint, in their order, and what each means for counting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from tallyroll.errors import Missing, Refused, StoreError
from tallyroll.operations.conform import gates, optional_rules, reads, writes
from tallyroll.operations.conform.stage import Broken, Stage, Undecided

LINE_MAX = 300
_NOT_ALLOWED = ("AccessDenied", "ExpiredToken", "UnrecognizedClient", "InvalidSignature")


class Result(StrEnum):
    """How a check ended. A check that exactness does not need `differs` instead of failing."""

    PASSED = "pass"
    FAILED = "fail"
    DIFFERS = "differs"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class ConformanceCheck:
    """A check: `run` gives what was seen. `kept` and `broken` say what it means for counting if the
    rule is kept or broken; exactness needs it, or not.
    """

    name: str
    run: Callable[[Stage], str]
    kept: str
    broken: str
    needed: bool = True


@dataclass(frozen=True, slots=True)
class Checked:
    """A check's result, what it means for counting, and what was seen."""

    check: ConformanceCheck
    result: Result
    seen: str

    @property
    def means(self) -> str:
        """What the result means for counting."""
        if self.result is Result.PASSED:
            return self.check.kept
        return "not known" if self.result is Result.UNDECIDED else self.check.broken


CHECKS = (
    ConformanceCheck(
        "conditions",
        writes.conditions,
        "of two writers of a window's state, one succeeds",
        "a stale roller could reopen or drop a window",
    ),
    ConformanceCheck(
        "transactions",
        writes.transactions,
        "a count is its records, each of them once",
        "counts drift from what was stored",
    ),
    ConformanceCheck(
        "reasons",
        writes.reasons,
        "duplicates are told from new events",
        "redelivered batches lose or reject new events",
    ),
    ConformanceCheck(
        "consistent-reads",
        reads.consistent_reads,
        "a read has all that was counted before it",
        "counts lag, and seals may lack events",
    ),
    ConformanceCheck(
        "batch-get",
        reads.batch_get,
        "counts have all their stripes",
        "counts lack stripes of their tallies",
    ),
    ConformanceCheck(
        "listings",
        reads.listings,
        "totals and archives have every item",
        "totals and archives lack items",
    ),
    ConformanceCheck(
        "distinct-keys",
        reads.distinct_keys,
        "each key has a count of its own",
        "different keys share one count",
    ),
    ConformanceCheck(
        "numbers", writes.numbers, "sums are exact to 38 digits", "large sums are rounded"
    ),
    ConformanceCheck(
        "request-tokens",
        optional_rules.request_tokens,
        "not needed: a resent event meets its record",
        "not needed: a resent event meets its record",
        needed=False,
    ),
    ConformanceCheck(
        "same-item-twice",
        optional_rules.same_item_twice,
        "not needed: writers never send that",
        "not needed: writers never send that",
        needed=False,
    ),
    ConformanceCheck(
        "item-size",
        optional_rules.item_size,
        "not needed: events of up to 400 KB are stored",
        "not needed: other events are too large than on AWS",
        needed=False,
    ),
    ConformanceCheck(
        "transaction-size",
        optional_rules.transaction_size,
        "not needed: batches are as large as on AWS",
        "not needed: batches may be larger or smaller",
        needed=False,
    ),
    # The last one: afterwards the table takes no events any more.
    ConformanceCheck(
        "gates",
        gates.gates,
        "a total is final once its window is sealed",
        "events count after the seal: totals lack them",
    ),
)


def conform_to(stage: Stage, begun: Callable[[int, str], None]) -> Iterator[Checked]:
    """Carry out the checks; calls `begun` with each one's number, from 0, and name."""
    for number, check in enumerate(CHECKS):
        begun(number, check.name)
        yield checked(check, stage)


def checked(check: ConformanceCheck, stage: Stage) -> Checked:
    """A check's result."""
    otherwise = Result.FAILED if check.needed else Result.DIFFERS
    try:
        return Checked(check, Result.PASSED, check.run(stage))
    except Broken as broken:
        return Checked(check, otherwise, one_line(broken))
    except Undecided as undecided:
        return Checked(check, Result.UNDECIDED, one_line(undecided))
    except (Refused, Missing) as error:
        allowed = not any(word in error.code for word in _NOT_ALLOWED)
        return Checked(check, otherwise if allowed else Result.UNDECIDED, one_line(error))
    except StoreError as error:
        return Checked(check, Result.UNDECIDED, one_line(error))
    except ValueError as error:  # an item that comes back in another form
        return Checked(check, otherwise, one_line(error))


def one_line(error: Exception) -> str:
    """An error as one line: endpoints answer with whole pages, too."""
    text = " ".join(str(error).split())
    return text if len(text) <= LINE_MAX else f"{text[:LINE_MAX]}..."
