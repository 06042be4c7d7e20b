"""Checks of what a team passes in: its types, and what is known of it at synthesis.

What cannot work raises OptionsError. What works against the advice of the documents is a warning of
the CDK, which `cdk synth` and `cdk deploy` print. Nothing is known of a queue or a bucket of
another app but where it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs

from tallyroll.limits import RECEIVES_FUSE
from tallyroll.model.amounts import shown
from tallyroll.model.formats.references import PAYLOADS_PREFIX
from tallyroll.planning.suffixes import product_warning
from tallyroll.resources import BucketDeclaration
from tallyroll.settings.common import INSIGHTS_IN_PLAIN_TEXT
from tallyroll.settings.options import Options
from tallyroll.settings.options.kinds import wrong_tags
from tallyroll.settings.options.rules import PREFIX, OptionsError

if TYPE_CHECKING:
    from aws_cdk import aws_sns as sns
    from constructs import Construct, IConstruct

# By argument: an attribute of every such construct; how to make one, and how to get an older one.
_CONSTRUCTS = {
    "queue": ("queue_arn", "sqs.Queue", 'from_queue_arn(stack, "Events", arn)'),
    "bucket": ("bucket_arn", "s3.Bucket", 'from_bucket_name(stack, "Lake", name)'),
    "alarm_topic": ("topic_arn", "sns.Topic", 'from_topic_arn(stack, "Pager", arn)'),
    "encryption_key": ("key_arn", "kms.Key", 'from_key_arn(stack, "Key", arn)'),
    "ticket_topic": ("topic_arn", "sns.Topic", 'from_topic_arn(stack, "Desk", arn)'),
}
_WARNING = "tallyroll:"
_KEPT = ("archive/", f"{PAYLOADS_PREFIX}/")  # what no rule may delete
_TAKEN: WeakKeyDictionary[cdk.Stack, dict[str, str]] = WeakKeyDictionary()  # paths by name


def check_types(
    options: object,
    code: object,
    tags: object,
    constructs: tuple[object, object, object, object, object],
) -> None:
    """Raise OptionsError for an argument of a wrong type; it says what was given, what is wanted,
    and how to get it. `constructs` are a queue, a bucket, a topic, a key and another topic, each of
    them or None.
    """
    if not isinstance(options, Options):
        raise _wrong(
            "options",
            options,
            'Options(name="votes"), or Options.from_context(app.node.get_all_context())',
        )
    if code is not None and not isinstance(code, lambda_.Code):
        raise _wrong("code", code, "lambda_.Code.from_asset(path)")
    for (name, (attribute, kind, get)), given in zip(_CONSTRUCTS.items(), constructs, strict=True):
        if given is not None and (isinstance(given, type) or not hasattr(given, attribute)):
            raise _wrong(name, given, f"{kind}(...), or {kind}.{get} for one of another app")
    _check_tags({} if tags is None else tags)


def check_grantee(grant: str, grantee: object) -> None:
    """Raise OptionsError unless `grantee` is what the CDK grants something to."""
    if isinstance(grantee, type) or not hasattr(grantee, "grant_principal"):
        raise _wrong(grant, grantee, "a role, a user or a function of the CDK")


def check_name(scope: IConstruct, name: str) -> None:
    """Raise OptionsError if a pipeline of this stack has the name already: everything has the name
    in its own, so CloudFormation would refuse the second one while it deploys.
    """
    taken = _TAKEN.setdefault(cdk.Stack.of(scope), {})
    if name in taken:
        raise OptionsError(
            f"{PREFIX}name {name!r}: {taken[name]} has that name already; give each pipeline of a"
            " stack a name of its own"
        )
    taken[name] = scope.node.path


def all_tags(options: Options, tags: Mapping[str, str] | None) -> dict[str, str]:
    """The options' tags and those that are passed in. Raises OptionsError for a key with two
    values, and for tags that together are too many or too long.
    """
    given = dict(tags or {})
    for key, value in options.tags.items():
        if given.get(key, value) != value:
            raise OptionsError(
                f"tags {key!r}: {given[key]!r} is passed in, and {PREFIX}tags has {value!r}; give"
                " one of them"
            )
    together = {**options.tags, **given}
    _refuse_wrong(together)
    return together


def key_of(scope: Construct, options: Options, key: kms.IKey | None) -> kms.IKey | None:
    """The key that is passed in, or the options'; None if there is neither.

    Raises OptionsError if there are both, for an alias, and for a key of another Region. Warns of a
    key whose policy this app does not make.
    """
    if key is not None and options.kms_key:
        raise OptionsError(
            f"encryption_key {key.node.path}: {PREFIX}kms_key is given too; give one of them"
        )
    if options.kms_key:
        key = kms.Key.from_key_arn(scope, "Key", options.kms_key)
    if key is None:
        return None
    if hasattr(key, "alias_name"):
        # As an IAM policy's resource, an alias allows nothing. Source: AWS KMS Developer Guide,
        # "Specifying KMS keys in IAM policy statements".
        raise OptionsError(
            f"encryption_key {key.node.path}: an alias was given, and policies name keys; give the"
            " key itself, kms.Key(...), or kms.Key.from_key_arn(...) for one of another app"
        )
    here, there = cdk.Stack.of(scope), key.env
    if _differ(here.region, there.region):
        raise OptionsError(
            f"encryption_key {key.node.path}: it is in {there.region}, the pipeline in"
            f" {here.region}, and tables and queues take only keys of their own Region; give one of"
            " that Region"
        )
    if not isinstance(key.node.default_child, kms.CfnKey):
        _warn(
            scope,
            "keyOfAnotherApp",
            f"key {key.node.path}: its own policy must let logs.REGION.amazonaws.com use it, or"
            " the deployment fails (docs/deploy.md, Your own key)",
        )
    return key


def check_queue(scope: IConstruct, queue: sqs.IQueue) -> None:
    """Raise OptionsError for a FIFO queue and for one of another Region. Warn of a queue of another
    account, of one without a dead-letter rule, and of a rule that is too strict.
    """
    path, here, there = queue.node.path, cdk.Stack.of(scope), queue.env
    if queue.fifo:
        # Lambda has no batch window for them, and takes at most 10 messages.
        raise OptionsError(f"queue {path}: a FIFO queue; give a standard one")
    if _differ(here.region, there.region):
        raise OptionsError(
            f"queue {path}: it is in {there.region}, the pipeline in {here.region}, and Lambda"
            " reads only queues of its own Region; give one of that Region"
        )
    if _differ(here.account, there.account):
        _warn(
            scope,
            "queueOfAnotherAccount",
            f"queue {path} is in the account {there.account}: its own policy must let the roles of"
            " the writer and the roller use it",
        )
    _warn_of_redrive(scope, queue)


def check_topic(scope: IConstruct, topic: sns.ITopic, called: str) -> None:
    """Raise OptionsError for a FIFO topic and for one of another Region. The argument is `called`
    so.
    """
    if topic.fifo:
        # An alarm notifies standard topics only; nothing would tell of a FIFO one at deployment.
        raise OptionsError(f"{called} {topic.node.path}: a FIFO topic; give a standard one")
    here, there = cdk.Stack.of(scope).region, topic.env.region
    if _differ(here, there):
        raise OptionsError(
            f"{called} {topic.node.path}: it is in {there}, the pipeline in {here}, and alarms"
            " notify only topics of their own Region; give one of that Region"
        )


def check_bucket(scope: IConstruct, bucket: s3.IBucket) -> None:
    """Warn of a bucket of another place, without versions, or whose rules delete archives."""
    here, there, path = cdk.Stack.of(scope), bucket.env, bucket.node.path
    if _differ(here.region, there.region):
        _warn(
            scope,
            "bucketOfAnotherRegion",
            f"bucket {path} is in {there.region}, the pipeline in {here.region}: archives are sent"
            " there and read again to be proven, and each byte is charged",
        )
    if _differ(here.account, there.account):
        _warn(
            scope,
            "bucketOfAnotherAccount",
            f"bucket {path} is in the account {there.account}: its own policy must let the roles"
            " of the writer and of cleanup use it",
        )
    resource = bucket.node.default_child
    if not isinstance(resource, s3.CfnBucket):
        return
    # The one way to see rules that the CDK gathers until synthesis.
    properties = cdk.Stack.of(bucket).resolve(resource._cfn_properties)  # noqa: SLF001
    if (properties.get("versioningConfiguration") or {}).get("status") != "Enabled":
        _warn(
            scope,
            "bucketWithoutVersions",
            f"bucket {path} keeps no versions: what is overwritten or deleted in it by mistake is"
            " lost, and an archive is all that is left of a dropped table. Give it versioned=True",
        )
    for kept, days in _expiries(properties):
        _warn(
            scope,
            "bucketDeletesArchives",
            f"bucket {path} deletes objects below {kept} {days}: an archive is all that is left of"
            " a dropped table, with the uploaded payloads. Give the rule another prefix",
        )


def check_options_of_bucket(bucket: s3.IBucket, declared: BucketDeclaration) -> None:
    """Raise OptionsError for an option that only a bucket made here can have."""
    if declared.expire_days:
        raise OptionsError(
            f"{PREFIX}archive_expire_days {declared.expire_days}: leave it out: the bucket"
            f" {bucket.node.path} is passed in; give it a rule for archive/ of your own"
        )
    resource = bucket.node.default_child
    if declared.locks and isinstance(resource, s3.CfnBucket) and not resource.object_lock_enabled:
        raise OptionsError(
            f"{PREFIX}archive_lock_days: the bucket {bucket.node.path} locks no objects; give it"
            " object_lock_enabled=True, and no default retention, which would lock notes, too"
        )


def _warn_of_redrive(scope: IConstruct, queue: sqs.IQueue) -> None:
    resource = queue.node.default_child
    if not isinstance(resource, sqs.CfnQueue):
        return
    rule = cdk.Stack.of(queue).resolve(resource.redrive_policy)
    if rule is None:
        _warn(
            scope,
            "queueWithoutDeadLetterRule",
            f"queue {queue.node.path} has no dead-letter rule: a message whose writers always die"
            " is tried until it expires, and is lost then. Give it one with"
            f" max_receive_count={RECEIVES_FUSE}",
        )
    elif isinstance(most := rule.get("maxReceiveCount"), int | float) and most < RECEIVES_FUSE:
        _warn(
            scope,
            "queueMovesMessagesEarly",
            f"queue {queue.node.path} moves messages to its dead-letter queue after {most:g}"
            " receives: messages of a healthy backlog are received many times, and are then not"
            f" counted. Allow {RECEIVES_FUSE:,}",
        )


def _expiries(properties: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What active lifecycle rules delete of archives and uploads, and when. None has a tag."""
    rules = (properties.get("lifecycleConfiguration") or {}).get("rules") or ()
    for rule in rules:
        prefix = rule.get("prefix") or ""
        at = [kept for kept in _KEPT if prefix.startswith(kept) or kept.startswith(prefix)]
        if rule.get("status") != "Enabled" or rule.get("tagFilters") or not at:
            continue
        if "expirationInDays" in rule:
            yield at[0], f"after {rule['expirationInDays']:g} days"
        elif "expirationDate" in rule:
            yield at[0], f"on {str(rule['expirationDate'])[:10]}"


