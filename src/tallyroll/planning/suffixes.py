"""How unevenly the example formula of the DynamoDB Developer Guide spreads ids."""

from __future__ import annotations

from collections import Counter

from tallyroll.settings import Settings

DIGITS, IDS = 8, 100_000


def product_shares(shards: int, digits: int = DIGITS) -> dict[int, float]:
    """The share of each suffix, 1..`shards`, in all ids of so many digits, by the product of their
    code points modulo `shards`, plus 1. Computed, not drawn; suffixes that no id has are left out.
    """
    found = Counter({1 % shards: 1})
    for _ in range(digits):
        more: Counter[int] = Counter()
        for rest, count in found.items():
            for digit in "0123456789":
                more[rest * ord(digit) % shards] += count
        found = more
    return {rest + 1: count / 10**digits for rest, count in sorted(found.items())}


def product_warning(settings: Settings) -> str:
    """What the strategy `product` does with random ids of eight digits; empty for others."""
    if settings.suffix != "product":
        return ""
    shards, shares = settings.shards, product_shares(settings.shards)
    fullest = max(shares, key=lambda suffix: shares[suffix])
    used = sum(1 - (1 - share) ** IDS for share in shares.values())
    return (
        f"suffix product sends {shares[fullest]:.0%} of random 8-digit ids to suffix {fullest}, and"
        f" {IDS:,} of them leave {shards - used:.0f} of {shards} suffixes empty: one partition is"
        " soon full. Take calculated, unless tables were filled by product"
    )
