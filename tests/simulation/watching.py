"""Watches methods of one object from outside."""

from __future__ import annotations

from functools import partial

import pytest


def watched(patch: pytest.MonkeyPatch, object_: object, watcher: object, *verbs: str) -> None:
    """Call `watcher.verb(method, *arguments)` in the place of an object's methods of these names,
    until the patch is undone.
    """
    for verb in verbs:
        patch.setattr(object_, verb, partial(getattr(watcher, verb), getattr(object_, verb)))
