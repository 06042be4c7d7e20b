"""The spool: a file from which the next start sends what was not confirmed, under the same ids.

Each line is a CRC-32 of the rest in hex, and a record of the message with that number:

    o NUMBER [id, key, t0]     a packet was opened
    e NUMBER ENTRY             it got this entry
    p NUMBER [id, key, t0, EVENTS, body]   a whole packet, in a file that was written anew
    s NUMBER [id, key, body]   a single event
    f NUMBER WHY               it is given up, and not reported yet
    d NUMBER                   it is done: confirmed, or reported as not sent

An event is in the file before `send` returns, and before its packet is sent. So a packet that may
be in the queue has all its lines here, and is made again with the same content. A process that is
killed leaves at most a torn last line, of an event that was not accepted yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from zlib import crc32

from tallyroll.client.receipts import Outgoing

COMPACT_BYTES = 1024 * 1024  # a file of which nothing is wanted is emptied from this size on
REWRITE_BYTES = 64 * 1024 * 1024  # from this size on, a file with much that is done is written anew


class Journal(Protocol):
    """A file of bytes that survives the process. Every method may raise OSError."""

    def read(self) -> bytes:
        """All its bytes."""

    def append(self, data: bytes) -> None:
        """Add bytes at its end. If it raises, it has taken none of them."""

    def replace(self, data: bytes) -> None:
        """Have these bytes in the place of all others, at once."""

    def keep(self, data: bytes) -> None:
        """Put bytes that it cannot hold beside it, for repair by hand."""

    def close(self) -> None:
        """Let another process open it."""


@dataclass(slots=True)
class Recovered:
    """The messages of a spool that are not done, in their order: those to send, and those that were
    given up, with the reason. `damaged` lines are neither whole nor the torn end of the file.
    """

    messages: list[Outgoing] = field(default_factory=list)
    given_up: list[tuple[Outgoing, str]] = field(default_factory=list)
    damaged: list[bytes] = field(default_factory=list)
    next_number: int = 0


class Spool:
    """Writes the records of a producer's messages, and reads those of an earlier process."""

    def __init__(
        self,
        journal: Journal,
        *,
        compact_bytes: int = COMPACT_BYTES,
        rewrite_bytes: int = REWRITE_BYTES,
    ) -> None:
        self._journal = journal
        self._bytes = 0
        self._compact_bytes = compact_bytes
        self._rewrite_bytes = self._rewrite_at = rewrite_bytes

    def recover(self) -> Recovered:
        """Read what an earlier process left, cut off a torn end, and put damaged lines beside the
        file. Raises OSError.
        """
        data = self._journal.read()
        whole = data.rfind(b"\n") + 1
        found = _Reading()
        for line in data[:whole].split(b"\n")[:-1]:
            found.read(line)
        recovered = found.result()
        if recovered.damaged:
            self._journal.keep(b"".join(line + b"\n" for line in recovered.damaged))
        if whole < len(data) or recovered.damaged:
            self.rewrite(recovered.messages, recovered.given_up)
        else:
            self._bytes = whole
        return recovered

    def open(self, message: Outgoing, entry: str) -> None:
        """Record a new packet with its first entry. Raises OSError."""
        head = json.dumps([message.id, message.key, message.t0])
        number = message.number
        self._append(_line(f"o {number} {head}") + _line(f"e {number} {entry}"))

    def add(self, message: Outgoing, entry: str) -> None:
        """Record another entry of a packet. Raises OSError."""
        self._append(_line(f"e {message.number} {entry}"))

    def single(self, message: Outgoing) -> None:
        """Record a single event. Raises OSError."""
        head = json.dumps([message.id, message.key, message.body])
        self._append(_line(f"s {message.number} {head}"))

    def settle(self, done: Iterable[int], given_up: Iterable[tuple[Outgoing, str]] = ()) -> None:
        """Record that messages are done, and that others are not sent any more, and why.

        Raises OSError; then none of this is recorded.
        """
        parts = [_line(f"d {number}") for number in done]
        parts += [_failed(message, why) for message, why in given_up]
        self._append(b"".join(parts))

    def compact(self, waiting: Iterable[Outgoing], held: int) -> None:
        """Shorten the file if most of it is done; `held` is the size of what waits.

        Raises OSError.
        """
        if not held and self._bytes >= self._compact_bytes:
            self.rewrite(())
        elif self._bytes >= self._rewrite_at and self._bytes > 4 * held:
            self.rewrite(waiting)
            self._rewrite_at = max(self._rewrite_bytes, 2 * self._bytes)

    def rewrite(
        self, waiting: Iterable[Outgoing], given_up: Sequence[tuple[Outgoing, str]] = ()
    ) -> None:
        """Have only these messages in the file. Raises OSError."""
        parts = []
        for message in (*waiting, *(message for message, _ in given_up)):
            number = message.number
            if message.t0 is None:
                head = json.dumps([message.id, message.key, message.body])
                parts.append(_line(f"s {number} {head}"))
                continue
            if message.body:
                whole = [message.id, message.key, message.t0, message.events, message.body]
                parts.append(_line(f"p {number} {json.dumps(whole)}"))
                continue
            parts.append(_line(f"o {number} {json.dumps([message.id, message.key, message.t0])}"))
            parts += [_line(f"e {number} {entry}") for entry in message.entries]
        parts += [_failed(message, why) for message, why in given_up]
        data = b"".join(parts)
        self._journal.replace(data)
        self._bytes = len(data)

    def close(self) -> None:
        """Close the file. Raises OSError."""
        self._journal.close()

    def _append(self, data: bytes) -> None:
        self._journal.append(data)
        self._bytes += len(data)


