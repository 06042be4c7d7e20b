"""The page while the pipeline goes on, stops answering, or answers in part."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import Page, Route, expect

from tallyroll.errors import StoreError, UsageError
from tallyroll.model.states import Status
from tests.console.pages import Pages
from tests.console.stage import Stage
from tests.console.views import PATIENCE_MS, go, opened, row, status
from tests.harness.doctoring import first, grown
from tests.harness.pipeline import MINUTE, WINDOW, hour

expect.set_options(timeout=PATIENCE_MS)


def test_an_event_appears_by_itself(stage: Stage, pages: Pages) -> None:
    page = opened(pages, stage)
    expect(row(page, "Ada")).to_contain_text("1,205")
    stage.count({"Ada": 30, "Radia": 5_000})
    expect(row(page, "Ada")).to_contain_text("1,235")
    expect(row(page, "Radia")).to_contain_text("5,000")


@pytest.mark.proof
def test_a_close_and_a_drop_take_nothing_away(stage: Stage, pages: Pages) -> None:
    page = opened(pages, stage)
    expect(row(page, "Ada")).to_contain_text("1,205")
    with stage.held() as pipeline:
        closed, dropped = first(pipeline, Status.OPEN), first(pipeline, Status.SEALED)
    with stage.held() as pipeline:
        grown(1, pipeline)
    stage.count({"Ada": 1})
    expect(row(page, "Ada")).to_contain_text("1,206")
    expect(status(page)).to_contain_text("exact")
    expect(page.get_by_role("main")).to_contain_text(hour(9))
    with stage.held() as pipeline:
        assert pipeline.state(closed).status is Status.SEALED
        assert pipeline.state(dropped).status is Status.DROPPED
    go(page, "windows")
    expect(row(page, dropped)).to_contain_text("dropped")
    with stage.held() as pipeline:
        grown(1, pipeline)
    expect(row(page, WINDOW)).to_contain_text("sealed")


def test_an_incomplete_answer_says_what_is_missing(stage: Stage, pages: Pages) -> None:
    page = opened(pages, stage)
    expect(status(page)).to_contain_text("exact")
    stage.cut_off(WINDOW)
    expect(status(page)).to_contain_text("incomplete")
    expect(status(page)).to_contain_text(WINDOW)
    expect(status(page)).not_to_contain_text("exact")


@pytest.mark.proof
def test_a_missing_window_is_a_gap_in_the_curve(stage: Stage, pages: Pages) -> None:
    pages.expected = lambda text: "willReadFrequently" in text
    page = opened(pages, stage, "?range=1h&key=Ada")
    expect(row(page, "Ada")).to_contain_text("1,205")
    page.get_by_text("The curve as a table").click()
    expect(row(page, "2026-11-20 08:00:00")).to_have_text("2026-11-20 08:00:001,205")
    assert drawn_until(page) > 0.9
    stage.cut_off(WINDOW)
    expect(row(page, "2026-11-20 08:00:00")).to_have_text("2026-11-20 08:00:00not read")
    assert 0.6 < drawn_until(page) < 0.75  # two thirds of an hour and a half


def drawn_until(page: Page) -> float:
    """How far to the right the first line of the curve goes, as a share of the space for it."""
    share: float = page.evaluate(
        """() => {
          const canvas = document.querySelector("#curve canvas");
          const over = document.querySelector("#curve .u-over");
          const dense = canvas.width / canvas.clientWidth;
          const [x, width] = [over.offsetLeft * dense, over.offsetWidth * dense];
          const { data } = canvas.getContext("2d").getImageData(x, 0, width, canvas.height);
          const drawn = [];
          for (let at = 0; at < data.length; at += 4)
            if (data[at] < 40 && data[at + 1] > 80 && data[at + 3] > 200)
              drawn.push((at / 4) % Math.round(width));
          return Math.max(-1, ...drawn) / width;
        }"""
    )
    return share


@pytest.mark.proof
def test_largest_keys_that_cannot_be_read_are_named(stage: Stage, pages: Pages) -> None:
    with stage.held() as pipeline:
        dropped, catalog = first(pipeline, Status.DROPPED), pipeline.catalog
        catalog._windows[dropped] = replace(catalog._windows[dropped], listed=None)
    page = opened(pages, stage, "?key=Ada")
    expect(row(page, "Ada")).to_contain_text("1,205")
    expect(status(page)).to_contain_text(f"incomplete: the largest keys (window {dropped} was")


@pytest.mark.parametrize("how", ["no answer", pytest.param("unavailable", marks=pytest.mark.proof)])
def test_a_backend_may_go_and_come_back(how: str, stage: Stage, pages: Pages) -> None:
    pages.expected = lambda text: text.startswith("Failed to load resource")
    page = opened(pages, stage)
    expect(row(page, "Ada")).to_contain_text("1,205")
    stage.go(how)
    expect(status(page)).to_contain_text("no answer")
    expect(status(page)).not_to_contain_text("exact")
    expect(row(page, "Ada")).to_contain_text("1,205")
    last = page.locator("time").first.get_attribute("datetime")
    with page.expect_request("**/api/tonight*", timeout=PATIENCE_MS):
        page.clock.run_for(4_000)
    assert page.locator("time").first.get_attribute("datetime") == last
    stage.come_back()
    stage.count({"Ada": 1})
    page.clock.run_for(MINUTE)
    expect(row(page, "Ada")).to_contain_text("1,206")
    expect(status(page)).to_contain_text("exact")


def slowed(pages: Pages, stage: Stage) -> Page:
    """A page whose timers run when the test says so."""
    page = opened(pages, stage)
    expect(row(page, "Ada")).to_contain_text("1,205")
    return page


@pytest.mark.proof
def test_the_page_asks_a_dead_backend_ever_less(stage: Stage, pages: Pages) -> None:
    pages.expected = lambda text: text.startswith("Failed to load resource")
    page = slowed(pages, stage)
    stage.go("no answer")
    asked = []
    for _ in range(2):
        before = stage.asked["tonight"]
        for _ in range(5 * 60):
            page.clock.run_for(1_000)
        asked.append(stage.asked["tonight"] - before)
    assert 0 < asked[1] <= asked[0] < 30


def test_an_answer_that_fails_leaves_the_others_as_they_are(stage: Stage, pages: Pages) -> None:
    pages.expected = lambda text: text.startswith("Failed to load resource")
    page = slowed(pages, stage)
    refuse(stage, "health", StoreError("GetQueueAttributes: AccessDenied", "AccessDenied"))
    page.clock.run_for(15_000)
    expect(status(page)).to_contain_text("exact; no answer of health since")
    before, seen = dict(stage.asked), set()
    for _ in range(8):
        with page.expect_response("**/api/tonight*"):
            page.clock.run_for(1_000)
        seen.add(status(page).inner_text().partition(";")[0])
    assert seen == {"exact"}
    asked = [stage.asked[name] - before[name] for name in ("tonight", "health")]
    assert asked[0] >= 8
    assert 1 <= asked[1] <= 4
    stage.changed.clear()
    page.clock.run_for(MINUTE)
    expect(status(page)).to_have_text("exact")


@pytest.mark.proof
def test_another_range_waits_for_the_answer_that_is_under_way(stage: Stage, pages: Pages) -> None:
    page = opened(pages, stage)
    expect(row(page, "Ada")).to_contain_text("1,205")
    pending: list[Route] = []

    def hold(route: Route) -> None:
        pending.append(route)

    page.route("**/api/tonight*", hold)
    with page.expect_request("**/api/tonight*"):
        pass
    for choice in ("Last hour", "All time", "Last hour", "All time"):
        page.get_by_label("Range").select_option(label=choice)
    page.wait_for_timeout(200)
    assert len(pending) == 1
    with page.expect_request("**/api/tonight*") as asked:
        pending[0].continue_()
    assert "since" not in asked.value.url


@pytest.mark.proof
def test_what_is_refused_is_asked_ever_less_and_is_an_answer(stage: Stage, pages: Pages) -> None:
    pages.expected = lambda text: text.startswith("Failed to load resource")
    page = slowed(pages, stage)
    refuse(stage, "tonight", UsageError("71 keys: follow at most 70"))
    expect(status(page)).to_contain_text("71 keys: follow at most 70; asking again in")
    before = stage.asked["tonight"]
    for _ in range(120):
        page.clock.run_for(1_000)
    assert 1 <= stage.asked["tonight"] - before <= 7
    expect(status(page)).not_to_contain_text("no answer")


def refuse(stage: Stage, name: str, error: Exception) -> None:
    """Let an answer fail."""

    def fail(_: object) -> object:
        raise error

    stage.changed[name] = fail


@pytest.mark.proof
def test_a_hidden_page_asks_nothing(stage: Stage, pages: Pages) -> None:
    page = slowed(pages, stage)
    show(page, "hidden")
    before = dict(stage.asked)
    page.clock.run_for(10 * MINUTE)
    assert stage.asked == before
    stage.count({"Ada": 1})
    show(page, "visible")
    expect(row(page, "Ada")).to_contain_text("1,206")


def show(page: Page, visibility: str) -> None:
    """Let the page believe that it is hidden, or seen again."""
    page.evaluate(
        """(value) => {
          const hidden = value === "hidden";
          Object.defineProperty(document, "visibilityState", { value, configurable: true });
          Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
        }""",
        visibility,
    )


@pytest.mark.proof
def test_a_long_night_leaves_nothing_behind(stage: Stage, pages: Pages) -> None:
    page = slowed(pages, stage)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")

    def left() -> dict[str, int]:
        session.send("HeapProfiler.collectGarbage")
        found = session.send("Performance.getMetrics")["metrics"]
        kept = {"Nodes", "JSEventListeners", "Documents"}
        return {each["name"]: each["value"] for each in found if each["name"] in kept}

    def updates(number: int) -> None:
        for _ in range(number):
            stage.count({"Ada": 1})
            with page.expect_response("**/api/tonight*"):
                page.clock.run_for(2_000)

    updates(10)
    early = left()
    updates(80)
    late = left()
    assert all(late[name] <= early[name] + 50 for name in early), (early, late)
