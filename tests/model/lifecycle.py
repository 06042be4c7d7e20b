"""What roller, cleanup and dropper do with windows: `src/tallyroll/lifecycle`, `archive`.

Each step ends with one conditional write of the state, so of two runs at once one does nothing more
than what is here. What a run that slept may still do is here too: it puts totals that it read, and
makes a table again.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model import state as s
from tests.model.mistakes import Mistake
from tests.model.state import Action, State, Window, with_window
from tests.model.world import World

Change = tuple[str, str, Window]
"""The call, its answer, the window after it."""


def steps(world: World, state: State) -> Iterator[tuple[Action, State]]:
    """Every next step of every window's life, and of time."""
    for number, window in enumerate(state.windows):
        for call, answer, after in _of_window(world, window, world.until[number]):
            windows = with_window(state, number, after)
            yield (call, -1, number, answer), state._replace(windows=windows)
    if state.day < world.days:
        yield from _day_passes(world, state)
    for slot, identity in enumerate(state.identities):
        if identity and state.day > identity[2]:
            identities = (*state.identities[:slot], (), *state.identities[slot + 1 :])
            action = ("forget identity", identity[1], identity[0], "")
            yield action, state._replace(identities=identities)


def _of_window(world: World, window: Window, until: int) -> Iterator[Change]:
    status = window.status
    if window.unseen:
        yield "settle", "", window._replace(unseen=())
    if status < until:
        if status <= s.CLOSING:
            yield from _closing(world, window)
        elif status == s.SHUT:
            yield from _sealing(world, window)
        else:
            yield from _ending(world, window)
    if world.late_roller and status >= s.SHUT:
        yield from _late(world, window)


def _closing(world: World, window: Window) -> Iterator[Change]:
    if window.status == s.OPEN:
        yield "close", "", window._replace(status=s.CLOSING)
        return
    if window.gates > 0:
        yield "shut gate", f"{window.gates - 1} open", window._replace(gates=window.gates - 1)
    least = 1 if world.mistake is Mistake.GATE_LEFT_OPEN else 0
    if window.gates <= least:
        yield "note shut", "", window._replace(status=s.SHUT)


def _sealing(world: World, window: Window) -> Iterator[Change]:
    """`settle_ms` after the gates are shut, tallies are listed, and put as totals."""
    settled = not window.unseen or world.mistake is Mistake.SEAL_BEFORE_SETTLE
    if settled and not window.total:
        total = s.plus(window.tally, tuple(-each for each in window.unseen))
        yield "put total", f"{total[0]} events", window._replace(total=total)
    if window.total:
        yield "seal", "", window._replace(status=s.SEALED)


def _ending(world: World, window: Window) -> Iterator[Change]:
    match window.status:
        case s.SEALED:
            if world.mistake is Mistake.DROP_BEFORE_PROOF:
                yield "tag", "unproven", window._replace(status=s.DROPPING)
            for answer, archive in _exports(window).items():
                yield "export", answer, window._replace(status=s.EXPORTING, archive=archive)
        case s.EXPORTING:
            proven = _is_proven(world, window)
            if proven:
                yield "prove", "proven", window._replace(status=s.PROVEN, proven=True)
            answer = "given up" if proven else "mismatch"
            again = window._replace(status=s.SEALED, archive=())
            yield "prove", f"{answer}, another attempt", again
        case s.PROVEN:
            yield "tag", "", window._replace(status=s.DROPPING)
        case s.DROPPING:
            if window.table == s.NO_TABLE:
                yield "finish", "", window._replace(status=s.DROPPED)
            else:
                gone = window._replace(table=s.NO_TABLE, gates=s.NO_GATE, unseen=())
                yield "drop table", "", gone


def _exports(window: Window) -> dict[str, tuple[s.Numbers, s.Numbers]]:
    """Archives that an export may leave: whole, or without some of its items."""
    none = (0,) * len(window.records)
    exports = {"whole": (window.records, window.tombs)}
    if any(window.records):
        exports["without records"] = (none, window.tombs)
    if any(window.tombs):
        exports["without records and tombstones"] = (none, none)
    return exports


def _is_proven(world: World, window: Window) -> bool:
    """Whether the archive's records and tombstones recount to tally and total.

    Each tombstone is joined to its record. What is retracted is compared too: an archive that lacks
    a record and its tombstone has the right net sums.
    """
    records, tombs = window.archive
    pairs = list(zip(records, tombs, strict=True))
    if any(tomb and not record for record, tomb in pairs):
        return False
    counted = [world.values[record - 1] for record, tomb in pairs if record and not tomb]
    retracted = [world.values[record - 1] for record, tomb in pairs if record and tomb]
    recount = (len(counted), sum(counted), len(retracted), sum(retracted))
    if world.mistake is Mistake.PROOF_BY_NET_SUMS:
        return recount[:2] == window.total[:2] == window.tally[:2]
    return recount == window.total == window.tally


def _late(world: World, window: Window) -> Iterator[Change]:
    """What a roller does that read an early state and slept. A total is put if absent or equal, and
    then it replaces the item.
    """
    if window.total and world.mistake is Mistake.CORRECTION_ON_TOTAL:
        yield "put total late", "", window._replace(corrected=(0, 0))
    if window.table == s.NO_TABLE:
        yield "make table late", "", window._replace(table=s.TABLE_AGAIN)
    if window.table == s.TABLE_AGAIN and window.gates == s.NO_GATE:
        if world.mistake is Mistake.GATES_WITHOUT_STATE:
            yield "open gates late", "open", window._replace(gates=world.gates)
        else:
            yield "open gates late", "refused, not creating", window


def _day_passes(world: World, state: State) -> Iterator[tuple[Action, State]]:
    """No message is left until the queue drops it, and no writer lives that long: alarms and
    Lambda's limit see to that. The same of a redrive and its letter.
    """
    tomorrow = state.day + 1
    held = [(each.message, each.target, each.sent) for each in state.writers]
    if any(sent + world.retention < tomorrow for _, _, sent in (*state.queue, *held)):
        return
    operator = state.operator
    if operator and last_redrive(world, operator.message) < tomorrow:
        return
    yield ("day passes", -1, -1, str(tomorrow)), state._replace(day=tomorrow)


def last_redrive(world: World, message: int) -> int:
    """The last day on which a letter is redriven: a queue's retention and one among the dead
    letters after it was first sent.
    """
    if world.mistake is Mistake.OLD_LETTERS_REDRIVEN:
        return world.days
    return world.messages[message].sent + 2 * world.retention
