"""The package for a package index: a source distribution and a wheel, with the functions' asset.

    python -m release.dist [FOLDER]

writes both into the folder, by default `dist`, and checks them. The same sources, packages and
interpreter give the same bytes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from release import prebuilt
from release.bundle import ROOT, RUNTIME, BundleError
from tallyroll.settings.options import Options

_WRITTEN = ("*.tar.gz", "*.whl")


def build(folder: Path) -> list[Path]:
    """Build the asset and both distributions, the wheel out of the source distribution; return
    their paths. Removes older ones from the folder. Tells its steps. Raises BundleError.
    """
    _say("gathering the functions' asset")
    shutil.rmtree(prebuilt.FOLDER, ignore_errors=True)
    prebuilt.build_for_package(prebuilt.FOLDER)
    for pattern in _WRITTEN:
        for old in folder.glob(pattern):
            old.unlink()
    _say("building the source distribution, and the wheel out of it")
    # -P: or the folder `build` of this repository would be in the way of the module's.
    _run("build", "--no-isolation", "--outdir", str(folder), str(ROOT))
    made = [path for pattern in _WRITTEN for path in sorted(folder.glob(pattern))]
    _say("checking both")
    _run("twine", "check", "--strict", *map(str, made))
    return made


def _say(doing: str) -> None:
    print(f"{doing} ...", file=sys.stderr, flush=True)  # noqa: T201  (its progress)


def _run(module: str, *arguments: str) -> None:
    command = [sys.executable, "-P", "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BundleError(f"{module} failed:\n{done.stdout}{done.stderr}")


def main() -> None:
    """Build them, and say what was built."""
    folder = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "dist"
    try:
        made = build(folder.resolve())
    except BundleError as error:
        sys.exit(str(error))
    runtime = Options().runtime
    if runtime != RUNTIME:
        print(  # noqa: T201  (its output)
            f"The asset's byte-code is for {RUNTIME}, and the default runtime is"
            f" {runtime}: with that Python (make PYTHON=...) functions start faster."
        )
    for path in made:
        print(f"{path}  {path.stat().st_size:,} bytes, checked")  # noqa: T201


if __name__ == "__main__":
    main()
