"""The spool gives back what was accepted, wherever the process was killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallyroll.adapters.journal import FileJournal
from tallyroll.client.receipts import Message
from tallyroll.client.spool import Recovered, Spool
from tallyroll.errors import UsageError


class Bytes:
    """A journal in memory."""

    def __init__(self, data: bytes = b"") -> None:
        self.data = data

    def read(self) -> bytes:
        return self.data

    def append(self, data: bytes) -> None:
        self.data += data

    def replace(self, data: bytes) -> None:
        self.data = data

    def close(self) -> None:
        pass


def filled() -> tuple[Bytes, list[tuple[int, int]]]:
    """A spool of two packets and a single event; and (bytes, events) after each of its calls."""
    journal = Bytes()
    spool = Spool(journal)
    after: list[tuple[int, int]] = [(0, 0)]
    first, second = Message(0, "p0", "k", 0.0, 60_000), Message(1, "p1", "\u00fc\n", 0.0, 0)
    spool.open(first, "[1]")
    after.append((len(journal.data), 1))
    spool.add(first, '[2,1,{"a":"\u00fc"}]')
    after.append((len(journal.data), 2))
    spool.open(second, "[3]")
    after.append((len(journal.data), 3))
    spool.single(Message(2, "own", "k", 0.0, body='{"id":"own"}'))
    after.append((len(journal.data), 4))
    spool.add(first, "[4]")
    after.append((len(journal.data), 5))
    return journal, after


def recovered(data: bytes) -> Recovered:
    return Spool(Bytes(data)).recover()


def test_a_kill_at_any_byte_loses_only_what_was_not_accepted() -> None:
    journal, after = filled()
    for killed in range(len(journal.data) + 1):
        accepted = max(events for size, events in after if size <= killed)
        found = recovered(journal.data[:killed])
        assert found.damaged == []
        assert sum(message.events for message in found.messages) == accepted


def test_what_is_recovered_is_what_was_spooled() -> None:
    journal, _ = filled()
    first, second, single = recovered(journal.data).messages
    assert (first.id, first.key, first.t0, first.events) == ("p0", "k", 60_000, 3)
    assert first.entries == ["[1]", '[2,1,{"a":"\u00fc"}]', "[4]"]
    assert (second.key, single.body) == ("\u00fc\n", '{"id":"own"}')
    assert recovered(journal.data).next_number == 3


def test_a_torn_end_is_cut_off_before_more_is_written() -> None:
    journal, _ = filled()
    journal.data = journal.data[:-3]
    spool = Spool(journal)
    spool.add(spool.recover().messages[0], "[5]")
    (first, *_) = recovered(journal.data).messages
    assert first.entries[-1] == "[5]"
    assert recovered(journal.data).damaged == []


def test_what_is_done_is_not_recovered_and_what_was_given_up_is_told() -> None:
    journal, _ = filled()
    spool = Spool(journal)
    messages = spool.recover().messages
    spool.settle([messages[0].number], [(messages[1], "no such queue")])
    found = spool.recover()
    assert [message.id for message in found.messages] == ["own"]
    assert [(message.id, why) for message, why in found.given_up] == [("p1", "no such queue")]


def test_every_flipped_byte_is_noticed() -> None:
    journal, _ = filled()
    for place in range(len(journal.data) - 1):
        data = bytearray(journal.data)
        data[place] ^= 0x04
        found = recovered(bytes(data))
        assert found.damaged, place


def test_a_file_of_which_nothing_waits_is_emptied_and_one_with_a_rest_is_written_anew() -> None:
    journal, _ = filled()
    spool = Spool(journal, compact_bytes=10, rewrite_bytes=10)
    messages = spool.recover().messages
    spool.compact(messages, held=1)
    assert [message.id for message in recovered(journal.data).messages] == ["p0", "p1", "own"]
    spool.compact([], held=0)
    assert journal.data == b""


def test_a_file_has_one_producer_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    journal = FileJournal(path)
    with pytest.raises(UsageError, match="another producer has it open"):
        FileJournal(path)
    journal.append(b"one\n")
    journal.replace(b"two\n")
    journal.append(b"three\n")
    journal.close()
    again = FileJournal(path)
    assert again.read() == b"two\nthree\n"
    again.close()
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(UsageError, match="No such file"):
        FileJournal(tmp_path / "absent" / "spool")
