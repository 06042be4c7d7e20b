"""Alarms judged on simulated metrics, by CloudWatch's rules.

Source: Amazon CloudWatch User Guide, "Alarm evaluation", "Configuring how CloudWatch alarms treat
missing data" and "Using metric math".
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from tallyroll.cdk.alarm_values import AlarmRule
from tests.simulation.gauges import Gauges

# CloudWatch looks at some more periods than it evaluates, and at data there before it treats any
# as missing. It does not say how many; the guide's examples have two.
MORE_PERIODS = 2
BRANCHES = 2  # of IF
Number = float | None


@dataclass(frozen=True, slots=True)
class Raised:
    """An alarm that was on from `since` until `until` (ms): None if it still was in the end."""

    id: str
    since: int
    until: int | None


def raised(rules: Mapping[str, AlarmRule], gauges: Gauges, since: int, until: int) -> list[Raised]:
    """The alarms that were on between two moments (ms), in the order in which they were raised.

    No alarm knows anything of the time before `since`.
    """
    found = [one for id_, rule in rules.items() for one in _spells(id_, rule, gauges, since, until)]
    return sorted(found, key=lambda one: (one.since, one.id))


def _spells(id_: str, rule: AlarmRule, gauges: Gauges, since: int, until: int) -> Iterator[Raised]:
    period_ms = rule.period * 1000
    first = -(-since // period_ms) * period_ms
    on_since: int | None = None
    numbers: deque[Number] = deque(maxlen=rule.evaluated + MORE_PERIODS)
    for end in range(first + period_ms, until + 1, period_ms):
        numbers.append(number_of(rule, gauges, end - period_ms))
        if end < first + rule.times * period_ms:
            continue
        on = is_on(rule, list(numbers))
        if on and on_since is None:
            on_since = end
        elif not on and on_since is not None:
            yield Raised(id_, on_since, end)
            on_since = None
    if on_since is not None:
        yield Raised(id_, on_since, None)


def is_on(rule: AlarmRule, numbers: list[Number]) -> bool:
    """Whether an alarm is on, by the numbers of its last periods, the oldest first.

    With as many numbers there as it evaluates, the latest of these decide; else what is missing
    among the latest periods is treated as the rule says.
    """
    if rule.within:
        breaching = [number is not None and number > rule.above for number in numbers]
        return sum(breaching[-rule.within :]) >= rule.times
    there = [number for number in numbers if number is not None]
    if len(there) >= rule.times:
        return all(number > rule.above for number in there[-rule.times :])
    return rule.silence_is_bad and all(number > rule.above for number in there)


def number_of(rule: AlarmRule, gauges: Gauges, start: int) -> Number:
    """What a rule compares, of the period that starts at `start` (ms); None if it is missing."""
    numbers = {name: gauges.statistic(metric, start) for name, metric in rule.metrics.items()}
    if not rule.expression:
        [number] = numbers.values()
        return number
    return _value(_parsed(rule.expression), numbers)


@cache
def _parsed(expression: str) -> ast.expr:
    return ast.parse(expression, mode="eval").body


def _sum(values: list[Number]) -> Number:
    """The sum of the series that have a value; missing where none has."""
    there = [value for value in values if value is not None]
    return sum(there) if there else None


_OPERATORS: Mapping[type[ast.operator], Callable[[float, float], Number]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Div: lambda left, right: left / right if right else None,
}


def _value(node: ast.expr, numbers: Mapping[str, Number]) -> Number:
    """The value of an expression: numbers, names, `+`, `-`, `/`, `>`, IF, FILL, SUM and MAX.
    Raises ValueError for whatever else CloudWatch may know.
    """
    match node:
        case ast.Constant(int() | float() as number):
            return float(number)
        case ast.Name(name) if name in numbers:
            return numbers[name]
        case ast.BinOp(left, operator, right) if type(operator) in _OPERATORS:
            sides = _value(left, numbers), _value(right, numbers)
            if sides[0] is None or sides[1] is None:
                return None
            return _OPERATORS[type(operator)](sides[0], sides[1])
        case ast.Compare(left, [ast.Gt()], [right]):
            less, more = _value(right, numbers), _value(left, numbers)
            return None if less is None or more is None else float(less < more)
        case ast.Call(ast.Name("IF"), [condition, *branches]) if len(branches) == BRANCHES:
            chosen = _value(condition, numbers)
            return None if chosen is None else _value(branches[not chosen], numbers)
        case ast.Call(ast.Name("FILL"), [series, ast.Constant(int() | float() as number)]):
            filled = _value(series, numbers)
            return float(number) if filled is None else filled
        case ast.Call(ast.Name("SUM"), [ast.List(parts)]):
            return _sum([_value(part, numbers) for part in parts])
        case ast.Call(ast.Name("MAX"), [ast.List(parts)]):
            there = [_value(part, numbers) for part in parts]
            return max((value for value in there if value is not None), default=None)
    raise ValueError(f"not evaluated here: {ast.unparse(node)}")
