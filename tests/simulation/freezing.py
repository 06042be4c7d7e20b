"""What a deployment may freeze into a window's spec, by the oracle's own reckoning."""

from __future__ import annotations

from collections.abc import Sequence

from tallyroll.model.specs import Spec
from tallyroll.settings import Settings
from tests.simulation.sent import Opened


def is_of(spec: Spec, settings: Settings, span: tuple[int, int], opened: Opened | None) -> bool:
    """Whether a spec is that of one deployment, for the window of a span (ms)."""
    return (
        (spec.start, spec.end) == span
        and spec.accept_from == (opened.accept_from if opened else 0)
        and spec.accept_until
        == (opened.accept_until if opened else spec.end + settings.accept_for_ms)
        and (spec.shards, spec.stripes_min, spec.buckets, spec.gates)
        == (settings.shards, settings.stripes_min, settings.buckets, settings.gates)
        and (spec.skew, spec.require_ts) == (settings.skew_ms, settings.require_ts)
        and {key: rule.slot_ms for key, rule in spec.logs.items()}
        == {key: 1_000_000 // rate for key, rate in settings.logs.items()}
        and (spec.suffix, spec.identity, spec.identity_days) == _rule(settings)
    )


def may_be_hot(
    spec: Spec, settings: Settings, deployed: Sequence[Settings], wished: int = 0
) -> bool:
    """Whether keys have the shards that the option asks for, and none more than it could ever have
    got; `wished` are the most that anybody did.
    """
    configured = settings.hot_shards
    most = max(max((wished, each.shards_max, *each.hot_shards.values())) for each in deployed)
    return all(spec.shards_of(key) >= n for key, n in configured.items()) and all(
        1 <= shards <= most for shards in spec.hot.values()
    )


def _rule(settings: Settings) -> tuple[str, str, int]:
    """How ids are placed, within what they count once, and for how long (days)."""
    own = "" if settings.stripes_rule == "shards" or settings.store == "keyspaces" else "+s1"
    logs = "+log2" if settings.logs else ""
    if settings.identity == "window":
        return f"{settings.suffix}{own}{logs}", "window", 0
    return f"{settings.suffix}{own}+id1{logs}", settings.identity, settings.identity_days
