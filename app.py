"""The CDK's entry: `python app.py` writes the pipeline's template and asset into cdk.out.

CDK_OUTDIR names another directory, CDK_CONTEXT_JSON gives context; the CDK's command sets both.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.build.node import provide_node
from tallyroll.cdk.options import Options, OptionsError


def synthesize(outdir: str, context: Mapping[str, Any] | None = None) -> Path:
    """Write the pipeline that the context describes; the path of its template.

    `context` adds to that of the environment. Raises OptionsError.
    """
    provide_node(os.environ)
    # Importing the CDK starts Node.js, which has to be found first.
    import aws_cdk as cdk  # noqa: PLC0415

    from infra.stack import TallyrollStack  # noqa: PLC0415

    app = cdk.App(outdir=outdir, context=context, analytics_reporting=False)
    options = Options.from_context(app.node.get_all_context())
    stack = TallyrollStack(app, options.name, options=options)
    return Path(app.synth().get_stack_artifact(stack.artifact_id).template_full_path)


if __name__ == "__main__":
    try:
        synthesize(os.environ.get("CDK_OUTDIR", "cdk.out"))
    except OptionsError as error:
        sys.exit(str(error))
