"""The CDK's entry: `python3 app.py` writes the pipeline's template and asset into cdk.out.

It needs what `requirements.txt` pins. CDK_OUTDIR names another directory, CDK_CONTEXT_JSON gives
context; the CDK's command sets both.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from release.node import provide_node
from release.prerequisites import (
    PrerequisiteError,
    aws_profiles,
    check_command,
    check_node,
    check_packages,
    check_python,
    hints,
    unprefixed,
)


def synthesize(outdir: str, context: Mapping[str, Any] | None = None) -> Path:
    """Write the pipeline that the context describes; the path of its template.

    `context` adds to that of the environment. Raises OptionsError, and PrerequisiteError if the
    CDK command that runs this cannot read what would be written.
    """
    provide_node(os.environ)
    # Importing the CDK starts Node.js, which has to be found first.
    import aws_cdk as cdk  # noqa: PLC0415
    from aws_cdk.cloud_assembly_schema import Manifest  # noqa: PLC0415

    from infra.stack import TallyrollStack  # noqa: PLC0415
    from tallyroll.settings.options import Options  # noqa: PLC0415

    check_command(os.environ, schema=Manifest.version(), least=Manifest.cli_version())
    app = cdk.App(outdir=outdir, context=context, analytics_reporting=False)
    options = Options.from_context(app.node.get_all_context())
    stack = TallyrollStack(app, options.name, options=options)
    return Path(app.synth().get_stack_artifact(stack.artifact_id).template_full_path)


def main() -> None:
    """Synthesize by the environment; end with one message if that cannot be done."""
    try:
        check_python()
        check_packages()
        provide_node(os.environ)
        check_node(os.environ)
    except PrerequisiteError as error:
        sys.exit(str(error))
    # The clone's, whether or not it is installed; first, if another one is.
    sys.path.insert(0, str(Path(__file__).resolve().parent / "src"))
    from tallyroll.settings.options import Options  # noqa: PLC0415
    from tallyroll.settings.options.rules import PREFIX, OptionsError  # noqa: PLC0415

    try:
        synthesize(os.environ.get("CDK_OUTDIR", "cdk.out"))
    except (OptionsError, PrerequisiteError) as error:
        sys.exit(str(error))
    # Last, so that they stand before what the CDK's command says and asks.
    names = [option.name for option in fields(Options)]
    for hint in (*unprefixed(os.environ, PREFIX, names), *hints(os.environ, aws_profiles())):
        sys.stderr.write(f"{hint}\n")


if __name__ == "__main__":
    main()
