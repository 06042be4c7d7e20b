"""Whether policies see tags, tried on a canary that never stays."""

from __future__ import annotations

import pytest

from tallyroll.errors import Refused, Throttled
from tallyroll.operations.doctor.checkup import Level
from tallyroll.operations.preflight.canary import TAG_TRIES, removed, tag_control
from tests.docs.commands import check, of_sentences
from tests.harness.pipeline import StillEffects
from tests.unit.operations.canaries import FakeCanary

DENIED = Refused("DeleteTable: AccessDeniedException: no", "AccessDeniedException")


@pytest.mark.parametrize(
    ("canary", "level", "says"),
    [
        (FakeCanary(), Level.OK, "a tagged table could be dropped"),
        (FakeCanary(seen_after=5), Level.OK, "a tagged table could be dropped"),
        (FakeCanary(tags_are_seen=False), Level.FINDING, "do not see tables' tags"),
        (FakeCanary(policies=False), Level.FINDING, "although its policy denies"),
        (FakeCanary(permitted=False), Level.UNCHECKED, "may not be deleted"),
    ],
    ids=["seen", "seen late", "not seen", "no policies", "not permitted"],
)
def test_whether_policies_see_tags(canary: FakeCanary, level: Level, says: str) -> None:
    told: list[str] = []
    effects = StillEffects()
    with removed(canary, effects, told.append):
        [sign] = tag_control(canary, effects)
    assert (sign.level, says in sign.text) == (level, True), sign
    assert canary.there is not canary.permitted
    assert bool(told) is canary.there
    assert all(canary.name in line for line in told)


@pytest.mark.parametrize("verb", ["make", "drop", "tag"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), Throttled("no", "ThrottlingException")])
def test_the_canary_is_removed_however_it_ends(verb: str, error: BaseException) -> None:
    canary, told, effects = FakeCanary(broken={verb: error}), list[str](), StillEffects()
    with pytest.raises(type(error)), removed(canary, effects, told.append):
        list(tag_control(canary, effects))
    assert (canary.there, told) == (False, [])


def test_a_second_interrupt_does_not_keep_the_canary() -> None:
    canary, effects = FakeCanary(broken={"drop": KeyboardInterrupt()}), StillEffects()
    canary.make()
    with pytest.raises(KeyboardInterrupt), removed(canary, effects, print):
        pass
    assert not canary.there


def test_a_canary_that_stays_is_told() -> None:
    for broken in (FakeCanary(permitted=False), FakeCanary(broken={"drop": DENIED})):
        told: list[str] = []
        broken.make()
        with removed(broken, StillEffects(), told.append):
            pass
        [line] = told
        assert f"table {broken.name} may still exist" in line
        for command in of_sentences("canary", line):
            check(command)
    waits = StillEffects()
    with removed(None, waits, print):
        pass
    assert waits.slept == []
    assert TAG_TRIES > 1
