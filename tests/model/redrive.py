"""What an operator's redrive does with a letter: `src/tallyroll/operations/redrive.py`.

It may stop after every call, and begins anew with the letter.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model import state as s
from tests.model.lifecycle import last_redrive
from tests.model.mistakes import Mistake
from tests.model.state import Action, Operator, State
from tests.model.world import World

CLAIM, STATE, RECORD, AFTER, IDENTITY, PUT, SEND, DELETE = range(8)
Step = tuple[Action, State]


def steps(world: World, state: State) -> Iterator[Step]:
    """Every next step of the operator."""
    if world.proves:
        yield from _archives(world, state)
    if not world.operator:
        return
    operator = state.operator
    if operator is None:
        for number, reason in state.letters:
            if number not in world.operator:
                continue
            if last_redrive(world, number) < state.day:
                continue  # but for `--unverified`
            step = CLAIM if world.is_event[number] else SEND
            taken = Operator(number, reason, step)
            letters = tuple(each for each in state.letters if each != (number, reason))
            action = ("take letter", number, -1, s.REASONS[reason])
            yield action, state._replace(letters=letters, operator=taken)
        return
    yield ("leave letter", operator.message, -1, ""), _left(state, operator)
    yield from _STEPS[operator.step](world, state, operator)
    if operator.step in (STATE, RECORD, AFTER, IDENTITY):
        yield from _known(world, state, operator)


def _left(state: State, operator: Operator) -> State:
    """The letter is given back. An equal one may have come meanwhile: two are as good as one that
    is redriven twice.
    """
    letters = tuple(sorted({*state.letters, (operator.message, operator.reason)}))
    return state._replace(letters=letters, operator=None)


def _moved(state: State, operator: Operator | None) -> State:
    """None: the letter stays, and the operator leaves it, or finds it by its identity."""
    return state._replace(operator=operator or state.operator)


def _claim_read(world: World, state: State, operator: Operator) -> Iterator[Step]:
    """A claimed event is looked for in the window of its claim, another one in its own."""
    number = operator.message
    claim = state.claims[world.claim_of[number]]
    place = world.homes[number] if claim == s.NOWHERE else claim
    after = operator._replace(step=STATE, claim=claim, place=place)
    yield ("look up claim", number, claim, ""), _moved(state, after)


def _state_read(_: World, state: State, operator: Operator) -> Iterator[Step]:
    status = state.windows[operator.place].status
    after = operator._replace(step=RECORD, before=status)
    action = ("look at state", operator.message, operator.place, s.STATUS_NAMES[status])
    yield action, _moved(state, after)


def _record_read(world: World, state: State, operator: Operator) -> Iterator[Step]:
    number, place = operator.message, operator.place
    window = state.windows[place]
    stored = 0
    after: Operator | None
    if window.table == s.TABLE:
        stored = max(window.records[name] for name in world.messages[number].names)
    if not stored:
        answer = "absent" if window.table else "no table"
        after = operator._replace(step=AFTER)
    elif world.contents[stored - 1] == world.contents[number]:
        answer, after = "equal", operator._replace(step=DELETE)
    else:
        answer = "another content"
        foreign = world.homes[stored - 1] != world.homes[number]
        displaced = foreign and operator.before >= s.SEALED and place != world.homes[number]
        after = _asking(operator) if displaced else None
    yield ("look up record", number, place, answer), _moved(state, after)


def _state_read_again(world: World, state: State, operator: Operator) -> Iterator[Step]:
    """What the absence of a record says depends on the state before and after it was read."""
    number, place = operator.message, operator.place
    status = state.windows[place].status
    after: Operator | None = None
    if status >= s.DROPPING and world.mistake is not Mistake.STATE_NOT_READ_AGAIN:
        # What a dropped window counted is not known: the letter stays, but for `--unverified`.
        if world.mistake is Mistake.ABSENT_IDENTITY_PROVES:
            after = _asking(operator)
    elif operator.before >= s.SEALED:
        after = _asking(operator)
    elif operator.before == s.OPEN:
        after = operator._replace(step=IDENTITY, target=place)
    elif world.mistake is Mistake.CLAIM_MOVED_EARLY:
        after = _asking(operator)
    answer = s.STATUS_NAMES[status]
    yield ("look at state", number, place, answer), _moved(state, after)


def _asking(operator: Operator) -> Operator:
    """It can no longer count where it was: ask for its identity, then choose another window."""
    return operator._replace(step=IDENTITY, target=s.NOWHERE)


def _identity_read(world: World, state: State, operator: Operator) -> Iterator[Step]:
    """The last thing that is read, under the rules of home, claimed and target window."""
    number = operator.message
    targets = [operator.target]
    if operator.target == s.NOWHERE:
        takes = [at for at, window in enumerate(state.windows) if window.status == s.OPEN]
        targets = [at for at in takes if at != operator.place]
    for target in targets:
        places = {world.homes[number], operator.place, target}
        slots = {slot for place in places for slot in world.slots[number][place]}
        found = [state.identities[slot] for slot in slots if state.identities[slot]]
        contents = {world.contents[identity[1]] for identity in found}
        after: Operator | None = operator._replace(step=PUT, target=target)
        answer = "absent"
        if world.contents[number] in contents:
            answer, after = "equal", operator._replace(step=DELETE)
        elif contents:
            answer, after = "another content", None
        yield ("look up identity", number, target, answer), _moved(state, after)


def _known(world: World, state: State, operator: Operator) -> Iterator[Step]:
    """An identity of the event's content tells that it counted, whatever else can be read."""
    number, place = operator.message, operator.place
    takes = [at for at, window in enumerate(state.windows) if window.status == s.OPEN]
    slots = {
        slot for at in (world.homes[number], place, *takes) for slot in world.slots[number][at]
    }
    found = [state.identities[slot] for slot in slots if state.identities[slot]]
    if any(world.contents[identity[1]] == world.contents[number] for identity in found):
        after = operator._replace(step=DELETE)
        yield ("look up identity", number, place, "equal"), _moved(state, after)


