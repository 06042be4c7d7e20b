"""What operators do with letters in the model of logs: `logs.py`.

Each may end after every step, and begins anew with the letter. A message, and an event that was
given its id, share a claim. Yet they are two events, and both may count in HOME. So a claim serves
only that event for which it was put.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.logs import (
    HOME,
    NONE,
    OTHER,
    WINDOWS,
    Mistake,
    Operator,
    State,
    Step,
    World,
    acknowledged,
    fits,
    rejected,
    replaced,
)


def redrives(world: World, state: State) -> Iterator[Step]:
    """Every next step of SQS, which may move any message to the letters, and of operators."""
    for number in world.moves:
        if number not in state.letters:
            name = world.messages[number].name
            yield f"move: {name} to the dead letters", rejected(world, state, number)
    if len(state.operators) < world.operators:
        for number in state.letters:
            yield from _looked(world, state, number)
    for index, operator in enumerate(state.operators):
        left = rejected(world, state, operator.message)
        name = world.messages[operator.message].name
        yield f"leave: the letter of {name}", _with(left, index, None)
        if operator.sent or operator.target == NONE:
            after = state
            if not operator.sent:
                after = acknowledged(world, state, operator.message)
            yield f"delete: the letter of {name}", _with(after, index, None)
        elif operator.claimed:
            copy = operator.message, operator.target
            sent = state._replace(queue=tuple(sorted({*state.queue, copy})))
            told = f"redrive: {name} to {WINDOWS[operator.target]}"
            yield told, _with(sent, index, operator._replace(sent=True))
        else:
            yield from _claimed(world, state, index, operator)


def _looked(world: World, state: State, number: int) -> Iterator[Step]:
    """Claim, state of the window, slot and record are read, in this order; nothing if the letter
    stays.
    """
    message, event = world.messages[number], world.events[number]
    claim = state.claims[message.id]
    if message.forged and not claim:
        return
    if claim and not fits(world, claim, message, Mistake.LETTER_BELIEVED):
        return
    place = claim[0] if claim else HOME
    record = state.records[place][message.id]
    leaves = state.slots[world.slot(message.sent)] if place == HOME and not message.given else ()
    if record == 1 + event or any(event in leaf.events for leaf in leaves):
        answer, target = "counted already", NONE
    elif record:
        return
    else:
        answer, target = "absent", OTHER if state.sealed else place
    letters = tuple(each for each in state.letters if each != number)
    after = state._replace(letters=letters)
    told = f"look: at the letter of {message.name}, in {WINDOWS[place]}: {answer}"
    yield told, _with(after, None, Operator(number, claim, target))


def _claimed(world: World, state: State, index: int, operator: Operator) -> Iterator[Step]:
    """A claim is put if there is none, and moves only if it is still the one that was read. It has
    the time of the plain event for which it was put first.
    """
    message, target = world.messages[operator.message], operator.target
    claim = state.claims[message.id]
    if claim == operator.claim:
        sent = claim[1] if claim else NONE if message.given else message.sent
        if world.mistake is Mistake.TIME_ADDED and sent == NONE and not message.given:
            sent = message.sent
        claim = target, sent
    elif not fits(world, claim, message, Mistake.LETTER_BELIEVED):
        return
    claims = replaced(state.claims, message.id, claim)
    after = operator._replace(claim=claim, target=claim[0], claimed=True)
    told = f"claim: {message.name} for {WINDOWS[claim[0]]}"
    yield told, _with(state._replace(claims=claims), index, after)


def _with(state: State, index: int | None, operator: Operator | None) -> State:
    operators = [*state.operators]
    if index is not None:
        del operators[index]
    if operator:
        operators.append(operator)
    return state._replace(operators=tuple(sorted(operators)))
