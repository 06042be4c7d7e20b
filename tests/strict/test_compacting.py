"""An archive that is made as Parquet and expires, with the roles of the synthesized template."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.faults.compacting import compacted_life
from tests.faults.exactness import Ledger
from tests.faults.lives import NOW_WINDOW, live_on
from tests.infra.conftest import KEY, Synthesize
from tests.strict.roles import Role
from tests.strict.stage import Stage, staged
from tests.strict.test_matrix import Change, Lived, of_life, refused_by, where, without

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def life(dynamodb_endpoint: str, synthesize: Synthesize) -> Lived:
    """What such a life asks, in a bucket with a key that locks what is archived."""
    options: dict[str, Any] = {"archive": "parquet", "kms_key": KEY, "archive_lock_days": 9}
    with staged(dynamodb_endpoint, synthesize(**options), **options) as stage:
        compacted_life(stage, Ledger(stage))
        assert stage.problems == []
        return of_life(stage.gate)


def test_nothing_that_is_needed_is_refused(life: Lived) -> None:
    assert life.refused == []


PLANTED: dict[str, tuple[str, Change, str]] = {
    "no tickets": ("cleanup", without("s3:PutObject"), "s3:PutObject"),
    "no Parquet": ("compactor", without("s3:PutObject"), "s3:PutObject"),
    "no ticket is deleted": ("compactor", without("s3:DeleteObject"), "s3:DeleteObject"),
    "no listing": ("compactor", without("s3:ListBucket"), "s3:ListBucket"),
    "no states": ("compactor", without("dynamodb:GetItem"), "dynamodb:GetItem"),
    "cleanup locks nothing": ("cleanup", without("s3:PutObjectRetention"), "s3:PutObjectRetention"),
    "no lock": ("compactor", without("s3:PutObjectRetention"), "s3:PutObjectRetention"),
    "no key": ("compactor", without("kms:GenerateDataKey"), "kms:GenerateDataKey"),
    "another tag": (
        "compactor",
        where("s3:PutObjectTagging", StringEquals={"s3:RequestObjectTag/other": "true"}),
        "s3:PutObjectTagging",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_caught(life: Lived, name: str) -> None:
    function, change, action = PLANTED[name]
    assert refused_by(life, function, change)[0] == {action}


def test_without_its_rights_the_archive_stays_as_it_is(
    dynamodb_endpoint: str, synthesize: Synthesize
) -> None:
    def bare(roles: dict[str, Role]) -> dict[str, Role]:
        changed = map(without("s3:PutObjectTagging"), roles["compactor"].statements)
        return {**roles, "compactor": replace(roles["compactor"], statements=tuple(changed))}

    template = synthesize(archive="parquet")
    with staged(dynamodb_endpoint, template, changed=bare, archive="parquet") as stage:
        live_on(stage)
        for _ in range(2):
            answer = stage.invoke("compactor", {})
            assert answer
            assert f"window {NOW_WINDOW}: PutObjectTagging" in answer["problems"][0]
        assert _tags(stage) == []


def _tags(stage: Stage) -> list[object]:
    """The tags of all objects of archives but notes."""
    s3, bucket = stage.raw.s3, stage.settings.bucket
    keys = [key for key in stage.raw.keys_in(bucket, "archive/") if "/progress/" not in key]
    found = (s3.get_object_tagging(Bucket=bucket, Key=key)["TagSet"] for key in keys)
    return [tags for tags in found if tags]
