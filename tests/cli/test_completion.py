from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tallyroll.cli import archive, dlq, windows
from tallyroll.cli.main import main
from tests.harness.processes import ran

SHELLS = ("bash", "zsh", "fish")


@pytest.fixture(autouse=True)
def groups_keep_their_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script describes groups by their summaries, and would leave them so in this process."""
    for group in (archive.app, dlq.app, windows.app):
        monkeypatch.setattr(group, "help", group.help)


@pytest.fixture
def scripts(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    found = {}
    for shell in SHELLS:
        assert main(["completion", shell]) == 0
        found[shell] = capsys.readouterr().out
    return found


def completed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> list[str]:
    """What cyclopts' protocol offers for the last of these words."""
    monkeypatch.setenv("CYCLOPTS_COMPLETION_WORDS", "".join(f"{word}\x1f" for word in words))
    assert main(["__complete"]) == 0
    records = capsys.readouterr().out.partition("\x1fbegin\n")[2].splitlines()
    return [record.partition("\t")[0] for record in records if not record.startswith("\x1f")]


def test_each_shell_has_a_script_of_all_commands(scripts: dict[str, str]) -> None:
    assert scripts["bash"].rstrip().endswith("complete -F _tallyroll tallyroll")
    assert scripts["zsh"].startswith("#compdef tallyroll")
    assert "complete -c tallyroll" in scripts["fish"]
    for script in scripts.values():
        for word in ("redrive", "explain", "limit-rate", "accept-for", "exporting", "json"):
            assert word in script


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "ksh"]) == 2
    said = capsys.readouterr().err
    assert 'Invalid value "ksh"' in said
    assert '"bash", "zsh", "fish"' in said


def test_commands_and_options_complete(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert completed(monkeypatch, capsys, "dlq", "re") == ["redrive"]
    assert completed(monkeypatch, capsys, "arch") == ["archive"]
    assert completed(monkeypatch, capsys, "dlq", "redrive", "--re") == ["--reason"]
    assert completed(monkeypatch, capsys, "windows", "list", "--state", "ope") == ["open"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes(scripts: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "completion.bash"
    file.write_text(
        scripts["bash"]
        + "COMP_WORDS=(tallyroll dlq re); COMP_CWORD=2; _tallyroll; echo ${COMPREPLY[*]}\n"
        + "COMP_WORDS=(tallyroll --name v arch); COMP_CWORD=3; _tallyroll; echo ${COMPREPLY[*]}\n"
    )
    done = ran(["bash", str(file)], check=True)
    assert done.stdout == "redrive\narchive\n"
