from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import pytest

from tallyroll.errors import SettingsError, UsageError
from tallyroll.model.windows import DAY_MS as DAY
from tallyroll.resources import TAG_PIPELINE, TAG_PROVEN, TAG_RESTORED
from tallyroll.settings import Settings
from tallyroll.settings.kinds import Described, Whole, setting
from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import OptionsError
from tallyroll.settings.tags import RESERVED_TAGS

EVERY = Settings(
    name="votes",
    queue_url="https://sqs.example/events",
    dead_letters_url="https://sqs.example/dead",
    bucket="archive",
    store="keyspaces",
    keyspace="elections",
    cassandra="localhost:9042",
    window_seconds=60,
    suffix="product",
    shards=200,
    stripes_rule="shards",
    hot_shards={"candidate=1": 400, "b": 2},
    shards_max=300,
    stripes_min=8,
    buckets=1,
    gates=1,
    accept_for_ms=0,
    skew_ms=0,
    require_ts=True,
    identity="pipeline",
    retraction="queue",
    logs={"home-page": 5_000},
    identity_days=90,
    keep_identities=True,
    mapping={"key": "detail.videoId", "ts_unit": "s"},
    compress_over_bytes=8_192,
    chunk_over_bytes=100_000,
    chunk_bytes=16_384,
    ahead_windows=3,
    warm_units=20_000,
    warm_units_max=40_000,
    provisioned={"write": 900, "read": 300, "cold_write": 1, "cold_read": 50},
    point_in_time_recovery=False,
    contributor_insights=True,
    table_quota=10_000,
    tags={"team": "elections", "Kosten Stelle": "é 42"},
    kms_key="arn:aws:kms:eu-west-1:123456789012:key/1",
    deny_drops=True,
    read_archives=True,
    cache_url="rediss://a:b@cache.example:6380",
    roller_period_ms=1_000,
    retention_ms=0,
    visibility_ms=30_000,
    queue_retention_ms=345_600_000,
    drain_period_ms=1_000,
    drain_margin_ms=0,
    settle_ms=0,
    export_lease_ms=1_000,
    export_segments=2,
    exporter="native",
    archive="parquet",
    archive_lock_days=365,
    archive_lock="compliance",
    archive_expire_days=400,
    transactions_at_once=1,
    write_rate=9_000,
    rollups=False,
    cache_live_ms=0,
    cache_calendar_ms=0,
    tracer=True,
)


def test_the_example_changes_every_setting() -> None:
    """But for `window`, which goes with no `window_seconds`."""
    assert len(EVERY.to_env()) == len(fields(Settings)) - 1


@pytest.mark.parametrize("settings", [EVERY, Settings(), Settings(hot_shards={"k": 7})])
def test_what_one_writes_the_other_reads(settings: Settings) -> None:
    assert Settings.from_env(settings.to_env()) == settings


def test_a_hot_key_may_be_any_key() -> None:
    settings = Settings(hot_shards={"a,b": 7})
    assert Settings.from_env(settings.to_env()) == settings


def test_defaults_need_no_variables() -> None:
    assert Settings.from_env({}) == Settings()
    assert Settings().to_env() == {"TALLYROLL_NAME": "tallyroll"}
    assert Settings.from_env({"TALLYROLL_SHARDS": "", "PATH": "/bin"}) == Settings()


def test_the_number_of_shards_follows_store_and_rule_unless_it_is_given() -> None:
    unset = [Settings(), Settings(stripes_rule="shards"), Settings(store="keyspaces")]
    assert [each.shards for each in unset] == [256, 16, 16]
    assert [each.own_stripes for each in unset] == [True, False, False]
    for settings in (*unset, *(replace(each, shards=256) for each in unset)):
        assert Settings.from_env(settings.to_env()) == settings
    given = Options(store="keyspaces", shards=256).settings()
    assert (given.shards, Options(store="keyspaces").settings().shards) == (256, 16)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("0", False), ("False", False)])
def test_switches(text: str, value: bool) -> None:
    assert Settings.from_env({"TALLYROLL_REQUIRE_TS": text}).require_ts is value