class _Reading:
    """The records that were read so far."""

    def __init__(self) -> None:
        self._messages: dict[int, Outgoing] = {}
        self._damaged: list[bytes] = []
        self._highest = -1
        self._done: set[int] = set()
        self._given_up: dict[int, str] = {}

    def read(self, line: bytes) -> None:
        """Take a line; remember it if it is damaged."""
        try:
            text = line.decode()
            checksum, _, record = text.partition(" ")
            if int(checksum, 16) != crc32(record.encode()) or not self._record(record):
                self._damaged.append(line)
        except (ValueError, TypeError):
            self._damaged.append(line)

    def _record(self, record: str) -> bool:
        kind, _, rest = record.partition(" ")
        name, _, content = rest.partition(" ")
        number = int(name)
        self._highest = max(self._highest, number)
        if kind == "d":
            self._messages.pop(number, None)
            self._done.add(number)
            return True
        if kind == "f":
            self._given_up[number] = json.loads(content)
            return True
        if kind == "e":
            message = self._messages.get(number)
            if message:
                message.entries.append(content)
                message.events += 1
            return message is not None or number in self._done
        if kind not in ("o", "p", "s"):
            return False
        record_id, key, *given = json.loads(content)
        message = Outgoing(number, record_id, key, 0.0, recovered=True)
        if kind == "o":
            (message.t0,) = given
        elif kind == "p":
            message.t0, message.events, message.body = given
        else:
            (message.body,), message.events = given, 1
        self._messages[number] = message
        return True

    def result(self) -> Recovered:
        """What was read."""
        whole = [message for message in self._messages.values() if message.events]
        reasons = self._given_up
        return Recovered(
            [message for message in whole if message.number not in reasons],
            [(each, reasons[each.number]) for each in whole if each.number in reasons],
            self._damaged,
            self._highest + 1,
        )


def _failed(message: Outgoing, why: str) -> bytes:
    return _line(f"f {message.number} {json.dumps(why)}")


def _line(record: str) -> bytes:
    data = record.encode()
    return b"%08x %b\n" % (crc32(data), data)
