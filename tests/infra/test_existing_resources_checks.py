"""What is passed in wrongly: of a wrong type, or against the advice of docs/package.md."""

# ruff: noqa: PLC0415  (importing the CDK starts Node.js, which has to be found first)

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from release.asset import function_code
from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import OptionsError
from tests.infra.conftest import Built

if TYPE_CHECKING:
    import aws_cdk as cdk
    from aws_cdk import aws_s3 as s3
    from aws_cdk import aws_sqs as sqs

HERE = {"account": "111111111111", "region": "eu-west-1"}
THERE = "arn:aws:{}:us-east-1:222222222222:name"


def refused(built: Built, given: Callable[[cdk.Stack], dict[str, Any]]) -> str:
    """Why the construct refuses what `given` makes."""
    from tallyroll.cdk import Tallyroll

    def build(stack: cdk.Stack) -> None:
        arguments = {"options": Options(), "code": function_code(), **given(stack)}
        Tallyroll(stack, "Counter", **arguments)

    with pytest.raises(OptionsError) as caught:
        built(build)
    return str(caught.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"queue": "votes"},
            "queue 'votes': a str was given; give sqs.Queue(...), or sqs.Queue.from_",
        ),
        (
            {"queue": "votes"},
            'or sqs.Queue.from_queue_arn(stack, "Events", arn) for one of another',
        ),
        (
            {"bucket": "lake"},
            "bucket 'lake': a str was given; give s3.Bucket(...), or s3.Bucket.fr",
        ),
        ({"alarm_topic": "arn"}, "alarm_topic 'arn': a str was given; give sns.Topic(...), or sns"),
        ({"ticket_topic": "a"}, "ticket_topic 'a': a str was given; give sns.Topic(...), or sns."),
        (
            {"encryption_key": 7},
            "encryption_key 7: an int was given; give kms.Key(...), or kms.Key.",
        ),
        ({"tags": ["team"]}, 'tags ["team"]: a list was given; give a dict of texts: {"team": '),
        ({"tags": {"n": 1}}, "tags {'n': 1}: keys and values of tags are texts; give {'n': '1'}"),
        ({"options": {}}, 'options {}: a dict was given; give Options(name="votes"), or Options.'),
        ({"options": None}, 'options: nothing was given; give Options(name="votes"), or Options.'),
        ({"options": Options}, "options: the class Options was given; give Options(name="),
        ({"code": "build"}, "code 'build': a str was given; give lambda_.Code.from_asset(path)"),
    ],
)
def test_a_wrong_type_is_told_in_one_sentence(
    built: Built, given: dict[str, Any], told: str
) -> None:
    assert told in refused(built, lambda _: given)


def test_other_constructs_than_those_wanted_are_refused(built: Built) -> None:
    from aws_cdk import aws_s3 as s3
    from aws_cdk import aws_sns as sns
    from aws_cdk import aws_sqs as sqs

    def told(given: Callable[[cdk.Stack], dict[str, Any]]) -> str:
        return refused(built, given).partition(";")[0]

    assert told(lambda stack: {"queue": sqs.CfnQueue(stack, "Q")}) == (
        "queue: a CfnQueue was given"
    )
    assert told(lambda _: {"queue": sqs.Queue}) == "queue: the class Queue was given"
    assert told(lambda stack: {"queue": sns.Topic(stack, "T")}) == "queue: a Topic was given"
    assert told(lambda stack: {"bucket": s3.CfnBucket(stack, "B")}) == (
        "bucket: a CfnBucket was given"
    )
    assert told(lambda stack: {"alarm_topic": sqs.Queue(stack, "P")}) == (
        "alarm_topic: a Queue was given"
    )


def test_a_second_pipeline_of_a_name_is_refused(stack: cdk.Stack) -> None:
    from tallyroll.cdk import Tallyroll

    for name in ("votes", "votes-eu"):
        Tallyroll(stack, name, options=Options(name=name), code=function_code())
    with pytest.raises(OptionsError) as caught:
        Tallyroll(stack, "Again", options=Options(name="votes"), code=function_code())
    assert str(caught.value) == (
        "tallyroll:name 'votes': Theirs/votes has that name already; give each pipeline of a stack"
        " a name of its own"
    )


@pytest.mark.parametrize("grant", ["send", "read", "redrive", "operate"])
def test_what_can_be_granted_nothing_is_told(stack: cdk.Stack, grant: str) -> None:
    from tallyroll.cdk import Tallyroll

    votes = Tallyroll(stack, "Votes", options=Options(), code=function_code())
    with pytest.raises(OptionsError) as caught:
        getattr(votes, f"grant_{grant}")("arn:aws:iam::123456789012:role/producer")
    assert str(caught.value) == (
        f"grant_{grant} 'arn:aws:iam::123456789012:role/producer': a str was given; give a role, a"
        " user or a function of the CDK"
    )


