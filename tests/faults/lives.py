"""Lives of small pipelines, driven from the making of windows to their drop, and what they meet."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tallyroll.cli import WRONG_USE
from tallyroll.limits import QUEUE_MESSAGE_BYTES_MAX
from tests.faults.exactness import STATES, Ledger, letters, rolled_up, status_of
from tests.faults.operators import look_after
from tests.faults.plans import Seeded
from tests.faults.world import BEGIN, HOUR, MINUTE, SECOND, TIME_LEFT_MS, World, window_of

NOW_WINDOW = window_of(BEGIN)
PAST_WINDOW = window_of(BEGIN - HOUR)
LATER = BEGIN + 95 * MINUTE
LATER_WINDOW = window_of(LATER)
DAY_SEALED = BEGIN + 155 * MINUTE  # its last window has taken events for an hour more
LOOK_MS = 5 * MINUTE + SECOND  # longer than `tallyroll dlq` hides the letters it looks at
TURNS_MAX = 40


class StuckLife(Exception):
    """A life that does not go on, although faults have ended or are few."""


def turns(world: World, done: Callable[[], bool], *steps: Callable[[], object]) -> None:
    """Repeat the steps, with half a minute between, until it is done. Raises StuckLife."""
    for _ in range(TURNS_MAX):
        if done():
            return
        for step in steps:
            step()
        world.time.pass_by(30 * SECOND)
    raise StuckLife(f"not done after {TURNS_MAX} turns")


def queue_empty(world: World) -> bool:
    """Whether the event queue holds nothing, in flight or not."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    reply = world.raw.sqs.get_queue_attributes(
        QueueUrl=world.settings.queue_url, AttributeNames=names
    )
    return not any(int(count) for count in reply["Attributes"].values())


def rank_of(world: World, window: str) -> int:
    """How far a window has come, as the number of its state; -1 before its first."""
    status = status_of(world, window)
    return STATES.index(status) if status else -1


def is_(world: World, status: str, *windows: str) -> Callable[[], bool]:
    """Whether all these windows are in that state."""
    return lambda: all(status_of(world, window) == status for window in windows)


def event(key: str, event_id: str | None, ts: int, **more: object) -> str:
    """An event's body."""
    named = {} if event_id is None else {"id": event_id}
    return json.dumps({"key": key, **named, "ts": ts, **more})


def short_life(world: World, ledger: Ledger) -> None:
    """Make, open, count, close, seal, export, prove, drop: one window with three messages."""
    world.send(event("a", "e1", BEGIN), event("b", "e2", BEGIN, value=2.5), "no JSON")
    ledger.expect(NOW_WINDOW, "a")
    ledger.expect(NOW_WINDOW, "b", "2.5")
    ledger.expect_letter("no JSON", "not-json")
    live_on(world)


def live_on(world: World, until: str = "dropped") -> None:
    """Run everything that is due until the window is in that state, wherever its life stands."""
    turns(world, lambda: rank_of(world, NOW_WINDOW) >= STATES.index("open"), world.roll)
    turns(world, lambda: queue_empty(world), world.poll)
    if world.time.now() < BEGIN + HOUR:
        world.time.pass_by(HOUR)
    world.publish_ages()
    turns(world, lambda: rank_of(world, NOW_WINDOW) >= STATES.index("sealed"), world.roll)
    if until == "dropped":
        turns(world, is_(world, until, NOW_WINDOW), world.clean)


def busy_life(world: World, ledger: Ledger, plan: Seeded, folder: Path) -> None:
    """Two windows, one of them of the past, with everything that producers and queues do."""
    world.send(event("early", "e0", BEGIN))  # no window yet: it waits
    ledger.expect(NOW_WINDOW, "early")
    for _ in range(3):
        world.poll()
        world.time.pass_by(40 * SECOND)
    turns(world, is_(world, "open", NOW_WINDOW), world.roll)
    since, until = PAST_WINDOW, NOW_WINDOW
    command = ("windows", "open", "--since", since, "--until", until, "--accept-for", "1h")
    _by_hand(world, plan, *command)
    turns(world, is_(world, "open", PAST_WINDOW), world.roll)
    world.time.pass_by(6 * SECOND)  # writers remember for 5 s that there was none
    _post(world, ledger, plan, folder)
    turns(world, lambda: queue_empty(world), world.poll, lambda: ledger.ask_midway("a"))
    ledger.page_through(NOW_WINDOW, "a")
    world.redeliver()
    conflict = event("a", "e1", BEGIN + MINUTE, value=7)
    large = "x" * (QUEUE_MESSAGE_BYTES_MAX - 99)  # with its reason too large for the queue
    world.send(conflict, "no JSON", large)
    ledger.expect_letter(conflict, "id-conflict")
    ledger.expect_letter("no JSON", "not-json")
    ledger.expect_letter(large, "not-json")
    turns(world, lambda: queue_empty(world), world.poll)
    world.time.pass_by(LATER - world.time.now())
    both = (NOW_WINDOW, PAST_WINDOW)
    turns(world, is_(world, "sealed", *both), world.roll, world.poll)
    world.redeliver()
    _redrive(world, ledger, plan)
    ledger.ask_midway("a")
    turns(world, is_(world, "dropped", *both), lambda: _clean(world, plan), world.roll, world.poll)
    world.redeliver()
    world.time.pass_by(max(0, DAY_SEALED - world.time.now()))
    turns(world, lambda: rolled_up(world, BEGIN), world.roll, world.poll)
    ledger.ask_midway("a")
    for window in both:
        _restore(world, plan, window, f"{world.settings.name}-restored-{window[9:11]}")
        ledger.check_restored(window, f"{world.settings.name}-restored-{window[9:11]}")
    taken = f"{world.settings.name}-restored-{NOW_WINDOW[9:11]}"
    again = ("archive", "restore", NOW_WINDOW, "--table", taken)
    _by_hand(world, plan, *again, ends_with=WRONG_USE)
    _restore(world, plan, NOW_WINDOW, f"{world.settings.name}-imported", "--native")
    look_after(world, plan)
    plan.active = False
    turns(world, lambda: queue_empty(world), world.poll)
    world.roll()
    world.clean()


