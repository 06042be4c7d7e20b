"""The doctor's checks of what a deployment made: functions, event source, schedules, policies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps

from tallyroll.errors import Missing
from tallyroll.lifecycle import health
from tallyroll.lifecycle.health import MINUTE_MS
from tallyroll.lifecycle.warming import GROWTH, LOOKED_BACK_MS, Bottleneck, bottleneck
from tallyroll.limits import RECEIVES_FUSE, WARM_WRITE_UNITS_MIN
from tallyroll.model.states import Status, Window
from tallyroll.model.windows import DYNAMODB, store_of
from tallyroll.operations.doctor.checkup import Checkup, Level, Sign, finding, fine, warning
from tallyroll.operations.doctor.policies import denials
from tallyroll.operations.doctor.rights import NEWEST, packages_of, rights_of, scheduled_of
from tallyroll.ports.stack import EventSource, FunctionCard, QueueRules, Rights, ScheduleCard, Stack
from tallyroll.resources import function_name

THROTTLED_BACK_MS = 15 * MINUTE_MS
_ENABLED = "Enabled"
_CHANGING = ("Creating", "Enabling", "Updating")
_WARM = "`tallyroll windows warm {window} --units {units}` prepares the table for more, at a cost"
_KEY = (
    "`tallyroll top --window {window}` lists the largest keys: have their producers pack, and give"
    " them more shards in the next windows, `tallyroll keys split` (docs/operations.md,"
    " key-throttles)"
)
_LIMITED = {
    Bottleneck.GIVEN: (
        "a limit of the whole table, the account's quota or a capacity that it was given",
        "Raise that limit (docs/operations.md, table-throttles); more shards do not help.",
    ),
    Bottleneck.TABLE: ("the table has not grown to its load", f"{_WARM}."),
    Bottleneck.KEY: ("a key is hot", f"{_KEY}."),
    Bottleneck.UNKNOWN: ("a key or the table", f"{_WARM}; if a key is hot, {_KEY}."),
}
_WRITER_READS = (
    "sqs:ChangeMessageVisibility",
    "sqs:DeleteMessage",
    "sqs:GetQueueAttributes",
    "sqs:ReceiveMessage",
)
_TABLE_CALLS = (
    "dynamodb:BatchGetItem",
    "dynamodb:ConditionCheckItem",
    "dynamodb:GetItem",
    "dynamodb:PutItem",
    "dynamodb:Query",
    "dynamodb:UpdateItem",
)
BUCKET_CALLS = ("s3:GetObject", "s3:ListBucket", "s3:PutObject")


def of_stack(
    check: Callable[[Checkup, Stack], Iterator[Sign]],
) -> Callable[[Checkup], Iterator[Sign]]:
    """A check that is left out if nothing is deployed, or it is not known whether anything is."""

    @wraps(check)
    def checked(case: Checkup) -> Iterator[Sign]:
        if case.stack is None or case.deployed is False:
            yield fine("nothing is deployed here")
        elif not case.deployed:
            yield Sign(
                Level.UNCHECKED,
                "what is deployed is not known",
                "Let this identity call lambda:GetFunctionConfiguration (docs/operations.md, The"
                " doctor).",
            )
        else:
            yield from check(case, case.stack)

    return checked


def made_again(case: Checkup) -> str:
    """What to do about a resource that is gone."""
    name = case.settings.name
    return (
        "Was it deleted by hand? `npx cdk deploy` does not see that."
        f" `aws cloudformation detect-stack-drift --stack-name {name}`, then"
        f" `aws cloudformation describe-stack-resource-drifts --stack-name {name}` list what is"
        " gone; make it again as the template has it"
        f" (`aws cloudformation get-template --stack-name {name}`)."
    )


@of_stack
def functions(case: Checkup, stack: Stack) -> Iterator[Sign]:
    """Every function exists, is active, and may run."""
    packages = packages_of(case.settings)
    for package in packages:
        card = case.function(package)
        if _not_yet(case, stack, package):
            yield warning(
                f"there is no function {function_name(case.settings.name, package)}, and no"
                " schedule for it: what is deployed is probably of a release that had none, in"
                " which cleanup drops tables",
                f"Deploy this release (`npx cdk deploy`). If it is deployed: {made_again(case)}",
            )
        elif card is None:
            name = function_name(case.settings.name, package)
            yield finding(f"there is no function {name}", made_again(case))
        else:
            yield from _of_function(card)
    yield fine(f"functions that may run: {len(packages)}")


def _not_yet(case: Checkup, stack: Stack, package: str) -> bool:
    """Whether a deployment knows nothing of the dropper, as those of releases before it."""
    return package == NEWEST and case.function(package) is None and stack.schedule(package) is None


def _of_function(card: FunctionCard) -> Iterator[Sign]:
    if card.state == "Pending":
        yield warning(f"{card.name} is being made: {card.reason}", "Look again in a minute or two.")
    elif card.state not in ("Active", "Inactive"):  # an idle one is activated by its next call
        yield finding(
            f"{card.name} is {card.state}: {card.reason}",
            f"`aws lambda get-function-configuration --function-name {card.name}` says more.",
        )
    if card.reserved == 0:
        yield finding(
            f"{card.name} may not run: its reserved concurrency is 0",
            f"`aws lambda delete-function-concurrency --function-name {card.name}`",
        )


@of_stack
def trigger(case: Checkup, stack: Stack) -> Iterator[Sign]:
    """The event source takes the queue's messages to the writer, and loses none."""
    queue = case.settings.queue_url.rpartition("/")[2]
    ours = [one for one in stack.sources() if one.queue.rpartition(":")[2] == queue]
    if not ours:
        yield finding(
            f"nothing takes messages from {queue}: the writer has no event source mapping of it",
            made_again(case),
        )
    for source in ours:
        yield from _of_source(source)
    yield fine(f"event source mappings of {queue} that are enabled: {len(ours)}")


