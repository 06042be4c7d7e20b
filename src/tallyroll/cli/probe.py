"""`tallyroll probe`: is it exact, right now?"""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from tallyroll.cli.arguments import DURATION, Run, up_to
from tallyroll.cli.screen import Cell, Screen, known
from tallyroll.errors import Refused, Rejected, UsageError
from tallyroll.operations.probe.history import ReadRule
from tallyroll.operations.probe.plan import (
    EVENTS_MAX,
    KEYS_MAX,
    READERS,
    SENDERS,
    ProbePlan,
    planned,
)
from tallyroll.operations.probe.run import ProbeResult

HOLDS, BROKEN, OUT_OF_TIME = 0, 1, 3
SHOWN = 5


def probe(
    *,
    live: bool = False,
    yes: bool = False,
    prefix: Annotated[str, Parameter(metavar="PREFIX")] = "tallyroll-probe/",
    events: Annotated[int, up_to(EVENTS_MAX)] = 1_000,
    keys: Annotated[int, up_to(KEYS_MAX)] = 3,
    timeout: Annotated[int, DURATION] = 15 * 60_000,
    run: Run,
) -> int:
    """Probe whether counts are exact.

    Send events to a deployment, read them by several clients while they are
    counted, and judge what was read: no count above what was sent, below what was
    counted, or smaller than one before it; sums that belong to their events;
    cached reads no older than the cache allows.

    Without --live only the plan and its cost are printed. With --live they are
    printed first, and nothing is sent before somebody agreed. The keys are new
    ones, under --prefix; their counts stay.

    Exit status:
      0  every rule holds, and every event was counted
      1  a rule is broken
      2  wrong use, or not agreed to
      3  not all was sent, or counted in time; AWS was not reached, or something
         is not there

    For example:
      tallyroll --name votes probe
      tallyroll --name votes probe --live --events 2000 --yes

    :param live: do it, and pay for it
    :param yes: agree to the cost without being asked
    :param prefix: what the keys begin with (tallyroll-probe/ by default)
    :param events: how many events to send (1000 by default)
    :param keys: of how many keys (3 by default)
    :param timeout: wait no longer than that for the last event (15m by default)
    """
    screen = run.screen
    made = run.pipeline(run.with_queue() if live else None)
    try:
        now, chance = made.effects.now(), made.effects.chance
        plan = planned(made.catalog, now, chance, prefix=prefix, keys=keys, events=events)
    except Rejected as rejected:
        raise UsageError(f"--prefix: {rejected.detail}") from None
    _show_plan(plan, screen)
    if not live:
        screen.tell("nothing was sent: --live does it")
        return HOLDS
    cost = plan.cost
    if not yes:
        question = f"tallyroll: send {cost.events:,} events? Type yes to go on: "
        if screen.ask(question, "give --yes, or leave out --live") != "yes":
            raise UsageError("not agreed to: nothing was sent")
    with screen.progress("counting", cost.events) as bar:

        def show_progress(counted: int) -> None:
            done = f"{counted:,} of {cost.events:,} events"
            bar(completed=counted, done=done, counted=counted)

        outcome = made.probe(plan).run(timeout, show_progress)
    if not outcome.taken:
        raise Refused(f"nothing was sent: the queue took none of {cost.messages:,} messages")
    _show(outcome, plan, screen)
    if outcome.verdict.findings:
        return BROKEN
    return HOLDS if outcome.in_time and not outcome.unsent else OUT_OF_TIME


def _show_plan(plan: ProbePlan, screen: Screen) -> None:
    cost = plan.cost
    windows = [spec.window for spec in plan.windows]
    if screen.json:
        report = {
            "keys": list(plan.keys),
            "windows": windows,
            "events": cost.events,
            "messages": cost.messages,
            "write_units_max": cost.write_units,
            "reads_max": cost.reads,
            "read_units_max": cost.read_units,
            "dollars_max": round(cost.dollars, 6),
        }
        screen.emit({"plan": report})
        return
    screen.table(
        ("", "plan"),
        [
            ("keys", f"{plan.keys[0]} and on, {len(plan.keys)}"),
            ("windows", ", ".join(windows)),
            ("events", cost.events),
            ("messages", f"{cost.messages:,} by {SENDERS} senders, some of them twice"),
            ("write units", f"{cost.write_units:,} at the most, sealing included"),
            ("reads", f"{cost.reads:,} by {READERS} readers at the most"),
            ("read units", f"{cost.read_units:,} at the most"),
            ("cost", f"${cost.dollars:.4f} at the most (us-east-1, DynamoDB and SQS)"),
        ],
    )


def _show(outcome: ProbeResult, plan: ProbePlan, screen: Screen) -> None:
    judged = [_rule_json(rule, outcome) for rule in ReadRule]
    if screen.json:
        for report in judged:
            screen.emit(report)
        screen.emit(_result_json(outcome))
    else:
        last = "holds" if outcome.in_time else "not in time"
        screen.table(
            ("rule", "judged", "undecided", "verdict"),
            [*map(_row, judged), ("all-counted", outcome.taken, "", last)],
        )
    for rule in ReadRule:
        if finding := outcome.verdict.shortest(rule):
            screen.tell(f"{rule}: {finding.text}")
    if outcome.unsent:
        screen.tell(f"{outcome.unsent:,} messages were not certainly taken by the queue")
    if outcome.unanswered:
        screen.tell(f"{outcome.unanswered:,} reads failed")
    if outcome.missing:
        screen.tell(_missing_text(outcome))
    screen.tell(f"the counts of the keys under {plan.keys[0].rpartition('/')[0]}/ stay")


def _row(report: dict[str, Any]) -> tuple[Cell, ...]:
    verdict = f"broken {report['broken']:,} times" if report["broken"] else "holds"
    if not report["judged"]:
        verdict = "not judged"
    return report["rule"], report["judged"], report["undecided"] or None, verdict


def _rule_json(rule: ReadRule, outcome: ProbeResult) -> dict[str, Any]:
    verdict = outcome.verdict
    finding = verdict.shortest(rule)
    return known(
        rule=rule,
        judged=verdict.judged[rule],
        undecided=verdict.undecided[rule],
        broken=sum(each.rule is rule for each in verdict.findings),
        evidence=finding and finding.text,
    )


def _result_json(outcome: ProbeResult) -> dict[str, Any]:
    late = [
        {"key": key, "window": window, "events": events}
        for (key, window), events in sorted(outcome.missing.items())
    ]
    result = "holds" if outcome.in_time else "out-of-time"
    return {
        "result": "broken" if outcome.verdict.findings else result,
        "events": outcome.taken,
        "counted": outcome.counted,
        "missing": late,
        "unsent": outcome.unsent,
        "reads": outcome.reads,
        "unanswered": outcome.unanswered,
    }


def _missing_text(outcome: ProbeResult) -> str:
    places = sorted(outcome.missing.items())
    some = [f"{events:,} of {key} in {window}" for (key, window), events in places[:SHOWN]]
    more = f", and {len(places) - SHOWN} more places" if len(places) > SHOWN else ""
    return (
        f"not counted in time: {', '.join(some)}{more}. Do the writers run? See `tallyroll doctor`"
        " and `tallyroll dlq list`; events that still wait in the queue count later"
    )
