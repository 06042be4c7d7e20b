"""The spool gives back what was accepted, wherever the process was killed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch
from zlib import crc32

import pytest

from tallyroll.adapters.journal import FileJournal
from tallyroll.client.receipts import Outgoing
from tallyroll.client.spool import Recovered, Spool
from tallyroll.errors import UsageError
from tests.unit.client.stepped import Bytes


def filled() -> tuple[Bytes, list[tuple[int, int]]]:
    """A spool of two packets and a single event; and (bytes, events) after each of its calls."""
    journal = Bytes()
    spool = Spool(journal)
    after: list[tuple[int, int]] = [(0, 0)]
    first, second = (Outgoing(0, "p0", "k", 0.0, 60_000), Outgoing(1, "p1", "\u00fc\n", 0.0, 0))
    spool.open(first, "[1]")
    after.append((len(journal.data), 1))
    spool.add(first, '[2,1,{"a":"\u00fc"}]')
    after.append((len(journal.data), 2))
    spool.open(second, "[3]")
    after.append((len(journal.data), 3))
    spool.single(Outgoing(2, "own", "k", 0.0, body='{"id":"own"}'))
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
        assert all(message.events for message in found.messages), "an empty packet cannot count"


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
    with patch.object(journal, "replace") as replace:
        spool.compact(messages, held=len(journal.data))  # it would not get shorter
        usual = Spool(journal)
        usual.recover()
        usual.compact([], held=0)  # it is short
    assert replace.call_count == 0
    spool.compact(messages, held=1)
    assert [message.id for message in recovered(journal.data).messages] == ["p0", "p1", "own"]
    spool.compact([], held=0)
    assert journal.data == b""


def test_a_file_that_writing_anew_did_not_shorten_is_not_written_anew_each_time() -> None:
    journal = Bytes()
    spool = Spool(journal, rewrite_bytes=100)
    waiting = [Outgoing(number, "p", "k", 0.0, body="x" * 100) for number in range(3)]
    for message in waiting:
        spool.single(message)
    with patch.object(journal, "replace", wraps=journal.replace) as replace:
        for _ in range(5):
            spool.compact(waiting, held=1)
        assert replace.call_count == 1
        for message in waiting:
            spool.single(message)
        spool.compact(waiting, held=1)
        assert replace.call_count == 2


def test_a_file_that_became_short_is_not_written_anew_before_it_is_long_again() -> None:
    journal = Bytes()
    spool = Spool(journal, rewrite_bytes=1_000)
    one, other = (Outgoing(number, "p", "k", 0.0, body="x" * 400) for number in range(2))
    spool.single(one)
    spool.single(other)
    spool.settle([0])
    spool.single(one)
    spool.compact([], held=1)
    assert journal.data == b""
    spool.single(one)
    spool.single(other)
    with patch.object(journal, "replace") as replace:
        spool.compact([one, other], held=1)
    assert replace.call_count == 0


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
    for file in (path, Path(f"{path}.lock")):
        assert file.stat().st_mode & 0o077 == 0
    with pytest.raises(UsageError, match="No such file"):
        FileJournal(tmp_path / "absent" / "spool")


def test_a_file_that_cannot_be_opened_is_not_left_locked(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    path.mkdir()
    with pytest.raises(UsageError, match="Is a directory"):
        FileJournal(path)
    path.rmdir()
    FileJournal(path).close()


def test_what_a_killed_process_left_of_a_new_file_gets_into_none(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    Path(f"{path}.new").write_bytes(b"one\ntwo\n")
    file = FileJournal(path)
    file.replace(b"three\n")
    assert file.read() == b"three\n"
    file.close()


def test_a_message_whose_packet_is_closed_is_written_anew_with_its_body() -> None:
    journal = Bytes()
    closed = Outgoing(7, "p7", "k", 0.0, 60_000, body='{"id":"p7"}', events=3)
    Spool(journal).rewrite([closed])
    (found,) = recovered(journal.data).messages
    assert (found.id, found.t0, found.body, found.events) == ("p7", 60_000, '{"id":"p7"}', 3)
    assert recovered(journal.data).next_number == 8


def test_damaged_lines_are_kept_for_repair() -> None:
    journal, _ = filled()
    good = journal.data
    journal.data = b"no line\n" + good
    assert Spool(journal).recover().damaged == [b"no line"]
    assert journal.kept == b"no line\n"
    assert sorted(journal.data.split(b"\n")) == sorted(good.split(b"\n"))
    Spool(journal).recover()
    assert journal.kept == b"no line\n"


def test_entries_of_a_packet_whose_beginning_is_damaged_are_kept_too() -> None:
    """They are whole, but belong to no packet: only a repair by hand finds their events again."""
    journal, _ = filled()
    lines = journal.data.splitlines(keepends=True)
    lines[0] = b"x" + lines[0]
    journal.data = b"".join(lines)
    found = Spool(journal).recover()
    assert [message.id for message in found.messages] == ["p1", "own"]
    assert journal.kept == lines[0] + lines[1] + lines[2] + lines[6]


def test_a_number_that_was_given_up_is_not_used_again() -> None:
    """Else `done` of the one would take the other's lines with it."""
    journal, _ = filled()
    spool = Spool(journal)
    messages = spool.recover().messages
    spool.settle([0, 1], [(messages[2], "why")])
    assert recovered(journal.data).next_number == 3
    spool.settle([2])
    assert recovered(journal.data).next_number == 3