def _claim_put(world: World, state: State, operator: Operator) -> Iterator[Step]:
    """A claim is put if there is none, and moves only if it is still the one that was read."""
    number, target = operator.message, operator.target
    slot = world.claim_of[number]
    stored = state.claims[slot]
    claims = state.claims
    if stored == operator.claim and stored != target:
        claims = s.at(claims, (slot,), target)
    elif stored != target:
        target = stored
    after = operator._replace(step=SEND, target=target)
    yield ("claim", number, target, ""), state._replace(claims=claims, operator=after)


def _sent(_: World, state: State, operator: Operator) -> Iterator[Step]:
    number = operator.message
    copy = (number, operator.target, state.day)
    writers = tuple(  # those that have an equal one acknowledge the older
        sorted(each._replace(stale=each.stale or each[:3] == copy) for each in state.writers)
    )
    queue = tuple(sorted({*state.queue, copy}))
    after = operator._replace(step=DELETE)
    action = ("redrive", number, operator.target, "")
    yield action, state._replace(queue=queue, writers=writers, operator=after)


def _deleted(_: World, state: State, operator: Operator) -> Iterator[Step]:
    yield ("delete letter", operator.message, -1, ""), state._replace(operator=None)


def _archives(world: World, state: State) -> Iterator[Step]:
    """The operator finds a retracted event in a proven archive, without a tombstone, and notes the
    window in the retraction's item of the catalog.
    """
    for number, proof in enumerate(state.proofs):
        if world.is_event[number] or proof:
            continue
        name = world.messages[number].names[0]
        for place, window in enumerate(state.windows):
            if not window.proven:
                continue
            records, tombs = window.archive
            stored = records[name]
            believed = world.mistake is Mistake.TOMBSTONE_NOT_IN_ARCHIVE or not tombs[name]
            if stored and believed and world.homes[stored - 1] == world.homes[number]:
                proofs = s.at(state.proofs, (number,), place + 1)
                yield ("prove in archive", number, place, ""), state._replace(proofs=proofs)


_STEPS = (
    _claim_read,
    _state_read,
    _record_read,
    _state_read_again,
    _identity_read,
    _claim_put,
    _sent,
    _deleted,
)
