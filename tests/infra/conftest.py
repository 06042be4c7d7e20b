"""Synthesized templates, as plain JSON, and the assembled bundle; each made once."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import app
from release.bundle import assemble
from release.node import provide_node
from tests.infra.argued import ARGUED
from tests.infra.oracle import judged
from tests.infra.templates import Template

if TYPE_CHECKING:
    import aws_cdk as cdk

SKIP_BUNDLING: dict[str, list[str]] = {"aws:cdk:bundling-stacks": []}
KEY = "arn:aws:kms:eu-west-1:123456789012:key/11111111-2222-3333-4444-555555555555"
TAGS = {"team": "elections", "cost-centre": "42"}
Synthesize = Callable[..., Template]
Built = Callable[[Callable[["cdk.Stack"], None]], Template]


def as_aws_has_it(template: Template) -> Template:
    """The template, after AWS's reference has been asked about each statement of its policies."""
    found = judged(template)
    open_ = [one for one in found if not any(each.covers(one) for each in ARGUED)]
    assert not open_, "\n".join(map(str, open_))
    return template


@pytest.fixture(scope="session")
def node() -> Iterator[None]:
    """What the CDK runs in; it may be imported from here on."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        # Whatever the app sets there ends with these tests.
        patch.setenv("JSII_NODE", os.environ.get("JSII_NODE", ""))
        provide_node(os.environ)
        warnings.simplefilter("ignore")  # of other people's packages
        yield


@pytest.fixture(scope="session")
def synthesize(node: None, tmp_path_factory: pytest.TempPathFactory) -> Synthesize:
    """Synthesize with these options, without the asset; each set of options once."""
    made: dict[str, Template] = {}

    def synthesized(**options: object) -> Template:
        chosen = json.dumps(options, sort_keys=True)
        if chosen not in made:
            made[chosen] = fresh(options)
        return made[chosen]

    def fresh(options: dict[str, object]) -> Template:
        context = {f"tallyroll:{name}": value for name, value in options.items()}
        outdir = tmp_path_factory.mktemp("cdk.out")
        path = app.synthesize(str(outdir), {**context, **SKIP_BUNDLING})
        return as_aws_has_it(json.loads(path.read_text()))

    return synthesized


@pytest.fixture
def built(node: None, tmp_path: Path) -> Built:
    """Build a stack of someone else's and give its template."""
    import aws_cdk as cdk  # noqa: PLC0415  (it starts Node.js, which has to be found first)

    def built(build: Callable[[cdk.Stack], None]) -> Template:
        app = cdk.App(outdir=str(tmp_path), context=SKIP_BUNDLING, analytics_reporting=False)
        stack = cdk.Stack(app, "Theirs")
        build(stack)
        path = app.synth().get_stack_artifact(stack.artifact_id).template_full_path
        return as_aws_has_it(json.loads(Path(path).read_text()))

    return built


@pytest.fixture(scope="session")
def template(synthesize: Synthesize) -> Template:
    """The template of a pipeline of defaults."""
    return synthesize()


@pytest.fixture(scope="session")
def chosen(synthesize: Synthesize) -> Template:
    """The template of a pipeline for which everything was chosen otherwise."""
    return synthesize(
        name="votes",
        shards=32,
        hot_shards='{"Ada": 64}',
        exporter="native",
        batch_size="250",
        batch_window_seconds=2,
        max_concurrency=9,
        reserved_concurrency=10,
        architecture="x86_64",
        tracing="true",
        log_days=7,
        auth="jwt",
        jwt_issuer="https://issuer.example",
        jwt_audience="polls,results",
        cors_origins="https://app.example,http://localhost:8080",
        reads_per_second=7,
        alarm_email="night@example.org",
        ticket_email="day@example.org",
        runbook_url="https://wiki.example/votes",
    )


@pytest.fixture(scope="session")
def governed(synthesize: Synthesize) -> Template:
    """The template of a pipeline of defaults with tags and a key."""
    return synthesize(tags=json.dumps(TAGS), kms_key=KEY)


@pytest.fixture(scope="session")
def remembering(synthesize: Synthesize) -> Template:
    """The template of a pipeline of defaults in which an id counts once at all."""
    return synthesize(identity="pipeline")


@pytest.fixture(scope="session")
def retracting(synthesize: Synthesize) -> Template:
    """The template of a pipeline of defaults in which events may be taken back."""
    return synthesize(retraction="queue")


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The functions' asset."""
    target = tmp_path_factory.mktemp("bundle")
    assemble(target)
    return target
