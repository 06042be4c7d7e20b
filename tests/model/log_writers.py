"""What writers do in the model of logs: `logs.py`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

from tests.model.logs import (
    HOME,
    NO_LEAF,
    NONE,
    OTHER,
    WINDOWS,
    Item,
    Leaf,
    Mistake,
    Put,
    State,
    Step,
    World,
    Writer,
    acknowledged,
    carried_out,
    fits,
    rejected,
    replaced,
    stored,
)

ANOTHER_LENGTH = 1  # of a slot, by the settings; by HOME's spec it is the world's


def deliver(world: World, state: State) -> Iterator[Step]:
    """The queue gives messages to a writer that is idle."""
    if len(state.writers) == world.writers:
        return
    copies = [(number, NONE) for number in range(len(world.messages))]
    copies += state.queue
    for size in range(1, world.batch + 1):
        for batch in combinations(copies, size):
            for items in product(*(_items(world, *copy) for copy in batch)):
                told = ", ".join(_where(world, each) for each in items)
                if refused := [each.message for each in items if _is_refused(world, each)]:
                    yield f"refuse: {told}", rejected(world, state, refused[0])
                    continue
                asks = any(each.target != NONE for each in items)
                begun = Writer(items, (0,) * len(state.slots), asks=asks)
                yield f"deliver: {told}", _with(state, None, begun)


def _where(world: World, item: Item) -> str:
    name = world.messages[item.message].name
    redriven = "" if item.target == NONE else f", redriven to {WINDOWS[item.target]},"
    return f"{name}{redriven} " + ("a record" if item.slot == NONE else f"for slot {item.slot}")


def _items(world: World, number: int, target: int) -> Iterator[Item]:
    """A message with its slot; more than one if a mistake lets that depend on more."""
    message, event = world.messages[number], world.events[number]
    if message.forged:
        target = max(target, HOME)
    if message.given or target == OTHER:
        yield Item(number, event, target, NONE)
        return
    yield Item(number, event, target, world.slot(message.sent))
    if world.mistake is Mistake.SLOT_BY_DELIVERY:
        yield Item(number, event, target, world.slot(message.sent + world.length))
    elif world.mistake is Mistake.SLOT_BY_SETTINGS:
        yield Item(number, event, target, message.sent // ANOTHER_LENGTH)
    elif world.mistake is Mistake.KIND_BY_SETTINGS:
        yield Item(number, event, target, NONE)


def _is_refused(world: World, item: Item) -> bool:
    leaf = world.messages[item.message].leaf
    return leaf != NONE and world.mistake is not Mistake.LOG_IDS_TAKEN


def writes(world: World, state: State) -> Iterator[Step]:
    """Every next step of the writers, and requests that are carried out late."""
    last = None
    for index, writer in enumerate(state.writers):
        if writer == last:
            continue  # writers in one state do the same
        last = writer
        yield "die: " + _names(world, writer), _with(state, index, None)
        if writer.asks:
            yield _asked(world, state, index, writer)
            continue
        yield from _reads(state, index, writer)
        at_home = [each for each in writer.items if each.target != OTHER]
        if state.sealed and at_home:
            yield _sealed(world, state, index, writer)
        else:
            yield from _puts(world, state, index, writer)
    for number, puts in enumerate(state.flights):
        landed = carried_out(world, state, puts) or state
        flights = (*state.flights[:number], *state.flights[number + 1 :])
        yield f"land: {_told(world, puts)}", landed._replace(flights=flights)


def _asked(world: World, state: State, index: int, writer: Writer) -> Step:
    """A redriven message counts only by its claim, which is read anew."""
    after, kept = state, []
    for item in writer.items:
        message = world.messages[item.message]
        claim = state.claims[message.id]
        unless = Mistake.TIME_BELIEVED
        if item.target == NONE or (
            claim and claim[0] == item.target and fits(world, claim, message, unless)
        ):
            kept.append(item)
        else:
            after = rejected(world, after, item.message)
    known = writer._replace(items=tuple(kept), asks=False)
    answer = "" if len(kept) == len(writer.items) else ", not claimed"
    return f"read claims: {_names(world, writer)}{answer}", _with(after, index, known)


def _reads(state: State, index: int, writer: Writer) -> Iterator[Step]:
    """A writer may see any leaf of its slots at any time: what it has seen is any old subset."""
    for slot in sorted({each.slot for each in writer.items} - {NONE}):
        for position, leaf in enumerate(state.slots[slot]):
            if leaf.events and not writer.known[slot] >> position & 1:
                sees = _sees(state, writer, slot, position)
                yield f"read: position {position} of slot {slot}", _with(state, index, sees)


def _sees(state: State, writer: Writer, slot: int, position: int) -> Writer:
    """The writer with a leaf that it has seen. It is done with messages in the prefix."""
    known = replaced(writer.known, slot, writer.known[slot] | 1 << position)
    prefix = _prefix(state, known[slot], slot)
    there = {event for leaf in prefix for event in leaf.events}
    items = tuple(each for each in writer.items if each.slot != slot or each.event not in there)
    undecided = tuple(
        each for each in writer.undecided if each.slot != slot or each.at >= len(prefix)
    )
    return writer._replace(items=items, known=known, undecided=undecided)


def _prefix(state: State, known: int, slot: int) -> list[Leaf]:
    """The leaves of a slot that are known, up to the first gap."""
    found = []
    for position, leaf in enumerate(state.slots[slot]):
        if not known >> position & 1:
            break
        found.append(leaf)
    return found


def _plans(world: World, state: State, writer: Writer) -> list[list[Put]]:
    """The puts that a writer may send: of each list one, or none."""
    plans: list[list[Put]] = []
    for slot in sorted({each.slot for each in writer.items}):
        items = [each for each in writer.items if each.slot == slot]
        undecided = [each for each in writer.undecided if each.slot == slot]
        prefix = [] if slot == NONE else _prefix(state, writer.known[slot], slot)
        if slot == NONE or _is_full(world, state, writer, slot, prefix, items):
            plans += [[_record(world, each)] for each in items]
        elif undecided:
            plans.append(undecided)
        else:
            at = len(prefix)
            if world.mistake is Mistake.HIGHEST:
                at = writer.known[slot].bit_length()
            plans += _leaves(world, slot, at, [each.event for each in items])
    return plans


def _leaves(world: World, slot: int, at: int, events: list[int]) -> list[list[Put]]:
    """What does not fit into a leaf waits for the next position."""
    now, later = events[: world.capacity], events[world.capacity :]
    kinds = (False, True) if world.ends else (False,)
    plans = [[Put(HOME, slot, at, Leaf(tuple(now), ends)) for ends in kinds]]
    if later and world.mistake is Mistake.DIVIDED:
        plans.append([Put(HOME, slot, at + 1, Leaf(tuple(later)))])
    return plans


def _record(world: World, item: Item) -> Put:
    message = world.messages[item.message]
    leaf = Leaf((item.event,))
    if message.leaf != NONE:
        return Put(HOME, 0, message.leaf, leaf)
    return Put(max(item.target, HOME), NONE, message.id, leaf)


def _is_full(
    world: World, state: State, writer: Writer, slot: int, prefix: list[Leaf], items: list[Item]
) -> bool:
    """Whether no leaf can follow: a fact for ever, judged on a prefix without a gap."""
    judged = prefix
    match world.mistake:
        case Mistake.FULL_REMEMBERED:
            judged = [*state.slots[slot]]
        case Mistake.FULL_OVER_GAP:
            seen = writer.known[slot]
            leaves = enumerate(state.slots[slot])
            judged = [leaf if seen >> at & 1 else NO_LEAF for at, leaf in leaves]
        case Mistake.FULL_BY_SIZE:
            size = len(items) + sum(len(leaf.events) for leaf in prefix)
            if size > world.capacity:
                return True
    last = len(judged) == world.positions and bool(judged[-1].events)
    return last or (world.mistake is not Mistake.AFTER_END and any(leaf.ends for leaf in judged))


def _puts(world: World, state: State, index: int, writer: Writer) -> Iterator[Step]:
    """Transactions of some of the puts that are due, and what comes of each."""
    plans = _plans(world, state, writer)
    for chosen in product(*([None, *each] for each in plans)):
        puts = tuple(each for each in chosen if each)
        if not puts or len({each.window for each in puts}) > 1:
            continue
        told = _told(world, puts)
        waits = _without_answer(world, writer, puts)
        after = carried_out(world, state, puts)
        if after is None:
            yield f"lose: {told}", _lost(world, state, index, writer, puts)
        else:
            yield f"put: {told}", _with(after, index, _answered(after, writer, puts))
            yield f"put: {told}, no answer", _with(after, index, waits)
        yield f"give up: {told}", _with(state, index, waits)
        if len(state.flights) < world.flights:
            flights = tuple(sorted((*state.flights, puts)))
            flying = state._replace(flights=flights)
            yield f"give up: {told}, which is on its way", _with(flying, index, waits)


def _without_answer(world: World, writer: Writer, puts: tuple[Put, ...]) -> Writer:
    """An unknown outcome: the same position is put again, with the same content."""
    fresh = {each for each in puts if each.slot != NONE} - {*writer.undecided}
    if world.mistake is Mistake.MOVED_ON:
        fresh = {each._replace(at=each.at + 1) for each in fresh}
    return writer._replace(undecided=tuple(sorted((*writer.undecided, *fresh))))


def _answered(after: State, writer: Writer, puts: tuple[Put, ...]) -> Writer:
    """The writer whose transaction was carried out."""
    done = {event for put in puts for event in put.leaf.events}
    writer = writer._replace(items=tuple(each for each in writer.items if each.event not in done))
    for put in puts:
        if put.slot != NONE:
            writer = _sees(after, writer, put.slot, put.at)
    return writer


def _lost(world: World, state: State, index: int, writer: Writer, puts: tuple[Put, ...]) -> State:
    """Of puts whose places are taken the writer sees what is there. If that does not come back, it
    is where it was, and reads.
    """
    after = state
    for put in puts:
        there = stored(state, put).events
        if not there:
            continue
        left = tuple(
            each for each in writer.undecided if (each.slot, each.at) != (put.slot, put.at)
        )
        writer = writer._replace(undecided=left)
        if put.slot != NONE and world.messages[put.leaf.events[0]].leaf == NONE:
            if world.mistake is Mistake.LOSER_BLIND:
                writer = _without_answer(world, writer, (put._replace(at=put.at + 1),))
            else:
                writer = _sees(state, writer, put.slot, put.at)
            continue
        item = next(each for each in writer.items if each.event in put.leaf.events)
        if there == put.leaf.events:
            after = acknowledged(world, after, item.message)
        else:
            after = rejected(world, after, item.message)
        writer = _without(writer, item)
    return _with(after, index, writer)


def _sealed(world: World, state: State, index: int, writer: Writer) -> Step:
    """The gate is shut, and HOME sealed. Before that is said, slot and record are read."""
    after, told = state, []
    for item in [each for each in writer.items if each.target != OTHER]:
        name = world.messages[item.message].name
        if _is_found(world, state, writer, item):
            told.append(f"{name} is there")
            after = acknowledged(world, after, item.message)
        else:
            told.append(f"{name} is rejected")
            after = rejected(world, after, item.message, sealed=True)
        writer = _without(writer, item)
    return f"meet a shut gate: {', '.join(told)}", _with(after, index, writer)


def _is_found(world: World, state: State, writer: Writer, item: Item) -> bool:
    mistake, record = world.mistake, state.records[HOME][world.messages[item.message].id]
    leaves: list[Leaf] = []
    if item.slot != NONE and mistake is not Mistake.SLOT_UNREAD:
        known = writer.known[item.slot] if mistake is Mistake.SLOT_READ_EVENTUALLY else NONE
        leaves = _prefix(state, known, item.slot)
    if any(item.event in leaf.events for leaf in leaves):
        return True
    if mistake is Mistake.RECORD_BY_ID and record:
        return True
    return record == 1 + item.event and mistake is not Mistake.RECORD_UNREAD


def _without(writer: Writer, item: Item) -> Writer:
    return writer._replace(items=tuple(each for each in writer.items if each != item))


def _with(state: State, index: int | None, writer: Writer | None) -> State:
    """The state with one of the writers replaced; one without messages is idle."""
    writers = [*state.writers]
    if index is not None:
        del writers[index]
    if writer and writer.items:
        writers.append(writer)
    return state._replace(writers=tuple(sorted(writers)))


def _names(world: World, writer: Writer) -> str:
    return ", ".join(world.messages[each.message].name for each in writer.items)


def _told(world: World, puts: tuple[Put, ...]) -> str:
    told = []
    for put in puts:
        names = " and ".join(world.messages[event].name for event in put.leaf.events)
        at = f"position {put.at} of slot {put.slot}"
        where = f"as a record of {WINDOWS[put.window]}" if put.slot == NONE else f"at {at}"
        told.append(f"{names} {where}{', an end' if put.leaf.ends else ''}")
    return "; ".join(told)
