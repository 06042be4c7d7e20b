"""Counts that keep what they have read, as an explicit-state model of its own.

A reader counts one key again and again. Cold, it takes three rounds: the live pointer and the
revision of corrections; states; totals and stripes. Warm, it takes one, and believes what it kept
only if nothing of that has changed. The requests of a round come in any order, between any steps of
the others. In the code: `reads/counting`.

A world has some of these beside the reader: a window W that is sealed, dropped and made again by a
late roller; a window P that is opened in the past, in a day whose sums stood; a correction of W.
W's table is not dropped between two requests of one read, which are seconds, and not days, apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from tests.model.search import Found, search

OPEN, SHUT, TOTALED, SEALED, REMADE = range(5)  # W
ABSENT, CREATED, BEGUN = range(3)  # P: not there; without a spec; with one
NONE = -1


class Mistake(StrEnum):
    """What could be wrong in what is read, and when."""

    TOTALS_BESIDE = "totals are read beside the states, not after them"
    POINTER_AFTER = "the live pointer is read after what it vouches for"
    CORRECTION_MISSED = "a kept total is believed without asking for the revision"
    STRIPES_KEPT = "stripes are kept as the total, from the batch that saw the window sealed"
    ABSENCE_KEPT = "a spec that was not there is not asked for again"
    STATE_BELIEVED = "the state of a live window is not asked for again"


class Promise(StrEnum):
    """What must hold of every answer."""

    ACCEPTED = "it has every event that was counted before the read began, and no other"
    CORRECTED = "it has every correction that was answered before the read began, and no other"


class World(NamedTuple):
    """What happens beside the reader."""

    name: str
    status: int = OPEN  # of W in the beginning
    seals: bool = False
    opens_past: bool = False
    corrects: bool = False


WORLDS = (
    World("a window is sealed and dropped", seals=True),
    World("a window of the past is opened", opens_past=True),
    World("a sealed window is corrected", SEALED, corrects=True),
    World("all of it, of a sealed window", TOTALED, seals=True, opens_past=True, corrects=True),
)


class Kept(NamedTuple):
    """What the reader keeps: the pointer's version, W's state, whether P's day was read as a whole,
    what it knew of P, and W's total with its corrections, as of a revision.
    """

    version: int
    status: int
    whole: bool
    past: int
    total: int
    corrected: int
    revision: int


NOTHING = Kept(NONE, OPEN, False, ABSENT, 0, 0, NONE)
Got = tuple[tuple[str, int], ...]


class Reader(NamedTuple):
    """A read: its round (0: none; 1 to 3 cold, 4 warm), what is left to ask for, what was answered,
    and what was counted and corrected when it began.
    """

    round: int = 0
    left: tuple[str, ...] = ()
    got: Got = ()
    accepted: int = 0
    corrected: int = 0


class State(NamedTuple):
    """The events of W, its state, its total, the corrections; P's state and events; the reader."""

    status: int
    events: int = 0
    total: int = NONE
    corrected: int = 0
    past: int = ABSENT
    past_events: int = 0
    reader: Reader = Reader()
    kept: Kept = NOTHING
    wrong: str = ""


Step = tuple[str, State]


def explore(world: World, mistake: Mistake | None = None) -> Found[Promise]:
    """All states, breadth first, or those until a promise is broken."""
    start = State(world.status, int(world.status > OPEN), 1 if world.status > SHUT else NONE)
    return search(start, lambda state: _steps(state, world, mistake), Promise)


def explore_all(mistake: Mistake | None = None) -> Found[Promise]:
    """The states of all worlds together; of a mistake, the first world that breaks a promise."""
    whole = Found[Promise]()
    for world in WORLDS:
        found = explore(world, mistake)
        whole.states += found.states
        whole.seen |= found.seen
        if found.broken:
            whole.broken, whole.trace = found.broken, [f"world: {world.name}", *found.trace]
            break
    return whole


def _steps(state: State, world: World, mistake: Mistake | None) -> Iterator[Step]:
    yield from _pipeline(state, world)
    yield from _reads(state, mistake)


def _pipeline(state: State, world: World) -> Iterator[Step]:
    if state.status == OPEN and state.events < 2:
        yield "commit: in W", state._replace(events=state.events + 1)
    if world.seals:
        if state.status == OPEN:
            yield "shut: W's gates", state._replace(status=SHUT)
        elif state.status == SHUT:
            yield "put: W's total", state._replace(status=TOTALED, total=state.events)
        elif state.status == TOTALED:
            yield "seal: W", state._replace(status=SEALED)
        elif state.status == SEALED and not state.reader.round:
            yield "drop: W, and make its table again", state._replace(status=REMADE)
    if world.corrects and state.status >= SEALED and not state.corrected:
        yield "correct: an event of W", state._replace(corrected=1)
    if world.opens_past:
        if state.past < BEGUN:
            after = state._replace(past=state.past + 1)
            yield ("open: P" if state.past else "create: P"), after
        elif not state.past_events:
            yield "commit past: in P", state._replace(past_events=1)


