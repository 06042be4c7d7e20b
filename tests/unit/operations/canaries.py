"""A canary table by AWS's rules."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class FakeCanary:
    """A table by AWS's rules: its policy denies a drop without the tag, which policies see after
    some tries, unless the account has no tag-based access control.
    """

    seen_after: int = 0
    tags_are_seen: bool = True
    policies: bool = True
    permitted: bool = True
    there: bool = False
    tagged: bool = False
    guarded: bool = True
    broken: dict[str, BaseException] = field(default_factory=dict)
    name: str = "votes-preflight-1"
    arn: str = "arn:aws:dynamodb:eu-west-1:1:table/votes-preflight-1"

    def _may_break(self, verb: str) -> None:
        if error := self.broken.pop(verb, None):
            raise error

    def make(self) -> None:
        self.there = True
        self._may_break("make")

    def tag(self) -> None:
        self._may_break("tag")
        self.tagged = True

    def drop(self) -> bool:
        if not self.there:
            return True
        self._may_break("drop")
        if not self.permitted:
            return False
        if self.guarded and self.policies and not self._seen():
            return False
        self.there = False
        return True

    def _seen(self) -> bool:
        if not self.tagged or not self.tags_are_seen:
            return False
        self.seen_after -= 1
        return self.seen_after < 0

    def unguard(self) -> None:
        self._may_break("unguard")
        self.guarded = False
