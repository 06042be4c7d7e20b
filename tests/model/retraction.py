"""What a writer does with the message of a retraction.

It finds the event's record, by its identity, by the claim of a redrive, or in the window that the
retraction names; then it puts a tombstone beside the record, or a correction beside the total. Of a
dropped window only the operator's item tells what to correct.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model import state as s
from tests.model.mistakes import Mistake
from tests.model.state import Action, State, Window, Writer, with_window, with_writer
from tests.model.world import World, added
from tests.model.writer import ACK, FIRST_OF_RETRACTION, REJECT

Step = tuple[Action, State]
IDENTITY = FIRST_OF_RETRACTION
CLAIM, RECORD, PUT, STATE, TOMBSTONE, SEALED_RECORD, AGAIN = range(21, 28)
ITEM, CLAIM_AGAIN, CORRECT = range(28, 31)
PROVEN = -1  # seen in the operator's item: not a reason to reject


def steps(world: World, state: State, index: int, writer: Writer) -> Iterator[Step]:
    """Every next step of the writer at `index` with a retraction."""
    for action, after, changed in _STEPS[writer.step - IDENTITY](world, state, writer):
        yield action, changed._replace(writers=with_writer(state, index, after))


Moves = Iterator[tuple[Action, Writer | None, State]]
"""The call, the writer after it, and the state after it, but for the writers."""


def _done(writer: Writer) -> Writer:
    return writer._replace(step=ACK, saw=0, counted=False)


def _identity_read(world: World, state: State, writer: Writer) -> Moves:
    """The identity may say the place, and the claim does: with the record's time both lead to the
    same, so the identity need not be read.
    """
    number = writer.message
    slots = world.slots[number][world.homes[number]]
    found = next((each for slot in slots if (each := state.identities[slot])), None)
    if found:
        after = writer._replace(step=RECORD, place=found[0], saw=1)
        yield ("read identity", number, found[0], "found"), after, state
    elif slots:
        yield ("read identity", number, -1, "absent"), writer._replace(step=CLAIM), state
    yield from _claim_read(world, state, writer)


def _claim_read(world: World, state: State, writer: Writer) -> Moves:
    number = writer.message
    claim = state.claims[world.claim_of[number]]
    place = world.homes[number] if claim == s.NOWHERE else claim
    after = writer._replace(step=RECORD, place=place, saw=0)
    yield ("read claim", number, claim, ""), after, state


def _found(world: World, window: Window, writer: Writer) -> int:
    """1 + the message that stored the retracted record in a window that has its table; or 0.

    The record counts only if its time lies in the window that the retraction names.
    """
    if window.table != s.TABLE:
        return 0
    stored = window.records[world.messages[writer.message].names[0]]
    foreign = stored and world.homes[stored - 1] != world.homes[writer.message]
    if foreign and world.mistake is not Mistake.CLAIM_WITHOUT_TIME:
        return 0
    return stored


def _record_read(world: World, state: State, writer: Writer) -> Moves:
    number, place = writer.message, writer.place
    if world.mistake is Mistake.CONTENT_NOT_READ:
        yield ("read nothing", number, place, ""), writer._replace(step=PUT, saw=0), state
        return
    yield from _sealed_first(world, state, writer)
    window = state.windows[place]
    stored = _found(world, window, writer)
    if stored:
        yield ("read record", number, place, "found"), writer._replace(step=PUT, saw=stored), state
        return
    answer = "absent" if window.table else "no table"
    if world.mistake is Mistake.ABSENT_ACKNOWLEDGED:
        yield ("read record", number, place, answer), _done(writer), state
        return
    by_identity = writer.saw == 1
    after = writer._replace(step=CLAIM if by_identity else STATE, saw=0)
    yield ("read record", number, place, answer), after, state


def _group(world: World, writer: Writer, stored: int) -> s.Numbers:
    """The names of all records of the event: each leads to the least key's, which names all."""
    asked = world.messages[writer.message].names
    if not stored:
        return asked
    names = world.messages[stored - 1].names
    if world.mistake is Mistake.ONE_KEY_RETRACTED and asked[0] != names[0]:
        return asked
    return names


