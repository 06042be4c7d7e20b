"""The blocks of docs/testing.md are a project whose tests pass."""

from __future__ import annotations

from pathlib import Path

from tests.docs.walks import ROOT, blocks_of
from tests.testing.projects import passes, run_project


def test_the_project_of_the_document_passes(tmp_path: Path) -> None:
    blocks = [
        block for block in blocks_of(ROOT / "docs" / "testing.md") if block.language == "python"
    ]
    files = {block.text.splitlines()[0].removeprefix("# "): block.text for block in blocks}
    assert len(files) == len(blocks) == 6
    assert all(name.endswith(".py") for name in files)
    tests = sum(text.count("def test_") for text in files.values())
    passes(run_project(tmp_path, files), tests)
