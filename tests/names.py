"""No two public classes of the core share a name: `python -m tests.names`.

So a class name has one meaning in the whole core. `Tallyroll` is the exception: users import the
construct `tallyroll.cdk.Tallyroll` and the fixture's type `tallyroll.testing.Tallyroll`.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

CORE = Path(__file__).resolve().parents[1] / "src" / "tallyroll"
EXPORTED_TWICE = {"Tallyroll": {"cdk/pipeline.py", "testing/fixture.py"}}


def repeated(core: Path) -> dict[str, set[str]]:
    """The files of each public class whose name stands in several of them."""
    places: defaultdict[str, set[str]] = defaultdict(set)
    for path in core.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(path.relative_to(core).as_posix())
    return {name: found for name, found in places.items() if len(found) > 1}


if __name__ == "__main__":
    if found := {k: v for k, v in repeated(CORE).items() if EXPORTED_TWICE.get(k) != v}:
        sys.exit("".join(f"{k}: a class of {', '.join(sorted(v))}\n" for k, v in found.items()))
