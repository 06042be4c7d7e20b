from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from cfnlint.api import lint  # type: ignore[import-untyped]

from tallyroll.adapters.dynamodb.store import GATES_AT_ONCE
from tallyroll.cdk.schedules import ROLLER_TIMEOUT_SECONDS
from tallyroll.errors import SettingsError
from tallyroll.lifecycle.runner import DEADLINE_RESERVE_MS
from tallyroll.limits import GATES_MAX
from tallyroll.operations.preflight.planned_deployment import wish_of
from tallyroll.settings import Settings
from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import (
    LOG_DAYS,
    PREFIX,
    VISIBILITY_BATCHES,
    WRITER_TIMEOUT_SECONDS,
    OptionsError,
)

KEY = "arn:aws:kms:eu-west-1:123456789012:key/mrk-1234"
LAYER = "arn:aws:lambda:eu-central-1:615299751070:layer:AWSOpenTelemetryDistroPython:11"
ENDPOINT = "vpce-0a1b2c3d4e5f60718"
# Made by the deployment, fixed by what it deploys, or best left as they are.
NO_OPTIONS = {
    "queue_url",
    "dead_letters_url",
    "bucket",
    "visibility_ms",
    "queue_retention_ms",
    "roller_period_ms",
    "drain_period_ms",
    "export_lease_ms",
    "ahead_windows",
    "drain_margin_ms",
    "settle_ms",
    "export_segments",
    "transactions_at_once",
    "cache_calendar_ms",
    "cassandra",
}


def test_every_setting_is_an_option_or_is_left_alone_on_purpose() -> None:
    optional = {option.metadata.get("setting", option.name) for option in fields(Options)}
    assert {one.name for one in fields(Settings)} - optional == NO_OPTIONS


def test_without_context_options_are_the_settings_defaults() -> None:
    options = Options.from_context({"@aws-cdk/core:something": True})
    # Four writers have more commits at once than the setting counts on.
    assert options.settings() == Settings(stripes_min=128)


def test_context_gives_values_as_text_too() -> None:
    context = {
        "tallyroll:name": "votes",
        "tallyroll:window_seconds": "60",
        "tallyroll:shards": 200,
        "tallyroll:suffix": "product",
        "tallyroll:hot_shards": '{"Ada": 500}',
        "tallyroll:stripes": "9",
        "tallyroll:retention_seconds": "86400",
        "tallyroll:accept_for_seconds": 0,
        "tallyroll:require_ts": "true",
        "tallyroll:mapping": '{"key": "detail.videoId"}',
        "tallyroll:batch_size": "10000",
        "tallyroll:batch_window_seconds": 5.0,
        "tallyroll:log_days": "7",
        "tallyroll:max_concurrency": 20,
        "tallyroll:provisioned": '{"write": 9, "read": 8, "cold_write": 2, "cold_read": 1.0}',
        "tallyroll:point_in_time_recovery": "false",
        "tallyroll:tags": '{"team": "elections"}',
        "tallyroll:kms_key": KEY,
    }
    options = Options.from_context(context)

    assert options == Options(
        name="votes",
        window_seconds=60,
        shards=200,
        suffix="product",
        hot_shards={"Ada": 500},
        stripes=9,
        retention_seconds=86_400,
        accept_for_seconds=0,
        require_ts=True,
        mapping={"key": "detail.videoId"},
        batch_size=10_000,
        batch_window_seconds=5,
        log_days=7,
        max_concurrency=20,
        provisioned={"write": 9, "read": 8, "cold_write": 2, "cold_read": 1},
        point_in_time_recovery=False,
        tags={"team": "elections"},
        kms_key=KEY,
    )
    settings = options.settings(queue_url="q", dead_letters_url="d", bucket="b")
    assert settings.name == "votes"
    assert (settings.queue_url, settings.dead_letters_url, settings.bucket) == ("q", "d", "b")
    assert (settings.window_seconds, settings.shards, settings.stripes_min) == (60, 200, 9)
    assert settings.hot_shards == {"Ada": 500}
    assert settings.require_ts is True
    assert (settings.tags, settings.kms_key) == ({"team": "elections"}, KEY)
    assert settings.mapping == {"key": "detail.videoId"}
    assert (settings.retention_ms, settings.accept_for_ms) == (86_400_000, 0)


