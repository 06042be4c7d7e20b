"""The parts of the documents that are made from code.

    python -m tests.docs.reference

writes them anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path

from benchmarks.conflicts import of_deployments, of_gates, of_tables
from benchmarks.costs import (
    assumed,
    of_a_month,
    of_events,
    of_keeping,
    of_reads,
    of_warm_throughput,
    of_writers,
)
from benchmarks.guide import of_guide
from benchmarks.limits import of_keys, of_rates
from benchmarks.on_call.faults import FAULTS
from benchmarks.planning import assumed as plan_assumed
from benchmarks.planning import at_scale, of_cheaper, validated
from benchmarks.planning import of_reads as plan_reads
from benchmarks.suffixes import rows
from tallyroll.planning.load import PACKET_EVENTS_MAX
from tallyroll.planning.on_demand import disagreements
from tallyroll.reads.described.problems import PROBLEMS
from tallyroll.reads.described.routes import DOCUMENT_FILE
from tallyroll.settings import Settings
from tallyroll.settings.common import CommonSettings
from tallyroll.settings.options import Options
from tests.docs.drawing import THEMES, architecture
from tests.docs.gate_drawing import late_writer
from tests.docs.suffix_drawing import suffixes
from tests.docs.window_life import window_life
from tests.drills.drilling import drills_table
from tests.faults.answers import faults_table, kinds_table
from tests.functions.openapi import document as openapi
from tests.messages import compatibility
from tests.messages.differences import differences_table

DOCS = Path(__file__).parents[2] / "docs"


def described_table(of: type[CommonSettings], heading: str) -> str:
    """All settings or options, in their order, each default with its unit."""
    lines = [f"| {heading} | default | what |", "|---|---|---|"]
    for each in fields(of):
        default = "" if each.default in (MISSING, None, "") else f"`{str(each.default).lower()}`"
        unit = getattr(each.metadata["kind"], "unit", "") if default else ""
        shown = f"{default} {unit}".strip()
        lines.append(f"| `{of.named(each.name)}` | {shown} | {each.metadata['text']} |")
    return "\n".join(lines)


def planted_table() -> str:
    """The faults that `make oncall` plants, and the check that names each."""
    lines = ["| planted fault | named by |", "|---|---|"]
    for fault in FAULTS:
        deep = " with `--deep`" if fault.deep else ""
        lines.append(f"| {fault.name} | `{fault.check}`{deep} |")
    return "\n".join(lines)


def problems_table() -> str:
    """The types of problems that the HTTP API answers with."""
    rows = [f"| `{p.name}` | {p.status} | {p.cause} | {p.remedy} |" for p in PROBLEMS]
    return "\n".join(["| type | status | when | what helps |", "|---|---|---|---|", *rows])


def table_of(rows: list[tuple[str, ...]]) -> str:
    """Rows, the headings first, as Markdown."""
    heading, *others = rows
    ruled = "|---" + "|---:" * (len(heading) - 1) + "|"
    return "\n".join(
        [f"| {' | '.join(heading)} |", ruled, *(f"| {' | '.join(row)} |" for row in others)]
    )


PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "costs-events": ("deploy.md", lambda: table_of(of_events(Settings()))),
    "costs-keeping": ("deploy.md", lambda: table_of(of_keeping(Settings()))),
    "costs-warm": ("deploy.md", lambda: table_of(of_warm_throughput(Settings()))),
    "costs-reads": ("deploy.md", lambda: table_of(of_reads())),
    "sizing": ("deploy.md", lambda: table_of(of_writers(Settings()))),
    "sizing-packed": ("deploy.md", lambda: table_of(of_writers(Settings(), PACKET_EVENTS_MAX))),
    "costs-month": ("deploy.md", lambda: table_of(of_a_month(Settings()))),
    "costs-assumed": ("deploy.md", lambda: table_of(assumed())),
    "conflicts": ("sharding.md", lambda: table_of(of_deployments())),
    "conflicts-tables": ("sharding.md", lambda: table_of(of_tables())),
    "gates": ("sharding.md", lambda: table_of(of_gates())),
    "limits": ("sharding.md", lambda: table_of(of_keys())),
    "limits-unlucky": ("sharding.md", lambda: table_of(of_keys(unlucky=True))),
    "limits-needed": ("sharding.md", lambda: table_of(of_rates())),
    "options": ("deploy.md", lambda: described_table(Options, "option")),
    "faults": ("faults.md", faults_table),
    "planted-faults": ("faults.md", planted_table),
    "drills": ("faults.md", drills_table),
    "fault-kinds": ("faults.md", kinds_table),
    "schema-differences": ("messages.md", differences_table),
    "plan-cheaper": ("planning.md", lambda: table_of(of_cheaper())),
    "plan-reads": ("planning.md", lambda: table_of(plan_reads())),
    "plan-scale": ("planning.md", lambda: table_of(at_scale())),
    "plan-validated": ("planning.md", lambda: table_of(validated())),
    "plan-assumed": ("planning.md", lambda: table_of(plan_assumed())),
    "problems": ("api.md", problems_table),
    "partitions": ("planning.md", lambda: table_of(disagreements())),
    "settings": ("settings.md", lambda: described_table(Settings, "variable")),
    "guide": ("guide.md", lambda: table_of(of_guide())),
    "suffixes": ("sharding.md", lambda: "\n".join(rows())),
}


def renewed(name: str) -> tuple[Path, str, str]:
    """The document of a part, as it stands and as it should."""
    file, make = PARTS[name]
    path = DOCS / file
    stands = path.read_text(encoding="utf-8")
    region = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    should, found = region.subn(lambda match: f"{match[1]}{make()}\n{match[2]}", stands)
    if found != 1:
        raise ValueError(f"{file} has {found} regions {name!r}, not one")
    return path, stands, should


def pictures() -> dict[Path, str]:
    """The pictures that are drawn by code."""
    drawn = {
        "architecture": architecture,
        "gate": late_writer,
        "window": window_life,
        "suffixes": suffixes,
    }
    return {
        DOCS / "pictures" / f"{name}-{theme}.svg": draw(theme)
        for name, draw in drawn.items()
        for theme in THEMES
    }


def main() -> None:
    """Write every part anew, the schemas of messages, the OpenAPI document, and the pictures."""
    compatibility.write()
    DOCUMENT_FILE.write_text(openapi.text(), encoding="utf-8")
    for path, picture in pictures().items():
        path.write_text(picture, encoding="utf-8")
    for name in PARTS:
        path, _, should = renewed(name)
        path.write_text(should, encoding="utf-8")


if __name__ == "__main__":
    main()
