"""The synthesized templates, as tests/infra has them."""

from __future__ import annotations

from tests.infra.conftest import governed, node, remembering, synthesize, template

__all__ = ["governed", "node", "remembering", "synthesize", "template"]