BAD = [
    ("NAME", "x"),
    ("NAME", "Votes"),
    ("NAME", "1votes"),
    ("NAME", "votes-"),
    ("NAME", "v" * 49),
    ("WINDOW", "fortnight"),
    ("STORE", "cassandra"),
    ("STORE", "Keyspaces"),
    ("KEYSPACE", "Votes"),
    ("KEYSPACE", "my-votes"),
    ("KEYSPACE", "1votes"),
    ("KEYSPACE", "v" * 49),
    ("CASSANDRA", "localhost"),
    ("CASSANDRA", "localhost:0"),
    ("CASSANDRA", "localhost:65536"),
    ("CASSANDRA", "http://localhost:9042"),
    ("WINDOW_SECONDS", "0"),
    ("WINDOW_SECONDS", "61"),
    ("WINDOW_SECONDS", "1h"),
    ("SUFFIX", "random"),
    ("STRIPES_RULE", "none"),
    ("SHARDS", "0"),
    ("SHARDS", "10001"),
    ("SHARDS", "16.0"),
    ("LOGS", '{"k": 0}'),
    ("HOT_SHARDS", "k"),
    ("HOT_SHARDS", "[7]"),
    ("HOT_SHARDS", '{"k": "7"}'),
    ("HOT_SHARDS", '{"k": true}'),
    ("HOT_SHARDS", '{"k":0}'),
    ("HOT_SHARDS", '{"k":10001}'),
    ("SHARDS_MAX", "0"),
    ("ARCHIVE_LOCK_DAYS", "-1"),
    ("ARCHIVE_LOCK_DAYS", "36501"),
    ("ARCHIVE_LOCK", "legal-hold"),
    ("ARCHIVE_EXPIRE_DAYS", "30"),
    ("ARCHIVE_EXPIRE_DAYS", "36501"),
    ("STRIPES_MIN", "7"),
    ("WRITE_RATE", "-1"),
    ("WRITE_RATE", "10000001"),
    ("BUCKETS", "0"),
    ("GATES", "0"),
    ("ACCEPT_FOR_MS", "-1"),
    ("SKEW_MS", "86400001"),
    ("REQUIRE_TS", "yes"),
    ("MAPPING", "detail.videoId"),
    ("MAPPING", '["key"]'),
    ("MAPPING", '{"key": 7}'),
    ("MAPPING", '{"key":"a."}'),
    ("MAPPING", '{"id":"a"}'),
    ("COMPRESS_OVER_BYTES", "1023"),
    ("CHUNK_OVER_BYTES", "24575"),
    ("CHUNK_OVER_BYTES", "393217"),
    ("CHUNK_BYTES", "12287"),
    ("AHEAD_WINDOWS", "0"),
    ("WARM_UNITS", "-1"),
    ("WARM_UNITS_MAX", "10000001"),
    ("PROVISIONED", '{"write":900}'),
    ("PROVISIONED", '{"write":900,"read":300,"cold_write":0,"cold_read":50}'),
    ("PROVISIONED", "900"),
    ("POINT_IN_TIME_RECOVERY", "maybe"),
    ("CONTRIBUTOR_INSIGHTS", "maybe"),
    ("TABLE_QUOTA", "0"),
    ("READ_ARCHIVES", "maybe"),
    ("DENY_DROPS", "maybe"),
    ("TAGS", "team"),
    ("TAGS", '{"team": 7}'),
    ("ROLLER_PERIOD_MS", "99"),
    ("IDENTITY", "day"),
    ("RETRACTION", "everybody"),
    ("IDENTITY_DAYS", "0"),
    ("IDENTITY_DAYS", "367"),
    ("KEEP_IDENTITIES", "2"),
    ("RETENTION_MS", "-1"),
    ("VISIBILITY_MS", "999"),
    ("QUEUE_RETENTION_MS", "59999"),
    ("DRAIN_PERIOD_MS", "999"),
    ("DRAIN_MARGIN_MS", "-1"),
    ("SETTLE_MS", "-1"),
    ("EXPORT_LEASE_MS", "999"),
    ("EXPORT_SEGMENTS", "0"),
    ("EXPORTER", "dump"),
    ("ARCHIVE", "json"),
    ("TRANSACTIONS_AT_ONCE", "257"),
    ("ROLLUPS", "2"),
    ("TRACER", "2"),
    ("CACHE_LIVE_MS", "-1"),
    ("CACHE_CALENDAR_MS", "-1"),
]