def _reads(state: State, mistake: Mistake | None) -> Iterator[Step]:
    reader = state.reader
    if not reader.round:
        accepted = state.events + state.past_events
        begun = Reader(0, (), (), accepted, state.corrected)
        if state.kept.version == NONE:
            yield "begin: cold", _round(state, begun, 1, mistake)
        else:
            yield "begin: warm", _round(state, begun, 4, mistake)
        return
    for name in reader.left:
        left = tuple(each for each in reader.left if each != name)
        got = tuple(sorted((*reader.got, (name, _value(state, name)))))
        asked = reader._replace(left=left, got=got)
        after = state._replace(reader=asked)
        if not left:
            after = _warm(after, mistake) if reader.round == 4 else _cold(after, mistake)
        yield f"read: {name}, {_value(state, name)}", after


def _value(state: State, name: str) -> int:
    """What one request is answered at this moment."""
    return {
        "pointer": int(state.past > ABSENT),
        "revision": state.corrected,
        "state": state.status,
        "period": int(state.past == ABSENT),  # whether the day's sums are complete
        "listing": state.past,
        "spec": int(state.past == BEGUN),
        "total": NONE if state.total < 0 else 2 * state.total + state.corrected,
        "stripes": 0 if state.status == REMADE else state.events,
        "stripes of P": state.past_events,
    }[name]


def _round(state: State, reader: Reader, number: int, mistake: Mistake | None) -> State:
    """The state with the next round of a read begun."""
    got, kept = dict(reader.got), state.kept
    asked: list[str] = []
    match number:
        case 1:
            asked = ["revision"] if mistake is Mistake.POINTER_AFTER else ["pointer", "revision"]
        case 2:
            asked = ["state", "period", "listing"]
            asked += ["total", "stripes"] if mistake is Mistake.TOTALS_BESIDE else []
        case 3:
            asked = ["total"] if got["state"] >= SEALED else ["stripes"]
            asked = [] if mistake is Mistake.TOTALS_BESIDE else asked
            asked += ["stripes of P"] if not got["period"] and got["listing"] == BEGUN else []
            asked += ["pointer"] if mistake is Mistake.POINTER_AFTER else []
        case 4:
            asked = ["pointer"]
            if kept.status >= SEALED:
                asked += [] if mistake is Mistake.CORRECTION_MISSED else ["revision"]
            else:
                asked += ["stripes"]
                asked += [] if mistake is Mistake.STATE_BELIEVED else ["state"]
            if kept.past == BEGUN and not kept.whole:
                asked.append("stripes of P")
            elif kept.past == CREATED and not kept.whole and mistake is not Mistake.ABSENCE_KEPT:
                asked.append("spec")
    begun = state._replace(reader=reader._replace(round=number, left=tuple(sorted(asked))))
    return begun if asked else _cold(begun, mistake)


def _cold(state: State, mistake: Mistake | None) -> State:
    """The end of a round of a cold read."""
    reader = state.reader
    if reader.round < 3:
        return _round(state, reader, reader.round + 1, mistake)
    got = dict(reader.got)
    total, corrected = divmod(max(0, got.get("total", 0)), 2)
    if got["state"] < SEALED:
        total, corrected = 0, 0
    whole = bool(got["period"])
    kept = Kept(
        got["pointer"], got["state"], whole, got["listing"], total, corrected, got["revision"]
    )
    live = got["stripes"] if got["state"] < SEALED else 0
    return _answer(state, kept, total + live + got.get("stripes of P", 0), corrected)


def _warm(state: State, mistake: Mistake | None) -> State:
    """The end of a warm read: an answer if nothing has changed, else a cold read."""
    reader, kept = state.reader, state.kept
    got = dict(reader.got)
    status = got.get("state", kept.status)
    changed = (
        got["pointer"] != kept.version
        or got.get("revision", kept.revision) != kept.revision
        or got.get("spec")
        or (kept.status < SEALED <= status and mistake is not Mistake.STRIPES_KEPT)
    )
    if changed:
        anew = reader._replace(got=())
        return _round(state._replace(kept=NOTHING), anew, 1, mistake)
    live = got.get("stripes", 0)
    if kept.status < SEALED <= status:
        kept = kept._replace(status=SEALED, total=live)
        live = 0
    return _answer(state, kept, kept.total + live + got.get("stripes of P", 0), kept.corrected)


def _answer(state: State, kept: Kept, accepted: int, corrected: int) -> State:
    reader, wrong = state.reader, ""
    if not reader.corrected <= corrected <= state.corrected:
        wrong = Promise.CORRECTED.name
    if not reader.accepted <= accepted <= state.events + state.past_events:
        wrong = Promise.ACCEPTED.name
    return state._replace(reader=Reader(), kept=kept, wrong=wrong)
