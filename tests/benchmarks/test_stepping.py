"""A step of one key's load: more shards keep what few do not; how placements are summed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.stepping import (
    CASES,
    Case,
    Stepped,
    assumed,
    kept,
    medians,
    of_cases,
    stepped,
)

FINE = Stepped(throttled=0.05, delay=3, rate=5_000, left=900, partitions=20)
BAD = Stepped(throttled=0.5, delay=400, rate=2_000, left=90_000, partitions=24)


def test_a_case_is_judged_by_its_median() -> None:
    found = [BAD, FINE, replace(FINE, throttled=0.07)]
    assert medians(found) == replace(FINE, throttled=0.07)
    case = CASES[1]
    assert kept(case, medians(found))
    assert not kept(case, BAD)
    assert not kept(case, replace(FINE, delay=120))
    assert not kept(case, replace(FINE, throttled=0.1))
    assert kept(CASES[0], BAD)  # the shards of before, beside it
    assert not kept(CASES[2], replace(FINE, throttled=0.001))
    (heading, row) = of_cases([(case, found)])
    assert len(heading) == len(row)
    assert row[:5] == ("5,000", "256", "20,000", "7.00%", "50.00%")


def test_a_step_is_taken_by_many_shards_and_throttles_few() -> None:
    few = stepped(Case(2_000, 2, 8_000, seconds=6), 1)
    many = stepped(Case(2_000, 256, 8_000, seconds=6), 1)
    # Two shards take 1,000 write units each, so half of the 2,000 events: the others are throttled.
    assert few.throttled > 0.2
    assert few.left > 4_000
    assert many.throttled < 0.01
    assert many.delay < 3
    assert many == stepped(Case(2_000, 256, 8_000, seconds=6), 1)
    assert many != stepped(Case(2_000, 256, 8_000, seconds=6), 2)


def test_the_document_has_every_case_and_none_that_fails() -> None:
    text = (Path(__file__).parents[2] / "docs" / "sharding.md").read_text(encoding="utf-8")
    region = text.split("<!-- stepping -->")[1].split("<!-- /stepping -->")[0]
    heading, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in region.split("\n") if line
    ]
    assert tuple(heading) == of_cases([])[0]
    for case, row in zip(CASES, rows, strict=True):
        assert row[:3] == [f"{case.peak:,.0f}", f"{case.shards:,}", f"{case.warm_units:,}"]
        found = replace(FINE, throttled=float(row[3].rstrip("%")) / 100, delay=float(row[5]))
        assert kept(case, found)


def test_what_is_assumed_of_aws_is_told() -> None:
    told = "\n".join(assumed())
    assert "120 s" in told
    assert "64,000 warm units are above a table's default quota of 40,000" in told
    assert "20,000 warm units" not in told
