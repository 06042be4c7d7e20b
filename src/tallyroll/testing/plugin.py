"""The pytest plugin: the fixture `tallyroll`, its options and its marker.

pytest loads it in every run of an environment that has the package. So it imports nothing but
pytest until a test uses the fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tallyroll.settings import Settings
    from tallyroll.testing.fixture import Tallyroll

ENGINE, ENDPOINT = "tallyroll_engine", "tallyroll_dynamodb_endpoint"
_HELP = {
    ENGINE: "what keeps the tables of the fixture tallyroll: memory, moto (the default) or"
    " dynamodb-local",
    ENDPOINT: "the address of a running DynamoDB Local, for the engine dynamodb-local",
}
_MARKER = (
    "tallyroll(engine=..., region=..., **settings): the engine and the Region of the fixture"
    " tallyroll, and settings of its pipeline, such as window_seconds=60"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and their entries in the configuration."""
    group = parser.getgroup("tallyroll")
    for name, text in _HELP.items():
        group.addoption(f"--{name.replace('_', '-')}", dest=name, default=None, help=text)
        parser.addini(name, text, default="")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def tallyroll_settings() -> Settings:
    """The settings of the pipelines in the fixture `tallyroll`; override it to change them."""
    from tallyroll.testing.options import DEFAULTS  # noqa: PLC0415  (see above)

    return DEFAULTS


@pytest.fixture
def tallyroll(request: pytest.FixtureRequest, tallyroll_settings: Settings) -> Iterator[Tallyroll]:
    """A pipeline in this process, inside `mock_aws`: post events to its `queue_url`, `drain` it,
    and `count` them.
    """
    from tallyroll.testing.fixture import running  # noqa: PLC0415  (see above)

    changes = {
        "engine": _chosen(request.config, ENGINE),
        "endpoint": _chosen(request.config, ENDPOINT),
    }
    asked = {name: value for name, value in changes.items() if value}
    for marker in reversed(list(request.node.iter_markers("tallyroll"))):  # the closest one last
        if marker.args:
            pytest.fail(
                f"@pytest.mark.tallyroll({marker.args[0]!r}): give names, such as engine='memory'",
                pytrace=False,
            )
        asked.update(marker.kwargs)
    with running(tallyroll_settings, **asked) as pipeline:
        yield pipeline


def _chosen(config: pytest.Config, name: str) -> str:
    """An option: from the command line, or from pytest's configuration."""
    return str(config.getoption(name, default=None) or config.getini(name))
