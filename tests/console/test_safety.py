"""Keys and texts that mean harm, keyboards, screen readers and small screens; and the weight."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.console.pages import Pages
from tests.console.stage import Stage
from tests.console.views import PATIENCE_MS, VIEWS, go, heading, numbers, opened, row, status
from tests.harness import browser as chromium

expect.set_options(timeout=PATIENCE_MS)

HOSTILE = (
    "<img src=x onerror=\"document.title='owned'\">",
    "</script><script>document.title='owned'</script>",
    "javascript:document.title='owned'",
    "&lt;b&gt;",
    "\u202eabc\u2066",  # runs from right to left, and opens what it does not close
    "__proto__",
    "constructor",
    " ",
    "e\u0301\U0001f5f3\ufe0f",
    "W" * 512,
    "x'\"`${document.title='owned'}",
)
CONTROLS = "\x00\x1b[31m\x07\n\t"  # no key, but the text of a dead letter
WEIGHT_MAX = 40_000


@pytest.fixture
def hostile(stage: Stage) -> Stage:
    """A console whose keys and dead letters all mean harm."""
    stage.count({key: 20 + number for number, key in enumerate(HOSTILE)})
    with stage.held() as pipeline:
        pipeline.write(
            *({"key": "", "id": key.strip() or "x"} for key in (*HOSTILE, CONTROLS)), *HOSTILE
        )
    return stage


def test_a_hostile_key_is_only_text(hostile: Stage, pages: Pages) -> None:
    page = opened(pages, hostile)
    expect(page.locator("tr[data-key]").first).to_be_visible()
    shown = numbers(page)
    assert {key: shown[key] for key in HOSTILE} == {
        key: 20 + number for number, key in enumerate(HOSTILE)
    }
    assert page.locator("main img, main script, main b").count() == 0
    assert "owned" not in page.title()
    directions = page.locator("tr[data-key] [data-name]").evaluate_all(
        "cells => cells.map(cell => getComputedStyle(cell).unicodeBidi)"
    )
    assert set(directions) <= {"isolate", "isolate-override", "plaintext"}


@pytest.mark.proof
@pytest.mark.parametrize("key", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_key_is_found(key: str, hostile: Stage, pages: Pages) -> None:
    page = opened(pages, hostile, "#find")
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_role("button", name="Find", exact=True).first.click()
    with page.expect_response("**/api/find*"):
        page.get_by_label("Key", exact=True).press("Enter")
    for view in VIEWS:
        go(page, view)
    assert "owned" not in page.title()


def barriers(page: Page) -> list[str]:
    """What axe-core finds wrong with a page, and where."""
    page.evaluate(chromium.axe())
    found: list[str] = page.evaluate(
        """async () => (await axe.run()).violations.flatMap(
             rule => rule.nodes.map(node => `${rule.id}: ${node.target} ${node.failureSummary}`))"""
    )
    return found


@pytest.mark.proof
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_barriers(scheme: str, width: int, hostile: Stage, pages: Pages) -> None:
    viewport = {"width": width, "height": 800}
    page = opened(pages, hostile, color_scheme=scheme, viewport=viewport, reduced_motion="reduce")
    expect(status(page)).to_contain_text("exact")
    for view in VIEWS:
        go(page, view)
        page.wait_for_load_state("networkidle")
        assert barriers(page) == [], (view, scheme, width)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{view} is {wide} px wide"


@pytest.mark.proof
def test_all_of_it_by_keyboard(stage: Stage, pages: Pages) -> None:
    page = opened(pages, stage)
    expect(status(page)).to_contain_text("exact")
    for view, name in VIEWS.items():
        reach(page, name)
        page.keyboard.press("Enter")
        expect(heading(page, view)).to_be_visible()
        page.wait_for_load_state("networkidle")
        assert unreached(page) == [], view
    reach(page, "Find")
    page.keyboard.press("Enter")
    expect(heading(page, "find")).to_be_visible()
    page.get_by_label("Key", exact=True).focus()
    page.keyboard.type("Ada")
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_contain_text("1,205")


def test_a_tiny_rate_is_no_zero(stage: Stage, pages: Pages) -> None:
    page = opened(pages, stage)
    said = page.evaluate(
        """async () => {
            const { rate } = await import("/dom.js");
            return [0, 0.00000123, 0.025, 1.25, 12_345.67, NaN].map(rate);
        }"""
    )
    assert said == ["0", "0.00000123", "0.025", "1.25", "12,345.7", "\N{EN DASH}"]


def test_what_is_drawn_anew_keeps_the_focus_and_what_is_unfolded(
    stage: Stage, pages: Pages
) -> None:
    page = opened(pages, stage)
    kept = page.evaluate(
        """async () => {
            const { redraw, el } = await import("/dom.js");
            const parts = () => [el("button", {}, "a"), el("button", {}, "b"), el("details")];
            const box = el("div", {}, ...parts());
            document.body.append(box);
            box.children[1].focus();
            box.children[2].open = true;
            const before = [...box.children];
            redraw(box, ...parts());
            const [, button, details] = box.children;
            return [document.activeElement === button, details.open, before.includes(button)];
        }"""
    )
    assert kept == [True, True, False]


def test_a_sum_has_all_its_digits_and_its_sign(stage: Stage, pages: Pages) -> None:
    page = opened(pages, stage)
    told = page.evaluate(
        """async sums => { const { sum } = await import("/dom.js"); return sums.map(sum); }""",
        ["-0.5", "0", "-1234.000001", "12345678901234567890.1"],
    )
    assert told == ["-0.5", "0", "-1,234.000001", "12,345,678,901,234,567,890.1"]


@pytest.mark.proof
def test_a_key_that_is_overtaken_keeps_the_focus(stage: Stage, pages: Pages) -> None:
    page = opened(pages, stage)
    row(page, "Grace").get_by_role("button").focus()
    stage.count({"Grace": 5_000})
    expect(page.locator("tr[data-key]").first).to_have_attribute("data-key", "Grace")
    assert page.evaluate("document.activeElement.closest('tr')?.dataset.key") == "Grace"


@pytest.mark.proof
def test_another_range_is_no_pace(stage: Stage, pages: Pages) -> None:
    page = opened(pages, stage)
    page.get_by_label("Range").select_option(index=0)
    expect(row(page, "Ada")).to_contain_text("1,205")
    page.get_by_label("Range").select_option(label="All time")
    page.wait_for_load_state("networkidle")
    expect(row(page, "Ada")).to_contain_text("1,2")
    assert "+" not in row(page, "Ada").locator("td").nth(2).inner_text()


def reach(page: Page, name: str) -> None:
    """Press Tab until the link of this name has the focus; it must be seen to have it."""
    for _ in range(200):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement?.textContent.trim()") == name:
            seen = page.evaluate(
                "document.activeElement.matches(':focus-visible')"
                " && getComputedStyle(document.activeElement).outlineStyle"
            )
            assert seen not in (False, "none")
            return
    raise AssertionError(f"Tab does not reach {name!r}")


def unreached(page: Page) -> list[str]:
    """What can be used by a pointer, and Tab does not come to. A view is drawn anew now and then:
    what has the same words is the same.
    """
    wanted = "a[href], button, input, select, summary, [tabindex='0'], [role=button]"
    page.evaluate("document.activeElement?.blur()")
    there = page.evaluate(
        "wanted => { globalThis.met = new Set(); globalThis.said = e => e.tagName +"
        " (e.ariaLabel || e.id || e.textContent); "
        "return [...document.querySelectorAll(wanted)].filter(e => e.checkVisibility()).length }",
        wanted,
    )
    for _ in range(there + 12):  # a date has four stops
        page.keyboard.press("Tab")
        page.evaluate("met.add(said(document.activeElement))")
    left: list[str] = page.evaluate(
        "wanted => [...document.querySelectorAll(wanted)]"
        ".filter(e => e.checkVisibility() && !e.disabled && !met.has(said(e)))"
        ".map(e => e.outerHTML)",
        wanted,
    )
    return left


@pytest.mark.proof
def test_the_page_weighs_little(stage: Stage, pages: Pages) -> None:
    page = opened(pages, stage)
    for view in VIEWS:
        go(page, view)
        page.wait_for_load_state("networkidle")
    files = {request.url for request in pages.asked if "/api/" not in request.url}
    sizes = {}
    for request in pages.asked:
        if "/api/" not in request.url:
            answer = request.response()
            assert answer
            assert answer.headers.get("content-encoding") == "gzip", request.url
            sizes[request.url.rpartition("/")[2]] = request.sizes()["responseBodySize"]
    assert len(sizes) == len(files) >= 5
    assert sum(sizes.values()) <= WEIGHT_MAX, sizes
