"""`tallyroll preflight` checks an account before and after deploying; it gives its exit status."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from tallyroll.cli.arguments import Run
from tallyroll.cli.doctor import show_checks
from tallyroll.errors import StoreError, UsageError
from tallyroll.operations.preflight.canary import removed
from tallyroll.operations.preflight.case import Preflight
from tallyroll.operations.preflight.checks import CHECKS
from tallyroll.operations.preflight.checks import preflight as checks_of
from tallyroll.operations.preflight.planned_deployment import PlannedDeployment, wish_of
from tallyroll.settings.options import Options

if TYPE_CHECKING:
    from tallyroll.ports.gauges import Gauges
    from tallyroll.ports.stack import Stack

CDK_FILE = "cdk.json"


def preflight(
    *,
    context: Annotated[
        list[str] | None, Parameter(("--context", "-c"), metavar="KEY=VALUE", negative=())
    ] = None,
    bucket: Annotated[str, Parameter(metavar="BUCKET")] = "",
    no_canary: bool = False,
    run: Run,
) -> int:
    """Check an account and Region for a pipeline, before and after deploying, one
    line a check, with what to do about what is found.

    Checked are: account and Region, the CDK's bootstrap, quotas of tables and
    functions, throughput, the permissions of this identity and of the role by
    which CloudFormation deploys, names that an earlier deployment left behind, a
    bucket that is passed in, the key, API Gateway's logs, and whether policies
    see tables' tags. For the last one an empty table, NAME-preflight-..., is made
    and dropped, also after Ctrl-C; it takes up to two minutes. After deploying
    also: functions, event source and schedules.

    Before deploying, the options are those of cdk.json in this directory and of
    -c, as `npx cdk deploy` takes them, else this environment's settings. After
    deploying, the deployment's hold. What cannot be known is `unchecked`.

    Exit status:
      0  all is well, or there are warnings only
      1  there are findings
      2  wrong use
      3  something could not be checked

    For example:
      tallyroll --name votes preflight
      tallyroll preflight -c tallyroll:name=votes -c tallyroll:warm_units=20000

    :param context: an option of the deployment, such as tallyroll:name=votes
    :param bucket: the bucket that `bucket=` passes in
    :param no_canary: leave out the canary table
    """
    given = {**_of_file(Path(CDK_FILE)), **_of_words(context or ())}
    if run.named:
        given[Options.named("name")] = run.settings.name
    planned = wish_of(given, os.environ)
    run = replace(run, settings=planned.settings)
    case = run.checkup(None)
    from tallyroll.pipeline import inspection

    if case.deployed:
        planned = _deployed(planned, case.settings, run, case.stack)
    account, canary = inspection.account(planned.settings, with_canary=not no_canary)
    made = run.pipeline(case.settings)
    of = Preflight(planned, case, account, made.gauges, made.tables, bucket, canary)
    with removed(canary, case.effects, run.screen.tell):
        return show_checks(checks_of(of), run.screen, CHECKS)


def _deployed(
    planned: PlannedDeployment, settings: Any, run: Run, stack: Stack | None
) -> PlannedDeployment:
    """What is deployed, as far as that is known; else what is planned."""
    planned = replace(planned, settings=settings)
    gauges: Gauges = run.pipeline(settings).gauges
    try:
        trigger = gauges.trigger()
        writer = stack.function("writer") if stack else None
    except StoreError as error:
        run.screen.tell(f"the deployment's writers are not known: {error}")
        return planned
    if trigger and trigger.max_concurrency:
        planned = replace(planned, writers=trigger.max_concurrency)
    return replace(planned, reserved=writer.reserved if writer else planned.reserved)


def _of_file(path: Path) -> Mapping[str, Any]:
    """The context in a file of the CDK; none if there is no such file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8")).get("context", {})
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError) as error:
        raise UsageError(f"{path}: {error}") from None
    return found if isinstance(found, dict) else {}


def _of_words(words: Sequence[str]) -> dict[str, str]:
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"-c {word!r}: give KEY=VALUE, such as {Options.named('name')}=votes")
        found[key] = value
    return found