def _tombstone_put(world: World, state: State, writer: Writer) -> Moves:
    """One transaction: a gate, the tombstones, the tally."""
    number, place = writer.message, writer.place
    window = state.windows[place]
    gateless = world.mistake is Mistake.RETRACTION_AFTER_SEALING and window.table == s.TABLE
    shut = writer._replace(step=STATE)
    if window.gates < world.gates and not gateless:
        yield ("put tombstone", number, place, "gate shut or missing"), shut, state
    if window.gates <= 0 and not gateless:
        return
    stored = writer.saw
    names = _group(world, writer, stored)
    if any(window.tombs[name] for name in names):
        yield ("put tombstone", number, place, "duplicate"), _done(writer), state
        return
    value = world.values[stored - 1] if stored else 1
    n, v = len(names), value * len(names)
    window = window._replace(tombs=s.at(window.tombs, names, number + 1))
    window = added(world, window, (-n, -v, n, v))
    put = state._replace(windows=with_window(state, place, window))
    yield ("put tombstone", number, place, "committed"), _done(writer), put
    yield ("put tombstone", number, place, "committed, no answer"), writer, put


def _sealed_first(world: World, state: State, writer: Writer) -> Moves:
    """The state may be read before the record: if the window is sealed, no tombstone is tried.
    A window that is not sealed then is read as if it had not been asked.
    """
    place = writer.place
    status = state.windows[place].status
    if status >= s.SEALED and writer.saw != 1:
        yield from _state_read(world, state, writer._replace(step=STATE, saw=0))
    else:
        yield ("read state", writer.message, place, s.STATUS_NAMES[status]), writer, state


def _state_read(world: World, state: State, writer: Writer) -> Moves:
    """Until its window is sealed a retraction waits, if its event is absent until no copy of it
    should come; then tombstone and record are read anew.
    """
    number, place = writer.message, writer.place
    status = state.windows[place].status
    name = s.STATUS_NAMES[status]
    action = ("read state", number, place, name)
    if status < s.SEALED:
        yield action, None, state
        if not writer.saw:
            late = writer._replace(step=CLAIM_AGAIN, saw=s.NOTHING_TO_RETRACT)
            yield ("read state", number, place, f"{name}, waited long enough"), late, state
    elif status < s.DROPPING:
        counted = _is_there(world, state, number)
        first = SEALED_RECORD if _record_first(world) else TOMBSTONE
        yield action, writer._replace(step=first, saw=0, counted=counted), state
    else:
        yield action, writer._replace(step=ITEM, saw=0), state


def _item_read(world: World, state: State, writer: Writer) -> Moves:
    """The operator's item is read here, or before all else: then it may not say yet that the event
    is proven in the archive.
    """
    number, place = writer.message, writer.place
    if state.proofs[number]:
        proven = writer._replace(step=CLAIM_AGAIN, saw=PROVEN)
        yield ("read item", number, place, "proven in the archive"), proven, state
    unproven = writer._replace(step=CLAIM_AGAIN, saw=s.NOT_PROVEN)
    yield ("read item", number, place, "not proven"), unproven, state


def _record_first(world: World) -> bool:
    return world.mistake is Mistake.RECORD_BEFORE_TOMBSTONE


def _archived(world: World, state: State, writer: Writer) -> int:
    """The record as the operator's item has it, from the archive of the window of its proof."""
    number = writer.message
    return state.windows[state.proofs[number] - 1].archive[0][world.messages[number].names[0]]


def _is_there(world: World, state: State, number: int) -> bool:
    """Whether the event that is to be retracted was counted."""
    name = world.messages[number].names[0]
    stored = (window.records[name] for window in state.windows)
    return any(each and world.homes[each - 1] == world.homes[number] for each in stored)