def test_options_take_texts_in_the_place_of_numbers_and_flags() -> None:
    options = Options(
        shards="16",  # type: ignore[arg-type]
        rollups="false",  # type: ignore[arg-type]
        log_days="7",  # type: ignore[arg-type]
        hot_shards='{"Ada": 64}',  # type: ignore[arg-type]
        retention_seconds=3_600.0,  # type: ignore[arg-type]
    )
    wanted = Options(
        shards=16, rollups=False, log_days=7, hot_shards={"Ada": 64}, retention_seconds=3_600
    )
    assert options == wanted
    assert (options.rollups, type(options.shards), type(options.log_days)) == (False, int, int)


@pytest.fixture
def stack(node: None) -> cdk.Stack:
    import aws_cdk as cdk

    from tests.infra.conftest import SKIP_BUNDLING

    app = cdk.App(context=SKIP_BUNDLING, analytics_reporting=False)
    return cdk.Stack(app, "Theirs", env=cdk.Environment(**HERE))


def test_an_uneven_suffix_is_warned_of(stack: cdk.Stack) -> None:
    [told] = warnings_of(stack, options=Options(name="votes", suffix="product"))
    assert told.startswith("suffix product sends ")


def test_keys_in_plain_text_are_warned_of_where_a_key_encrypts_the_tables(stack: cdk.Stack) -> None:
    noting = Options(name="votes", contributor_insights=True)
    assert warnings_of(stack, options=noting) == []


def test_keys_in_plain_text_under_a_key(stack: cdk.Stack) -> None:
    from aws_cdk import aws_kms as kms

    key = kms.Key(stack, "Key")
    options = Options(name="votes", contributor_insights=True)
    [told] = warnings_of(stack, options=options, encryption_key=key)
    assert "keys of throttled events stand in CloudWatch" in told


def warnings_of(stack: cdk.Stack, **given: Any) -> list[str]:
    """The CDK's warnings of a pipeline with what is passed in, without their ids."""
    from aws_cdk.assertions import Annotations, Match

    from tallyroll.cdk import Tallyroll

    Tallyroll(stack, "Counter", **{"options": Options(), "code": function_code(), **given})
    found = Annotations.from_stack(stack).find_warning("*", Match.any_value())
    told = [str(one.entry.data) for one in found]
    assert all("[ack: tallyroll:" in one for one in told)
    return [one.partition(" [ack: ")[0] for one in told]


def queue(stack: cdk.Stack, receives: int | None = None, **given: Any) -> sqs.Queue:
    """A queue that hides messages for long enough, with a dead-letter rule of so many receives."""
    import aws_cdk as cdk
    from aws_cdk import aws_sqs as sqs

    if receives is not None:
        letters = sqs.Queue(stack, "Letters")
        given["dead_letter_queue"] = sqs.DeadLetterQueue(queue=letters, max_receive_count=receives)
    return sqs.Queue(stack, "Clicks", visibility_timeout=cdk.Duration.minutes(15), **given)


def bucket(stack: cdk.Stack, *rules: dict[str, Any]) -> s3.Bucket:
    """A versioned bucket with lifecycle rules; `days` is when objects expire."""
    import aws_cdk as cdk
    from aws_cdk import aws_s3 as s3

    made = [
        s3.LifecycleRule(expiration=cdk.Duration.days(rule.pop("days")), **rule) for rule in rules
    ]
    return s3.Bucket(stack, "Lake", versioned=True, lifecycle_rules=made)


def test_nothing_is_told_of_what_follows_the_advice(stack: cdk.Stack) -> None:
    lake = bucket(
        stack,
        {"days": 1, "prefix": "tmp/"},
        {"days": 1, "enabled": False},
        {"days": 1, "tag_filters": {"kind": "draft"}},
    )
    assert warnings_of(stack, queue=queue(stack, 1_000), bucket=lake) == []


def test_a_queue_without_a_dead_letter_rule(stack: cdk.Stack) -> None:
    [told] = warnings_of(stack, queue=queue(stack))
    assert told == (
        "queue Theirs/Clicks has no dead-letter rule: a message whose writers always die is tried"
        " until it expires, and is lost then. Give it one with max_receive_count=1000"
    )


def test_a_queue_that_gives_messages_up_early(stack: cdk.Stack) -> None:
    [told] = warnings_of(stack, queue=queue(stack, 3))
    assert told.startswith("queue Theirs/Clicks moves messages to its dead-letter queue after 3 re")
    assert told.endswith("Allow 1,000")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"archive_expire_days": 90}, "archive_expire_days 90: leave it out: the bucket Theirs/La"),
        ({"archive_lock_days": 9}, "archive_lock_days: the bucket Theirs/Lake locks no objects"),
        (
            {"archive_replica": "arn:aws:s3:::copies"},
            "archive_replica 'arn:aws:s3:::copies': leave",
        ),
    ],
)
def test_a_bucket_that_is_passed_in_is_not_changed(
    built: Built, asked: dict[str, Any], told: str
) -> None:
    def lake(stack: cdk.Stack) -> dict[str, Any]:
        from aws_cdk import aws_s3 as s3

        return {"options": Options(**asked), "bucket": s3.Bucket(stack, "Lake", versioned=True)}

    assert refused(built, lake).startswith(f"tallyroll:{told}")


