"""The pipeline's options of `python -m local`: read as in a deployment, and what they change."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

from local.aws.embedded import scaled_settings
from local.options import _OF_AWS_ALONE, LocalOptions, options_of
from tallyroll.model.windows import KEYSPACES
from tallyroll.settings import Settings
from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import OptionsError

ROOT = Path(__file__).parents[2]


def options(*given: str, window_seconds: int = 60, store: str = "dynamodb") -> LocalOptions:
    texts = [f"tallyroll:{text}" for text in given]
    return options_of(texts, name="mine", window_seconds=window_seconds, store=store)


@pytest.mark.parametrize("seconds", [1, 7, 60, 3_600, 86_400])
def test_without_options_all_is_in_proportion_to_the_window(seconds: int) -> None:
    chosen = options(window_seconds=seconds)
    assert chosen.settings == scaled_settings("mine", seconds)
    assert (chosen.batch_size, chosen.batch_window_s, chosen.without_effect) == (100, 0.1, ())


def test_options_of_a_deployment() -> None:
    chosen = options(
        "window_seconds=3600",
        "shards=64",
        'mapping={"key": "detail.videoId"}',
        "max_concurrency=100",
        "retention_seconds=259200",
        "skew_seconds=7",
        "batch_size=10",
        "batch_window_seconds=2",
    )
    hour = scaled_settings("mine", 3_600)
    assert chosen.settings == replace(
        hour,
        shards=64,
        mapping={"key": "detail.videoId"},
        stripes_min=3_200,
        gates=4_096,
        retention_ms=259_200_000,
        skew_ms=7_000,
        visibility_ms=hour.visibility_ms + 12_000,
    )
    assert (chosen.batch_size, chosen.batch_window_s, chosen.without_effect) == (10, 2, ())


def test_an_option_goes_before_an_argument_also_at_its_default() -> None:
    given = [f"tallyroll:{text}" for text in ("name=votes", "retention_seconds=259200")]
    chosen = options_of(given, name="mine", window_seconds=86_400, retention_seconds=60)
    assert (chosen.settings.name, chosen.settings.retention_ms) == ("votes", 259_200_000)
    plain = options_of([], name="mine", window_seconds=60, retention_seconds=61)
    assert plain.settings.retention_ms == 61_000


def test_options_without_effect_are_checked_and_named() -> None:
    chosen = options("log_days=7", "warm_units=9000", "alarm_email=on-call@example.com")
    assert chosen.without_effect == ("alarm_email", "log_days", "warm_units")
    assert chosen.settings == scaled_settings("mine", 60)


def test_the_settings_without_effect_exist() -> None:
    assert {setting.name for setting in fields(Settings)} >= _OF_AWS_ALONE
    assert {option.name for option in fields(Options)} >= _OF_AWS_ALONE


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("tallyroll:shards=many", "tallyroll:shards 'many': give a whole number from 1 to"),
        ("tallyroll:window_seconds=90", "tallyroll:window_seconds '90': give 1 to 60"),
        ("tallyroll:shard=3", "tallyroll:shard: there is no such option; the nearest is"),
        ("shards=3", "-c shards=3: give -c tallyroll:shards=3"),
        ("tallyroll:shards", "-c tallyroll:shards: give -c tallyroll:shards=VALUE"),
        ("tallyroll:log_days=2", "tallyroll:log_days '2': give one of 1, 3"),
        ("tallyroll:store=keyspaces", "--engine says where the windows are"),
        ("tallyroll:retention_seconds=259200", "over the quota of 2,500 (tallyroll:table_quota"),
        ("tallyroll:name=X", "tallyroll:name 'X': give 3 to 48"),
    ],
)
def test_wrong_options_are_refused_with_the_remedy(given: str, told: str) -> None:
    with pytest.raises(OptionsError, match=told.replace("(", r"\(")):
        options_of([given], name="mine", window_seconds=60)


def test_a_store_without_transactions_takes_no_events_of_several_keys() -> None:
    assert options("shards=2", store=KEYSPACES).settings.shards == 2
    with pytest.raises(OptionsError, match=r"mapping .* have no transactions"):
        options('mapping={"keys": ["a", "b"]}', store=KEYSPACES)


def test_keys_are_logged_in_a_store_with_transactions_alone() -> None:
    asked = 'logs={"home": 1000}'
    assert options(asked).settings.logs == {"home": 1_000}
    with pytest.raises(OptionsError, match=r"logs .* have no transactions"):
        options(asked, store=KEYSPACES)


def test_ids_are_remembered_beyond_windows_in_a_store_with_transactions_alone() -> None:
    asked = ("identity=pipeline", "identity_days=7")
    found = options(*asked)
    assert (found.settings.identity, found.settings.identity_days) == ("pipeline", 7)
    assert found.without_effect == ()
    with pytest.raises(OptionsError, match=r"identity pipeline: .* have no transactions"):
        options(*asked, store=KEYSPACES)


def test_options_need_no_cdk() -> None:
    """`make local` installs none."""
    code = "import local.options, sys; print({'aws_cdk', 'constructs', 'jsii'} & set(sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    assert told.stdout == b"set()\n"
