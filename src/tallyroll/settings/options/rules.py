"""What makes options invalid: values out of their range, and values that contradict each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tallyroll.errors import UsageError
from tallyroll.settings.common import COMPLIANCE, NATIVE, SCAN
from tallyroll.settings.options.kinds import nearest, wrong_tags

if TYPE_CHECKING:
    from tallyroll.settings.options import Options

PREFIX = "tallyroll:"
WRITER_TIMEOUT_SECONDS = 60
# The queue must hide messages for this many times the longest batch, so that Lambda can retry while
# it is throttled. Source: AWS Lambda Developer Guide, "Using Lambda with Amazon SQS".
VISIBILITY_BATCHES = 6
# Lambda's runtimes that the core can run on. The first is the default: the tests of every change
# run on that Python, and the byte-code in the package's asset is that Python's.
RUNTIMES = ("python3.11", "python3.12", "python3.13", "python3.14")
# Source: CloudWatch Logs API Reference, PutRetentionPolicy; all values up to ten years.
LOG_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1827, 3653)
BATCH_SIZE_UNBUFFERED = 10  # a larger batch needs a window of at least 1 s
# Source: AWS Lambda Developer Guide, "Configuring scaling behavior for SQS event source mappings".
POLLER_INVOCATIONS_MAX = 10  # of one provisioned poller at once
MAX_CONCURRENCY = 4  # the default


class OptionsError(UsageError):
    """The options are invalid; the message names the key, its value, and what to give instead."""


def check_names(given: Iterable[str], known: Sequence[str]) -> None:
    """Raise OptionsError for a name that is none of an option."""
    for name in given:
        if name not in known:
            hint = nearest(name, known, PREFIX)
            raise OptionsError(f"{PREFIX}{name}: there is no such option; {hint}")


def check_together(options: Options) -> None:
    """Raise OptionsError for values that contradict each other."""
    if options.batch_size > BATCH_SIZE_UNBUFFERED and not options.batch_window_seconds:
        raise OptionsError(
            f"{PREFIX}batch_window_seconds 0: give at least 1 for a batch of more than"
            f" {BATCH_SIZE_UNBUFFERED} ({PREFIX}batch_size {options.batch_size})"
        )
    if options.pollers and options.max_concurrency != MAX_CONCURRENCY:
        raise both_given(options.pollers, options.max_concurrency)
    reserved = options.reserved_concurrency
    if reserved is not None and reserved < options.writers_max:
        least = f"{PREFIX}max_concurrency ({options.max_concurrency})"
        if options.pollers:
            least = (
                f"{options.writers_max}, {POLLER_INVOCATIONS_MAX} for each of the most"
                f" {PREFIX}pollers"
            )
        raise OptionsError(
            f"{PREFIX}reserved_concurrency {reserved}: give at least {least}, or writers are"
            " throttled"
        )
    if options.budget and not options.alarm_email:
        raise OptionsError(
            f"{PREFIX}budget {options.budget}: give {PREFIX}alarm_email too, the address that is"
            " told"
        )
    if options.budget_monitor and not options.budget:
        raise OptionsError(
            f"{PREFIX}budget_monitor true: give {PREFIX}budget too; an anomaly is told from a tenth"
            " of it on"
        )
    if wrong := wrong_tags(options.tags):
        raise OptionsError(f"{PREFIX}tags {wrong}")
    _check_runtime(options)
    _check_archives(options)
    _check_doors(options)
    for name in ("jwt_issuer", "jwt_audience"):
        value = getattr(options, name)
        if (options.auth == "jwt") != bool(value):
            remedy = "leave it out, or give" if value else "it is needed for"
            raise OptionsError(f"{PREFIX}{name} {value!r}: {remedy} {PREFIX}auth jwt")
    if options.cors_origins and options.auth != "jwt":
        raise OptionsError(
            f"{PREFIX}cors_origins {options.cors_origins!r}: leave it out, or give {PREFIX}auth"
            " jwt; pages should hold no keys of AWS, by which others sign"
        )
    options.check_store(transactional=not options.window_keyspace)
    if surplus := options.settings().surplus_of_tables(options.named):
        raise OptionsError(f"{PREFIX}retention_seconds {options.retention_seconds}: {surplus}")


def _check_runtime(options: Options) -> None:
    if options.runtime != RUNTIMES[0]:
        return
    needs = f"needs {PREFIX}runtime python3.12 or newer; it is {options.runtime}"
    if options.snap_start:
        raise OptionsError(f"{PREFIX}snap_start true: {needs}, of which Lambda makes no snapshots")
    if options.compacts and options.architecture == "x86_64":
        raise OptionsError(
            f"{PREFIX}archive {options.archive}: {needs}, whose C library is too old for DuckDB's"
            f" wheels for x86_64; or give {PREFIX}architecture arm64"
        )


def _check_archives(options: Options) -> None:
    locked, expire = options.archive_lock_days, options.archive_expire_days
    if options.archive_lock == COMPLIANCE and not locked:
        raise OptionsError(
            f"{PREFIX}archive_lock {COMPLIANCE!r}: give {PREFIX}archive_lock_days too; without it"
            " nothing is locked"
        )
    if locked and options.exporter == NATIVE:
        raise OptionsError(
            f"{PREFIX}archive_lock_days {locked}: give {PREFIX}exporter {SCAN}; DynamoDB cannot"
            " lock what it exports itself"
        )
    if expire and expire < locked:
        raise OptionsError(
            f"{PREFIX}archive_expire_days {expire}: give at least {PREFIX}archive_lock_days"
            f" ({locked}): what is locked cannot be deleted"
        )
    copied, key = bool(options.archive_replica), options.archive_replica_key
    if key and not copied:
        raise OptionsError(f"{PREFIX}archive_replica_key {key!r}: give {PREFIX}archive_replica too")


def _check_doors(options: Options) -> None:
    if bool(options.vpc_subnets) != bool(options.vpc_security_groups):
        given, lacking = ("vpc_subnets", "vpc_security_groups")
        if not options.vpc_subnets:
            given, lacking = lacking, given
        raise OptionsError(
            f"{PREFIX}{given} {getattr(options, given)!r}: give {PREFIX}{lacking} too"
        )
    if options.tracing_layer and not options.traces:
        raise OptionsError(
            f"{PREFIX}tracing_layer {options.tracing_layer!r}: give {PREFIX}tracing true too"
        )
    if options.tracing_layer and options.tracer:
        raise OptionsError(
            f"{PREFIX}tracer true: leave {PREFIX}tracing_layer out, or the tracer; with both, each"
            " call of AWS would be traced twice"
        )
    if options.api_endpoint and options.api != "private":
        raise OptionsError(
            f"{PREFIX}api_endpoint {options.api_endpoint!r}: leave it out, or give {PREFIX}api"
            " private"
        )
    if options.api == "private" and options.auth == "jwt":
        raise OptionsError(
            f"{PREFIX}api 'private': leave {PREFIX}auth jwt out; callers of a REST API are known by"
            " IAM"
        )
    if options.api == "none" and options.auth == "jwt":
        raise OptionsError(
            f"{PREFIX}api 'none': leave {PREFIX}auth jwt out; who calls a function is known by IAM"
        )


def both_given(pollers: Mapping[str, int], most: int) -> OptionsError:
    """The error of `pollers` beside `max_concurrency`."""
    return OptionsError(
        f"{PREFIX}pollers {dict(pollers)} and {PREFIX}max_concurrency {most}: Lambda takes only one"
        f" of them; leave max_concurrency out: a poller runs {POLLER_INVOCATIONS_MAX} writers"
    )
