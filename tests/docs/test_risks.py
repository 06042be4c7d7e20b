"""What is not proven on AWS is bound to the steps of the trial that settle it."""

from __future__ import annotations

import re

import pytest

from tests.docs.walks import ROOT
from trial.__main__ import EXPORTERS
from trial.steps import Step

DOCUMENT = (ROOT / "docs" / "deploy.md").read_text("utf-8")
_STEP = re.compile(r"`(\w+)`(?: \(`(\w+)`\))?")
_BY_HAND = re.compile(r"by hand\b.*(?:`(?:aws|npx cdk deploy) |\]\()")


def rows() -> list[tuple[str, str, str]]:
    table = DOCUMENT.partition("<!-- risks -->")[2].partition("<!-- /risks -->")[0]
    found = [line.strip("| ").split(" | ") for line in table.strip().splitlines()[2:]]
    return [(risk, harm, settled) for risk, harm, settled in found]


def settled_by(cell: str) -> Step | None:
    """The step that a cell names; None for what is done by hand."""
    step = _STEP.fullmatch(cell)
    if step is None:
        assert _BY_HAND.match(cell), cell
        return None
    assert step[2] in (None, *EXPORTERS), cell
    return Step(step[1])


def test_each_risk_names_a_step_of_the_trial_in_its_order_or_a_command() -> None:
    steps = [settled_by(settled) for _, _, settled in rows()]
    by_hand = [number for number, step in enumerate(steps) if step is None]
    assert by_hand == [*range(by_hand[0], len(steps))], "what is done by hand comes last"
    named = [step for step in steps if step is not None]
    exporters = [re.findall(r"\(`(\w+)`\)", settled) for _, _, settled in rows()]
    order = [*Step]
    rounds = [one[0] == "native" for one in exporters if one]
    assert rounds == sorted(rounds), "the round by scans comes first"
    assert named == sorted(named, key=order.index)
    assert {*named} == {*Step}, "a step that settles nothing"


def test_no_step_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match="exporting"):
        settled_by("`exporting` (`native`)")
    with pytest.raises(AssertionError):
        settled_by("by hand, somehow")


def test_the_sentence_that_it_never_ran_there_leads_to_the_risks() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert "[never run on AWS itself](docs/deploy.md#what-is-not-proven-on-aws)" in readme
