from __future__ import annotations

import pytest

from infra.options import VISIBILITY_BATCHES, WRITER_TIMEOUT_SECONDS, Options, OptionsError
from tallyroll.settings import Settings


def test_without_context_options_are_the_settings_defaults() -> None:
    settings = Options.from_context({"@aws-cdk/core:something": True}).settings()

    defaults = Settings()
    assert settings.name == defaults.name
    assert settings.window_seconds == defaults.window_seconds
    assert settings.shards == defaults.shards
    assert settings.retention_ms == defaults.retention_ms
    assert settings.accept_for_ms == defaults.accept_for_ms


def test_context_gives_numbers_as_text_too() -> None:
    context = {
        "tallyroll:name": "votes",
        "tallyroll:window_seconds": "60",
        "tallyroll:shards": 200,
        "tallyroll:retention_seconds": "86400",
        "tallyroll:accept_for_seconds": 0,
        "tallyroll:batch_size": "10000",
        "tallyroll:batch_window_seconds": "5",
        "tallyroll:max_concurrency": 20,
    }
    options = Options.from_context(context)

    assert options == Options(
        name="votes",
        window_seconds=60,
        shards=200,
        retention_seconds=86_400,
        accept_for_seconds=0,
        batch_size=10_000,
        batch_window_seconds=5,
        max_concurrency=20,
    )
    settings = options.settings(queue_url="q", dead_letters_url="d", bucket="b")
    assert settings.name == "votes"
    assert (settings.queue_url, settings.dead_letters_url, settings.bucket) == ("q", "d", "b")
    assert (settings.window_seconds, settings.shards) == (60, 200)
    assert (settings.retention_ms, settings.accept_for_ms) == (86_400_000, 0)


def test_unknown_key_is_refused_by_name_and_the_known_ones_are_told() -> None:
    with pytest.raises(OptionsError, match=r"tallyroll:shard: .*tallyroll:shards") as refused:
        Options.from_context({"tallyroll:shard": 3})
    assert "tallyroll:max_concurrency" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("batch_size", 0, "tallyroll:batch_size 0"),
        ("batch_size", "10001", "tallyroll:batch_size 10001"),
        ("batch_window_seconds", 301, "tallyroll:batch_window_seconds 301"),
        ("batch_window_seconds", 0, "tallyroll:batch_window_seconds 0"),
        ("max_concurrency", 1, "tallyroll:max_concurrency 1"),
        ("max_concurrency", "many", "tallyroll:max_concurrency 'many'"),
        ("shards", True, "tallyroll:shards True"),
        ("shards", 1.5, r"tallyroll:shards 1\.5"),
        ("shards", 0, "TALLYROLL_SHARDS 0"),
        ("window_seconds", 90, "TALLYROLL_WINDOW_SECONDS.* 90 s"),
        ("retention_seconds", -1, "TALLYROLL_RETENTION_MS -1000"),
        ("accept_for_seconds", 10**9, "TALLYROLL_ACCEPT_FOR_MS"),
        ("name", "Votes", "TALLYROLL_NAME 'Votes'"),
    ],
)
def test_value_out_of_range_is_refused_by_name(name: str, value: object, said: str) -> None:
    with pytest.raises(OptionsError, match=said):
        Options.from_context({f"tallyroll:{name}": value})


@pytest.mark.parametrize("window_seconds", [0, 1, 300])
def test_the_queue_hides_messages_for_six_batches(window_seconds: int) -> None:
    settings = Options(batch_size=10, batch_window_seconds=window_seconds).settings()

    batch_ms = (WRITER_TIMEOUT_SECONDS + window_seconds) * 1000
    assert VISIBILITY_BATCHES == 6
    assert settings.visibility_ms >= 6 * batch_ms


@pytest.mark.parametrize(("writers", "stripes"), [(2, 64), (4, 128), (100, 3_200), (1_000, 10_000)])
def test_stripes_grow_with_the_commits_at_once(writers: int, stripes: int) -> None:
    assert Options(max_concurrency=writers).settings().stripes_min == stripes