IN_KEYSPACES = (
    r"^tallyroll:identity {}: windows in Keyspaces .*give window as long as tallyroll:sto"
)


@pytest.mark.parametrize("identity", ["key", "pipeline"])
@pytest.mark.parametrize("where", [{"store": "keyspaces"}, {"keyspace": "votes"}])
def test_ids_are_remembered_beyond_windows_in_dynamodb_alone(
    identity: str, where: dict[str, str]
) -> None:
    """By a deployment, by a preflight of it, and by the functions of an older one."""
    said = IN_KEYSPACES.format(identity)
    context = {
        f"tallyroll:{name}": value for name, value in {**where, "identity": identity}.items()
    }
    with pytest.raises(OptionsError, match=said):
        Options.from_context(context)
    with pytest.raises(OptionsError, match=said):
        wish_of(context, {})
    given: dict[str, Any] = {**where, "identity": identity}
    settings = Settings(**given)
    with pytest.raises(SettingsError, match=r"^TALLYROLL_IDENTITY .*as TALLYROLL_STORE is keyspac"):
        settings.check_store(transactional=not settings.window_keyspace)


@pytest.mark.parametrize(
    "asked", [{"identity": "window"}, {"identity": "window", "keep_identities": True}]
)
def test_ids_of_windows_in_keyspaces_are_their_windows(asked: dict[str, Any]) -> None:
    assert Options(store="keyspaces", **asked).settings().window_keyspace == "tallyroll"


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("shard", r"^tallyroll:shard: there is no such option; the nearest is tallyroll:shards$"),
        ("retention_second", "the nearest is tallyroll:retention_seconds$"),
        ("Name", "the nearest is tallyroll:name$"),
        ("xyzzy", "there are tallyroll:name, tallyroll:window_seconds, .*tallyroll:alarm_email$"),
    ],
)
def test_unknown_key_is_refused_with_the_nearest(key: str, said: str) -> None:
    with pytest.raises(OptionsError, match=said):
        Options.from_context({PREFIX + key: 3})
    given: dict[str, Any] = {key: 3}
    with pytest.raises(OptionsError, match=said):
        Options(**given)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("batch_size", 0, "batch_size 0: give a whole number from 1 to 10000"),
        ("batch_size", "10001", "batch_size '10001': give"),
        ("batch_window_seconds", 301, "batch_window_seconds 301: give"),
        ("batch_window_seconds", 0, "batch_window_seconds 0: give at least 1"),
        ("max_concurrency", 1, "max_concurrency 1: give a whole number from 2 to 1000"),
        ("max_concurrency", "many", "max_concurrency 'many': give"),
        ("reserved_concurrency", 3, r"reserved_concurrency 3: give at least tallyroll:max_"),
        ("pollers", {"min": 1, "max": 5}, r"pollers \{'min': 1, 'max': 5\}: give an object"),
        ("pollers", {"min": 201, "max": 300}, "pollers .*: give an object"),
        ("pollers", {"min": 9, "max": 8}, "pollers .*: give an object"),
        ("pollers", '{"min": 2, "max": 2001}', "pollers .*: give an object"),
        ("pollers", {"min": 2}, "pollers .*: give an object"),
        ("pollers", [2, 20], r"pollers \[2, 20\]: give an object"),
        ("mapping", "detail.videoId", r"mapping 'detail\.videoId': give an object"),
        ("mapping", ["key"], r"mapping \['key'\]: give an object"),
        ("mapping", {"key": 7}, r"mapping \{'key': 7\}: give an object"),
        ("mapping", {"key": "a."}, r"""mapping \{"key":"a\."\}: key 'a\.': Expecting"""),
        ("mapping", {"keys": "a"}, r"mapping \{'keys': 'a'\}: give an object"),
        ("mapping", {"keys": ["{a"]}, r"mapping .*: keys\[0\] '\{a': '\{' is not closed"),
        ("shards", True, "shards True: give a whole number"),
        ("shards", 1.5, r"shards 1\.5: give"),
        ("stripes_rule", "none", "stripes_rule 'none': give one of own, shards"),
        ("shards", 0, "shards 0: give a whole number from 1 to 10000"),
        ("hot_shards", "Ada", "hot_shards 'Ada': give an object"),
        ("hot_shards", {"Ada": 0}, "hot_shards {'Ada': 0}: give an object"),
        ("hot_shards", [1], r"hot_shards \[1\]: give an object"),
        ("provisioned", {"write": 5}, r"provisioned \{'write': 5\}: give an object"),
        (
            "provisioned",
            '{"write": 1, "read": 1, "cold_write": 1, "cold_read": 0}',
            "provisioned .* give an object",
        ),
        ("provisioned", "5", "provisioned '5': give an object"),
        ("warm_units", -1, "warm_units -1: give a whole number"),
        ("retention_seconds", 10**8, "retention_seconds 100000000: .* 27,782 tables at once"),
        ("window_seconds", 90, "window_seconds 90: give 1 to 60, or a multiple of 60"),
        ("window_seconds", "hour", "window_seconds 'hour': give 1 to 60"),
        ("retention_seconds", -1, "retention_seconds -1: give a whole number from 0"),
        ("accept_for_seconds", 10**9, "accept_for_seconds 1000000000: give"),
        ("name", "Votes", "name 'Votes': give 3 to 48 lower-case letters"),
        ("require_ts", "yes", "require_ts 'yes': give true or false"),
        ("architecture", "arm", "architecture 'arm': give one of arm64, x86_64"),
        ("log_days", 8, "log_days 8: give one of 1, 3, 5, 7"),
        ("log_days", True, "log_days True: give one of"),
        ("auth", "none", "auth 'none': give one of iam, jwt"),
        ("auth", "jwt", "jwt_issuer '': it is needed for tallyroll:auth jwt"),
        ("jwt_issuer", "http://a", "jwt_issuer 'http://a': give the issuer's https address"),
        ("jwt_audience", "a", "jwt_audience 'a': leave it out, or give tallyroll:auth jwt"),
        ("jwt_audience", "a, b", "jwt_audience 'a, b': give client ids"),
        (
            "cors_origins",
            "https://a",
            "cors_origins .*: leave it out, or give tallyroll:auth",
        ),
        ("cors_origins", "*", r"cors_origins '\*': give origins such as https://app.example"),
        ("cors_origins", "https://a/", "cors_origins 'https://a/': give origins such as"),
        ("cors_origins", "https://a, https://b", "cors_origins '.*': give origins such as"),
        ("alarm_email", "night", "alarm_email 'night': give one e-mail address"),
        ("ticket_email", "day", "ticket_email 'day': give one e-mail address"),
        ("runbook_url", "docs", "runbook_url 'docs': give the address of your copy of"),
        ("runbook_url", "https://a.example/b#c", "runbook_url 'https://a.example/b#c': give the"),
        ("snap_start", True, r"snap_start true: needs tallyroll:runtime python3\.12 or newer"),
        ("tracing_layer", "otel", "tracing_layer 'otel': give the ARN of a layer's version"),
        ("tracing_layer", LAYER, "tracing_layer 'arn:.*': give tallyroll:tracing true too"),
        ("tracer", "xray", "tracer 'xray': give true or false"),
        ("vpc_subnets", "vpc-1", "vpc_subnets 'vpc-1': give 1 to 16 ids, subnet-"),
        ("vpc_subnets", "subnet-0a1b2c3d", "vpc_subnets '.*': give tallyroll:vpc_security_groups"),
        ("vpc_security_groups", "sg-0a1b2c3d", "vpc_security_groups '.*': give tallyroll:vpc_subn"),
        ("vpc_security_groups", "sg-1", "vpc_security_groups 'sg-1': give 1 to 5 ids, sg-"),
        ("api", "public", "api 'public': give one of http, private, none"),
        ("api_endpoint", "vpc-1", "api_endpoint 'vpc-1': give the id of an interface endpoint"),
        ("api_endpoint", ENDPOINT, "api_endpoint 'vpce-.*': leave it out, or give tallyroll:api p"),
        ("api_log_role", "no", "api_log_role 'no': give auto, true or false"),
        ("rollout", "linear", "rollout 'linear': give one of none, at-once, canary"),
        ("budget", -1, "budget -1: give a whole number from 0"),
        ("budget", "50", "budget 50: give tallyroll:alarm_email too, the address that is told"),
        ("budget_monitor", "yes", "budget_monitor 'yes': give true or false"),
        ("budget_monitor", True, "budget_monitor true: give tallyroll:budget too"),
        ("archive_lock_days", 36_501, "archive_lock_days 36501: give a whole number from 0 to"),
        ("archive_lock", "none", "archive_lock 'none': give one of governance, compliance"),
        ("archive_lock", "compliance", "archive_lock 'compliance': give tallyroll:archive_lock_d"),
        ("archive_expire_days", 7, "archive_expire_days 7: give 0, or a whole number from 31"),
        ("archive_replica", "copies", "archive_replica 'copies': give the ARN of a bucket"),
        ("archive_replica_key", KEY, "archive_replica_key .*: give tallyroll:archive_replica too"),
        ("boto3", "latest", "boto3 'latest': give one of runtime, pinned"),
        ("tags", "team", "tags 'team': give an object of texts, such as"),
        ("tags", ["team"], r"tags \['team'\]: give an object of texts"),
        ("tags", {"team": 7}, r"tags \{'team': 7\}: give an object of texts"),
        ("tags", {"proven": "yes"}, "tags 'proven': .* are reserved; give another key"),
        ("tags", '{"PROVEN": "yes"}', "tags 'PROVEN': .* are reserved; give another key"),
        ("tags", {"aws:team": "a"}, "tags 'aws:team': .* are reserved; give another key"),
        ("tags", {"k" * 129: "a"}, "tags 'k+': 129 characters; give a key of 1 to 128"),
        ("tags", {"team": "a" * 257}, "tags 'team': its value has 257 characters; give at most"),
        ("tags", {f"k{n}": "" for n in range(50)}, "tags 'k47': it is tag 48 of 50; give at most"),
        ("tags", {"a,b": "c"}, "tags 'a,b': 'a,b' has ,; give letters, digits, blanks and _ . :"),
        ("tags", {"team": "<a>"}, "tags 'team': its value '<a>' has < >; give letters"),
        ("kms_key", "alias/mine", "kms_key 'alias/mine': give the ARN of a KMS key"),
        (
            "kms_key",
            "arn:aws:kms:eu-west-1:123456789012:alias/mine",
            "kms_key 'arn:.*alias/mine': give the ARN of a KMS key, .* an alias will not do",
        ),
    ],
)
def test_wrong_value_is_refused_by_key_and_value_and_with_a_remedy(
    name: str, value: object, said: str
) -> None:
    with pytest.raises(OptionsError, match=f"^tallyroll:{said}"):
        Options.from_context({PREFIX + name: value})


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"archive_lock_days": 9, "exporter": "native"},
            "archive_lock_days 9: give .*exporter scan",
        ),
        ({"archive_lock_days": 90, "archive_expire_days": 89}, "archive_expire_days 89: give at l"),
    ],
)
def test_archives_cannot_be_locked_by_others_or_longer_than_they_are_kept(
    asked: dict[str, Any], said: str
) -> None:
    with pytest.raises(OptionsError, match=f"^tallyroll:{said}"):
        Options(**asked)
    assert Options(archive_lock_days=90, archive_expire_days=90).archive_lock == "governance"