def _of_source(source: EventSource) -> Iterator[Sign]:
    why = f" ({source.reason})" if source.reason else ""
    text = f"the event source mapping {source.id} is {source.state.lower()}{why}"
    if source.state in _CHANGING:
        yield warning(text, "Look again in a minute or two.")
    elif source.state != _ENABLED:
        yield finding(
            f"{text}: messages wait",
            f"`aws lambda update-event-source-mapping --uuid {source.id} --enabled`",
        )
    if not source.reports_failures:
        yield finding(
            f"the event source mapping {source.id} does not let batches fail in part: messages that"
            " the writer hands back are deleted uncounted",
            f"`aws lambda update-event-source-mapping --uuid {source.id}"
            " --function-response-types ReportBatchItemFailures`",
        )
    if source.filtered:
        yield finding(
            f"the event source mapping {source.id} has a filter: messages that do not match it are"
            " deleted uncounted",
            f"`aws lambda update-event-source-mapping --uuid {source.id}"
            " --filter-criteria '{ }'`",
        )


@of_stack
def schedules(case: Checkup, stack: Stack) -> Iterator[Sign]:
    """Roller, cleanup, dropper and perhaps the compactor run on their schedules."""
    scheduled = scheduled_of(case.settings)
    for package in scheduled:
        name = function_name(case.settings.name, package)
        card = stack.schedule(package)
        if card is None:
            if not _not_yet(case, stack, package):  # else `functions` says it
                yield finding(
                    f"there is no schedule {name}: {package} does not run", made_again(case)
                )
        elif not card.enabled:
            yield finding(
                f"the schedule {name} is disabled: {package} does not run", _enabling(card)
            )
        elif card.target.split(":function:")[-1].split(":")[0] != name:
            yield finding(
                f"the schedule {name} calls {card.target}: {package} does not run",
                f"`aws scheduler get-schedule --name {name}` shows it. {made_again(case)}",
            )
    yield fine(f"schedules that are enabled: {len(scheduled)}")


def _enabling(card: ScheduleCard) -> str:
    """UpdateSchedule replaces all of a schedule, so the command names all of it."""
    return (
        f"`aws scheduler update-schedule --name {card.name} --state ENABLED"
        f" --schedule-expression '{card.expression}' --flexible-time-window Mode=OFF"
        f' --target \'{{"Arn": "{card.target}", "RoleArn": "{card.role}", "RetryPolicy":'
        ' {"MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60}}\'`'
    )


