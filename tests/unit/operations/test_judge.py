"""The judge of histories, rule by rule: a history that holds, and one that breaks the rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.operations.probe import judge as judging
from tallyroll.operations.probe.history import (
    Fact,
    History,
    ProbeRead,
    ProbeVerdict,
    ReadRule,
    Share,
)
from tallyroll.operations.probe.judge import judge, make
from tests.harness.pipeline import HOUR, START

ONE = 1_000_000
OTHER = START + HOUR
Part = tuple[int, int, int]


def sent(number: int, at: int, *, start: int = START, n: int = 1, amount: int = ONE) -> Fact:
    return Fact((start, "k", f"e{number}"), n, amount, START + at)


def counted(record: Fact, at: int) -> Fact:
    return replace(record, at=START + at)


def read(
    began: int, ended: int, n: int, amount: int | None = None, *, client: str = "a", cache: int = 0
) -> ProbeRead:
    """A read of the first window alone, events of 1 unless said otherwise."""
    amount = n * ONE if amount is None else amount
    shares = (Share.of_window(START, n, amount),)
    times = START + began, START + ended
    return ProbeRead(client, "k", *times, n, amount, cache_ms=cache, shares=shares)


def of_parts(read_: ProbeRead, *parts: Part) -> ProbeRead:
    return replace(read_, shares=tuple(Share.of_window(*part) for part in parts))


def broken(verdict: ProbeVerdict) -> set[ReadRule]:
    return {finding.rule for finding in verdict.findings}


EVENTS = [sent(number, at=10 * number) for number in range(10)]


def history(*reads: ProbeRead, sure: int = 0) -> History:
    """Ten events, one every 10 ms; the first `sure` of them were counted 5 ms after each."""
    facts = [counted(record, 10 * number + 5) for number, record in enumerate(EVENTS[:sure])]
    return History(list(EVENTS), facts, list(reads))


def test_a_history_that_holds() -> None:
    reads = [read(20, 40, 2), read(20, 41, 5, client="b"), read(50, 60, 5), read(61, 99, 10)]
    verdict = judge(history(*reads, sure=2))
    assert verdict.findings == []
    assert verdict.judged[ReadRule.ABOVE] == 8, "each read's window, and all of it"
    assert verdict.judged[ReadRule.BACKWARDS] == 2 * (2 + 1)
    assert not verdict.undecided


def test_above_what_was_sent() -> None:
    assert not judge(history(read(0, 30, 4))).findings
    verdict = judge(history(read(0, 29, 4)))
    assert broken(verdict) == {ReadRule.ABOVE}
    finding = verdict.shortest(ReadRule.ABOVE)
    assert finding
    assert "4 events, sum 4; sent by then: 3 events" in finding.text


def test_a_record_that_is_sent_twice_has_room_once() -> None:
    twice = history(read(0, 99, 11))
    twice.sent += [replace(record, at=record.at + 1) for record in EVENTS]
    assert broken(judge(twice)) == {ReadRule.ABOVE}
    twice.reads = [read(0, 90, 10)]
    assert not judge(twice).findings, "what was sent again was sent before, too"


def test_below_what_was_surely_counted() -> None:
    assert not judge(history(read(25, 30, 2), sure=3)).findings, "the third may come too late"
    assert broken(judge(history(read(26, 30, 2), sure=3))) == {ReadRule.BELOW}


def test_backwards() -> None:
    assert not judge(history(read(50, 60, 5), read(60, 70, 4, client="b"))).findings, "at once"
    verdict = judge(history(read(50, 60, 5), read(61, 70, 4, client="b")))
    assert broken(verdict) == {ReadRule.BACKWARDS}
    finding = verdict.shortest(ReadRule.BACKWARDS)
    assert finding
    assert (finding.first, finding.last) == (START + 50, START + 70)
    assert finding.reads == 2


def test_backwards_past_other_reads() -> None:
    """Some readers see much, and one that comes after all of them sees less."""
    reads = [read(n, 60 + n, 5, client=str(n)) for n in range(4)]
    late = read(99, 100, 4, client="late")
    assert broken(judge(history(*reads, late))) == {ReadRule.BACKWARDS}
    assert broken(judge(history(*reads, read(70, 71, 5), late))) == {ReadRule.BACKWARDS}


def test_a_sum_that_goes_back_while_the_events_stay() -> None:
    records = [sent(0, 0, amount=ONE), sent(1, 0, amount=5 * ONE)]
    reads = [read(1, 2, 1, 5 * ONE), read(3, 4, 1, ONE)]
    assert broken(judge(History(records, [], reads))) == {ReadRule.BACKWARDS}
    assert not judge(History(records, [], [reads[0], read(3, 4, 2, 6 * ONE)])).findings


def test_a_record_that_was_surely_there_does_not_come_again() -> None:
    """Both reads could be of some set of records, but not of one set and more."""
    records = [sent(n, 0, amount=value * ONE) for n, value in enumerate((1, 5, 9, -3))]
    facts = [counted(records[0], 1)]
    grown = [read(2, 3, 2, 6 * ONE), read(4, 5, 3, 7 * ONE)]
    for one in grown:
        assert not judge(History(records, facts, [one])).findings
    assert broken(judge(History(records, facts, grown))) == {ReadRule.BACKWARDS}


def test_a_torn_pair() -> None:
    records = [sent(n, 0, amount=10**n * ONE) for n in range(5)]
    assert not judge(History(records, [], [read(1, 2, 2, 1010 * ONE)])).findings
    for n, amount in ((1, 1010 * ONE), (3, 1010 * ONE), (2, 1011 * ONE), (0, ONE), (2, ONE // 2)):
        assert broken(judge(History(records, [], [read(1, 2, n, amount)]))) == {ReadRule.TORN}


def test_a_packet_counts_whole() -> None:
    packet = sent(0, 0, n=5, amount=5 * ONE)
    assert not judge(History([packet], [], [read(1, 2, 0), read(3, 4, 5)])).findings
    assert broken(judge(History([packet], [], [read(1, 2, 3)]))) == {ReadRule.TORN}


def test_what_is_surely_counted_is_in_the_sum() -> None:
    """One event is in the answer, but not the one that must be."""
    records = [sent(0, 0, amount=ONE), sent(1, 0, amount=5 * ONE)]
    facts = [counted(records[0], 1)]
    assert not judge(History(records, facts, [read(2, 3, 1, ONE)])).findings
    assert broken(judge(History(records, facts, [read(2, 3, 1, 5 * ONE)]))) == {ReadRule.TORN}


def test_a_cached_read_may_be_so_old_and_no_older() -> None:
    fresh = read(20, 30, 3)
    assert not judge(history(fresh, read(80, 81, 2, client="b", cache=50))).findings
    assert broken(judge(history(fresh, read(81, 82, 2, client="b", cache=50)))) == {ReadRule.STALE}
    assert broken(judge(history(read(81, 82, 2, cache=50), sure=4))) == {ReadRule.STALE}


def test_a_read_after_a_cached_one_holds_what_that_held() -> None:
    assert broken(judge(history(read(50, 60, 5, cache=40), read(61, 70, 4)))) == {
        ReadRule.BACKWARDS
    }


def test_a_client_never_sees_its_own_answers_shrink() -> None:
    shrunk = read(61, 62, 4, cache=50)
    assert not judge(history(read(50, 60, 5, client="b"), shrunk)).findings
    assert broken(judge(history(read(50, 60, 5), shrunk))) == {ReadRule.BACKWARDS}
    assert not judge(history(read(50, 60, 5), replace(shrunk, asked="by window"))).findings


def test_the_time_of_an_answer() -> None:
    cached = read(50, 60, 0, cache=20)
    for as_of, fine in ((29, False), (30, True), (60, True), (61, False)):
        verdict = judge(history(replace(cached, as_of=START + as_of)))
        assert broken(verdict) == (set() if fine else {ReadRule.STALE})
    assert broken(judge(history(replace(read(50, 60, 0), as_of=START + 49)))) == {ReadRule.STALE}


def test_a_window_that_is_lost() -> None:
    records = [*EVENTS, sent(10, 0, start=OTHER)]
    facts = [counted(record, 95) for record in records]
    whole = of_parts(read(96, 99, 11), (START, 10, 10 * ONE), (OTHER, 1, ONE))
    assert not judge(History(records, facts, [whole])).findings
    lost = read(96, 99, 10)
    assert broken(judge(History(records, facts, [lost]))) == {ReadRule.BELOW}
    named = replace(lost, missing=(OTHER,), complete=False)
    assert not judge(History(records, facts, [named])).findings
    within = replace(lost, since=START, until=OTHER)
    assert not judge(History(records, facts, [within])).findings


def test_what_is_read_of_a_part_is_judged_like_the_whole() -> None:
    records = [*EVENTS, sent(10, 0, start=OTHER)]
    parts = (START, 10, 10 * ONE), (OTHER, 2, 2 * ONE)
    incomplete = replace(of_parts(read(96, 99, 12), *parts), missing=(1,), complete=False)
    verdict = judge(History(records, [], [incomplete]))
    assert [finding.text.count("20261120T090000Z") for finding in verdict.findings] == [1, 0]
    assert broken(verdict) == {ReadRule.ABOVE}


def test_a_day_takes_the_place_of_its_windows() -> None:
    records = [*EVENTS, sent(10, 0, start=OTHER)]
    facts = [counted(record, 95) for record in records]
    day = Share(START - 8 * HOUR, START + 16 * HOUR, 11, 11 * ONE)
    rolled = replace(read(96, 99, 11), shares=(day,))
    assert not judge(History(records, facts, [rolled])).findings
    short = replace(rolled, n=10, amount=10 * ONE, shares=(replace(day, n=10, amount=10 * ONE),))
    assert broken(judge(History(records, facts, [short]))) == {ReadRule.BELOW}
    beside = replace(rolled, shares=(day, Share.of_window(OTHER, 0, 0)))
    assert ReadRule.PARTS in broken(judge(History(records, facts, [beside])))


@pytest.mark.parametrize(
    "wrong",
    [
        replace(read(96, 99, 2), n=3, amount=3 * ONE),
        replace(read(96, 99, 2), amount=ONE),
        of_parts(read(96, 99, 2), (START, 1, ONE), (START, 1, ONE)),
        replace(read(96, 99, 2), since=OTHER),
        replace(read(96, 99, 2), until=START),
        replace(read(96, 99, 2), missing=(START,), complete=False),
        replace(read(96, 99, 2), complete=False),
        replace(read(96, 99, 2), missing=(OTHER,)),
    ],
)
def test_parts_that_do_not_make_the_whole(wrong: ProbeRead) -> None:
    assert ReadRule.PARTS in broken(judge(history(wrong)))


def test_a_lower_bound_without_parts() -> None:
    """As `top` gives it when it runs out of time."""
    some = replace(read(96, 99, 3), shares=(), parted=False, complete=False)
    assert not judge(history(some, sure=9)).findings
    assert broken(judge(history(replace(some, n=11, amount=11 * ONE)))) == {ReadRule.ABOVE}
    assert broken(judge(history(replace(some, amount=ONE)))) == {ReadRule.TORN}


def test_the_shortest_evidence() -> None:
    reads = [read(10, 20, 9), read(30, 31, 9), read(50, 90, 11)]
    verdict = judge(history(*reads))
    finding = verdict.shortest(ReadRule.ABOVE)
    assert finding
    assert finding.first == START + 30
    assert verdict.shortest(ReadRule.STALE) is None


def test_a_record_is_counted_after_it_was_sent() -> None:
    with pytest.raises(ValueError, match="was not sent by then"):
        judge(History([sent(0, 10)], [counted(sent(0, 10), 9)], []))


def test_records_that_make_a_sum() -> None:
    kinds = {(1, 3): 4, (5, 15): 2, (1, -2): 3, (2, 0): 1}
    assert make(kinds, 0, 0)
    assert make(kinds, 19, 4 * 3 + 2 * 15 - 3 * 2)
    assert make(kinds, 7, 3 - 2 + 15)
    assert make(kinds, 3, 3)
    assert make(kinds, 20, 0) is False
    assert make(kinds, 1, 1) is False
    assert make({(1, 0): 10**6}, 10**5, 0)
    assert make({(1, 0): 3}, 2, 5) is False


def test_a_search_that_takes_too_long_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "STEPS_MAX", 20)
    records = [sent(n, 0, amount=n * n * ONE + n) for n in range(30)]
    verdict = judge(History(records, [], [read(1, 2, 15, 2_500 * ONE + 201)]))
    assert verdict.findings == []
    assert verdict.undecided[ReadRule.TORN] == verdict.judged[ReadRule.TORN] == 2
