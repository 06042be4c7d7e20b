"""The synthesized template and the bundle, as tests/infra has them."""

from __future__ import annotations

from tests.infra.conftest import bundle, node, synthesize, template

__all__ = ["bundle", "node", "synthesize", "template"]
