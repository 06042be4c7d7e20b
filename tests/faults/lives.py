"""Lives of small pipelines, driven from the making of windows to their drop, and what they meet."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tallyroll.cli.main import WRONG_USE
from tallyroll.limits import QUEUE_MESSAGE_BYTES_MAX, SWEPT_AFTER_MS
from tallyroll.model.formats.references import PAYLOADS_PREFIX, object_key
from tallyroll.model.retractions import Retraction
from tests.faults.exactness import STATES, Ledger, letters, rolled_up, status_of
from tests.faults.injector import Crash
from tests.faults.operators import look_after
from tests.faults.plans import Poison, Seeded
from tests.faults.world import BEGIN, TIME_LEFT_MS, World, window_of
from tests.harness.pipeline import HOUR, MINUTE, SECOND

NOW_WINDOW = window_of(BEGIN)
PAST_WINDOW = window_of(BEGIN - HOUR)
ENDS_SOON = BEGIN + 28 * MINUTE
LATER = BEGIN + 95 * MINUTE
LATER_WINDOW = window_of(LATER)
DAY_SEALED = BEGIN + 155 * MINUTE  # its last window has taken events for an hour more
LOOK_MS = 5 * MINUTE + SECOND  # longer than `tallyroll dlq` hides the letters it looks at
TURNS_MAX = 80
TURN_MS = 31 * SECOND  # longer than the queue hides what it delivers
POISON, BESIDE_POISON = "poison", 6
LATE = 12  # letters: more than one request takes


class StuckLife(Exception):
    """A life that does not go on, although faults have ended or are few."""


def turns(world: World, done: Callable[[], bool], *steps: Callable[[], object]) -> None:
    """Repeat the steps, with half a minute between, until it is done. Raises StuckLife.

    A message whose writer died is visible again in the next turn.
    """
    for _ in range(TURNS_MAX):
        if done():
            return
        for step in steps:
            step()
        world.time.pass_by(TURN_MS)
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
    """Make, open, count, close, seal, export, prove, drop: one window with three messages.

    The first two writers die of one of them.
    """
    world.injector.kills = Poison("e1", deaths=2).kills
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


def poisoned_life(world: World, ledger: Ledger) -> None:
    """A window that ends while a message kills writers, until it is sealed."""
    turns(world, is_(world, "open", NOW_WINDOW), world.roll)
    outlive_poison(world, ledger)
    live_on(world, "sealed")


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
    _take_back(world, ledger, plan, "b1")
    world.redeliver()
    conflict = event("a", "e1", BEGIN + MINUTE, value=7)
    large = "x" * (QUEUE_MESSAGE_BYTES_MAX - 99)  # with its reason too large for the queue
    world.send(conflict, "no JSON", large)
    ledger.expect_letter(conflict, "id-conflict")
    ledger.expect_letter("no JSON", "not-json")
    ledger.expect_letter(large, "not-json")
    turns(world, lambda: queue_empty(world), world.poll)
    outlive_poison(world, ledger)
    world.time.pass_by(LATER - world.time.now())
    both = (NOW_WINDOW, PAST_WINDOW)
    _close_beside_traffic(world, ledger, plan, *both)
    turns(world, is_(world, "sealed", *both), world.roll, world.poll)
    world.redeliver()
    _redrive(world, ledger, plan)
    _take_back(world, ledger, plan, "b2")
    ledger.correct("back")
    ledger.ask_midway("a")
    uploads = _upload(world)
    turns(world, is_(world, "dropped", *both), lambda: _clean(world, plan), world.roll, world.poll)
    _take_back(world, ledger, plan, "b3")
    ledger.correct("back")
    span = {"since": NOW_WINDOW, "until": window_of(BEGIN + HOUR)}
    ledger.page_through(NOW_WINDOW, "a", **span, archived="true")
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
    world.clean()
    assert set(uploads).isdisjoint(world.raw.keys_in(world.settings.bucket, PAYLOADS_PREFIX))


def _upload(world: World) -> list[str]:
    """Payloads that producers uploaded long ago, and that no message ever referenced."""
    at = world.time.now() - SWEPT_AFTER_MS
    keys = [object_key(world.settings.name, at, "0" * 64, str(number)) for number in range(12)]
    for key in keys:
        world.raw.put(world.settings.bucket, key, b"x")
    return keys


def outlive_poison(world: World, ledger: Ledger) -> None:
    """A message ends every writer that is about to commit it, until it is rejected for that.

    The window ends meanwhile, and does not close before the messages count that are received with
    it again and again, in ever smaller groups.
    """
    world.time.pass_by(max(0, ENDS_SOON - world.time.now()))
    sent = world.time.now()
    window, poison = window_of(sent), event("poisoned", POISON, sent)
    world.injector.kills = Poison(POISON).kills
    for number in range(BESIDE_POISON):
        world.send(event("beside", f"b{number}", sent))
        ledger.expect(window, "beside")
    world.send(poison)
    ledger.expect_letter(poison, "crashes-writer")
    turns(
        world,
        lambda: queue_empty(world),
        lambda: _tick(world, ledger),
        world.observe,
        world.roll,
        world.poll,
    )
    world.injector.kills = lambda _: False
    world.delivered = [record for record in world.delivered if record["body"] != poison]


def _close_beside_traffic(world: World, ledger: Ledger, plan: Seeded, *windows: str) -> None:
    """Have windows close although the queue is never empty when the roller runs: by its ages, and
    because writers live.
    """
    plan.may_crash = False  # a writer that failed holds windows for minutes
    world.publish_ages()
    closing = STATES.index("closing")
    turns(
        world,
        lambda: all(rank_of(world, window) >= closing for window in windows),
        lambda: _tick(world, ledger),
        world.observe,
        world.roll,
        world.poll,
    )
    plan.may_crash = True


def _tick(world: World, ledger: Ledger) -> None:
    """An event of this moment."""
    now = world.time.now()
    world.send(event("tick", f"t{now}", now))
    ledger.expect(window_of(now), "tick")


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
    """Events come too late for their windows, and are redriven into another by the command."""
    turns(world, is_(world, "open", LATER_WINDOW), world.roll)
    world.time.pass_by(6 * SECOND)
    bodies = {
        event("late", f"l{number}", BEGIN + MINUTE - number % 2 * HOUR) for number in range(LATE)
    }
    world.send(*sorted(bodies))
    ledger.expect(LATER_WINDOW, "late", n=LATE)
    turns(world, lambda: queue_empty(world), world.poll)
    found = letters(world)
    assert all("too-late" in found[body] for body in bodies)
    plan.may_crash = False
    # Their first messages may be delivered once more.
    ledger.allowed |= {(body, "too-late") for body in bodies}
    for _ in range(TURNS_MAX):
        world.time.pass_by(LOOK_MS)
        if not bodies & letters(world).keys():
            break
        world.time.pass_by(MINUTE)
        world.command("dlq", "redrive", "--reason", "too-late", "--to", LATER_WINDOW, "--yes")
    else:
        raise StuckLife("letters are never redriven")
    plan.may_crash = True
    turns(world, lambda: queue_empty(world), world.poll)


def _take_back(world: World, ledger: Ledger, plan: Seeded, event_id: str) -> None:
    """Retract an event by the command, and wait until a writer has done so."""
    body = Retraction("back", event_id, window=NOW_WINDOW, by="ann").body
    # Delivered once more after the drop, of what was retracted before: a letter beside its effect.
    ledger.allowed.add((body, "retraction-unproven"))
    argv = ("retract", "back", event_id, "--ts", str(BEGIN + MINUTE), "--by", "ann")
    _by_hand(world, plan, *argv)
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
    # An id may count in both windows, or once.
    past = "e" if world.settings.identity == "window" else "p"
    for window, start, prefix in ((NOW_WINDOW, BEGIN, "e"), (PAST_WINDOW, BEGIN - HOUR, past)):
        for number in range(4):
            lines.append(event("a", f"{prefix}{number}", start + MINUTE, payload={"n": number}))
            ledger.expect(window, "a")
        if window == NOW_WINDOW:
            lines += [event("back", f"b{number}", start + MINUTE) for number in range(4)]
            ledger.expect(window, "back", n=3)  # one is taken back while the window is open
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


FANNED = {"keys": ["candidate:{candidate}", "state:{state}", "hour:{%H}"], "id": "id", "ts": "at"}


def fanned_life(world: World, ledger: Ledger) -> None:
    """A window with events of several keys, in a pipeline whose mapping is `FANNED`."""
    votes = (("e1", "ann", "ca"), ("e2", "bob", "ca"), ("e3", "ann", "tx"), ("e1", "ann", "ca"))
    fields = ("id", "candidate", "state")
    world.send(
        *(json.dumps(dict(zip(fields, vote, strict=True)) | {"at": BEGIN}) for vote in votes)
    )
    conflict = json.dumps({"id": "e2", "candidate": "bob", "state": "ut", "at": BEGIN})
    for _, candidate, state in votes[:3]:
        for key in (f"candidate:{candidate}", f"state:{state}", f"hour:{BEGIN // HOUR % 24}"):
            ledger.expect(NOW_WINDOW, key)
    turns(world, lambda: rank_of(world, NOW_WINDOW) >= STATES.index("open"), world.roll)
    turns(world, lambda: queue_empty(world), world.poll)
    world.send(conflict)
    ledger.expect_letter(conflict, "id-conflict")
    turns(world, lambda: queue_empty(world), world.poll)
    world.redeliver()
    live_on(world)


def retracted_life(world: World, ledger: Ledger) -> None:
    """A window with two events, of which an operator takes one back; their process may crash."""
    world.send(event("back", "e1", BEGIN, value=2.5), event("back", "e2", BEGIN))
    ledger.expect(NOW_WINDOW, "back")
    turns(world, is_(world, "open", NOW_WINDOW), world.roll)
    turns(world, lambda: queue_empty(world), world.poll)
    done: list[int] = []
    turns(world, lambda: 0 in done, lambda: done.append(_retract(world, "back", "e1")))
    turns(world, lambda: queue_empty(world), world.poll)
    world.redeliver()
    done.clear()
    turns(world, lambda: 0 in done, lambda: done.append(_retract(world, "back", "e1")))
    if not queue_empty(world):
        world.problems.append("a retraction is sent of what was retracted already")
    marked: list[str] = []
    turns(world, lambda: bool(marked), lambda: marked.extend(_marked(world, "back")))
    if marked != ["e1: ann"]:
        world.problems.append(f"marked as retracted are {marked}")
    live_on(world, "sealed")


def _retract(world: World, key: str, event_id: str) -> int:
    """The command's exit status; -1 if its process crashed."""
    try:
        return world.command("retract", key, event_id, "--ts", str(BEGIN), "--by", "ann")
    except Crash:
        world.crashes += 1
        return -1


def _marked(world: World, key: str) -> list[str]:
    """Which events of a key the aggregator lists as retracted, and by whom."""
    _, body = world.ask("/v1/events", key=key, window=NOW_WINDOW)
    events = body.get("events", ())
    return [f"{one['id']}: {one['retracted']['by']}" for one in events if "retracted" in one]
