"""Every command of the documents runs, in the state in which its reader would be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.walks import COMMANDS, DOCUMENTS, Block, blocks_of, reading
from tests.harness.ports import free_ports

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