@pytest.mark.parametrize(("name", "text"), BAD)
def test_a_bad_value_is_named_with_its_variable(name: str, text: str) -> None:
    with pytest.raises(SettingsError) as error:
        Settings.from_env({f"TALLYROLL_{name}": text})
    assert f"TALLYROLL_{name} " in f"{error.value} ".replace(":", " ")
    assert text in str(error.value)


SECRET = "{{resolve:secretsmanager:prod/cache:SecretString:password}}"


@pytest.mark.parametrize(
    "url",
    [
        "rediss://default:p%2Fw@x.serverless.euc1.cache.amazonaws.com:6379",
        "rediss://:pw@cache",
        f"rediss://reader:{SECRET}@cache:6379",
        "redis://127.0.0.1:6379",
        "redis://:pw@localhost",
    ],
)
def test_a_shared_cache_has_tls_and_a_password_or_is_on_this_machine(url: str) -> None:
    assert Settings.from_env({"TALLYROLL_CACHE_URL": url}).cache_url == url
    assert Options(cache_url=url).cache_url == url


@pytest.mark.parametrize(
    "url",
    [
        "redis://a:hush@cache:6379",
        "rediss://cache:6379",
        "rediss://hush@cache:6379",
        "rediss://a:hush@cache:0",
        "rediss://a:hush@cache:65536",
        "rediss://a:hush@cache:6379?ssl_cert_reqs=none",
        "rediss://a:hush@cache:6379/1",
        "redis://127.0.0.1.example:6379",
        "redis://a:hush@b@localhost",
        "valkey://127.0.0.1",
        "unix:///tmp/hush",
        "hush",
    ],
)
def test_any_other_address_of_a_cache_is_refused_and_not_shown(url: str) -> None:
    said = r"^\S+(CACHE_URL|cache_url) \(not shown\): give rediss://USER:PASSWORD@HOST:PORT"
    for make in (lambda: Settings(cache_url=url), lambda: Options(cache_url=url)):
        with pytest.raises(UsageError, match=said) as error:
            make()
        assert "hush" not in str(error.value)


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ({"team": "a", "tallyroll": "votes"}, "'tallyroll': tallyroll, tallyroll-restored, prov"),
        ({"Proven": "a1"}, "'Proven': .* and aws:... are reserved; give another key"),
        ({"tallyroll-restored": "x"}, "'tallyroll-restored': .* are reserved"),
        ({"AWS:team": "x"}, "'AWS:team': .* are reserved"),
        ({"team": "a", "Team": "b"}, "'Team': 'team' is a tag too, .* give one of them"),
        ({"": "x"}, "'': 0 characters; give a key of 1 to 128"),
        ({"k" * 129: "x"}, "'k+': 129 characters; give a key of 1 to 128"),
        ({"team": "v" * 257}, "'team': its value has 257 characters; give at most 256"),
        ({f"k{n}": "" for n in range(48)}, "'k47': it is tag 48 of 48; give at most 47"),
        (
            {"a": "v", "long": "v" * 256, **{f"k{n}": "v" * 240 for n in range(9)}},
            "'long': all tags together have 2,[0-9]+ bytes as JSON, this one the most; give at m",
        ),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_tags_that_aws_or_the_pipeline_refuses(tags: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=f"^TALLYROLL_TAGS {said}"):
        Settings(tags=tags)


def test_the_most_tags_and_the_longest_pass() -> None:
    Settings(tags={f"k{n}": "v" for n in range(47)})
    Settings(tags={"k" * 128: "v" * 256})


def test_the_pipelines_own_tags_are_the_reserved_ones() -> None:
    assert set(RESERVED_TAGS) == {TAG_PIPELINE, TAG_RESTORED, TAG_PROVEN}


def test_windows_whose_tables_pass_the_quota_are_refused() -> None:
    minutes = {"TALLYROLL_WINDOW_SECONDS": "60"}
    with pytest.raises(SettingsError, match=r"RETENTION_MS 259200000: .* 4,383 tables .* 2,500"):
        Settings.from_env(minutes)
    assert Settings.from_env({**minutes, "TALLYROLL_TABLE_QUOTA": "5000"}).tables_kept == 4_383
    assert Settings.from_env({**minutes, "TALLYROLL_RETENTION_MS": "3600000"}).tables_kept == 123


