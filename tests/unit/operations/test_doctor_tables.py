from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import Missing
from tallyroll.model.states import Moment, Status
from tallyroll.operations.doctor.checkup import Level
from tallyroll.ports.table_listing import TableCard, window_of
from tallyroll.resources import TAG_PIPELINE, TAG_PROVEN
from tallyroll.settings import Settings
from tests.harness.doctoring import CLEAN, bad, examined, first, grown, listing_of, only, states
from tests.harness.pipeline import HOUR, MINUTE, NOW, TIME_LEFT, Pipeline, StillEffects, hour

TABLE = f"tallyroll-{hour(8)}"


@pytest.fixture
def pipeline() -> Pipeline:
    pipeline = grown(4)
    for table in pipeline.store.tables():
        pipeline.store.recover_table(table)
    assert bad(pipeline) == {}
    return pipeline


def test_a_table_that_is_gone(pipeline: Pipeline) -> None:
    pipeline.store.drop_table(TABLE)
    sign = only(pipeline, "tables")
    assert "it is open, and its table" in sign.text
    assert f"list-backups --table-name {TABLE}" in sign.remedy


def test_a_table_without_protection(pipeline: Pipeline) -> None:
    pipeline.store.table(TABLE).protected = False
    sign = only(pipeline, "tables")
    assert sign.text == f"{TABLE}: it is not protected from deletion"
    assert sign.remedy == (
        f"`aws dynamodb update-table --table-name {TABLE} --deletion-protection-enabled`"
    )


def test_tags(pipeline: Pipeline) -> None:
    tags = pipeline.store.table(TABLE).tags
    tags[TAG_PIPELINE] = "another"
    assert "its tag tallyroll is 'another'" in only(pipeline, "tables").text
    del tags[TAG_PIPELINE]
    assert "its tag tallyroll is missing" in only(pipeline, "tables").text
    tags |= {TAG_PIPELINE: "tallyroll", TAG_PROVEN: "a1"}
    sign = only(pipeline, "tables")
    assert "it may be deleted" in sign.text
    assert "untag-resource" in sign.remedy


def test_tags_of_the_settings(pipeline: Pipeline) -> None:
    """Tables keep the tags with which they were made."""
    settings = replace(pipeline.settings, tags={"cost centre": "42"})
    check = examined(pipeline, settings=settings)["tables"]
    assert check.level is Level.WARNING
    assert len(check.bad) == len(pipeline.store.tables())
    sign = next(sign for sign in check.bad if TABLE in sign.text)
    assert sign.text == f"{TABLE}: its tag cost centre is missing, not '42'"
    assert "keep their tags when tallyroll:tags change: `aws dynamodb tag-res" in sign.remedy
    assert sign.remedy.endswith("--tags Key='cost centre',Value=42`")

    for table in pipeline.store.tables():
        pipeline.store.table(table).tags["cost centre"] = "42"
    assert examined(pipeline, settings=settings)["tables"].level is Level.OK
    pipeline.store.table(TABLE).tags["cost centre"] = "43"
    [sign] = examined(pipeline, settings=settings)["tables"].bad
    assert "its tag cost centre is '43', not '42'" in sign.text


def test_a_foreign_table_has_one_remedy(pipeline: Pipeline) -> None:
    """To tag it or to protect it would make it look like the pipeline's own."""
    table = pipeline.store.table(TABLE)
    table.foreign, table.protected, table.recoverable = "id S HASH", False, False
    table.tags.clear()
    sign = only(pipeline, "tables")
    assert "it is open, and its table is gone; another hand made" in sign.text
    assert "its keys are id S HASH, not pk S HASH, sk S RANGE" in sign.text
    assert "Leave its tags and settings as they are" in sign.remedy
    assert f"list-backups --table-name {TABLE}" in sign.remedy


