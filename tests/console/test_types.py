from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.console.types import complaints

RIGHT = "/** @param {number} a */\nexport const wide = (a) => a + 1;\n"
WRONG = {
    "wide(String(1));": "TS2345",
    "for (const p of [document.querySelector('p')]) p.hidden = true;": "TS18047",
    "/** @type {number[]} */ const some = []; wide(some[0]);": "TS2345",
    "export function untyped(a) { return a; }": "TS7006",
}


@pytest.mark.proof  # `make check` runs it; this takes 8 s
def test_each_wrong_type_is_told(tmp_path: Path) -> None:
    right, wrong = tmp_path / "right.js", tmp_path / "wrong.js"
    right.write_text(RIGHT)
    wrong.write_text('import { wide } from "./right.js";\n' + "\n".join(WRONG))
    told = re.findall(r"wrong\.js\((\d+),\d+\): error (\w+)", complaints([right, wrong]))
    assert told == [(str(line), code) for line, code in enumerate(WRONG.values(), 2)]
    assert not complaints([right])
