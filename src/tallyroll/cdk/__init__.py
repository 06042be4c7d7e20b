"""The pipeline as AWS CDK constructs; nothing else in this package imports the CDK.

    Tallyroll     a whole pipeline, for any stack
    Endpoints     endpoints in a VPC for all that the functions call
    Options       the options of a pipeline
    OptionsError  wrong options, with the remedy

Each is imported when it is first used: importing the CDK starts Node.js.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallyroll.cdk.network import Endpoints
    from tallyroll.cdk.pipeline import Tallyroll
    from tallyroll.settings.options import Options
    from tallyroll.settings.options.rules import OptionsError

__all__ = ["Endpoints", "Options", "OptionsError", "Tallyroll"]

_HOMES = {
    "Endpoints": "tallyroll.cdk.network",
    "Options": "tallyroll.settings.options",
    "OptionsError": "tallyroll.settings.options.rules",
    "Tallyroll": "tallyroll.cdk.pipeline",
}
_OF_THE_EXTRA = ("aws_cdk", "constructs", "jsii")


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(_HOMES[name])
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _OF_THE_EXTRA:
            raise
        raise ModuleNotFoundError(
            f"{__name__}.{name} needs the AWS CDK, and {missing.name} is not installed:"
            " pip install 'tallyroll[cdk]'",
            name=missing.name,
        ) from missing
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
