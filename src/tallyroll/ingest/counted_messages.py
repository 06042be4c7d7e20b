"""What a writer remembers between batches: the messages whose records it knows to be stored.

A message that comes again to the same writer then needs no note, no read and no transaction. It is
recognized by its message id, before its body is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from tallyroll.model.messages import Message, RedriveMark

REMEMBERED_MAX = 50_000
"""Messages that are remembered: some 15 MB, of the 1.7 GB of the function."""

_SHORT = 64  # characters of a body that is kept itself
_Content = tuple[int, RedriveMark | None, str | bytes]


@dataclass(eq=False, slots=True)
class CountedMessages:
    """The last messages that were counted or found counted, at most `most` and at least half of
    that; one per writer.

    A message's id, sent time and body are the same at each delivery. The memory has the
    id and the rest, which decides how the message counts; of a long body it has a digest. A
    delivery that differs in any of this is not known.

    There are two generations. When the younger is full, the older is forgotten: a dictionary that
    drops its oldest entry each time would be slower.
    """

    most: int = REMEMBERED_MAX
    _younger: dict[str, _Content] = field(default_factory=dict, init=False)
    _older: dict[str, _Content] = field(default_factory=dict, init=False)

    def __contains__(self, message: Message) -> bool:
        """Whether this message was kept, and is not forgotten yet."""
        known = self._younger.get(message.id, self._older.get(message.id))
        return known is not None and known == _content(message)

    def keep(self, messages: Iterable[Message]) -> None:
        """Remember messages whose records are surely stored."""
        for message in messages:
            if len(self._younger) >= self.most // 2:
                self._younger, self._older = {}, self._younger
            self._younger[message.id] = _content(message)


def _content(message: Message) -> _Content:
    body: str | bytes = message.body
    if len(body) > _SHORT:
        text = message.body.encode(errors="surrogatepass")
        body = blake2b(text, digest_size=16).digest()
    return message.sent, message.redrive, body
