"""Takes the pictures of the console from the running page, on a vote night, for light and dark
pages: `docs/pictures/console-{light,dark}.webp`.

    python -m tests.console.picture
"""

from __future__ import annotations

import base64
import math
import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from local.demo.votes import CANDIDATES, SKEW
from tests.console.pages import Pages
from tests.console.stage import Stage
from tests.console.views import row
from tests.harness import browser as chromium
from tests.harness.pipeline import HOUR, MINUTE, SMALL, Pipeline, StillEffects

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
SCHEMES = ("light", "dark")
SIZE = {"width": 1_040, "height": 720}
DENSITY, QUALITY = 1.5, 82
BEGIN = 1_795_197_600_000  # 2026-11-20T18:00:00Z
HOURS, STEP_MS, VOTES = 4, 5 * MINUTE, 16_000
UPDATES, UPDATE_MS = 6, 2_000
_WEIGHTS = [rank**-SKEW for rank in range(1, len(CANDIDATES) + 1)]


def night() -> Stage:
    """A console over a vote night that is at its height."""
    stage = Stage(Pipeline(SMALL, StillEffects(BEGIN)))
    stage.pass_by(0)
    chance = random.Random(1)
    steps = HOURS * HOUR // STEP_MS
    for step in range(steps):
        share = math.sin(math.pi / 2 * (step + 1) / steps) ** 2 * 2 / steps
        cast(stage, chance, round(VOTES * share))
        stage.pass_by(STEP_MS)
    return stage


def cast(stage: Stage, chance: random.Random, votes: int) -> None:
    """Count so many votes."""
    stage.count(Counter(chance.choices(CANDIDATES, _WEIGHTS, k=votes)))


def take(browser: Browser, stage: Stage, scheme: str) -> bytes:
    """A picture of the page, in WebP."""
    chance = random.Random(2)
    pages = Pages(browser)
    page = pages.open(
        stage.url,
        clock=stage.now,
        viewport=SIZE,
        device_scale_factor=DENSITY,
        color_scheme=scheme,
        timezone_id="UTC",
    )
    row(page, CANDIDATES[0]).wait_for()
    for _ in range(UPDATES):
        cast(stage, chance, 30)
        stage.pass_by(UPDATE_MS)
        with page.expect_response("**/api/tonight*"):
            pass
    page.wait_for_timeout(1_000)  # until what moves has come to rest
    session = page.context.new_cdp_session(page)
    taken = session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    pages.close()
    assert not pages.faults, pages.faults
    return base64.b64decode(taken["data"])


def main() -> None:
    """Write both."""
    with chromium.running() as browser:
        for scheme in SCHEMES:
            stage = night()
            (FOLDER / f"console-{scheme}.webp").write_bytes(take(browser, stage, scheme))
            stage.close()


if __name__ == "__main__":
    main()
