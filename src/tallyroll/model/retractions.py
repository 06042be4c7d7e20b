"""Retractions: messages that take an event back, and the tombstones that they leave.

    ["tallyroll-retract", 1, {"key", "keys", "id", "index", "window" | "ts", "by", "why"}]

An array, since a release that knows no retractions rejects it as `not-an-object`, where it would
count a mapping. `keys` are all keys of an event of several; `index` is that of an event in the
packet `id`. Where the event is, its `window` or its time `ts` says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tallyroll.errors import Rejected
from tallyroll.limits import EVENT_KEYS_MAX, EXPANDED_BYTES_MAX, WHY_BYTES_MAX
from tallyroll.model.amounts import shown
from tallyroll.model.formats.fields import check_id, check_key, check_ts
from tallyroll.model.formats.json_texts import canonical, load_json
from tallyroll.model.tallies import Series
from tallyroll.model.windows import WindowId, is_window_id
from tallyroll.reasons import Reason

MARK = "tallyroll-retract"
VERSION = 1
TombstoneName = tuple[str, str, int | None]
"""A tombstone's name within its window: the key and the id of its record, and the index of the
event in a packet.
"""

_FIELDS = ("key", "keys", "id", "index", "window", "ts", "by", "why")


@dataclass(frozen=True, slots=True)
class Retraction:
    """What a message asks to take back: the event or packed event of this id under `key`, the least
    of its keys. Its window is `window`, or that of the time `ts` (ms).
    """

    key: str
    id: str
    other_keys: tuple[str, ...] = ()
    index: int | None = None
    window: WindowId | None = None
    ts: int | None = None
    by: str = ""
    why: str = ""

    @staticmethod
    def of(key: str, id: str, keys: Sequence[str] = (), **more: Any) -> Retraction:  # noqa: A002
        """The retraction of these fields. Raises Rejected for what is wrong with them."""
        given = {"key": key, "id": id, "keys": [*keys] or None, **more}
        fields = {name: of for name, of in given.items() if of is not None}
        return parse_retraction([MARK, VERSION, fields])

    @property
    def keys(self) -> tuple[str, ...]:
        """All its keys, ascending."""
        return (self.key, *self.other_keys)

    @property
    def name(self) -> TombstoneName:
        """The name of its tombstone under its own key."""
        return self.key, self.id, self.index

    @property
    def body(self) -> str:
        """The message's body."""
        fields: dict[str, Any] = {"key": self.key, "id": self.id, "by": self.by, "why": self.why}
        if self.other_keys:
            fields["keys"] = list(self.keys)
        for name in ("index", "window", "ts"):
            if (given := getattr(self, name)) is not None:
                fields[name] = given
        return canonical([MARK, VERSION, fields])


RetractionTarget = tuple[WindowId, str, str, int | None]
"""What a retraction is of: the window in which the event happened, a key of it, its id, and its
index in a packet.
"""


@dataclass(frozen=True, slots=True)
class Authorization:
    """An operator's word that an event may be retracted, by whom and why, since `at` (ms).

    `keys` are all keys of the event, ascending; empty if only that of the target. If its window was
    dropped, `proven` are the (events, amount, digest) of its record in the archive.
    """

    target: RetractionTarget
    by: str
    why: str
    at: int
    keys: tuple[str, ...] = ()
    proven: tuple[int, int, bytes] | None = None


