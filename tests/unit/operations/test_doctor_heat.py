"""The doctor's check of throttled keys: what DynamoDB notes of open windows' tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.errors import Refused
from tallyroll.limits import SHARDS_MAX
from tallyroll.operations.doctor.checkup import Check, Level
from tallyroll.ports.stack import HotPart, TableHeat
from tests.harness.doctoring import CLEAN, FakeStack, grown
from tests.harness.pipeline import HOUR, NOW, WINDOW, Pipeline, StillEffects
from tests.unit.operations.test_doctor_deployment import looked, only, whole

CHECK = "throttled-keys"
TABLE = f"tallyroll-{WINDOW}"


@pytest.fixture
def pipeline() -> Pipeline:
    """One whose tables' throttled keys are noted."""
    settings = replace(CLEAN, contributor_insights=True)
    return grown(2, Pipeline(settings, StillEffects(NOW - 2 * HOUR)))


def noted(pipeline: Pipeline, heat: TableHeat) -> dict[str, Check]:
    """What the doctor finds if DynamoDB noted this."""
    return looked(pipeline, whole(heats={TABLE: heat}))


class Blind(FakeStack):
    """A deployment whose throttled keys nobody may read."""

    def table_heat(self, table: str, since: int) -> TableHeat:
        """Raises Refused."""
        raise Refused("DescribeContributorInsights: no", "AccessDeniedException")


def test_without_the_option_nothing_is_read_and_what_may_not_be_read_is_told(
    pipeline: Pipeline,
) -> None:
    blind = Blind(**vars(whole()))
    assert looked(pipeline, blind)[CHECK].level is Level.UNCHECKED
    found = looked(grown(2), blind)[CHECK]
    assert (found.level, found.text) == (
        Level.OK,
        "not noted: tallyroll:contributor_insights is off",
    )


def test_a_key_its_shards_and_throttles_are_named_with_the_remedy(pipeline: Pipeline) -> None:
    parts = [HotPart("it's.2", "it's", 2, 1_300), HotPart("it's.1", "it's", 1, 20)]
    sign = only(noted(pipeline, TableHeat("ENABLED", "", parts)), CHECK, Level.WARNING)
    shards = pipeline.spec().shards
    assert sign.text == (
        f'{WINDOW}: the key "it\'s" was throttled some 1,320 times, of its {shards:,} shards on'
        " 2 (1,300), 1 (20)"
    )
    assert f"""`tallyroll keys split --shards {4 * shards} -- 'it'"'"'s'`""" in sign.remedy
    assert sign.window == WINDOW


def test_each_key_has_a_sign_and_one_with_all_shards_is_not_split(pipeline: Pipeline) -> None:
    pipeline.catalog._specs[WINDOW] = replace(pipeline.spec(), hot={"a": SHARDS_MAX})
    parts = [HotPart("a.7", "a", 7, 9), HotPart("b.1", "b", 1, 8), HotPart("~g.1", "", 0, 7)]
    parts.append(HotPart("~t.3", "", 0, 2))
    check = noted(pipeline, TableHeat("ENABLED", "", parts))[CHECK]
    most, other, gate = check.bad
    assert "as many shards as a key can have" in most.remedy
    assert " -- b`" in other.remedy
    assert "tallies and gates were throttled some 9 times, on ~g.1 (7), ~t.3 (2)" in gate.text
    assert "tallyroll:gates" in gate.remedy


@pytest.mark.parametrize(
    ("heat", "told"),
    [
        (TableHeat("ENABLED"), ""),
        (TableHeat("ENABLING"), ""),
        (TableHeat(""), ""),  # no store of AWS's
        (TableHeat("DISABLED"), "Contributor Insights is DISABLED"),
        (
            TableHeat("FAILED", "LimitExceededException: full"),
            "FAILED (LimitExceededException: full)",
        ),
    ],
)
def test_a_table_whose_keys_are_not_noted_is_named(
    pipeline: Pipeline, heat: TableHeat, told: str
) -> None:
    found = noted(pipeline, heat)
    if not told:
        assert found[CHECK].level is Level.OK
        return
    sign = only(found, CHECK, Level.WARNING)
    assert sign.text.endswith(told)
    assert f"--table-name {TABLE} --contributor-insights-action ENABLE" in sign.remedy
    assert "with dynamodb:UpdateContributorInsights on it, which operators lack" in sign.remedy


def test_without_metrics_nothing_is_known(pipeline: Pipeline) -> None:
    assert looked(pipeline, None)[CHECK].text == "no metrics are known"
