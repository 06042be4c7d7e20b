"""What a writer does with the message of an event: `src/tallyroll/ingest`.

A reply may be lost after each call that changes something. A writer that stalls between its
decision and its call stands also for a request that is carried out minutes after it was given up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.model import state as s
from tests.model.mistakes import Mistake
from tests.model.state import Action, State, Writer, with_window, with_writer
from tests.model.world import Event, World, added, has_identity, is_known

PLACE, GATE, LOOK, COMMIT, ADD, STATE, RECORD, AFTER, IDENTITY, REJECT, ACK = range(11)
FIRST_OF_RETRACTION = 20
UNASKED = -1  # only if the mistake is planted: the identity is read before anything else

Step = tuple[Action, State]


def steps(world: World, state: State, index: int, writer: Writer) -> Iterable[Step]:
    """Every next step of the writer at `index` with an event."""
    return _STEPS[writer.step](world, state, index, writer)


def deliver(world: World, state: State) -> Iterator[Step]:
    """The queue gives a message to a writer that is idle."""
    if len(state.writers) == world.writers:
        return
    for queued in state.queue:
        number, target, sent = queued
        if sent > state.day or sent + world.retention < state.day:
            continue
        place, step, saw, counted = world.homes[number], COMMIT, 0, False
        message = world.messages[number]
        if not isinstance(message, Event):
            step = FIRST_OF_RETRACTION
        elif target != s.NOWHERE:
            place, step = target, PLACE
        elif message.late:
            step, saw = IDENTITY, s.TOO_LATE
            counted = has_identity(world, state, number, place)
        else:
            step = first_step(world)
        writer = Writer(number, target, sent, place, step, saw, counted)
        writers = tuple(sorted((*state.writers, writer)))
        yield ("deliver", number, target, ""), state._replace(writers=writers)


def first_step(world: World) -> int:
    """The step with which counting begins."""
    if world.mistake is Mistake.GATE_OUTSIDE:
        return GATE
    return LOOK if world.mistake is Mistake.IDENTITY_OUTSIDE else COMMIT


def finish(world: World, state: State, index: int, writer: Writer) -> Iterator[Step]:
    """What a writer with any message may do: die or hand back, reject, acknowledge."""
    number, target, sent = writer.message, writer.target, writer.sent
    gone = with_writer(state, index, None)
    expiring = sent + world.retention == state.day and world.days
    if writer.step < REJECT and expiring and writer.step != IDENTITY:
        # A message that would be handed back, and that the queue will soon drop.
        known = has_identity(world, state, number, writer.place)
        found = writer._replace(step=IDENTITY, saw=s.EXPIRING, counted=known)
        yield ("expire", number, -1, ""), _moved(state, index, found)
    yield ("hand back", number, -1, ""), state._replace(writers=gone)
    if writer.step == REJECT:
        letters = tuple(sorted({*state.letters, (number, writer.saw)}))
        moved = with_writer(state, index, writer._replace(step=ACK, saw=0, counted=False))
        name = s.REASONS[writer.saw]
        yield ("reject", number, -1, name), state._replace(letters=letters, writers=moved)
    elif writer.step == ACK:
        queue = state.queue
        if not writer.stale:
            queue = tuple(each for each in queue if each != (number, target, sent))
        yield ("ack", number, -1, ""), state._replace(queue=queue, writers=gone)


def _moved(state: State, index: int, writer: Writer) -> State:
    return state._replace(writers=with_writer(state, index, writer))


def _acknowledging(writer: Writer) -> Writer:
    return writer._replace(step=ACK, saw=0, counted=False)


def _rejecting(writer: Writer, reason: int) -> Writer:
    return writer._replace(step=REJECT, saw=reason)


def _placed(world: World, state: State, index: int, writer: Writer) -> list[Step]:
    """A redriven message counts only in the window of its claim, which is read anew."""
    number = writer.message
    claim = state.claims[world.claim_of[number]]
    believed = world.mistake is Mistake.ATTRIBUTE_BELIEVED
    message = world.messages[number]
    if claim != writer.target and not believed:
        after = _rejecting(writer, s.NOT_CLAIMED)
    elif isinstance(message, Event) and message.late_again:
        counted = has_identity(world, state, number, writer.place)
        after = writer._replace(step=IDENTITY, saw=s.TOO_LATE, counted=counted)
    else:
        after = writer._replace(step=first_step(world))
    return [(("read claim", number, claim, ""), _moved(state, index, after))]


def _gate_read(_: World, state: State, index: int, writer: Writer) -> list[Step]:
    """Only if the mistake is planted: the gate is read outside of the transaction."""
    is_open = state.windows[writer.place].gates > 0
    after = writer._replace(step=COMMIT if is_open else STATE)
    answer = "open" if is_open else "shut"
    return [(("read gate", writer.message, writer.place, answer), _moved(state, index, after))]


def _looked(world: World, state: State, index: int, writer: Writer) -> list[Step]:
    """Only if the mistake is planted: the identity is judged outside of the transaction."""
    fate = _by_identity(world, state, writer, (writer.place,))
    answer = "absent" if fate is None else "found"
    after = fate or writer._replace(step=COMMIT)
    return [(("read identity", writer.message, writer.place, answer), _moved(state, index, after))]


def _looked_up(world: World, state: State, index: int, writer: Writer) -> Iterator[Step]:
    """A message that was received before may be looked up first; only an equal content decides."""
    number, place = writer.message, writer.place
    window = state.windows[place]
    message = world.messages[number]
    content = world.contents[number]
    if window.table == s.TABLE:
        stored = window.records[message.names[0]]
        if stored and world.contents[stored - 1] == content:
            after = _moved(state, index, _acknowledging(writer))
            yield ("read record", number, place, "equal"), after
    for slot in world.slots[number][place]:
        identity = state.identities[slot]
        if identity and world.contents[identity[1]] == content:
            after = _moved(state, index, _acknowledging(writer))
            yield ("read identity", number, place, "equal"), after


def _counting(world: World, state: State, index: int, writer: Writer) -> Iterator[Step]:
    yield from _looked_up(world, state, index, writer)
    yield from _committed(world, state, index, writer)


def _nothing(_: World, __: State, ___: int, ____: Writer) -> list[Step]:
    """What remains is what `finish` does with every message."""
    return []


def _committed(world: World, state: State, index: int, writer: Writer) -> Iterator[Step]:
    """One transaction: a gate, the records, the identities, the tally."""
    number, place, mistake = writer.message, writer.place, world.mistake
    window = state.windows[place]
    if mistake is Mistake.UNKNOWN_ACKNOWLEDGED:
        after = _moved(state, index, _acknowledging(writer))
        yield ("commit", number, place, "not carried out, no answer"), after
    is_open = window.gates > 0 or mistake is Mistake.GATE_OUTSIDE
    early = world.mistake is Mistake.IDENTITY_BEFORE_STATE
    shut = writer._replace(step=IDENTITY if early else STATE, saw=UNASKED if early else 0)
    if window.table == s.NO_TABLE or window.gates == s.NO_GATE:
        yield ("commit", number, place, "gate missing"), _moved(state, index, shut)
        return
    if window.gates < world.gates and mistake is not Mistake.GATE_OUTSIDE:
        yield ("commit", number, place, "gate shut"), _moved(state, index, shut)
    if not is_open:
        return
    fate = _by_record(world, window, writer)
    if fate is None and mistake is not Mistake.IDENTITY_OUTSIDE:
        fate = _by_identity(world, state, writer, (place,), committing=True)
    if fate is not None:
        answer = "duplicate" if fate.step == ACK else "id-conflict"
        yield ("commit", number, place, answer), _moved(state, index, _asking(world, fate))
        return
    counted = _counted(world, state, writer)
    apart = mistake is Mistake.TALLY_OUTSIDE
    known = writer._replace(step=ADD) if apart else _acknowledging(writer)
    yield (
        ("commit", number, place, "committed"),
        counted._replace(writers=with_writer(state, index, known)),
    )
    yield ("commit", number, place, "committed, no answer"), counted


def _counted(world: World, state: State, writer: Writer) -> State:
    """The state after a transaction that was carried out."""
    number, place = writer.message, writer.place
    window, message = state.windows[place], world.messages[number]
    names = message.names[:1] if world.mistake is Mistake.GROUP_DIVIDED else message.names
    n, v = len(names), world.values[number] * len(names)
    records = s.at(window.records, names, number + 1)
    window = window._replace(records=records)
    if world.mistake is not Mistake.TALLY_OUTSIDE:
        window = added(world, window, (n, v, 0, 0))
    identities = state.identities
    if slots := world.slots[number][place]:
        identity = (place, number, _kept_until(world, writer.sent))
        identities = tuple(
            identity if slot in slots else each for slot, each in enumerate(identities)
        )
    return state._replace(windows=with_window(state, place, window), identities=identities)


def _kept_until(world: World, sent: int) -> int:
    """Until which day an identity stays: no copy of a message that it must stop comes later. Its
    days, then a queue's retention, one as a letter, one after its redrive.
    """
    if world.mistake is Mistake.TTL_WITHOUT_WEEKS:
        return sent + world.kept
    short = world.mistake is Mistake.TTL_A_DAY_SHORT
    return sent + world.kept + 3 * world.retention - short


def _added(world: World, state: State, index: int, writer: Writer) -> list[Step]:
    """Only if the mistake is planted: the tally is added to outside of the transaction."""
    number, place = writer.message, writer.place
    window = state.windows[place]
    window = added(world, window, (1, world.values[number], 0, 0))
    writers = with_writer(state, index, _acknowledging(writer))
    after = state._replace(windows=with_window(state, place, window), writers=writers)
    return [(("add to tally", number, place, ""), after)]


def _by_record(world: World, window: s.Window, writer: Writer) -> Writer | None:
    """The fate of a message by the records of its names, if there are any."""
    if world.mistake is Mistake.PUT_WITHOUT_CONDITION or window.table != s.TABLE:
        return None
    found = {window.records[name] for name in world.messages[writer.message].names} - {0}
    contents = {world.contents[each - 1] for each in found}
    if not contents:
        return None
    if world.contents[writer.message] in contents:
        return _acknowledging(writer)
    return _rejecting(writer, s.ID_CONFLICT)


def _asking(world: World, fate: Writer) -> Writer:
    """Before a conflict is told, the identity is read: the event may count in another window."""
    slots = world.slots[fate.message]
    known = slots[fate.place] or slots[world.homes[fate.message]]
    return fate._replace(step=IDENTITY) if fate.step == REJECT and known else fate


def _by_identity(
    world: World, state: State, writer: Writer, rules: tuple[int, ...], *, committing: bool = False
) -> Writer | None:
    """The fate of a message by its identities under the rules of these windows, if there are any.

    Nothing here asks for a time: an identity is there, or it is not.
    """
    number = writer.message
    contents = set()
    for place in rules:
        for slot in world.slots[number][place]:
            identity = state.identities[slot]
            if identity and not (committing and _overwritten(world, state, number, identity)):
                contents.add(world.contents[identity[1]])
    if not contents:
        return None
    if world.contents[number] in contents:
        return _acknowledging(writer)
    return _rejecting(writer, s.ID_CONFLICT)


def _overwritten(world: World, state: State, number: int, identity: s.Numbers) -> bool:
    """Only if a mistake is planted: whether a transaction may overwrite an identity."""
    if world.mistake is Mistake.IDENTITY_OVERWRITTEN:
        first, own = world.messages[identity[1]].sent, world.messages[number].sent
        return abs(own - first) > world.kept
    if world.mistake is Mistake.IDENTITY_EXPIRED:
        return state.day > world.messages[identity[1]].sent + world.kept
    return False


def _state_read(world: World, state: State, index: int, writer: Writer) -> list[Step]:
    """After a gate that was shut or missing, the window's state decides what to ask next."""
    number, place = writer.message, writer.place
    status = state.windows[place].status
    answer = s.STATUS_NAMES[status]
    if status < s.SEALED:
        back = state._replace(writers=with_writer(state, index, None))
        return [(("read state", number, place, f"{answer}, handed back"), back)]
    counted = is_known(world, state, number, place)
    after = writer._replace(step=RECORD, counted=counted)
    return [(("read state", number, place, answer), _moved(state, index, after))]


