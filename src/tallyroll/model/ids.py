"""Ids of records: their identity, in their window and beyond it, and UUIDv7, which are ordered by
time.

A window's spec freezes the scope within which an id that a producer gave counts once. In the scope
`window` the record itself is the identity, and there is nothing else. Otherwise the transaction
that stores a record also puts items into the table of identities, which outlives the window:
whoever meets such an item later has the same event, or another one under a taken id.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b

from tallyroll.limits import IDENTITY_COPIES_DAYS
from tallyroll.model.sharding import Chance
from tallyroll.model.specs import IdentityScope, Spec
from tallyroll.model.windows import WindowId

_UUID7 = re.compile(
    r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE
)

_NAME_BYTES = 32  # of BLAKE2b: keys and ids may be longer than the KB that a write unit takes
_DAY_SECONDS = 86_400
EXPIRES = "expires"
"""The attribute by which DynamoDB deletes identities."""

Identity = tuple[WindowId, str, str]
"""The identity of a record: its window, its key, its id."""


def uuid7(now: int, chance: Chance) -> str:
    """A UUIDv7 (RFC 9562) of the time `now` in ms: 48 bits of time, 74 random bits."""
    low = 0b10 << 62 | chance.getrandbits(62)
    text = f"{now << 80 | 7 << 76 | chance.getrandbits(12) << 64 | low:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def uuid7_time(record_id: str) -> int | None:
    """The time, in ms, in a UUIDv7 (RFC 9562: its first 48 bits); None for any other id."""
    match = _UUID7.fullmatch(record_id)
    return int(match[1] + match[2], 16) if match else None


@dataclass(frozen=True, slots=True)
class IdentityItem:
    """An id that is taken within its scope: where its event counts, its digest, and when the item
    may go (s since the epoch).

    `key` is the least key of the event: that of its record in `window`.
    """

    name: str
    window: WindowId
    key: str
    digest: bytes
    expires: int

    @property
    def size(self) -> int:
        """The bytes of the item, at most: names of attributes included."""
        return 90 + len(self.name) + len(self.key.encode())


def identity_names(spec: Spec, keys: tuple[str, ...], record_id: str) -> tuple[str, ...]:
    """The names of an id's items in the scope of a window: one for each key, or one at all. None in
    the scope of the window itself.

    The first roll of the pipeline is in the name: a pipeline of the same name that was made again
    does not know the ids of the one before.
    """
    return names_in(spec.identity, spec.genesis, keys, record_id)


def names_in(
    scope: IdentityScope, genesis: int, keys: tuple[str, ...], record_id: str
) -> tuple[str, ...]:
    """`identity_names` of a window with this scope, in a pipeline of this first window (ms)."""
    match scope:
        case IdentityScope.KEY:
            return tuple(_name(scope, genesis, (key, record_id)) for key in keys)
        case IdentityScope.PIPELINE:
            return (_name(scope, genesis, (record_id,)),)
        case _:
            return ()


def expires_of(spec: Spec, sent: int) -> int:
    """When (s since the epoch) an item may go whose event a message sent at `sent` (ms) brought.

    `identity_days` later no new message need meet it; and a message that is sent by then may still
    come as a copy for some weeks. `sent` is the queue's own time.
    """
    return sent // 1000 + (spec.identity_days + IDENTITY_COPIES_DAYS) * _DAY_SECONDS


def _name(scope: IdentityScope, genesis: int, parts: tuple[str, ...]) -> str:
    """A hash of the scope and of what is unique in it; no part can be read as two."""
    whole = "\0".join((str(genesis), str(scope), *map(_framed, parts)))
    return blake2b(whole.encode(), digest_size=_NAME_BYTES).hexdigest()


def _framed(part: str) -> str:
    return f"{len(part)}:{part}"