@pytest.mark.parametrize(
    ("given", "read"),
    [("auto", "auto"), ("true", True), (True, True), ("false", False), (False, False)],
)
def test_the_role_for_logs_takes_the_values_of_earlier_releases_too(
    given: object, read: object
) -> None:
    options = Options.from_context({"tallyroll:api_log_role": given})
    assert options.api_log_role == read
    assert Options().api_log_role == "auto"


@pytest.mark.parametrize("writers", [4, 20])  # the default's number is refused as well
def test_pollers_and_a_maximum_concurrency_exclude_each_other(writers: int) -> None:
    said = (
        r"^tallyroll:pollers \{'min': 2, 'max': 20\} and tallyroll:max_concurrency"
        f" {writers}: Lambda takes only one of them; leave max_concurrency out"
    )
    given = {"tallyroll:pollers": '{"min": 2, "max": 20}', "tallyroll:max_concurrency": writers}
    with pytest.raises(OptionsError, match=said):
        Options.from_context(given)
    assert Options.from_context({**given, "tallyroll:pollers": "{}"}).writers_max == writers


def test_pollers_and_a_maximum_concurrency_exclude_each_other_in_python() -> None:
    with pytest.raises(OptionsError, match="takes only one of them"):
        Options(pollers={"min": 2, "max": 20}, max_concurrency=20)


