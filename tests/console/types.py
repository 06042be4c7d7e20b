"""Checks the types of the console's modules, which JSDoc declares, by the TypeScript compiler.

    python -m tests.console.types

The compiler comes from npm into `.engine/` in the clone, once.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from release import npm
from tests.harness.processes import ran

FOLDER = Path(__file__).parent / "npm" / "types"
SOURCES = Path(__file__).parents[2] / "src" / "tallyroll" / "console"
STRICT = shlex.split("""
    --strict --noUncheckedIndexedAccess --noUnusedLocals --noImplicitReturns --checkJs --allowJs
    --noEmit --pretty false --target es2022 --module esnext --moduleResolution bundler
    --lib es2023,dom,dom.iterable --types ""
""")


def complaints(sources: list[Path]) -> str:
    """What the compiler finds in some modules and in what they import, a line each.

    Raises:
        npm.NpmError: The compiler could not be fetched.
    """
    home = npm.home(FOLDER, "typescript")
    npm.fetch(FOLDER, home)
    (compiler,) = home.glob("@typescript/*/lib/tsc")  # that of this platform
    said = ran([str(compiler), *STRICT, *map(str, sources)])
    assert bool(said.returncode) == bool(said.stdout), said.stderr
    return said.stdout


def main() -> int:
    """Check them; 1 and the complaints if there are any."""
    try:
        sources = [own for own in sorted(SOURCES.rglob("*.js")) if ".min." not in own.name]
        found = complaints(sources) if sources else ""
    except npm.NpmError as error:
        found = f"the compiler of TypeScript is missing: {error}\n"
    sys.stderr.write(found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
