"""Traces in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.model.state import Action
from tests.model.world import RULES, WINDOW, Event, World

CALLS = {
    "start": "",
    # the queue and writers
    "deliver": "the queue delivers {message}{redriven} to a writer",
    "hand back": "the writer of {message} dies, or hands it back",
    "expire": "the queue will soon drop {message}, and its writer sees that",
    "read claim": "the writer of {message} reads its claim: {place}",
    "read gate": "the writer of {message} reads a gate of {place}: {answer}",
    "commit": "the writer of {message} commits in {place}: {answer}",
    "add to tally": "the writer of {message} adds to a tally of {place}",
    "read record": "the writer of {message} reads the record in {place}: {answer}",
    "read nothing": "the writer of {message} does not read the record in {place}",
    "read state": "the writer of {message} reads the state of {place}: {answer}",
    "read identity": "the writer of {message} reads the identity ({place}): {answer}",
    "read item": "the writer of {message} reads the operator's item: {answer}, {place}",
    "put tombstone": "the writer of {message} puts a tombstone in {place}: {answer}",
    "read tombstone": "the writer of {message} reads the tombstone in {place}: {answer}",
    "put correction": "the writer of {message} puts a correction of {place}: {answer}",
    "reject": "the writer of {message} rejects it: {answer}",
    "ack": "the writer of {message} acknowledges it",
    # the operator
    "take letter": "the operator takes the letter of {message}: {answer}",
    "leave letter": "the operator leaves the letter of {message}, or dies",
    "look up claim": "the operator reads the claim of {message}: {place}",
    "look at state": "the operator reads the state of {place}: {answer}",
    "look up record": "the operator reads the record of {message} in {place}: {answer}",
    "look up identity": "the operator, for {place}, reads the identity of {message}: {answer}",
    "claim": "the operator claims {place} for {message}, or follows the claim that is there",
    "redrive": "the operator sends {message} again{redriven}",
    "delete letter": "the operator deletes the letter of {message}",
    "prove in archive": "the operator finds the event of {message} in the archive of {place}",
    # windows and time
    "close": "the roller closes {place}",
    "shut gate": "the roller shuts a gate of {place}: {answer}",
    "note shut": "the roller notes that the gates of {place} are shut",
    "put total": "the roller lists the tallies of {place} and puts the total: {answer}",
    "seal": "the roller seals {place}",
    "put total late": "a roller that slept puts the total of {place} again",
    "make table late": "a roller that slept makes the table of {place} again",
    "open gates late": "a roller that slept puts the gates of {place}: {answer}",
    "export": "cleanup exports {place}: {answer}",
    "prove": "cleanup proves the archive of {place}: {answer}",
    "tag": "cleanup tags the table of {place} {answer}",
    "drop table": "the dropper deletes the table of {place}",
    "finish": "the dropper notes that the table of {place} is gone",
    "settle": "listings see all that is committed in {place}",
    "forget identity": "the identity that {message} put in {place} is deleted by its TTL",
    "day passes": "day {answer} begins",
}
"""Each call of the model, in words. The names are those of the ports' calls, where there is one."""

_LETTERS = "abcdefgh"


def told(world: World, trace: Sequence[Action]) -> Iterator[str]:
    """The lines of a trace: the messages, then the calls."""
    for letter, message in zip(_LETTERS, world.messages, strict=False):
        names = ", ".join(
            f"key {world.name_keys[name]} id {world.name_ids[name]}" for name in message.names
        )
        sent = f", sent on day {message.sent}" if world.days else ""
        if isinstance(message, Event):
            what = f"an event of window {message.home}: {names}, content {message.content}"
        else:
            what = f"a retraction of an event of window {message.named}: {names}"
        yield f"{letter} is {what}{sent}"
    if any(rule != WINDOW for rule in world.rules):
        yield "identities by window: " + ", ".join(RULES[rule] for rule in world.rules)
    for number, (call, subject, place, answer) in enumerate(trace, 1):
        where = f"window {place}" if place >= 0 else "none"
        words = CALLS[call].format(
            message=_LETTERS[subject],
            place=where,
            answer=answer,
            redriven=f", redriven to {where}" if place >= 0 else "",
        )
        yield f"{number:3}. {words.strip()}"
