"""The checks of an account: its limits, and the caller's permissions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tallyroll.errors import Missing, StoreError, UsageError
from tallyroll.limits import TABLE_QUOTA
from tallyroll.model.windows import DYNAMODB, iso, length_of, text_of_length
from tallyroll.operations.doctor.checkup import Check, Level, Sign, finding, fine, warning
from tallyroll.operations.doctor.deployment_checks import functions, schedules, trigger
from tallyroll.operations.doctor.examine import checked
from tallyroll.operations.doctor.rights import PACKAGES
from tallyroll.operations.preflight.budget import budget
from tallyroll.operations.preflight.canary import tag_control
from tallyroll.operations.preflight.case import Preflight
from tallyroll.operations.preflight.execution import execution
from tallyroll.operations.preflight.key import key
from tallyroll.operations.preflight.logs import api_logs
from tallyroll.operations.preflight.names import names
from tallyroll.operations.preflight.planned_deployment import QUALIFIER, USUAL
from tallyroll.operations.preflight.stack_calls import sets_log_role
from tallyroll.planning.suffixes import product_warning
from tallyroll.ports.gauges import Quota
from tallyroll.resources import function_name
from tallyroll.settings import Settings

BOOTSTRAP_LEAST = 6  # what a template of the CDK asks for; AWS CDK Developer Guide, bootstrapping
# Lambda leaves so many unreserved. Source: AWS Lambda Developer Guide, "Configuring reserved
# concurrency for a function".
UNRESERVED_LEAST = 100
OTHERS = tuple(package for package in PACKAGES if package != "writer")
_ASK = (
    "`aws service-quotas request-service-quota-increase --service-code {service} --quota-code"
    " {code} --desired-value {value}`"
)


def account(of: Preflight) -> Iterator[Sign]:
    """Which account, Region and identity this is."""
    who = of.identity
    words = {True: "is deployed there", False: "is not deployed there", None: "may be deployed"}
    state = words[of.case.deployed]
    yield fine(f"account {who.account}, Region {who.region}, as {who.arn}; {of.name} {state}")


def bootstrap(of: Preflight) -> Iterator[Sign]:
    """The CDK can deploy into this Region."""
    qualifier = of.planned.qualifier
    version = of.account.bootstrap_version(qualifier)
    again = f"`{of.bootstrapping}`"
    named = "" if qualifier == USUAL else f" with the qualifier {qualifier}"
    if version is None:
        sign = warning if of.deployed else finding
        yield sign(
            f"the Region is not bootstrapped for the CDK{named}",
            f"{again}; or name the qualifier of the one that is there: -c {QUALIFIER}=...; or"
            " deploy without the CDK (docs/deploy.md, Without the CDK).",
        )
    elif version < BOOTSTRAP_LEAST:
        yield finding(
            f"the CDK's bootstrap has version {version}, and {BOOTSTRAP_LEAST} is needed", again
        )
    yield fine(f"the CDK's bootstrap has version {version}")


def table_quota(of: Preflight) -> Iterator[Sign]:
    """The Region has room for the tables that the retention keeps."""
    settings = of.planned.settings
    here = settings.store == DYNAMODB
    configured = settings.table_quota if here else TABLE_QUOTA
    quota, why = of.quota(Quota.TABLES)
    most = configured if quota is None else round(quota)
    others = len(of.names) - len(of.windows)
    kept = settings.tables_kept if here else len(of.windows)
    permanent = 0 if of.deployed else 2  # catalog and totals
    wanted = others + permanent + kept
    text = f"{len(of.names):,} tables, {kept:,} of windows to be kept, by a quota of {most:,}"
    ask = _ASK.format(service="dynamodb", code="L-F98FE922", value=max(wanted, 5_000))
    if wanted > most:
        yield finding(f"{text}: {wanted:,} are needed", f"{ask}, or keep windows less long.")
    elif wanted > 0.8 * most:
        yield warning(text, ask)
    if quota is None:
        yield Sign(
            Level.UNCHECKED,
            f"{text}, as tallyroll:table_quota says; the account's is not known: {why}",
            "Let this identity call servicequotas:GetServiceQuota, or look in Service Quotas.",
        )
    elif here and configured > quota:
        yield warning(
            f"tallyroll:table_quota is {configured:,}, and the account's is {most:,}",
            f"Set tallyroll:table_quota to {most}, so that the roller and `tallyroll doctor` warn"
            " in time.",
        )
    if not here:
        yield from _in_keyspaces(settings)
    yield fine(text)


def _in_keyspaces(settings: Settings) -> Iterator[Sign]:
    needed, most = settings.tables_kept + settings.permanent_tables, settings.quota
    text = f"{needed:,} tables are needed in Keyspaces, of a quota of {most:,}"
    if needed > 0.8 * most:
        yield warning(text, "Ask for a higher quota (Service Quotas, Amazon Keyspaces).")


def window_length(of: Preflight) -> Iterator[Sign]:
    """The windows that exist can be followed by ones of the length that is asked for."""
    wanted = of.planned.settings.window_length
    calendar = of.case.calendar if of.deployed else None
    text = f"windows of {text_of_length(length_of(wanted))}"
    if calendar is None or calendar.grid.lengths[-1][1] == length_of(wanted):
        yield fine(text)
        return
    try:
        since, _ = calendar.grid.with_length(wanted, of.case.effects.now()).lengths[-1]
    except UsageError as error:
        yield finding(f"the length of windows cannot be changed: {error}", "Go that way.")
        return
    yield fine(f"{text}, from {iso(since)} on at the earliest")


def concurrency(of: Preflight) -> Iterator[Sign]:
    """Lambda may run the writers, and the other functions beside them."""
    found = of.account.concurrency()
    planned = of.planned
    ask = _ASK.format(service="lambda", code="L-B99A9384", value=1_000)
    left = found.unreserved - (0 if of.deployed else planned.reserved or 0)
    if planned.reserved and not of.deployed and left < UNRESERVED_LEAST:
        yield finding(
            f"tallyroll:reserved_concurrency {planned.reserved} leaves {left:,} of {found.limit:,}"
            f" unreserved, and Lambda keeps {UNRESERVED_LEAST}: the deployment will fail",
            f"Leave that option out, or ask for more: {ask}",
        )
    writers = planned.writers if planned.reserved is None else 0  # those that take of what is left
    once = ["one that sets API Gateway's role for logs"] if sets_log_role(planned) else []
    others = [*OTHERS, *([] if of.deployed else once)]
    needed = writers + len(others)
    counted = ", ".join([*([f"{planned.writers:,} writers"] if writers else []), *others])
    text = (
        f"this pipeline runs up to {needed:,} functions at once ({counted}), of {left:,} that may"
        f" run unreserved, {found.limit:,} in all"
    )
    if needed > left:
        yield warning(
            f"{text}: reads and the roller will be throttled",
            f"Lower tallyroll:max_concurrency, or ask for more: {ask}",
        )
    yield fine(text)


def throughput(of: Preflight) -> Iterator[Sign]:
    """Tables may take the write units that the options ask for."""
    settings = of.planned.settings
    if uneven := product_warning(settings):
        yield warning(uneven, "See docs/sharding.md.")
    quota, why = of.quota(Quota.TABLE_WRITES)
    warm, rate = max(settings.warm_units, settings.warm_units_max), settings.write_rate
    if settings.provisioned:
        yield from _provisioned(of, settings.provisioned)
    if quota is None:
        least = f"It must be {warm:,} at least." if warm else "40,000 are usual."
        yield Sign(
            Level.UNCHECKED,
            f"how many write units a second a table may take is not known: {why}",
            f"Let this identity call servicequotas:GetServiceQuota, or look there. {least}",
        )
        return
    ask = _ASK.format(service="dynamodb", code="L-AB614373", value=max(warm, rate))
    if warm > quota:
        yield finding(
            f"tallyroll:warm_units asks for {warm:,} write units a second, over the table quota of"
            f" {quota:,.0f}: no window would open",
            ask,
        )
    if rate > quota:
        yield warning(
            f"tallyroll:write_rate lets writers take {rate:,} write units a second, over the table"
            f" quota of {quota:,.0f}: DynamoDB throttles them first",
            f"Lower it, or ask for more: {ask}",
        )
    yield fine(f"a table may take {quota:,.0f} write units a second; warm units: {warm:,}")


def _provisioned(of: Preflight, units: Mapping[str, int]) -> Iterator[Sign]:
    limits = of.account.write_limits()
    settings = of.planned.settings
    hot = settings.ahead_windows + 1
    wanted = hot * units["write"] + max(0, settings.tables_kept - hot) * units["cold_write"]
    for found, most, what in (
        (units["write"], limits.table, "of a table"),
        (wanted, limits.account, "of all tables"),
    ):
        if found > most:
            yield finding(
                f"tallyroll:provisioned needs {found:,} write units a second {what}, and"
                f" {most:,} are allowed",
                "Lower it, or ask for more (Service Quotas, DynamoDB).",
            )


def permissions(of: Preflight) -> Iterator[Sign]:
    """The caller may deploy with the CDK, and operate the pipeline."""
    rights = of.case.rights
    who = of.identity
    principal = of.account.principal(who)
    if not principal or rights is None:
        text = f"what {who.arn} may do is not known: IAM simulates only users and roles"
        yield Sign(Level.UNCHECKED, text, "Ask with the user or role that will deploy.")
        return
    try:
        deploying = rights.denied(principal, _deploying(of))
        operating = rights.denied(principal, _operating(of))
    except Missing as error:
        yield Sign(Level.UNCHECKED, f"what {principal} may do is not known: {error}", "")
        return
    if deploying and not of.deployed:
        yield warning(
            f"{principal} may not: {'; '.join(deploying)}",
            "Without the bootstrap's roles the CDK's command deploys with this identity's own"
            " permissions. Let it assume these roles, or give it all that the stack makes.",
        )
    if operating:
        yield warning(
            f"{principal} may not: {'; '.join(operating)}",
            "The pipeline's operator needs this: `grant_operate` of the construct gives it"
            " (docs/package.md).",
        )
    yield fine(f"{principal} may deploy with the CDK's roles, and read what a doctor reads")


def _deploying(of: Preflight) -> dict[str, Sequence[str]]:
    roles = ("deploy-role", "file-publishing-role")
    return {of.bootstrapped(role): ("sts:AssumeRole",) for role in roles}


def _operating(of: Preflight) -> dict[str, Sequence[str]]:
    who, declared = of.identity, of.resources
    beside = declared.identities
    here = f"{who.region}:{who.account}"
    tables = f"arn:{who.partition}:dynamodb:{here}:table"
    reads = ("dynamodb:DescribeTable", "dynamodb:GetItem", "dynamodb:Query")
    return {
        f"{tables}/{declared.catalog.name}": reads,
        f"{tables}/{declared.totals.name}": reads,
        **(
            {f"{tables}/{beside.name}": ("dynamodb:BatchGetItem", "dynamodb:DescribeTable")}
            if beside
            else {}
        ),
        f"{tables}/{declared.windows.name}20000101T000000Z": reads,
        f"arn:{who.partition}:sqs:{here}:{declared.queue.name}": (
            "sqs:GetQueueAttributes",
            "sqs:SendMessage",
        ),
        f"arn:{who.partition}:sqs:{here}:{declared.dead_letters.name}": (
            "sqs:DeleteMessage",
            "sqs:ReceiveMessage",
        ),
        f"arn:{who.partition}:lambda:{here}:function:{function_name(of.name, 'roller')}": (
            "lambda:GetFunctionConfiguration",
        ),
    }


def bucket(of: Preflight) -> Iterator[Sign]:
    """A bucket that is passed in can be reached, in this Region, and keeps versions."""
    if not of.bucket:
        yield fine("no bucket is passed in: the deployment makes one")
        return
    try:
        found = of.account.bucket(of.bucket)
    except Missing:
        text = f"there is no bucket {of.bucket}"
        yield finding(text, "Give the bucket that `bucket=` passes in (docs/package.md).")
        return
    if found.region != of.identity.region:
        yield finding(
            f"the bucket {of.bucket} is in {found.region}, not in {of.identity.region}",
            "DynamoDB's exports and the functions need a bucket of the pipeline's own Region.",
        )
    if not found.versioned:
        yield warning(
            f"the bucket {of.bucket} keeps no versions: an archive that is overwritten is lost",
            f"`aws s3api put-bucket-versioning --bucket {of.bucket}"
            " --versioning-configuration Status=Enabled`",
        )
    yield fine(f"the bucket {of.bucket} is in this Region, and keeps versions")


def tags(of: Preflight) -> Iterator[Sign]:
    """The account's policies see tables' tags, without which no table is dropped."""
    if of.canary is None:
        text = "whether policies see tables' tags was not tried"
        yield Sign(Level.UNCHECKED, text, "Leave out --no-canary: it makes and drops one table.")
        return
    try:
        yield from tag_control(of.canary, of.case.effects)
    except StoreError as error:
        yield Sign(
            Level.UNCHECKED,
            f"whether policies see tables' tags is not known: {error}",
            f"Let this identity make, tag and delete the table {of.canary.name}, or give"
            " --no-canary.",
        )


CHECKS: dict[str, Callable[[Preflight], Iterator[Sign]]] = {
    "account": account,
    "bootstrap": bootstrap,
    "table-quota": table_quota,
    "window-length": window_length,
    "concurrency": concurrency,
    "throughput": throughput,
    "permissions": permissions,
    "execution-role": execution,
    "names": names,
    "bucket": bucket,
    "key": key,
    "api-logs": api_logs,
    "budget": budget,
    "functions": lambda of: functions(of.case),
    "trigger": lambda of: trigger(of.case),
    "schedules": lambda of: schedules(of.case),
    "tags": tags,
}
"""All checks by name, in order; what takes longest comes last."""


def preflight(of: Preflight) -> Iterator[Check]:
    """Run the checks one after another. Raises StoreError if it is not known who asks."""
    _ = of.identity
    for name, check in CHECKS.items():
        yield checked(name, check(of))