@dataclass(frozen=True, slots=True)
class RetractionNote:
    """By whom an event was retracted and why; `at` (ms) is known if its window was sealed then."""

    by: str
    why: str
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What a retraction stores beside a record, on its shard: the record stays as it is.

    `n` events and `amount` (millionths) are taken from the record's `stripe` and `slot` (sixtieth);
    `digest` is the record's. `index` is that of the event in a packet.
    """

    key: str
    id: str
    shard: int
    ts: int
    n: int
    amount: int
    digest: bytes
    stripe: int
    slot: int
    by: str
    why: str
    index: int | None = None

    @property
    def name(self) -> TombstoneName:
        """Its name within its window."""
        return self.key, self.id, self.index

    @property
    def note(self) -> RetractionNote:
        """What it says of the retraction."""
        return RetractionNote(self.by, self.why)


@dataclass(frozen=True, slots=True)
class Decrement:
    """What tombstones take from one stripe of a key's tally: `n` events and `amount` (millionths),
    of these sixtieths.
    """

    key: str
    stripe: int
    n: int
    amount: int
    series: Series


def decrements_of(tombstones: Sequence[Tombstone]) -> tuple[Decrement, ...]:
    """The decrements of these tombstones, one per stripe, in the order of its first tombstone."""
    stripes: dict[tuple[str, int], list[Tombstone]] = {}
    for each in tombstones:
        stripes.setdefault((each.key, each.stripe), []).append(each)
    found = []
    for (key, stripe), group in stripes.items():
        series: Counter[int] = Counter()
        for each in group:
            series[each.slot] += each.n
        n, amount = sum(each.n for each in group), sum(each.amount for each in group)
        found.append(Decrement(key, stripe, n, amount, tuple(sorted(series.items()))))
    return tuple(found)


def is_retraction(body: Any) -> bool:
    """Whether a body's JSON value is a retraction, perhaps a malformed one."""
    return isinstance(body, list) and bool(body) and body[0] == MARK


def retraction_in(body: str) -> list[Any] | None:
    """The JSON value of a message's body, if it is a retraction, perhaps a malformed one. A
    retraction is the body itself: there is none in envelopes of other systems.
    """
    if body.startswith("{") or not body.lstrip().startswith("["):
        return None
    try:
        given = load_json(body, float)
    except Rejected:
        return None
    return given if is_retraction(given) else None


def parse_retraction(body: Any) -> Retraction:
    """The retraction in a body's JSON value. Raises Rejected (bad-retraction)."""
    match body:
        case [_, int(version), dict(fields)] if version == VERSION and version is not True:
            pass
        case [_, version, *_]:
            raise _bad(f"version {shown(version)}: this writer knows {VERSION}, with one object")
        case _:
            raise _bad("give a version and an object after the mark")
    if unknown := fields.keys() - _FIELDS:
        raise _bad(f"{shown(min(unknown))} is no field of it: give one of {', '.join(_FIELDS)}")
    record_id = check_id(fields.get("id"))
    if record_id is None:
        raise _bad("it needs an id: that of the event, or of its message")
    keys = _keys(fields)
    return Retraction(
        keys[0],
        record_id,
        keys[1:],
        index=_index(fields.get("index")),
        **_place(fields),
        by=_text(fields, "by"),
        why=_text(fields, "why"),
    )


def _keys(fields: dict[str, Any]) -> tuple[str, ...]:
    key, given = check_key(fields.get("key")), fields.get("keys")
    if given is None:
        return (key,)
    if not isinstance(given, list) or not 1 <= len(given) <= EVENT_KEYS_MAX:
        raise _bad(f"keys {shown(given)}: must be an array of 1 to {EVENT_KEYS_MAX} keys")
    keys = tuple(sorted({check_key(each) for each in given}))
    if key not in keys:
        raise _bad(f"key {shown(key)} is not one of its keys: give all of them, with this one")
    return keys


def _index(given: Any) -> int | None:
    # It is part of the sort key of a tombstone. No packet has more events than bytes.
    if given is None or (type(given) is int and 0 <= given <= EXPANDED_BYTES_MAX):
        return given
    raise _bad(f"index {shown(given)}: must be a whole number from 0 to {EXPANDED_BYTES_MAX}")


def _place(fields: dict[str, Any]) -> dict[str, Any]:
    window, ts = fields.get("window"), check_ts(fields.get("ts"), "ts")
    if (window is None) == (ts is None):
        raise _bad("give either the window or the ts of the event")
    if window is None:
        return {"ts": ts}
    if not isinstance(window, str) or not is_window_id(window):
        raise _bad(f"window {shown(window)}: an id looks like 20261120T080000Z")
    return {"window": window}


def _text(fields: dict[str, Any], name: str) -> str:
    given = fields.get(name, "")
    try:
        if isinstance(given, str) and len(given.encode()) <= WHY_BYTES_MAX:
            return given
    except UnicodeEncodeError:
        raise _bad(f"{name} {shown(given)} holds a lone surrogate, which is not text") from None
    raise _bad(f"{name} {shown(given)}: must be a text of at most {WHY_BYTES_MAX} bytes")


def _bad(detail: str) -> Rejected:
    return Rejected(Reason.BAD_RETRACTION, detail)
