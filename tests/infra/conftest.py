"""The synthesized template, as plain JSON, and the assembled bundle."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import app
from infra.bundle import assemble

Template = dict[str, Any]
SKIP_BUNDLING: dict[str, list[str]] = {"aws:cdk:bundling-stacks": []}


@pytest.fixture(scope="session")
def synthesize(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Template]]:
    """Synthesize with these options, without the asset."""

    def synthesized(**options: object) -> Template:
        context = {f"tallyroll:{name}": value for name, value in options.items()}
        outdir = tmp_path_factory.mktemp("cdk.out")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other people's packages
            path = app.synthesize(str(outdir), {**context, **SKIP_BUNDLING})
        template: Template = json.loads(path.read_text())
        return template

    with pytest.MonkeyPatch.context() as patch:
        # Whatever the app sets there ends with these tests.
        patch.setenv("JSII_NODE", os.environ.get("JSII_NODE", ""))
        yield synthesized


@pytest.fixture(scope="session")
def template(synthesize: Callable[..., Template]) -> Template:
    """The template of a pipeline of defaults."""
    return synthesize()


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The functions' asset."""
    target = tmp_path_factory.mktemp("bundle")
    assemble(target)
    return target