def test_a_late_entry_of_what_is_done_is_no_damage() -> None:
    journal, _ = filled()
    spool = Spool(journal)
    first = spool.recover().messages[0]
    spool.settle([first.number])
    spool.add(first, "[5]")
    assert recovered(journal.data).damaged == []


def test_what_was_given_up_outlives_damage() -> None:
    journal, _ = filled()
    spool = Spool(journal)
    spool.settle([], [(spool.recover().messages[1], "why")])
    journal.data += b"no line\n"
    for _ in range(2):
        assert [why for _, why in Spool(journal).recover().given_up] == ["why"]


def test_a_line_after_two_failed_writes_stands_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first leaves a stump that cannot be cut off, the second is cut off to the stump."""
    file = FileJournal(tmp_path / "spool")
    file.append(b"one\n")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", _half_of(os.write))
        with monkeypatch.context() as worse:
            worse.setattr(os, "ftruncate", _cannot)
            with pytest.raises(OSError, match="No space left"):
                file.append(b"two\n")
        with pytest.raises(OSError, match="No space left"):
            file.append(b"three\n")
    file.append(b"four\n")
    assert file.read() == b"one\ntw!\nfour\n"
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", _half_of(os.write))
        patch.setattr(os, "ftruncate", _cannot)
        with pytest.raises(OSError, match="No space left"):
            file.append(b"five\n")
    file.replace(b"six\n")
    file.append(b"seven\n")
    assert file.read() == b"six\nseven\n"
    file.close()


def _half_of(write: Callable[[int, Any], int]) -> Callable[[int, Any], int]:
    def full(to: int, data: Any) -> int:
        if len(data) > 2:
            return write(to, data[:2])
        raise OSError(28, "No space left on device")

    return full


def _cannot(*_: object) -> None:
    raise OSError(5, "Input/output error")


@pytest.mark.parametrize("call", ["open", "fsync", "fchmod"])
def test_a_replace_that_fails_leaves_the_file_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "spool"
    file = FileJournal(path)
    file.append(b"one\n")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, _cannot)
        with pytest.raises(OSError, match="Input/output"):
            file.replace(b"")
    foreign = os.open(tmp_path / "foreign", os.O_RDWR | os.O_CREAT)
    file.append(b"two\n")
    os.close(foreign)
    assert file.read() == b"one\ntwo\n"
    assert (tmp_path / "foreign").read_bytes() == b""
    file.replace(b"three\n")
    file.append(b"four\n")
    assert file.read() == b"three\nfour\n"
    file.keep(b"five\n")
    file.keep(b"six\n")
    damaged = Path(f"{path}.damaged")
    assert damaged.read_bytes() == b"five\nsix\n"
    assert damaged.stat().st_mode & 0o077 == 0
    file.close()


def test_a_file_that_is_replaced_again_and_again_keeps_no_descriptor_open(tmp_path: Path) -> None:
    file = FileJournal(tmp_path / "spool")
    before = [*Path("/dev/fd").iterdir()]
    for _ in range(5):
        file.replace(b"")
        with pytest.raises(TypeError):
            file.replace("no bytes")  # type: ignore[arg-type]
    assert len([*Path("/dev/fd").iterdir()]) == len(before)
    file.close()
    assert len([*Path("/dev/fd").iterdir()]) == len(before) - 2, "the file and its lock"


@pytest.mark.parametrize("record", [b"x 0 of a later version", b"o 0 5", b"s 0 {}", b"f 0 no"])
def test_a_record_of_another_kind_is_damage(record: bytes) -> None:
    data = b"%08x %b\n" % (crc32(record), record)
    assert recovered(data).damaged == [data[:-1]]


def test_an_append_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = FileJournal(tmp_path / "spool")
    file.append(b"one\n")
    written = os.write

    def full(to: int, data: memoryview) -> int:
        if len(data) > 2:
            return written(to, data[:2])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            file.append(b"two\n")
    assert file.read() == b"one\n"

    def cannot(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        patch.setattr(os, "ftruncate", cannot)
        with pytest.raises(OSError, match="No space left"):
            file.append(b"three\n")
    assert file.read() == b"one\nthre"
    file.append(b"four\n")  # on a line of its own
    file.append(b"five\n")
    assert file.read() == b"one\nthre!\nfour\nfive\n"
    file.close()


def test_a_refused_line_that_only_lacks_its_end_is_not_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = FileJournal(tmp_path / "spool")
    spool = Spool(file)
    message = Outgoing(0, "p0", "k", 0.0, 60_000)
    spool.open(message, "[1]")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", _all_but_the_end_of(os.write))
        patch.setattr(os, "ftruncate", _cannot)
        with pytest.raises(OSError, match="No space left"):
            spool.add(message, "[2]")
    spool.add(message, "[3]")
    file.close()
    found = Spool(FileJournal(tmp_path / "spool")).recover()
    assert [each.entries for each in found.messages] == [["[1]", "[3]"]]


def _all_but_the_end_of(write: Callable[[int, Any], int]) -> Callable[[int, Any], int]:
    def full(to: int, data: Any) -> int:
        if len(data) > 1:
            return write(to, bytes(data)[:-1])
        raise OSError(28, "No space left on device")

    return full