def queue_rules(case: Checkup) -> Iterator[Sign]:
    """The queue hides and keeps messages as long as the settings say, and gives none up early."""
    stack = case.stack
    if stack is None or case.queue is None:
        yield fine("no queue is known")
        return
    url, settings = case.settings.queue_url, case.settings
    rules = stack.queue_rules(url)
    name = rules.arn.rpartition(":")[2]
    hidden, kept = -(-settings.visibility_ms // 1000), settings.queue_retention_ms // 1000
    if rules.visibility_seconds < hidden:
        yield finding(
            f"{name} hides messages for {rules.visibility_seconds:,} s, and the writers count on"
            f" {hidden:,} s",
            f"`aws sqs set-queue-attributes --queue-url {url} --attributes"
            f" VisibilityTimeout={hidden}`",
        )
    if rules.retention_seconds < kept:
        yield finding(
            f"{name} keeps messages for {rules.retention_seconds:,} s, and the writers count on"
            f" {kept:,} s",
            f"`aws sqs set-queue-attributes --queue-url {url} --attributes"
            f" MessageRetentionPeriod={kept}`",
        )
    if rules.max_receives is None:
        yield warning(
            f"{name} has no dead-letter queue: a message that no writer survives is never moved"
            " away by SQS",
            _redrive(case, rules, url),
        )
    elif rules.max_receives < RECEIVES_FUSE:
        yield finding(
            f"{name} gives messages up after {rules.max_receives:,} receives, not"
            f" {RECEIVES_FUSE:,}: events that wait for their window become dead letters",
            _redrive(case, rules, url),
        )
    yield fine(f"{name} hides, keeps and gives up messages as the settings say")


def _redrive(case: Checkup, rules: QueueRules, url: str) -> str:
    name = case.settings.dead_letters_url.rpartition("/")[2] or case.resources.dead_letters.name
    arn = f"{rules.arn.rpartition(':')[0]}:{name}"
    return (
        f"`aws sqs set-queue-attributes --queue-url {url} --attributes"
        f' \'{{"RedrivePolicy": "{{\\"deadLetterTargetArn\\":\\"{arn}\\",'
        '\\"maxReceiveCount\\":1000}"}\'`'
    )


def policies(case: Checkup) -> Iterator[Sign]:
    """No policy of a queue or table denies the functions what they need."""
    stack = case.stack
    if stack is None:
        yield fine("no policies are known")
        return
    packages = packages_of(case.settings)
    cards = [card for package in packages if (card := case.function(package))]
    theirs = [card.role for card in cards]
    looked = 0
    for url, there, actions in (
        (case.settings.queue_url, case.queue, _WRITER_READS),
        (case.settings.dead_letters_url, case.dead_letters, ("sqs:SendMessage",)),
    ):
        if there is not None and url:
            looked += 1
            yield from _of_queue(stack.queue_rules(url), url, actions, theirs)
    for name in (*_permanent(case), *_live_tables(case)):
        if table := case.tables.card(name):
            looked += 1
            yield from _of_table(name, table.arn, stack.table_policy(table.arn), theirs)
    yield fine(f"policies of queues and tables that deny the functions nothing: {looked:,}")


def _permanent(case: Checkup) -> list[str]:
    return [declared.name for declared in case.resources.permanent]


def _live_tables(case: Checkup) -> list[str]:
    return [window.table for window in case.windows.values() if not window.status.sealed]


def _of_queue(
    rules: QueueRules, url: str, actions: Sequence[str], roles: Sequence[str]
) -> Iterator[Sign]:
    denied = denials(rules.policy, actions, roles)
    if denied:
        name = rules.arn.rpartition(":")[2]
        yield finding(
            f"{name}: its policy denies {', '.join(denied)}",
            f"Take that statement out: `aws sqs get-queue-attributes --queue-url {url}"
            " --attribute-names Policy` shows the policy, and"
            f" `aws sqs set-queue-attributes --queue-url {url} --attributes Policy=POLICY`"
            " replaces it.",
        )


def _of_table(name: str, arn: str, policy: str, roles: Sequence[str]) -> Iterator[Sign]:
    denied = denials(policy, _TABLE_CALLS, roles)
    if denied:
        yield finding(
            f"{name}: its policy denies {', '.join(denied)}",
            f"`aws dynamodb get-resource-policy --resource-arn {arn}` shows the policy. Take that"
            " statement out, by `aws dynamodb put-resource-policy --resource-arn"
            f" {arn} --policy POLICY` with the others.",
        )


@of_stack
def roles(case: Checkup, _: Stack) -> Iterator[Sign]:
    """The functions' roles allow their calls, by a simulation, where the store has one."""
    rights = case.rights
    if rights is None:
        yield fine("nothing simulates roles here")
        return
    looked = 0
    for package, wanted in rights_of(case).items():
        card = case.function(package)
        if card and card.role:
            looked += 1
            yield from _of_role(case, card, rights, wanted)
    yield fine(f"roles that allow their function's calls: {looked}")


def _of_role(
    case: Checkup, card: FunctionCard, rights: Rights, wanted: Mapping[str, Sequence[str]]
) -> Iterator[Sign]:
    try:
        denied = rights.denied(card.role, wanted)
    except Missing as error:
        yield Sign(
            Level.UNCHECKED if error.code == "NoSuchEntity" else Level.OK,
            f"the role of {card.name}, {card.role}, was not simulated: {error}",
            made_again(case),
        )
        return
    if denied:
        role = card.role.rpartition("/")[2]
        yield finding(
            f"{card.name}: its role denies {'; '.join(denied)}",
            f"`aws iam list-role-policies --role-name {role}` and"
            f" `aws iam list-attached-role-policies --role-name {role}` name its policies. Was"
            " one changed by hand? Undo that; CloudFormation's drift detection shows it.",
        )


def throttles(case: Checkup) -> Iterator[Sign]:
    """Permanent tables are not throttled for long, nor windows' tables by a key or as a whole."""
    stack = case.stack
    if stack is None:
        yield fine("no metrics are known")
        return
    since = case.effects.now() - THROTTLED_BACK_MS
    minutes = THROTTLED_BACK_MS // MINUTE_MS
    for table in _permanent(case):
        found = [number for _, number in stack.throttled(table, since) if number]
        if found:
            sign = finding if len(found) >= health.THROTTLED_MINUTES else warning
            yield sign(
                f"{table}: {sum(found):,} requests were throttled in {len(found)} of the last"
                f" {minutes} minutes",
                "A table on demand grows by itself within half an hour. If it goes on, look for a"
                " maximum that was set by hand, OnDemandThroughput of"
                f" `aws dynamodb describe-table --table-name {table}`, or make it warm, which is"
                " charged:"
                f" `aws dynamodb update-table --table-name {table} --warm-throughput"
                ' \'{"ReadUnitsPerSecond": 24000, "WriteUnitsPerSecond": 8000}\'`',
            )
    for window in case.windows.values():
        if window.status is Status.OPEN and store_of(window.table) == DYNAMODB:
            yield from _of_window(case, stack, window)
    yield fine(f"tables were not throttled within {minutes} minutes")


def _of_window(case: Checkup, stack: Stack, window: Window) -> Iterator[Sign]:
    """What limits the writes to a window's table, if they are throttled, and what helps at once."""
    load = stack.table_load(window.table, case.effects.now() - LOOKED_BACK_MS)
    if not load.throttled:
        return
    facts = case.store.describe_table(window.table)
    warm = facts.warm if facts and not facts.provisioned else None
    limit, remedy = _LIMITED[bottleneck(load, warm)]
    units = GROWTH * (warm or WARM_WRITE_UNITS_MIN)
    yield Sign(
        Level.WARNING,
        f"{window.id}: {load.throttled:,} writes were throttled in the last"
        f" {LOOKED_BACK_MS // MINUTE_MS} minutes: {limit} ({load.units:,.0f} write units a second"
        + (f" of {warm:,})" if warm else ")"),
        remedy.format(window=window.id, units=units),
        window.id,
    )
