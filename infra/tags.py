"""Tags, as the declarations name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import aws_cdk as cdk

if TYPE_CHECKING:
    from constructs import IConstruct


def tag(construct: IConstruct, tags: Mapping[str, str]) -> None:
    """Tag a construct and all that is in it."""
    for key, value in tags.items():
        cdk.Tags.of(construct).add(key, value)
