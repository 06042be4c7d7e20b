"""The matrix: every call of AWS in the core, every way in which it can fail, how often it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.faults.kinds import IMPOSSIBLE, RULES, Kind
from tests.faults.results import Strikes
from tests.faults.sites import Site

Rules = Mapping[str, Sequence[Kind]]


def can_happen(site: Site, rules: Rules = RULES) -> list[Kind]:
    """What can happen at a site."""
    kinds = rules.get(site.operation, ())
    return [kind for kind in kinds if (site.file, site.function, kind) not in IMPOSSIBLE]


def holes(sites: Sequence[Site], strikes: Strikes, rules: Rules = RULES) -> list[str]:
    """What is missing: cells without a fault, sites without rules, rules without a site."""
    missing = []
    cells = {(str(site), kind) for site in sites for kind in can_happen(site, rules)}
    for site in sites:
        if site.operation not in rules:
            missing.append(f"{site}: no rules say what can happen there")
        missing += [
            f"{site}: never {kind}"
            for kind in can_happen(site, rules)
            if not strikes[str(site), kind]
        ]
    called = {site.operation for site in sites}
    missing += [
        f"{operation}: rules, and no call" for operation in rules if operation not in called
    ]
    return missing + [
        f"{site}: {kind} is against the rules" for site, kind in strikes.keys() - cells
    ]


def rendered(sites: Sequence[Site], strikes: Strikes, rules: Rules = RULES) -> str:
    """The matrix as text: a row a site, a column a kind; a dot where a kind cannot happen."""
    width = max(len(str(site)) for site in sites)
    kinds = [kind for kind in Kind if any(kind in rules.get(site.operation, ()) for site in sites)]
    heads = [kind.split() for kind in kinds]
    lines = []
    for line in range(max(map(len, heads))):
        words = [head[line] if line < len(head) else "" for head in heads]
        lines.append(" " * width + "".join(f"{word[:9]:>10}" for word in words))
    for site in sites:
        can = can_happen(site, rules)
        cells = [strikes[str(site), kind] if kind in can else "." for kind in kinds]
        lines.append(f"{site!s:<{width}}" + "".join(f"{cell:>10}" for cell in cells))
    filled = sum(1 for count in strikes.values() if count)
    lines.append(f"{strikes.total():,} faults in {filled} cells")
    return "\n".join(lines)