def _check_tags(tags: object) -> None:
    if not isinstance(tags, Mapping):
        raise _wrong("tags", tags, 'a dict of texts: {"team": "elections"}')
    for key, value in tags.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise OptionsError(
                f"tags {{{key!r}: {value!r}}}: keys and values of tags are texts; give"
                f" {{{str(key)!r}: {str(value)!r}}}"
            )
    _refuse_wrong(tags)


def _refuse_wrong(tags: Mapping[str, str]) -> None:
    """A value may be one that CloudFormation knows alone, such as the account."""
    known = {key: "" if cdk.Token.is_unresolved(text) else text for key, text in tags.items()}
    if wrong := wrong_tags(known):
        raise OptionsError(f"tags {wrong}")


def _wrong(name: str, given: object, wanted: str) -> OptionsError:
    kind = type(given).__name__
    if given is None:
        kind = "nothing"
    elif isinstance(given, type):
        kind = f"the class {given.__name__}"
    else:
        kind = f"{'an' if kind[0] in 'aeio' else 'a'} {kind}"
    said = f" {shown(given)}" if isinstance(given, str | int | float | list | dict) else ""
    return OptionsError(f"{name}{said}: {kind} was given; give {wanted}")


def _differ(here: str, there: str) -> bool:
    """Whether two accounts or Regions are known, and different."""
    return (
        here != there and not cdk.Token.is_unresolved(here) and not cdk.Token.is_unresolved(there)
    )


def warn_of_suffix(scope: IConstruct, options: Options) -> None:
    """Warn of a strategy of suffixes that spreads ids far from evenly."""
    if uneven := product_warning(options.settings()):
        _warn(scope, "suffix", uneven)


def warn_of_insights(scope: IConstruct, options: Options, key: kms.IKey | None) -> None:
    """Warn of keys of events that stand in CloudWatch although a key encrypts the tables."""
    if key and options.contributor_insights:
        _warn(scope, "contributor-insights", INSIGHTS_IN_PLAIN_TEXT)


def _warn(scope: IConstruct, id_: str, message: str) -> None:
    cdk.Annotations.of(scope).add_warning_v2(_WARNING + id_, message)