def test_a_poller_runs_ten_writers() -> None:
    options = Options(pollers={"min": 2, "max": 6})
    assert options.writers_max == 60
    assert options.settings() == Options(max_concurrency=60).settings()
    with pytest.raises(OptionsError, match="reserved_concurrency 59: give at least 60, 10 for"):
        Options(pollers={"min": 2, "max": 6}, reserved_concurrency=59)
    assert Options(pollers={"min": 2, "max": 6}, reserved_concurrency=60).reserved_concurrency == 60


def test_options_made_in_python_are_checked_too() -> None:
    with pytest.raises(OptionsError, match=r"^tallyroll:shards 0: give"):
        Options(shards=0)


def test_log_retentions_are_those_that_there_are() -> None:
    def refused(*days: int) -> list[str]:
        logs = {
            f"Log{one}": {"Type": "AWS::Logs::LogGroup", "Properties": {"RetentionInDays": one}}
            for one in days
        }
        found = lint(json.dumps({"Resources": logs}), config={"ignore_checks": ["I"]})
        return [match.message for match in found]

    assert refused(*LOG_DAYS) == []
    assert len(refused(8)) == 1


@pytest.mark.parametrize("window_seconds", [0, 1, 300])
def test_the_queue_hides_messages_for_six_batches(window_seconds: int) -> None:
    settings = Options(batch_size=10, batch_window_seconds=window_seconds).settings()

    batch_ms = (WRITER_TIMEOUT_SECONDS + window_seconds) * 1000
    assert VISIBILITY_BATCHES == 6
    assert settings.visibility_ms >= 6 * batch_ms


