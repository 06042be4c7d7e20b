"""What every totals table promises of corrections: exactly once, and found beside the totals."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from tallyroll.errors import ProofMismatch, Throttled
from tallyroll.limits import EVENT_KEYS_MAX, LISTING_BUCKETS
from tallyroll.model.totals import Correction, Corrections, Listed, PeriodTotal, Total
from tallyroll.model.windows import window_id
from tallyroll.ports.store import Answer, Element
from tests.contract.engines import HOUR, START, Engine

WINDOWS = [window_id(START + index * HOUR) for index in range(3)]
WINDOW, DAY, MONTH = WINDOWS[0], "day#20261120", "month#202611"
FINE = Element(Answer.FINE)
NONE = Corrections()


def event(
    id_: str, n: int = 1, amount: int = 2_500_000, *keys: str, window: str = WINDOW
) -> Correction:
    return Correction(
        window, id_, keys or ("a",), n, amount, id_.encode(), 1_795_163_400_000, "ann", "a test"
    )


def duplicate(of: Correction) -> Element:
    return Element(Answer.DUPLICATE, of.digest)


def put(engine: Engine, *keys: str, window: str = WINDOW) -> None:
    engine.totals.put([Total(key, window, 300, 10**9) for key in keys or ("a",)])


def by_window(engine: Engine, key: str = "a") -> dict[str, Corrections]:
    found = engine.totals.of_key(key, window_id(0), "99999999T999999Z")
    return {total.window: total.corrections for total in found}


def listed(engine: Engine, window: str = WINDOW, limit: int = 3) -> dict[str, Corrections]:
    rows: list[Listed] = []
    for bucket in range(1, LISTING_BUCKETS + 1):
        of_bucket: list[Listed] = []
        for page in engine.totals.corrected(window, bucket, "", limit):
            assert len(page) <= limit
            of_bucket += page
        assert of_bucket == sorted(of_bucket, key=lambda row: row.key)
        for row in of_bucket:
            [rest] = [list(engine.totals.corrected(window, bucket, row.key, 9))]
            assert [each for page in rest for each in page] == of_bucket[of_bucket.index(row) + 1 :]
        rows += of_bucket
    assert all((row.n, row.amount, row.epoch) == (0, 0, 0) for row in rows)
    return {row.key: row.corrections for row in rows}


def test_a_correction_is_added_once_and_its_total_stays(engine: Engine) -> None:
    put(engine)
    first, second = event("x"), event("y", 2, -(10**24))
    assert engine.totals.correct([first]) == [FINE]
    assert engine.totals.correct([first, second, second]) == [
        duplicate(first),
        FINE,
        duplicate(second),
    ]
    other = replace(first, digest=b"another", n=7, amount=1, by="bob")
    assert engine.totals.correct([other]) == [duplicate(first)]
    assert engine.totals.correct([]) == []

    sums = Corrections(3, 2_500_000 - 10**24)
    [total] = engine.totals.of_key("a", WINDOW, WINDOWS[1])
    assert total == Total("a", WINDOW, 300, 10**9, sums)
    assert total.retracted == (3, 2_500_000 - 10**24)
    assert engine.totals.of_window(WINDOW, ["a"]) == {"a": Total("a", WINDOW, 300, 10**9)}
    assert engine.totals.of_window(WINDOW, ["none", "a", "a"], corrected=True) == {"a": total}
    assert listed(engine) == {"a": sums}
    found = engine.totals.corrections("a", WINDOW)
    assert sorted(found, key=lambda each: each.id) == [first, second]
    assert engine.totals.corrections("a", WINDOWS[1]) == []
    put(engine)  # by a late run of the roller: it replaces nothing
    assert by_window(engine) == {WINDOW: sums}


def test_ids_packets_and_windows_are_told_apart(engine: Engine) -> None:
    put(engine)
    put(engine, window=WINDOWS[1])
    events = [
        event("x#3"),
        replace(event("x"), index=3),
        event("x"),
        replace(event("x"), index=31),
        replace(event("x#3"), index=1),
        event("x", window=WINDOWS[1]),
        replace(event("x", window=WINDOWS[1]), index=3),
    ]
    assert engine.totals.correct(events) == [FINE] * 7
    assert engine.totals.correct(events) == [duplicate(each) for each in events]
    assert by_window(engine) == {
        WINDOW: Corrections(5, 5 * 2_500_000),
        WINDOWS[1]: Corrections(2, 2 * 2_500_000),
    }
    for window in WINDOWS[:2]:
        found = engine.totals.corrections("a", window)
        assert len(found) == len(set(found))
        assert set(found) == {each for each in events if each.window == window}


def test_an_event_of_several_keys_is_taken_from_all_of_them_at_once(engine: Engine) -> None:
    keys = tuple(sorted(f"key-{number:02}" for number in range(EVENT_KEYS_MAX)))
    put(engine, *keys)
    whole = event("x", 1, 3, *keys)
    assert engine.totals.correct([whole]) == [FINE]
    assert engine.totals.correct([whole]) == [duplicate(whole)]
    for key in keys:
        assert by_window(engine, key) == {WINDOW: Corrections(1, 3)}
    assert listed(engine) == dict.fromkeys(keys, Corrections(1, 3))
    assert engine.totals.corrections(keys[0], WINDOW) == [whole]
    assert engine.totals.corrections(keys[1], WINDOW) == []


def test_sums_without_a_total_are_those_of_no_other_key(engine: Engine) -> None:
    """They are put before it."""
    put(engine, "a")
    engine.totals.put_retracted(WINDOW, {"b": (1, 5)})
    alone = {"a": Total("a", WINDOW, 300, 10**9)}
    assert engine.totals.of_window(WINDOW, ["a", "b"], corrected=True) == alone


def test_many_corrections_take_as_many_transactions_as_they_need(engine: Engine) -> None:
    put(engine, "a", "b")
    put(engine, "a", window=WINDOWS[1])
    events = [
        event(f"x{number}", 1, number, *"ab"[number % 2 : number % 2 + 1 + number % 3 // 2])
        for number in range(250)
    ] + [event(f"y{number}", window=WINDOWS[1]) for number in range(40)]
    engine.totals.correct(events[200:260])
    answers = engine.totals.correct(events)
    assert answers == [
        duplicate(each) if 200 <= number < 260 else FINE for number, each in enumerate(events)
    ]
    for key in "ab":
        taken = [each for each in events if key in each.keys and each.window == WINDOW]
        sums = Corrections(len(taken), sum(each.amount for each in taken))
        assert by_window(engine, key)[WINDOW] == sums
    assert by_window(engine)[WINDOWS[1]] == Corrections(40, 40 * 2_500_000)


def test_days_and_months_have_the_corrections_of_their_windows(engine: Engine) -> None:
    for window in WINDOWS:
        put(engine, window=window)
    days = [PeriodTotal("a", f"day#202611{n}", n, n, 3, 24, "d1") for n in (19, 20, 21)]
    engine.totals.roll([*days, PeriodTotal("a", MONTH, 5, 5, 30, 700, "m1")])
    assert engine.totals.revision(MONTH) == 0
    engine.totals.correct([event("x"), event("y", 2, 4, window=WINDOWS[2])])
    sums = Corrections(3, 2_500_004)

    for first, last in ((DAY, DAY), ("day#20261101", DAY), (DAY, "day#20261130")):
        found = engine.totals.periods_of_key("a", first, last)
        assert [each for each in found if each.period == DAY] == [
            replace(days[1], corrections=sums)
        ]
        assert {each.corrections for each in found if each.period != DAY} <= {NONE}
    assert engine.totals.periods_of_key("a", "day#20261121", "day#20261130") == [days[2]]
    [month] = engine.totals.periods_of_key("a", MONTH, MONTH)
    assert month.corrections == sums
    assert engine.totals.periods_of_key("a", "day#20261121", MONTH) == [days[2], month]
    revision = engine.totals.revision(MONTH)
    assert revision > 0
    assert engine.totals.revision("month#202612") == 0

    # Rolled up again after a window was created: the corrections were always those of all windows.
    engine.totals.roll([replace(days[1], n=77, epoch=4)])
    [again] = engine.totals.periods_of_key("a", DAY, DAY)
    assert (again.n, again.corrections) == (77, sums)
    engine.totals.correct([event("z")])
    assert engine.totals.revision(MONTH) > revision
    engine.totals.correct([event("z")])
    assert engine.totals.revision(MONTH) == revision + 1


def test_what_was_retracted_before_the_seal_is_noted_once(engine: Engine) -> None:
    keys = [f"key-{number:02}" for number in range(30)]
    put(engine, "a", *keys)
    engine.totals.correct([event("x")])
    engine.totals.roll([PeriodTotal("a", DAY, 300, 10**9, 3, 24, "d1")])
    retracted = {"a": (4, -3_000_000), **dict.fromkeys(keys, (1, 0))}
    engine.totals.put_retracted(WINDOW, retracted)
    revision = engine.totals.revision(MONTH)
    engine.totals.put_retracted(WINDOW, retracted)
    engine.totals.put_retracted(WINDOW, {})
    assert engine.totals.revision(MONTH) == revision

    sums = Corrections(1, 2_500_000, (4, -3_000_000))
    assert by_window(engine) == {WINDOW: sums}
    [day] = engine.totals.periods_of_key("a", DAY, DAY)
    assert day.corrections == sums
    assert day.retracted == (5, -500_000)
    assert listed(engine) == {"a": sums, **dict.fromkeys(keys, Corrections(before=(1, 0)))}
    engine.totals.correct([event("y")])
    assert by_window(engine)[WINDOW].before == (4, -3_000_000)


def test_another_number_retracted_before_is_a_mismatch(engine: Engine) -> None:
    put(engine, "a", "b")
    engine.totals.put_retracted(WINDOW, {"a": (4, 4)})
    with pytest.raises(ProofMismatch, match="'a'"):
        engine.totals.put_retracted(WINDOW, {"a": (4, 5), "b": (1, 1)})
    assert listed(engine) == {
        "a": Corrections(before=(4, 4)),
        "b": Corrections(before=(1, 1)),
    }


def test_corrections_of_a_total_that_is_not_read_are_not_in_the_answer(engine: Engine) -> None:
    """As a page of a query may end before a total that is put and corrected meanwhile."""
    put(engine, window=WINDOWS[1])
    engine.totals.correct([event("x"), event("y", window=WINDOWS[1])])
    assert by_window(engine) == {WINDOWS[1]: Corrections(1, 2_500_000)}
    assert engine.totals.of_key("a", WINDOW, WINDOWS[1]) == []
    assert engine.totals.periods_of_key("a", DAY, DAY) == []


def test_notes_and_corrections_meet_in_the_rows_of_a_day(engine: Engine) -> None:
    """Of windows that are sealed at once, by two runs each, while writers correct others."""
    for window in WINDOWS:
        put(engine, "a", "b", window=window)
    before = {"a": (2, 7), "b": (1, -3)}
    events = [event(f"x{number}", window=WINDOWS[number % 3]) for number in range(12)]
    jobs: list[Callable[[], object]] = [
        partial(engine.totals.put_retracted, window, before) for window in WINDOWS * 2
    ]
    jobs += [partial(engine.totals.correct, events[at : at + 3]) for at in range(0, 12, 3)]

    def repeated(job: Callable[[], object]) -> None:
        for _ in range(50):
            with suppress(Throttled):
                job()
                return
        raise AssertionError("it never succeeded")

    at_once = 5 if engine.name == "dynamodb-local" else 1
    engine.effects.together([partial(repeated, job) for job in jobs], at_once)

    engine.totals.roll([PeriodTotal("a", DAY, 900, 10**9, 3, 24, "d1")])
    [day] = engine.totals.periods_of_key("a", DAY, DAY)
    assert day.corrections == Corrections(12, 12 * 2_500_000, (6, 21))
    assert by_window(engine) == dict.fromkeys(WINDOWS, Corrections(4, 4 * 2_500_000, (2, 7)))
    assert by_window(engine, "b") == dict.fromkeys(WINDOWS, Corrections(before=(1, -3)))
    assert engine.totals.revision(MONTH) >= 3