def test_a_permanent_table_of_another_hand_has_one_remedy(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = listing_of(pipeline)
    card = listing.card

    def foreign(table: str) -> TableCard | None:
        found = card(table)
        if found and table == "tallyroll-catalog":
            return replace(found, keys=("id S HASH",), protected=False)
        return found

    monkeypatch.setattr(listing, "card", foreign)
    sign = only(pipeline, "permanent", tables=listing)
    assert sign.text == "tallyroll-catalog: its keys are id S HASH, not pk S HASH, sk S RANGE"
    assert "delete it, once nobody needs it, and deploy the pipeline again" in sign.remedy


def test_tables_that_are_made_or_go_during_the_look(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is being made has no tags yet; of one that goes, a window that needs it is told."""
    listing = listing_of(pipeline)
    card, tags = listing.card, listing.tags
    making, going = (f"tallyroll-{hour(number)}" for number in (10, 8))

    def card_of(table: str) -> TableCard | None:
        found = card(table)
        return replace(found, status="CREATING") if found and table == making else found

    def tags_of(of: TableCard) -> Mapping[str, str] | None:
        assert of.name != making
        if of.name == going:
            raise Missing(f"there is no table {going}", "ResourceNotFoundException")
        return tags(of)

    monkeypatch.setattr(listing, "card", card_of)
    monkeypatch.setattr(listing, "tags", tags_of)
    sign = only(pipeline, "tables", tables=listing)
    assert sign.text.startswith(f"{hour(8)}: it is open, and its table {going} is gone")


def test_a_stray_table_that_goes_during_the_look_is_no_finding(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    stray = "tallyroll-20200101T000000Z"
    pipeline.store.make_table(stray, {TAG_PIPELINE: "tallyroll"})
    assert stray in only(pipeline, "stray-tables").text
    listing = listing_of(pipeline)
    card = listing.card
    monkeypatch.setattr(listing, "card", lambda name: None if name == stray else card(name))
    assert bad(pipeline, tables=listing) == {}


@pytest.mark.parametrize("tags", [{}, {TAG_PIPELINE: "another"}])
def test_a_foreign_table_in_the_way_of_a_new_window(
    pipeline: Pipeline, tags: dict[str, str]
) -> None:
    window = pipeline.state(hour(10))
    pipeline.catalog.advance(replace(window, status=Status.CREATING, times={}))
    held = pipeline.store.table(window.table)
    held.tags.clear()
    held.tags |= tags
    (sign,) = examined(pipeline)["tables"].bad
    assert "so the window does not open, and its events wait" in sign.text
    assert "The roller then makes its own" in sign.remedy
    assert "tag-resource" not in sign.remedy


def test_recovery_that_is_off(pipeline: Pipeline) -> None:
    pipeline.store.table(TABLE).recoverable = False
    sign = only(pipeline, "tables", Level.WARNING)
    assert sign.text == f"{TABLE}: point-in-time recovery is off"
    unwished = replace(pipeline.settings, point_in_time_recovery=False)
    assert bad(pipeline, settings=unwished) == {}


def test_recovery_that_is_not_switched_on_yet() -> None:
    pipeline = Pipeline()
    pipeline.roller().run(TIME_LEFT)
    for window in pipeline.catalog.windows(0, NOW + 9 * HOUR):
        times = {name: at for name, at in window.times.items() if name != Moment.RECOVERABLE}
        pipeline.catalog.advance(replace(window, times=times))
        pipeline.store.table(window.table).recoverable = False
    assert bad(pipeline) == {}
    pipeline.effects.pass_by(10 * MINUTE)
    assert bad(pipeline).keys() == {"tables"}


def test_a_state_that_names_another_table(pipeline: Pipeline) -> None:
    pipeline.catalog.advance(replace(pipeline.state(hour(8)), table="tallyroll-restored"))
    assert "the catalog names the table tallyroll-restored" in bad(pipeline)["tables"][0]


def test_a_permanent_table(pipeline: Pipeline) -> None:
    listing = listing_of(pipeline)
    listing.declared_tables["tallyroll-totals"] = replace(
        listing.declared_tables["tallyroll-totals"], deletion_protection=False
    )
    sign = only(pipeline, "permanent", tables=listing)
    assert sign.text == "tallyroll-totals: it is not protected from deletion"
    del listing.declared_tables["tallyroll-totals"]
    sign = only(pipeline, "permanent", tables=listing)
    assert sign.text == "there is no table tallyroll-totals"


def test_tables_that_no_window_names(pipeline: Pipeline) -> None:
    """Those of other pipelines, also of such whose name begins alike, are none of them."""
    for name in ("tallyroll-eu-20261120T080000Z", "tallyrol-20261120T080000Z", "tallyroll-x"):
        pipeline.store.make_table(name)
    assert bad(pipeline) == {}
    stray = "tallyroll-20240101T000000Z"
    pipeline.store.make_table(stray, {TAG_PIPELINE: "tallyroll"})
    sign = only(pipeline, "stray-tables")
    assert sign.text == f"{stray}: no window names it; it is empty"
    assert f"delete-table --table-name {stray}" in sign.remedy
    pipeline.store.items(stray)["a", "b"] = {"pk": {"S": "a"}, "sk": {"S": "b"}}
    assert "holds items" in only(pipeline, "stray-tables").text
    pipeline.store.table(stray).tags[TAG_PIPELINE] = "another"
    assert "is the pipeline 'another'" in only(pipeline, "stray-tables", Level.WARNING).text


def test_the_table_of_a_dropped_window_that_is_back() -> None:
    pipeline = grown()
    dropped = first(pipeline, Status.DROPPED)
    pipeline.store.make_table(f"tallyroll-{dropped}", {TAG_PIPELINE: "tallyroll"})
    sign = only(pipeline, "stray-tables")
    assert "its window is dropped, and the table is back; it is empty" in sign.text


def test_a_window_that_is_made_meanwhile_is_no_stray(pipeline: Pipeline) -> None:
    listing = listing_of(pipeline)
    pipeline.effects.pass_by(3_600_000)
    names = listing.names

    def late() -> object:
        pipeline.roller().run(60_000)
        return names()

    listing.names = late  # type: ignore[method-assign, assignment]
    assert "stray-tables" not in bad(pipeline, tables=listing)


def test_window_names() -> None:
    assert window_of("votes-20261120T080000Z", "votes-") == "20261120T080000Z"
    for name in (
        "votes-eu-20261120T080000Z",
        "votes-20261120T080000Z-inspected",
        "votes-20261320T080000Z",
        "votes-\uff120261120T080000Z",
        "votes20261120T080000Z",
        "votes-",
        "xvotes-20261120T080000Z",
    ):
        assert window_of(name, "votes-") is None


def test_the_quota(pipeline: Pipeline) -> None:
    def with_quota(quota: int, retention_ms: int = 2 * HOUR) -> Settings:
        return replace(pipeline.settings, table_quota=quota, retention_ms=retention_ms)

    count = len([*listing_of(pipeline).names()])
    sign = only(pipeline, "quota", settings=with_quota(count))
    assert sign.text == f"{count} tables of a quota of {count}"
    needy = with_quota(40, 40 * HOUR)
    sign = only(pipeline, "quota", settings=needy)
    assert (
        sign.text == f"retention needs {needy.tables_kept} tables, others are 2: over a quota of 40"
    )
    assert examined(pipeline)["quota"].text.endswith("allowed 2,500")


# --- the table of identities


@pytest.fixture
def remembering() -> Pipeline:
    """A pipeline whose ids count once for their key."""
    made = Pipeline(replace(CLEAN, identity="key"), StillEffects(NOW - 4 * HOUR))
    pipeline = grown(4, made)
    for table in pipeline.store.tables():
        pipeline.store.recover_table(table)
    assert bad(pipeline) == {}
    return pipeline


IDENTITIES = "tallyroll-identities"


@pytest.mark.parametrize(
    ("changes", "says", "remedy"),
    [
        ({"expires_by": ""}, "not deleted by their attribute expires", "AttributeName=expires`"),
        ({"expires_by": "ttl"}, "not deleted by their attribute expires", "AttributeName=expires`"),
        ({"point_in_time_recovery": False}, "point-in-time recovery is off", "-continuous-backups"),
        ({"deletion_protection": False}, "not protected from deletion", "--deletion-protection"),
        ({"sort_key": "sk"}, "its keys are pk S HASH, sk S RANGE, not pk S HASH", "delete it"),
    ],
)
def test_the_table_of_identities_is_as_declared(
    remembering: Pipeline, changes: dict[str, Any], says: str, remedy: str
) -> None:
    listing = listing_of(remembering)
    listing.declared_tables[IDENTITIES] = replace(listing.declared_tables[IDENTITIES], **changes)
    [sign] = examined(remembering, tables=listing)["permanent"].bad
    assert sign.text.startswith(f"{IDENTITIES}: ")
    assert says in sign.text
    assert remedy in sign.remedy


def test_a_store_that_tells_nothing_of_expiry_has_no_sign(
    remembering: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = listing_of(remembering)
    monkeypatch.setattr(listing, "expires_by", lambda _: None)
    assert bad(remembering, tables=listing) == {}


def test_a_table_of_identities_that_is_gone(remembering: Pipeline) -> None:
    listing = listing_of(remembering)
    del listing.declared_tables[IDENTITIES]
    sign = only(remembering, "permanent", tables=listing)
    assert sign.text == f"there is no table {IDENTITIES}"
    assert f"list-backups --table-name {IDENTITIES}" in sign.remedy


def test_a_permanent_table_that_is_not_usable(
    remembering: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = listing_of(remembering)
    card = listing.card

    def going(table: str) -> TableCard | None:
        found = card(table)
        return replace(found, status="DELETING") if found and table == IDENTITIES else found

    monkeypatch.setattr(listing, "card", going)
    sign = only(remembering, "permanent", tables=listing)
    assert sign.text == f"{IDENTITIES} is DELETING: nothing is read or written"


def test_windows_that_outlive_the_table_of_identities(remembering: Pipeline) -> None:
    """The option was put back, and windows under the former rule are still there."""
    back = replace(remembering.settings, identity="window")
    checks = examined(remembering, settings=back)
    live = [window for window in states(remembering).values() if not window.sealed]
    assert 1 < len(checks["identities"].bad) <= len(live)
    for sign in checks["identities"].bad:
        assert sign.level is Level.FINDING
        assert f"in the scope `key`, and the deployment has no table {IDENTITIES}" in sign.text
        assert "-c tallyroll:keep_identities=true" in sign.remedy
    kept = examined(remembering, settings=replace(back, keep_identities=True))["identities"]
    assert kept.level is Level.OK
    for window, status in states(remembering).items():
        if not status.sealed:
            remembering.move(Status.SEALED, window)
    assert examined(remembering, settings=back)["identities"].level is Level.OK
