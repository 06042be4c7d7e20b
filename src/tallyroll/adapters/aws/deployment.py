"""The deployment's settings, read from the environment of its roller.

The environment of the command may differ from the deployment's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tallyroll.adapters.aws.client import Caller
from tallyroll.errors import Missing
from tallyroll.resources import function_name

PREFIX = "TALLYROLL_"


@dataclass(frozen=True)
class LambdaDeployment:
    """The deployment port on AWS Lambda."""

    caller: Caller

    def environment(self, pipeline: str) -> Mapping[str, str] | None:
        """None also if the engine has no functions."""
        name = function_name(pipeline, "roller")
        try:
            reply = self.caller.read("GetFunctionConfiguration", FunctionName=name)
        except Missing:
            return None
        variables: Mapping[str, str] = reply.get("Environment", {}).get("Variables", {})
        return {name: text for name, text in variables.items() if name.startswith(PREFIX)}
