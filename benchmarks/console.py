"""What the console's page costs: how late it shows an event, what an update takes of the browser,
and whether its memory grows.

    python -m benchmarks.console [--only event|update|night] [--trials N] [--updates N] [--night N]

An event: from before it is sent to SQS until the browser has drawn the frame with its number, with
1,000 keys, on a pipeline of default settings on an embedded AWS. An update: script and layout of
the page's process from one answer to the next, by Chromium's trace, of a day of 10,000 keys. A
night: twelve hours in so many updates; the heap after a collection, the document's nodes and the
listeners, after the first hour and at the end.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from benchmarks.processes import spawned
from benchmarks.tables import Rows, show
from local.aws.embedded import Embedded
from local.options import options_of
from local.pipeline import LocalPipeline
from tallyroll.pipeline import Pipeline
from tests.console.pages import Pages
from tests.console.stage import Stage
from tests.console.views import opened
from tests.harness import browser as chromium
from tests.harness.pipeline import HOUR, SMALL, StillEffects
from tests.harness.pipeline import Pipeline as MemoryPipeline

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

KEYS, KEYS_OF_DAY = 1_000, 10_000
WATCHED = "key-0"
NIGHT_MS = 12 * HOUR
WARM_UP = 5
PATIENCE_MS = 120_000
PIXEL_MS_MAX, UPDATE_MS_MAX = 3_000, 8.0
WORK = frozenset(
    {
        *("EvaluateScript", "EventDispatch", "FireAnimationFrame", "FunctionCall", "Layout"),
        *("RunMicrotasks", "TimerFire", "UpdateLayoutTree", "ParseHTML", "MajorGC", "MinorGC"),
        *("V8.GC_SCAVENGER", "v8.callFunction", "PrePaint", "HitTest"),
    }
)
"""What the trace calls script, style and layout."""
HELD = {"heap, bytes": "JSHeapUsedSize", "nodes": "Nodes", "listeners": "JSEventListeners"}
_NUMBER = f"""tr[data-key="{WATCHED}"] [data-events]"""
# Two frames: the first is drawn before the second begins.
_DRAWN = """
([selector, text]) => new Promise((resolve) => {
  const there = () => document.querySelector(selector)?.textContent === text;
  const seen = () => there() && (watch.disconnect(), requestAnimationFrame(() =>
    requestAnimationFrame(() => resolve(Date.now()))));
  const watch = new MutationObserver(seen);
  watch.observe(document.body, { childList: true, subtree: true, characterData: true });
  seen();
})
"""


def main() -> None:
    """Measure them, and print them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.console", description=__doc__)
    parser.add_argument("--only", choices=["event", "update", "night"])
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--night", type=int, default=2_000)
    options = parser.parse_args()
    with chromium.running() as browser:
        if options.only in (None, "event"):
            rows: Rows = [("measure", "median", "worst", "bound")]
            late = pixel_ms(browser, options.trials)
            rows.append(("event to pixel, ms", *_shown(late), f"{PIXEL_MS_MAX:,}"))
            show("An event", rows, f"{len(late)} events with {KEYS:,} keys")
        if options.only in (None, "update"):
            rows = [("measure", "median", "worst", "bound")]
            took = update_ms(browser, options.updates)
            rows.append(("script and layout of an update, ms", *_shown(took), str(UPDATE_MS_MAX)))
            show("An update", rows, f"{len(took)} updates of a day of {KEYS_OF_DAY:,} keys")
        if options.only in (None, "night"):
            early, after = night(browser, options.night)
            rows = [("of the tab", "after an hour", "at the end", "share")]
            rows += [
                (
                    name,
                    f"{early[name]:,.0f}",
                    f"{after[name]:,.0f}",
                    f"{after[name] / early[name]:.2f}",
                )
                for name in early
            ]
            show("A night", rows, f"twelve hours in {options.night:,} updates")


def _shown(values: Sequence[float]) -> tuple[str, str]:
    return f"{statistics.median(values):,.1f}", f"{max(values):,.1f}"


def pixel_ms(browser: Browser, trials: int) -> list[float]:
    """How long each event took to be seen."""
    chosen = options_of([], name="console", window_seconds=3600)
    with (
        Embedded(chosen.settings) as aws,
        LocalPipeline(aws, batch_size=chosen.batch_size, window_s=chosen.batch_window_s),
        _console(aws.environment) as url,
    ):
        sender = _sender(aws)
        sender.send([_body(f"key-{number}", f"first-{number}") for number in range(KEYS)])
        sender.send([_body(WATCHED, f"ahead-{number}") for number in range(99)])
        pages = Pages(browser)
        page = pages.open(url)
        _drawn(page, 100)
        took = []
        for number in range(trials):
            time.sleep(0.37 * (number % 7))  # at any moment of the page's period
            began = time.time()
            sender.send([_body(WATCHED, f"event-{number}")])
            took.append(_drawn(page, 101 + number) - 1000 * began)
        pages.close()
    return took