def _clean(world: World, plan: Seeded) -> None:
    """Run cleanup, and another one when the first is about to note what it has exported."""

    def rival() -> None:
        world.time.pass_by(TIME_LEFT_MS + MINUTE)  # the first one sleeps, and is given up
        world.renew("cleanup")
        world.clean()

    plan.rival = rival
    world.clean()
    plan.rival = None


def _by_hand(world: World, plan: Seeded, *argv: str, ends_with: int = 0) -> None:
    """Run a command until it is done, or refused for what it asks, as a person would."""
    plan.may_crash = False
    for _ in range(TURNS_MAX):
        if world.command(*argv) == ends_with:
            break
        world.time.pass_by(SECOND)
    else:
        raise StuckLife(f"{argv} never ends with {ends_with}")
    plan.may_crash = True


def _redrive(world: World, ledger: Ledger, plan: Seeded) -> None:
    """An event comes too late for its window, and is redriven into another by the command."""
    turns(world, is_(world, "open", LATER_WINDOW), world.roll)
    world.time.pass_by(6 * SECOND)
    body = event("late", "l1", BEGIN + MINUTE)
    world.send(body)
    ledger.expect(LATER_WINDOW, "late")
    turns(world, lambda: queue_empty(world), world.poll)
    assert "too-late" in letters(world)[body]
    plan.may_crash = False
    ledger.allowed.add((body, "too-late"))  # its first message may be delivered once more
    for _ in range(TURNS_MAX):
        world.time.pass_by(LOOK_MS)
        if body not in letters(world):
            break
        world.time.pass_by(MINUTE)
        world.command("dlq", "redrive", "--reason", "too-late", "--to", LATER_WINDOW, "--yes")
    else:
        raise StuckLife("a letter is never redriven")
    plan.may_crash = True
    turns(world, lambda: queue_empty(world), world.poll)


def _restore(world: World, plan: Seeded, window: str, table: str, *options: str) -> None:
    """Restore an archive by the command, deleting the table first where it asks for that."""
    plan.may_crash = False
    for _ in range(TURNS_MAX):
        status = world.command("archive", "restore", window, "--table", table, *options)
        if status == 0:
            break
        if status == WRONG_USE:
            world.raw.dynamodb.delete_table(TableName=table)
        world.time.pass_by(SECOND)
    else:
        raise StuckLife(f"{window} is never restored")
    plan.may_crash = True


def _post(world: World, ledger: Ledger, plan: Seeded, folder: Path) -> None:
    """Send events with and without ids by the command, again what may not have been taken."""
    lines = []
    for window, start in ((NOW_WINDOW, BEGIN), (PAST_WINDOW, BEGIN - HOUR)):
        for number in range(4):
            lines.append(event("a", f"e{number}", start + MINUTE, payload={"n": number}))
            ledger.expect(window, "a")
        for number in range(3):
            lines.append(event("packed", None, start + number * SECOND, value=0.25))
            ledger.expect(window, "packed", "0.25")
    file = folder / "events.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    plan.may_crash = False
    for number in range(TURNS_MAX):
        unsent = folder / f"unsent-{number}.jsonl"
        unsent.write_text("", encoding="utf-8")
        status = world.command("send", str(file), "--unsent", str(unsent))
        if status == 0:
            break
        if unsent.read_text(encoding="utf-8"):
            file = unsent
        world.time.pass_by(SECOND)
    else:
        raise StuckLife("the events are never sent")
    plan.may_crash = True
