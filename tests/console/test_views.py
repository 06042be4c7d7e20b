"""What each view of the page shows, from the same numbers as the commands."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.request import urlopen

import pytest
from playwright.sync_api import expect

from tallyroll.errors import StoreError
from tallyroll.model.states import Status
from tallyroll.operations.doctor.window_checks import remedy_of
from tests.console.pages import Pages
from tests.console.stage import Stage
from tests.console.views import PATIENCE_MS, VIEWS, go, heading, numbers, opened, row, status
from tests.harness.doctoring import first
from tests.harness.pipeline import TIME_LEFT

expect.set_options(timeout=PATIENCE_MS)


def test_tonight_shows_the_numbers_that_are_counted(stage: Stage, pages: Pages) -> None:
    page = opened(pages, stage)
    expect(row(page, "Ada")).to_contain_text("1,205")
    expect(status(page)).to_contain_text("exact")
    shown = numbers(page)
    with stage.held() as pipeline:
        for key in ("Ada", "Grace", "Edsger", "Hedy", "k0"):
            assert shown[key] == pipeline.reader().count(key, time_left_ms=TIME_LEFT).events


@pytest.mark.proof
def test_each_view_has_its_link_and_its_address(stage: Stage, pages: Pages) -> None:
    page = opened(pages, stage)
    for view in VIEWS:
        go(page, view)
        link = page.get_by_role("navigation").get_by_role("link", name=VIEWS[view])
        expect(link).to_have_attribute("aria-current", "page")
        assert page.evaluate("location.hash") == f"#{view}"
        own = opened(pages, stage, f"#{view}")
        expect(heading(own, view)).to_be_visible()


@pytest.mark.proof
def test_a_key_is_followed_beyond_the_largest(stage: Stage, pages: Pages) -> None:
    stage.count({f"filler-{number}": 9 for number in range(30)})
    page = opened(pages, stage)
    expect(row(page, "Ada")).to_be_visible()
    assert row(page, "Hedy").count() == 0
    page.get_by_label("Follow a key").fill("Hedy")
    page.get_by_label("Follow a key").press("Enter")
    expect(row(page, "Hedy")).to_contain_text("7")
    page.reload()
    expect(row(page, "Hedy")).to_contain_text("7")


@pytest.mark.proof
def test_a_key_is_found_with_the_windows_that_hold_it(stage: Stage, pages: Pages) -> None:
    page = opened(pages, stage, "#find")
    page.get_by_label("Key", exact=True).fill("k1")
    page.get_by_role("button", name="Find", exact=True).first.click()
    with stage.held() as pipeline:
        dropped = first(pipeline, Status.DROPPED)
        archive = pipeline.state(dropped).attempt.archive
    expect(row(page, dropped)).to_contain_text("dropped")
    expect(row(page, dropped)).to_contain_text(str(archive))


@pytest.mark.proof
def test_an_event_is_found_with_its_record(stage: Stage, pages: Pages) -> None:
    with stage.held() as pipeline:
        pipeline.write({"key": "Ada", "id": "ballot-7", "value": 2.5})
        day = "2026-11-20"
    page = opened(pages, stage, "#find")
    page.get_by_label("Key", exact=True).fill("Ada")
    page.get_by_label("Event id").fill("ballot-7")
    page.get_by_label("Date").fill(day)
    page.get_by_role("button", name="Find", exact=True).first.click()
    expect(page.get_by_role("main")).to_contain_text("counted")
    expect(page.get_by_role("main")).to_contain_text("20261120T080000Z")


@pytest.mark.proof
def test_a_dead_letter_is_found_by_its_text(stage: Stage, pages: Pages) -> None:
    with stage.held() as pipeline:
        pipeline.write({"key": "", "id": "forged-ballot"}, "no JSON at all")
    page = opened(pages, stage, "#find")
    page.get_by_label("Text").fill("forged")
    page.get_by_role("button", name="Find", exact=True).last.click()
    expect(page.get_by_role("main")).to_contain_text("bad-key")
    expect(page.get_by_role("main")).to_contain_text("forged-ballot")
    expect(page.get_by_role("main")).not_to_contain_text("no JSON at all")


@pytest.mark.proof
def test_windows_are_shown_in_each_state_of_their_lives(stage: Stage, pages: Pages) -> None:
    page = opened(pages, stage, "#windows")
    states = (Status.DROPPED, Status.SEALED, Status.OPEN)
    with stage.held() as pipeline:  # the page is answered afterwards
        windows = [first(pipeline, state) for state in states]
    for state, window in zip(states, windows, strict=True):
        expect(row(page, window)).to_contain_text(str(state))
    expect(row(page, windows[0])).to_contain_text("3")


@pytest.mark.proof
def test_windows_have_the_local_time_beside(stage: Stage, pages: Pages) -> None:
    page = opened(pages, stage, "#windows", timezone_id="Asia/Kolkata")
    with stage.held() as pipeline:
        sealed, dropped = first(pipeline, Status.SEALED), first(pipeline, Status.DROPPED)
        at, proven = (
            datetime.fromtimestamp(pipeline.state(window).times[state] / 1000, UTC)
            for window, state in ((sealed, Status.SEALED), (dropped, Status.PROVEN))
        )
    for window, words, instant in ((sealed, "sealed since", at), (dropped, "proven", proven)):
        here = instant + timedelta(hours=5, minutes=30)
        both = f"{words} {instant:%F %T} UTC ({here:%F %T} here)"
        expect(row(page, window)).to_contain_text(both)


@pytest.mark.proof
def test_a_late_window_has_the_doctors_remedy(stage: Stage, pages: Pages) -> None:
    with stage.held() as pipeline:
        late = first(pipeline, Status.OPEN)
        pipeline.effects.pass_by(6 * 3_600_000)
        remedy = remedy_of(pipeline.state(late))
    page = opened(pages, stage, "#windows")
    expect(page.get_by_text(remedy).first).to_be_visible()


@pytest.mark.proof
def test_health_shows_what_is_rejected_and_what_the_page_costs(stage: Stage, pages: Pages) -> None:
    with stage.held() as pipeline:
        pipeline.write({"key": "", "id": "forged-ballot"}, "no JSON at all")
    page = opened(pages, stage, "#health")
    expect(page.get_by_role("main")).to_contain_text("bad-key")
    expect(page.get_by_text("read units")).to_be_visible()


@pytest.mark.proof
def test_health_says_of_each_part_that_it_could_not_be_read(stage: Stage, pages: Pages) -> None:
    def deny(*_: object) -> Any:
        raise StoreError("ListThings: AccessDenied", "AccessDenied")

    with stage.held() as pipeline:
        pipeline.queue.backlog = deny  # type: ignore[assignment,method-assign]
        stage.stack.all_alarms = deny  # type: ignore[method-assign]
    page = opened(pages, stage, "#health")
    expect(status(page)).to_have_text(
        "incomplete: the oldest message, messages waiting, alarms not known"
    )
    facts = page.locator("#facts dl")
    expect(facts).to_contain_text("messages waitingnot known: ListThings: AccessDenied")
    expect(facts).to_contain_text("dead letters0")
    expect(page.locator("#alarms")).to_have_text("They could not be read: ListThings: AccessDenied")


@pytest.mark.proof
def test_how_it_works_is_fed_by_the_real_numbers(stage: Stage, pages: Pages) -> None:
    page = opened(pages, stage, "#how")
    expect(heading(page, "how")).to_be_visible()
    with urlopen(f"{stage.url}api/health") as answer:
        shape = json.load(answer)["shape"]
    expect(page.get_by_role("main")).to_contain_text(str(shape["shards"]))
