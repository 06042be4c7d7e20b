"""How long a newcomer's first steps take, from a fresh clone: `make firstday`.

Clones this repository into a temporary folder and runs the code blocks of the pages for beginners
there, from top to bottom, with an empty home. The first page includes the installation.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.docs.walks import ROOT, blocks_of, reading
from tests.harness.ports import free_ports

# The seconds that each may take.
PAGES = {"start-counting.md": 120, "start-history.md": 300, "start-on-call.md": 600}


def main() -> None:
    """Walk the pages and print the seconds of each block."""
    table = Table(title="From a fresh clone", title_justify="left")
    for name in ("page", "block", "seconds", "at most"):
        table.add_column(name, justify="right" if name in ("seconds", "at most") else "left")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        clone = home / "tallyroll"
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)  # noqa: S607
        for page, most in PAGES.items():
            whole = 0.0
            with reading(home, free_ports(), clone) as reader:
                for block in blocks_of(clone / "docs" / page):
                    if block.how:
                        began = time.monotonic()
                        reader.run(block)
                        took = time.monotonic() - began
                        whole += took
                        table.add_row("", block.text.splitlines()[0][:60], f"{took:.1f}", "")
            table.add_row(page, "all", f"{whole:.1f}", f"{most}", end_section=True)
    Console().print(table)


if __name__ == "__main__":
    main()
