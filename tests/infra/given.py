"""What a call in the source is given, and what names are assigned."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def spread(arguments: list[ast.expr], local: dict[str, ast.expr]) -> Iterator[ast.expr]:
    """The arguments of a call, those of a tuple one by one."""
    for each in arguments:
        if isinstance(each, ast.Starred) and isinstance(each.value, ast.Name):
            given = local[each.value.id]
            assert isinstance(given, ast.Tuple)
            yield from given.elts
        else:
            yield each


def assigned(node: ast.Assign) -> Iterator[tuple[str, ast.expr]]:
    """The names that an assignment gives values, also several at once."""
    target, value = node.targets[0], node.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = list(zip(target.elts, value.elts, strict=True))
    else:
        pairs = [(target, value)]
    yield from ((name.id, given) for name, given in pairs if isinstance(name, ast.Name))