def test_a_bucket_without_versions(stack: cdk.Stack) -> None:
    from aws_cdk import aws_s3 as s3

    [told] = warnings_of(stack, bucket=s3.Bucket(stack, "Lake"))
    assert told.startswith("bucket Theirs/Lake keeps no versions: ")
    assert told.endswith("Give it versioned=True")


@pytest.mark.parametrize("prefix", [None, "", "arch", "archive/", "archive/tallyroll/"])
def test_a_bucket_whose_rules_delete_archives(stack: cdk.Stack, prefix: str | None) -> None:
    rule = {"days": 30} | ({} if prefix is None else {"prefix": prefix})
    [told] = warnings_of(stack, bucket=bucket(stack, rule))
    assert told.startswith("bucket Theirs/Lake deletes objects below archive/ after 30 days: ")


@pytest.mark.parametrize("prefix", ["payloads/", "payloads/tallyroll/2026"])
def test_a_bucket_whose_rules_delete_uploaded_payloads(stack: cdk.Stack, prefix: str) -> None:
    [told] = warnings_of(stack, bucket=bucket(stack, {"days": 30, "prefix": prefix}))
    assert told.startswith("bucket Theirs/Lake deletes objects below payloads/ after 30 days: ")


def test_a_queue_of_another_region_is_refused(stack: cdk.Stack) -> None:
    from aws_cdk import aws_sqs as sqs

    far = sqs.Queue.from_queue_arn(stack, "Far", THERE.format("sqs"))
    with pytest.raises(OptionsError) as caught:
        warnings_of(stack, queue=far)
    assert str(caught.value) == (
        "queue Theirs/Far: it is in us-east-1, the pipeline in eu-west-1, and Lambda reads only"
        " queues of its own Region; give one of that Region"
    )


def test_a_topic_of_another_region_is_refused(stack: cdk.Stack) -> None:
    from aws_cdk import aws_sns as sns

    far = sns.Topic.from_topic_arn(stack, "Far", THERE.format("sns"))
    with pytest.raises(OptionsError, match=r"^alarm_topic Theirs/Far: it is in us-east-1, the pip"):
        warnings_of(stack, alarm_topic=far)


def test_a_queue_of_another_account(stack: cdk.Stack) -> None:
    from aws_cdk import aws_sqs as sqs

    arn = THERE.format("sqs").replace("us-east-1", "eu-west-1")
    [told] = warnings_of(stack, queue=sqs.Queue.from_queue_arn(stack, "Far", arn))
    assert told.startswith("queue Theirs/Far is in the account 222222222222: its own policy must")


def test_a_bucket_of_another_place(stack: cdk.Stack) -> None:
    from aws_cdk import aws_s3 as s3

    lake = s3.Bucket.from_bucket_attributes(
        stack, "Far", bucket_name="lake", region="us-east-1", account="222222222222"
    )
    region, account = warnings_of(stack, bucket=lake)
    assert region.startswith("bucket Theirs/Far is in us-east-1, the pipeline in eu-west-1: ")
    assert account.startswith("bucket Theirs/Far is in the account 222222222222: its own policy")


def test_a_key_of_another_app(stack: cdk.Stack) -> None:
    from aws_cdk import aws_kms as kms

    from tallyroll.cdk import Tallyroll

    def key(region: str) -> kms.IKey:
        arn = f"arn:aws:kms:{region}:111111111111:key/1234"
        return kms.Key.from_key_arn(stack, region, arn)

    [told] = warnings_of(stack, encryption_key=key("eu-west-1"))
    assert told.startswith("key Theirs/eu-west-1: its own policy must let logs.REGION.amazonaws")
    with pytest.raises(OptionsError, match=r"^encryption_key Theirs/us-east-1: it is in us-east-1"):
        Tallyroll(
            stack,
            "There",
            options=Options(name="there"),
            code=function_code(),
            encryption_key=key("us-east-1"),
        )


def test_a_key_of_the_same_app_needs_no_advice(stack: cdk.Stack) -> None:
    from aws_cdk import aws_kms as kms

    assert warnings_of(stack, encryption_key=kms.Key(stack, "Key")) == []


@pytest.mark.parametrize("imported", [False, True])
def test_an_alias_is_no_key(built: Built, *, imported: bool) -> None:
    """No policy allows anything by an alias: no window would open."""

    def given(stack: cdk.Stack) -> dict[str, Any]:
        from aws_cdk import aws_kms as kms

        if imported:
            return {"encryption_key": kms.Alias.from_alias_name(stack, "Alias", "alias/mine")}
        key = kms.Key(stack, "Key")
        return {"encryption_key": kms.Alias(stack, "Alias", alias_name="mine", target_key=key)}

    told = refused(built, given)
    assert told.startswith(
        "encryption_key Theirs/Alias: an alias was given, and policies name keys"
    )