def _tombstone_read(world: World, state: State, writer: Writer) -> Moves:
    number, place = writer.message, writer.place
    window = state.windows[place]
    if window.table == s.NO_TABLE:
        yield ("read tombstone", number, place, "no table"), writer._replace(step=STATE), state
        return
    tomb = window.tombs[world.messages[number].names[0]]
    if tomb and _found(world, window, writer):
        yield ("read tombstone", number, place, "found"), _done(writer), state
        return
    known = _record_first(world) and writer.saw
    after = writer._replace(
        step=CORRECT if known else AGAIN if _record_first(world) else SEALED_RECORD
    )
    yield ("read tombstone", number, place, "absent"), after, state


def _sealed_record_read(world: World, state: State, writer: Writer) -> Moves:
    number, place = writer.message, writer.place
    window = state.windows[place]
    if window.table == s.NO_TABLE:
        yield ("read record", number, place, "no table"), writer._replace(step=STATE), state
        return
    stored = _found(world, window, writer)
    answer = "found" if stored else "absent"
    next_step = CORRECT if stored else AGAIN
    if _record_first(world):
        next_step = TOMBSTONE
    yield ("read record", number, place, answer), writer._replace(step=next_step, saw=stored), state


def _state_read_again(world: World, state: State, writer: Writer) -> Moves:
    """A table that was made again holds neither record nor tombstone: the state tells."""
    number, place = writer.message, writer.place
    status = state.windows[place].status
    action = ("read state", number, place, s.STATUS_NAMES[status])
    if status >= s.DROPPING and world.mistake is not Mistake.STATE_NOT_READ_AGAIN:
        yield action, writer._replace(step=STATE), state
    elif world.mistake is Mistake.CLAIM_NOT_READ_AGAIN:
        yield action, writer._replace(step=REJECT, saw=s.NOTHING_TO_RETRACT), state
    else:
        yield action, writer._replace(step=CLAIM_AGAIN, saw=s.NOTHING_TO_RETRACT), state


def _claim_read_again(world: World, state: State, writer: Writer) -> Moves:
    """The event may have been redriven since its place was sought: then it is sought anew. Also a
    proof that came since may be that of another window.
    """
    number = writer.message
    claim = state.claims[world.claim_of[number]]
    if claim not in (s.NOWHERE, writer.place):
        after = writer._replace(step=RECORD, place=claim, saw=0, counted=False)
    elif writer.saw == PROVEN:
        after = writer._replace(step=CORRECT, saw=_archived(world, state, writer))
    else:
        after = writer._replace(step=REJECT)
    yield ("read claim", number, claim, "again"), after, state


def _correction_put(world: World, state: State, writer: Writer) -> Moves:
    """One transaction in the totals' table: the entry if it is absent, and the sums."""
    number, place, stored = writer.message, writer.place, writer.saw
    window = state.windows[place]
    names = _group(world, writer, stored)
    put_before = any(window.entries[name] for name in names)
    if put_before and world.mistake is not Mistake.CORRECTION_TWICE:
        yield ("put correction", number, place, "duplicate"), _done(writer), state
        return
    n, v = len(names), world.values[stored - 1] * len(names)
    window = window._replace(
        entries=s.at(window.entries, names, number + 1),
        corrected=s.plus(window.corrected, (n, v)),
    )
    put = state._replace(windows=with_window(state, place, window))
    yield ("put correction", number, place, "committed"), _done(writer), put
    yield ("put correction", number, place, "committed, no answer"), writer, put


_STEPS = (
    _identity_read,
    _claim_read,
    _record_read,
    _tombstone_put,
    _state_read,
    _tombstone_read,
    _sealed_record_read,
    _state_read_again,
    _item_read,
    _claim_read_again,
    _correction_put,
)