def _record_read(world: World, state: State, index: int, writer: Writer) -> list[Step]:
    number, place = writer.message, writer.place
    window = state.windows[place]
    fate = _by_record(world, window, writer)
    answer = "equal" if fate and fate.step == ACK else "another content" if fate else "absent"
    fate = fate and _asking(world, fate)
    if window.table == s.NO_TABLE:
        answer = "no table"
        if world.mistake is Mistake.DROPPED_HANDED_BACK:
            back = state._replace(writers=with_writer(state, index, None))
            return [(("read record", number, place, answer), back)]
    if fate is None:
        skipped = world.mistake is Mistake.STATE_NOT_READ_AGAIN
        reason = s.WINDOW_SEALED
        fate = writer._replace(step=IDENTITY if skipped else AFTER, saw=reason)
    return [(("read record", number, place, answer), _moved(state, index, fate))]


def _state_read_again(world: World, state: State, index: int, writer: Writer) -> list[Step]:
    """A missing record tells nothing of a table that is dropped, or was made again."""
    status = state.windows[writer.place].status
    dropped = status >= s.DROPPING
    reason = s.UNVERIFIED if dropped else s.WINDOW_SEALED
    early = world.mistake is Mistake.IDENTITY_BEFORE_STATE
    after = writer._replace(step=REJECT if early else IDENTITY, saw=reason)
    action = ("read state", writer.message, writer.place, s.STATUS_NAMES[status])
    return [(action, _moved(state, index, after))]


def _identity_read(world: World, state: State, index: int, writer: Writer) -> list[Step]:
    """Before a rejection the identity is read, under the rules of home and target."""
    number, place = writer.message, writer.place
    fate = None
    if world.mistake is not Mistake.IDENTITY_NOT_READ:
        fate = _by_identity(world, state, writer, (world.homes[number], place))
    answer = "equal" if fate and fate.step == ACK else "another content" if fate else "absent"
    after = fate or _rejecting(writer, writer.saw)
    if writer.saw == UNASKED and not fate:
        after = writer._replace(step=STATE, saw=0)
    return [(("read identity", number, place, answer), _moved(state, index, after))]


_STEPS = (
    _placed,
    _gate_read,
    _looked,
    _counting,
    _added,
    _state_read,
    _record_read,
    _state_read_again,
    _identity_read,
    _nothing,
    _nothing,
)
