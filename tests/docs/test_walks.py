"""Every command of the documents runs, in the state in which its reader would be."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.docs.walks import COMMANDS, DOCUMENTS, ROOT, Block, blocks_of, reading
from tests.harness.ports import free_ports
from tests.harness.processes import ran

BLOCKS = [block for path in DOCUMENTS for block in blocks_of(path)]
FIRST_READ = "README.md"  # walked by each change, the others in the proof
ELSEWHERE = "aws"  # tests/e2e walks these
WALKED = sorted({block.document for block in BLOCKS if block.how not in (None, ELSEWHERE)})


def test_each_block_says_how_it_is_run_or_why_not() -> None:
    def is_clear(block: Block) -> bool:
        is_command = block.language in COMMANDS
        known = block.how in (None, "start", "shell", "python", ELSEWHERE)
        return known and is_command == bool(block.how or block.why_not)

    assert len(BLOCKS) > 100
    assert [block.place for block in BLOCKS if not is_clear(block)] == []


@pytest.mark.engine
@pytest.mark.parametrize(
    "document",
    [pytest.param(name, marks=() if name == FIRST_READ else pytest.mark.proof) for name in WALKED],
)
def test_a_document_can_be_walked(document: str, tmp_path: Path) -> None:
    with reading(tmp_path, free_ports()) as reader:
        for block in BLOCKS:
            if block.document == document and block.how not in (None, ELSEWHERE):
                reader.run(block)


@pytest.mark.proof
def test_the_python_of_reads_has_strict_types(tmp_path: Path) -> None:
    blocks = [
        each for each in BLOCKS if each.place.startswith("reading.md") and each.how == "python"
    ]
    assert len(blocks) > 8
    names = [f"line_{block.line}.py" for block in blocks]
    for name, block in zip(names, blocks, strict=True):
        (tmp_path / name).write_text(block.text, encoding="utf-8")
    options = ["--strict", "--config-file=", "--follow-imports=silent"]
    command = [sys.executable, "-m", "mypy", *options, *names]
    checked = ran(command, cwd=tmp_path, env={"MYPYPATH": str(ROOT / "src")})
    assert checked.returncode == 0, checked.stdout