@pytest.mark.parametrize(("writers", "stripes"), [(2, 64), (4, 128), (100, 3_200), (1_000, 10_000)])
def test_stripes_grow_with_the_commits_at_once(writers: int, stripes: int) -> None:
    assert Options(max_concurrency=writers).settings().stripes_min == stripes


@pytest.mark.parametrize(
    ("writers", "gates"), [(2, 256), (4, 256), (5, 320), (20, 1_280), (64, 4_096), (1_000, 4_096)]
)
def test_gates_grow_with_the_commits_at_once(writers: int, gates: int) -> None:
    assert Options(max_concurrency=writers).settings().gates == gates
    assert Options(max_concurrency=writers, gates=7).settings().gates == 7


def test_one_run_of_the_roller_can_shut_the_most_gates() -> None:
    """Also where an update takes a whole second: a run that is killed shuts all of them again."""
    seconds = -(-GATES_MAX // GATES_AT_ONCE)
    assert seconds < ROLLER_TIMEOUT_SECONDS - DEADLINE_RESERVE_MS / 1_000


def test_a_retention_beyond_the_recovery_period_goes_with_native_exports() -> None:
    """The export takes a later state of the sealed table, which is the same; see native_export."""
    sixty_days = 60 * 86_400
    options = Options.from_context(
        {"tallyroll:exporter": "native", "tallyroll:retention_seconds": sixty_days}
    )
    settings = Settings.from_env(options.settings().to_env())
    assert (settings.exporter, settings.retention_ms) == ("native", sixty_days * 1000)


@pytest.mark.parametrize("given", [{"keys": ["a:{b}", "{%H}"]}, '{"keys": ["a:{b}", "{%H}"]}'])
def test_a_mapping_of_several_keys_reaches_the_settings(given: object) -> None:
    options = Options.from_context({"tallyroll:mapping": given})
    assert options.mapping == {"keys": ["a:{b}", "{%H}"]}


def test_calls_are_traced_by_the_tracer_or_by_the_layer() -> None:
    assert not Options().traces
    assert Options(tracing=True).traces
    assert Options(tracer=True).traces
    with pytest.raises(OptionsError, match=r"^tallyroll:tracer true: leave tallyroll:tracing_l"):
        Options(tracer=True, tracing_layer=LAYER)
