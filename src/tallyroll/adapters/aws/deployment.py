"""The deployment's settings, read from the environment of its roller.

The environment of the command may differ from the deployment's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tallyroll.adapters.aws.client import Caller
from tallyroll.errors import Missing, Refused
from tallyroll.resources import function_name

PREFIX = "TALLYROLL_"


@dataclass(frozen=True)
class LambdaDeployment:
    """The deployment port on AWS Lambda."""

    caller: Caller

    def environment(self, pipeline: str) -> Mapping[str, str] | None:
        """None also if the engine has no functions.

        Raises Refused if the environment is encrypted with a key that the caller may not use.
        """
        name = function_name(pipeline, "roller")
        try:
            reply = self.caller.read("GetFunctionConfiguration", FunctionName=name)
        except Missing:
            return None
        environment = reply.get("Environment", {})
        if error := environment.get("Error"):  # in the place of the variables
            code = error.get("ErrorCode", "")
            raise Refused(f"the environment of {name}: {code}: {error.get('Message', '')}", code)
        variables: Mapping[str, str] = environment.get("Variables", {})
        return {name: text for name, text in variables.items() if name.startswith(PREFIX)}