def _body(key: str, id_: str) -> str:
    return json.dumps({"key": key, "id": id_})


def _sender(aws: Embedded) -> Any:
    os.environ.update(aws.environment)
    return Pipeline(aws.settings).sender


def _drawn(page: Page, events: int) -> float:
    """When (ms) the browser had drawn this number of the watched key."""
    return float(page.evaluate(_DRAWN, [_NUMBER, f"{events:,}"]))


@contextmanager
def _console(environment: Mapping[str, str]) -> Iterator[str]:
    """The address of a running `tallyroll console`."""
    process = spawned("tallyroll.cli", environment, "--json", "console")
    try:
        assert process.stdout
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.terminate()
        process.wait()


def day_of(keys: int, settings: Any = SMALL) -> Stage:
    """A console over a day in which so many keys were counted, some of them in each hour."""
    pipeline = MemoryPipeline(settings, StillEffects(1_795_046_400_000))
    stage = Stage(pipeline)
    for number in range(24):
        stage.pass_by(HOUR)
        some = range(number, keys, 24)
        stage.count({f"key-{key}": 1 + 5_000 // (key + 10) for key in some})
        stage.count({f"key-{key}": 40 - key for key in range(30)})
    return stage


def update_ms(browser: Browser, updates: int) -> list[float]:
    """Script and layout of each update."""
    stage = day_of(KEYS_OF_DAY)
    pages = Pages(browser)
    page = opened(pages, stage)
    page.locator("tr[data-key]").first.wait_for(timeout=PATIENCE_MS)

    def update() -> None:
        stage.count({f"key-{key}": key % 3 for key in range(30)})
        with page.expect_response("**/api/tonight*", timeout=PATIENCE_MS):
            pass

    for _ in range(WARM_UP):
        update()
    browser.start_tracing(page=page, categories=["devtools.timeline", "toplevel", "v8"])
    for _ in range(updates + 1):
        update()
    trace = json.loads(browser.stop_tracing())["traceEvents"]
    pages.close()
    stage.close()
    return updates_of(trace)


def updates_of(trace: Sequence[Mapping[str, Any]]) -> list[float]:
    """The ms of script and layout from one answer to the next, of a trace of Chromium."""
    threads = {
        (each["pid"], each["tid"])
        for each in trace
        if each["name"] == "thread_name" and each["args"]["name"] == "CrRendererMain"
    }
    answered = sorted(
        each["ts"]
        for each in trace
        if each["name"] == "ResourceReceiveResponse"
        and each["args"]["data"]["mimeType"] == "application/json"
    )
    spans = [
        (each["ts"], each["ts"] + each["dur"])
        for each in trace
        if each.get("ph") == "X" and each["name"] in WORK and (each["pid"], each["tid"]) in threads
    ]
    return [
        _covered((begin, end) for begin, end in spans if first <= begin < after) / 1000
        for first, after in itertools.pairwise(answered)
    ]


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """How much of the time spans cover that may lie in each other."""
    covered = until = 0.0
    for begin, end in sorted(spans):
        covered += max(0.0, end - max(begin, until))
        until = max(until, end)
    return covered


def night(browser: Browser, updates: int) -> list[Mapping[str, float]]:
    """What the tab holds after an hour, and at the end of the night: bytes, nodes, listeners."""
    stage = Stage(MemoryPipeline(SMALL, StillEffects()))
    stage.pass_by(HOUR)
    step = NIGHT_MS // updates
    pages = Pages(browser)
    page = opened(pages, stage)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    held: list[Mapping[str, float]] = []
    for number in range(updates):
        stage.count({f"key-{key}": 1 for key in range(number % 40)})
        stage.pass_by(step)
        with page.expect_response("**/api/tonight*", timeout=PATIENCE_MS):
            page.clock.fast_forward(step)
        if number + 1 in (updates // 12, updates):
            session.send("HeapProfiler.collectGarbage")
            found = session.send("Performance.getMetrics")["metrics"]
            values = {each["name"]: each["value"] for each in found}
            held.append({name: values[of] for name, of in HELD.items()})
    pages.close()
    stage.close()
    return held


if __name__ == "__main__":
    main()
