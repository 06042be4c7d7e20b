"""`make aws-test`: who is asked what, and that a trial ends with everything removed."""

from __future__ import annotations

import io
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from release.cdk_command import CommandError
from tests.trial.conftest import ACCOUNT
from trial import __main__ as module
from trial.__main__ import main
from trial.account import Account
from trial.load import Truth
from trial.measures import Measured, Series
from trial.steps import Round, Trial
from trial.teardown import Left, Remover

LEFT = Left("table aws-test-catalog", "aws dynamodb delete-table --table-name aws-test-catalog")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def removed(account: Account, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Counts teardowns, which remove everything."""
    calls: list[str] = []

    def run(self: Remover) -> list[Left]:
        calls.append(self.name)
        return []

    monkeypatch.setattr(Remover, "run", run)
    return calls


def exact(trial: Trial) -> None:
    """What a trial that went well knows at its end."""
    truth = Truth(messages=3)
    truth.note("hot", 1, 3)
    one = Round("scan", truth, sealed=3, seconds={"sending": 1.0})
    one.windows["scan"] = 1
    trial.rounds.append(one)
    trial.compared = 1
    writer = {"Messages": 3.0, "EventsCounted": 3.0}
    queue = {"NumberOfMessagesReceived": 3.0, "NumberOfEmptyReceives": 0.0}
    functions = {"aws-test-writer": Series(30.0, 1.0, 30.0)}
    trial.measured = Measured(functions, writer, {"t": 6.0}, {"t": 1.0}, queue)


@pytest.fixture
def going(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Trial], None]], None]:
    """Let a trial do this."""
    return lambda run: monkeypatch.setattr(Trial, "run", run)


def given(tmp_path: Path, *more: str) -> list[str]:
    return ["--yes", ACCOUNT, "--json", str(tmp_path / "found.json"), *more]


def failing(error: BaseException) -> Callable[[Trial], None]:
    def run(trial: Trial) -> None:
        exact(trial)
        raise error

    return run


def test_a_trial_that_goes_well_is_shown_written_and_removed(
    removed: list[str],
    going: Callable[..., None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    going(exact)

    assert main(given(tmp_path)) == 0

    said = capsys.readouterr()
    assert "h cost at most $" in said.err
    assert f"account {ACCOUNT}, Region eu-west-1" in said.err
    assert "EXACT  3 events of 1 keys" in said.out
    assert "messages in a writer's batch, mean" in said.out
    assert "everything was removed" in said.err
    assert removed == ["aws-test"]
    assert (tmp_path / "found.json").exists()


@pytest.mark.parametrize(
    ("error", "status"), [(KeyboardInterrupt(), 130), (CommandError("cdk: status 1"), 1)]
)
def test_after_a_failure_and_after_ctrl_c_everything_is_removed(
    removed: list[str],
    going: Callable[..., None],
    tmp_path: Path,
    error: BaseException,
    status: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    going(failing(error))

    assert main(given(tmp_path)) == status

    assert removed == ["aws-test"]
    assert (tmp_path / "found.json").exists()
    assert ("interrupted" if status == 130 else "status 1") in capsys.readouterr().err


def test_a_mistake_of_the_command_itself_removes_everything_too(
    removed: list[str], going: Callable[..., None], tmp_path: Path
) -> None:
    going(failing(ZeroDivisionError()))

    with pytest.raises(ZeroDivisionError):
        main(given(tmp_path))

    assert removed == ["aws-test"]


def test_sigterm_does_what_ctrl_c_does(
    removed: list[str], going: Callable[..., None], tmp_path: Path
) -> None:
    going(lambda _trial: signal.raise_signal(signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)

    assert main(given(tmp_path)) == 130
    assert signal.getsignal(signal.SIGTERM) is before
    assert removed == ["aws-test"]


def test_problems_are_shown_and_give_status_1(
    removed: list[str],
    going: Callable[..., None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(trial: Trial) -> None:
        exact(trial)
        trial.counted["hot"] = (3, 2)

    going(run)

    assert main(given(tmp_path)) == 1

    said = capsys.readouterr()
    assert "PROBLEM  hot: 3 sent, 2 counted" in said.out
    assert "EXACT  3" not in said.out
    assert removed == ["aws-test"]


def test_an_alarm_without_data_is_shown_and_gives_status_1(
    removed: list[str],
    going: Callable[..., None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(trial: Trial) -> None:
        exact(trial)
        assert trial.measured
        trial.measured.without_data.append("aws-test-in-flight: there is no such alarm")

    going(run)

    assert main(given(tmp_path)) == 1

    said = capsys.readouterr().out
    assert "NO DATA  aws-test-in-flight: there is no such alarm" in said
    assert "EXACT  3" in said
    assert removed == ["aws-test"]


def test_what_is_left_is_named_and_gives_status_1(
    account: Account,
    going: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    going(exact)
    monkeypatch.setattr(Remover, "run", lambda _: [LEFT])

    assert main(given(tmp_path)) == 1

    said = capsys.readouterr().err
    assert LEFT.what in said
    assert LEFT.command in said
    assert "make aws-test ARGS=--teardown" in said


def test_ctrl_c_while_all_is_removed_names_what_is_left(
    account: Account,
    going: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    going(exact)
    looks = iter([[], [LEFT]])

    def interrupted(_: Remover) -> list[Left]:
        raise KeyboardInterrupt

    monkeypatch.setattr(Remover, "run", interrupted)
    monkeypatch.setattr(Remover, "left", lambda _: next(looks))

    assert main(given(tmp_path)) == 1
    assert LEFT.command in capsys.readouterr().err


def test_credentials_that_expire_meanwhile_are_told_with_the_command_that_goes_on(
    account: Account,
    going: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    going(exact)

    def expired(_: Remover) -> list[Left]:
        raise ClientError({"Error": {"Code": "ExpiredToken"}}, "ListTables")

    monkeypatch.setattr(Remover, "run", expired)

    assert main(given(tmp_path)) == 1

    said = capsys.readouterr().err
    assert "cannot be listed" in said
    assert "ExpiredToken" in said
    assert "make aws-test ARGS=--teardown" in said


def test_a_pipeline_that_is_to_be_kept_stays(
    removed: list[str],
    going: Callable[..., None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    going(exact)

    assert main(given(tmp_path, "--keep")) == 0

    assert removed == []
    assert "kept: it costs money" in capsys.readouterr().err


@pytest.mark.parametrize("typed", ["210987654321\n", "yes\n", ""])
def test_another_answer_than_the_accounts_id_does_nothing(
    removed: list[str], monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    assert main([]) == 2
    assert removed == []


def test_the_accounts_id_typed_goes_on(
    removed: list[str], going: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    going(exact)
    monkeypatch.setattr("sys.stdin", Terminal(f"{ACCOUNT}\n"))

    assert main(["--json", str(tmp_path / "found.json")]) == 0
    assert removed == ["aws-test"]


def test_where_nobody_can_be_asked_the_option_is_named(
    removed: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{ACCOUNT}\n"))

    assert main([]) == 2
    assert f"give --yes {ACCOUNT}" in capsys.readouterr().err


def test_another_account_is_refused(removed: list[str], tmp_path: Path) -> None:
    assert main(given(tmp_path, "--account", "210987654321")) == 2
    assert main(["--yes", "210987654321"]) == 2
    assert removed == []


def test_what_an_earlier_trial_left_is_to_be_removed_first(
    removed: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Remover, "left", lambda _: [LEFT])

    assert main(given(tmp_path)) == 2
    assert "there is already table aws-test-catalog" in capsys.readouterr().err
    assert removed == []


def test_a_teardown_lists_what_it_removes(
    removed: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Remover, "left", lambda _: [LEFT])

    assert main(["--teardown", "--yes", ACCOUNT, "--name", "aws-test-2"]) == 0

    assert "with all that they hold:\n  table aws-test-catalog" in capsys.readouterr().err
    assert removed == ["aws-test-2"]


@pytest.mark.parametrize("name", ["votes", "aws-tests", "aws-test-", "aws-test-" + "x" * 21])
def test_no_pipeline_of_another_kind_of_name_can_be_removed(name: str) -> None:
    with pytest.raises(SystemExit):
        main(["--teardown", "--name", name])


def test_an_unknown_exporter_is_refused() -> None:
    with pytest.raises(SystemExit):
        main(["--exporters", "scan,both"])


def test_no_region_is_told_in_a_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))

    assert main([]) == 2
    assert "no Region is set" in capsys.readouterr().err
    assert module.NAME == "aws-test"