def test_keyspaces_has_a_quota_of_its_own_for_window_tables_and_the_permanent_ones() -> None:
    keyspaces = {"TALLYROLL_STORE": "keyspaces"}
    days = {"TALLYROLL_RETENTION_MS": "864000000"}  # 10 days: 244 windows, and 3 permanent tables
    assert Settings.from_env({**keyspaces, **days}).tables_kept == 244
    longer = {"TALLYROLL_RETENTION_MS": "903600000"}
    with pytest.raises(SettingsError, match=r"RETENTION_MS 903600000: .* 258 tables .* of 256 \("):
        Settings.from_env({**keyspaces, **longer})
    assert Settings.from_env(longer).tables_kept == 255
    raised = Settings.from_env({**keyspaces, **longer, "TALLYROLL_TABLE_QUOTA": "258"})
    assert raised.tables_kept == 255


def test_the_keyspace_is_named_after_the_pipeline() -> None:
    assert Settings(name="my-votes").window_keyspace == ""
    assert Settings(name="my-votes", store="keyspaces").window_keyspace == "my_votes"
    assert Settings(name="my-votes", store="keyspaces", keyspace="k").window_keyspace == "k"
    assert Settings(name="my-votes", keyspace="k").window_keyspace == "k"


def test_a_name_that_is_too_long_for_a_table_in_keyspaces_is_refused() -> None:
    Settings(name="v" * 31, store="keyspaces")
    Settings(name="v" * 32, keyspace="votes")
    with pytest.raises(SettingsError, match=r"^TALLYROLL_NAME 'v{32}': .* name of at most 31, or"):
        Settings(name="v" * 32, store="keyspaces")


def test_every_setting_that_can_be_wrong_is_tried() -> None:
    # Of places that only AWS knows; while an app is synthesized they are tokens of the CDK.
    free = {"queue_url", "dead_letters_url", "bucket", "kms_key"}
    tried = {name.lower() for name, _ in BAD} | {"cache_url"}  # whose values are not shown
    assert tried | free == {setting.name for setting in fields(Settings)}


def undescribed(of: type[Described]) -> list[str]:
    """The fields without a text, or without a kind that says what is allowed."""

    def described(known: Mapping[str, Any]) -> bool:
        remedy: str = getattr(known.get("kind"), "remedy", "")
        return len(known.get("text", "")) > 10 and remedy.startswith("give ")

    return [each.name for each in fields(of) if not described(each.metadata)]


@pytest.mark.parametrize("of", [Settings, Options])
def test_every_setting_and_option_is_described(of: type[Described]) -> None:
    assert undescribed(of) == []


def test_what_is_not_described_is_found() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Lacking(Described):
        textless: int = setting(1, Whole(0, 2), "")
        rangeless: int = field(default=1, metadata={"text": "a number without a range"})
        whole: int = setting(1, Whole(0, 2), "a number with all that it needs")

    assert undescribed(Lacking) == ["textless", "rangeless"]


def test_specs_are_frozen_earlier_than_any_event_may_lie_ahead() -> None:
    settings = Settings(skew_ms=1_000, roller_period_ms=200)
    assert settings.freeze_lead_ms == 1_400


def test_windows_by_the_calendar() -> None:
    settings = Settings.from_env({"TALLYROLL_WINDOW": "month"})
    assert settings.window_length == "month"
    assert (settings.lasting.shortest, settings.lasting.longest) == (28 * DAY, 31 * DAY)
    assert settings.to_env() == {"TALLYROLL_NAME": "tallyroll", "TALLYROLL_WINDOW": "month"}
    assert Settings(window="day").window_length == 86_400
    assert Settings().window_length == 3_600
    assert Settings(window="month", retention_ms=90 * DAY).tables_kept == 7


@pytest.mark.parametrize("seconds", ["3600", "60"])
def test_two_lengths_of_windows(seconds: str) -> None:
    given = {"TALLYROLL_WINDOW": "day", "TALLYROLL_WINDOW_SECONDS": seconds}
    said = f"^TALLYROLL_WINDOW day and TALLYROLL_WINDOW_SECONDS {seconds}: give one of them$"
    with pytest.raises(SettingsError, match=said):
        Settings.from_env(given)
    with pytest.raises(
        OptionsError, match=f"^tallyroll:window day and tallyroll:window_seconds {seconds}"
    ):
        Options.from_context({"tallyroll:window": "day", "tallyroll:window_seconds": seconds})
    with pytest.raises(SettingsError, match="give one of them"):
        Settings(window="day", window_seconds=60)
