"""Where the fixture finds the handlers: in a clone, or in the asset of an installed package."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from traceback import format_exception
from typing import Any
from zipfile import ZipFile

import pytest

from tallyroll.testing import TestingError, handlers

ROOT = Path(__file__).parents[2]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of the asset in a package that is not in a clone."""
    asset = tmp_path / "functions.zip"
    monkeypatch.setattr(handlers, "_CLONE", tmp_path)
    monkeypatch.setattr(handlers, "_ASSET", asset)
    return asset


def test_a_clone_uses_its_own_handlers() -> None:
    text, path = handlers._source("writer")
    assert path == str(ROOT / "functions/writer/handler.py")
    assert "def handler(" in text


def test_an_installed_package_uses_those_of_its_asset(installed: Path) -> None:
    with ZipFile(installed, "w") as asset:
        asset.writestr("functions/roller/handler.py", "def handler(): ...")
    text, path = handlers._source("roller")
    assert text == "def handler(): ..."
    assert path == f"{installed}/functions/roller/handler.py"


def test_a_traceback_shows_the_lines_of_an_installed_handler(installed: Path) -> None:
    with ZipFile(installed, "w") as asset:
        asset.writestr("functions/roller/handler.py", "def handler():\n    raise KeyError('k')")
    text, path = handlers._source("roller")
    spec = spec_from_loader("a_roller", handlers._Text(text, path))
    assert spec
    assert spec.loader
    module: Any = module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(KeyError) as caught:
        module.handler()
    shown = "".join(format_exception(caught.value))
    assert f"File \"{path}\", line 2, in handler\n    raise KeyError('k')\n" in shown


def test_a_package_without_handlers_says_what_to_do(installed: Path) -> None:
    with pytest.raises(TestingError, match="Install a wheel that `make dist` built, or a clone"):
        handlers._source("writer")
    with ZipFile(installed, "w"):
        pass
    with pytest.raises(TestingError, match="the handlers are not there"):
        handlers._source("writer")
