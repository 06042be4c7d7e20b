"""Documents cannot rot: their commands, settings, files and figures are compared with the code."""

from __future__ import annotations

import ast
import json
import re
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from benchmarks.costs import of_events
from tallyroll.model.events import Packet, decode
from tallyroll.reads.http import answer_counter
from tallyroll.settings import Settings
from tests.docs.reference import PARTS, pictures, renewed
from tests.docs.walks import blocks_of
from tests.harness.pipeline import NOW, TIME_LEFT, opened
from tests.harness.processes import ran

ROOT = Path(__file__).parents[2]
# The mark of a list item after a sentence, as a reflow leaves it.
_SWALLOWED = re.compile(r"[.:;]\s(?:\d+\.|[-*])\s[A-Z`*\[]")
FOLDERS = ("events", "examples", "functions", "infra", "tests")
DOCUMENTS = [
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md"),
    *sorted((ROOT / "docs").glob("*.md")),
    *(ROOT / name / "README.md" for name in FOLDERS),
]


@pytest.mark.parametrize("part", PARTS)
def test_parts_made_from_code_are_up_to_date(part: str) -> None:
    _, stands, should = renewed(part)
    assert stands == should, "run `python -m tests.docs.reference`"


def test_pictures_are_as_the_code_draws_them() -> None:
    stale = [path.name for path, picture in pictures().items() if path.read_text() != picture]
    assert stale == [], "run `python -m tests.docs.reference`"


def test_the_readme_is_read_in_minutes() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 200


def test_the_readmes_first_screen_leads_to_the_pages_for_beginners() -> None:
    first = (ROOT / "README.md").read_text("utf-8").splitlines()[:24]
    linked = set(re.findall(r"\]\(docs/(start-[a-z-]+\.md)\)", "\n".join(first)))
    assert linked == {path.name for path in (ROOT / "docs").glob("start-*.md")}


def test_git_ignores_what_the_documents_commands_keep_in_the_clone() -> None:
    texts = [path.read_text(encoding="utf-8") for path in DOCUMENTS]
    kept = r"^make .*?--(?:env-file|keep|archive-to) ([\w.-]+)"
    written = {name for text in texts for name in re.findall(kept, text, re.MULTILINE)}
    assert {"local.env", "archives"} <= written
    # As a folder, which a pattern with a slash at its end wants.
    asked = sorted(name if name.endswith(".env") else f"{name}/" for name in written)
    assert ran(["git", "check-ignore", *asked], cwd=ROOT).stdout.split() == asked


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_to_files(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    missing = []
    for link in links:
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            missing.append(link)
    assert not missing


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_make_targets_exist(path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    assert {"test", "test-matrix"} <= targets
    named = set(re.findall(r"\bmake ([a-z][a-z-]*)(?=[ `\n])", _code(path)))
    assert named <= targets


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_modules_run_exist(path: Path) -> None:
    named = re.findall(r"python -m ([a-z_]+(?:\.[a-z_]+)+)", path.read_text(encoding="utf-8"))
    missing = []
    for name in named:
        paths = [folder / name.replace(".", "/") for folder in (ROOT, ROOT / "src")]
        ways = [way for path in paths for way in (path.with_suffix(".py"), path / "__main__.py")]
        if not any(way.exists() for way in ways):
            missing.append(name)
    assert not missing


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_named_exist(path: Path) -> None:
    tracked = ran(["git", "ls-tree", "-d", "--name-only", "HEAD"], cwd=ROOT, check=True)
    folders = tracked.stdout.split()
    assert {"src", "trial", "examples", "requirements"} <= {*folders}
    named = re.findall(
        rf"`((?:{'|'.join(map(re.escape, folders))})/[\w./-]+)`", path.read_text(encoding="utf-8")
    )
    assert not [name for name in named if not (ROOT / name).exists()]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_paragraph_has_swallowed_a_list_item(path: Path) -> None:
    tokens = MarkdownIt().parse(path.read_text(encoding="utf-8"))
    texts = [token.content for token in tokens if token.type == "inline"]
    assert not [text for text in texts if _SWALLOWED.search(text)]


def test_the_reading_path_is_short_and_each_file_names_the_next() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.partition("\n## Reading path\n")[2].partition("\n## ")[0]
    path = re.findall(r"^\d+\. `src/tallyroll/(\S+)`: ", section, re.MULTILINE)
    sources = [(ROOT / "src" / "tallyroll" / name).read_text(encoding="utf-8") for name in path]
    assert len(path) == len(re.findall(r"^\d+\. ", section, re.MULTILINE)) <= 12
    assert sum(len(source.splitlines()) for source in sources) <= 2_500
    opening = [" ".join((ast.get_docstring(ast.parse(source)) or "").split()) for source in sources]
    named = [re.findall(r"Next(?: on the reading path)?: `(\S+)`", one) for one in opening]
    assert named == [*([name] for name in path[1:]), []]
    assert "reading path of docs/architecture.md" in opening[0]
    assert "reading path of docs/architecture.md ends here" in opening[-1]


def test_the_architecture_lists_every_package_once() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.partition("\n## Packages\n")[2]
    rows = re.findall(r"^\| \d+ \| (`.*?) \|", section, re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`([a-z_]+)`", row)]
    core = [path.stem for path in (ROOT / "src" / "tallyroll").iterdir()]
    assert sorted(listed) == sorted(name for name in core if not name.startswith(("_", "py")))


def test_no_package_index_is_named() -> None:
    listed = ran(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True)
    index = re.compile(
        r"https?://[a-z0-9.-]*(?:pypi|pythonhosted|npmjs)\.|--(?:extra-)?index-url [^`]"
    )
    kinds = {".txt", ".in", ".json", ".toml", ".md", ".cfg"}
    named = []
    for name in listed.stdout.splitlines():
        path = ROOT / name
        text = path.read_text(encoding="utf-8") if path.suffix in kinds and path.exists() else ""
        if index.search(text):
            named.append(name)
    assert not named


def _anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


def _code(path: Path) -> str:
    """The code in a document: fenced, indented by four, or between backticks."""
    text = path.read_text(encoding="utf-8")
    fenced = re.findall(r"```.*?```", text, re.DOTALL)
    indented = re.findall(r"^ {4}.*\n", text, re.MULTILINE)
    return "\n".join([*fenced, *indented, *re.findall(r"`[^`\n]+`", text)])


def test_what_the_readme_says_of_packets_is_what_costs_prints() -> None:
    units = {row[0]: row[1] for row in of_events(Settings())}
    alone, plain, paid = (
        units[load]
        for load in (
            "one hot key, own ids",
            "one hot key, packets of 1,000",
            "packets of 1,000 with payloads",
        )
    )
    text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert f"it takes {plain} to {paid} write units instead of {alone} (`make costs`)" in text
    assert round(float(alone) / float(units["one hot key, packets of 10"])) == 10


def test_the_readmes_python_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert blocks
    bodies: list[str] = []

    class Client:
        def __init__(self, *_: object) -> None: ...

        def send_message_batch(self, **request: Any) -> dict[str, Any]:
            bodies.extend(entry["MessageBody"] for entry in request["Entries"])
            return {"Successful": [{"Id": entry["Id"]} for entry in request["Entries"]]}

    monkeypatch.setattr("tallyroll.pipeline.LateClient", Client)
    for block in blocks:
        exec(block, {"queue_url": "https://sqs.eu-west-1.amazonaws.com/123456789012/votes"})
    (packet,) = [body for body in map(decode, bodies) if isinstance(body, Packet)]
    assert len(bodies) == 2
    age_ms = time.time() * 1000 - packet.t0
    assert 0 <= age_ms < 60 * 60_000, "a pipeline would not count it today"


def test_the_answer_on_the_apis_page_is_what_the_code_gives() -> None:
    [shown, *_] = [block for block in blocks_of(ROOT / "docs/api.md") if block.language == "json"]
    pipeline = opened()
    pipeline.write({"key": "video-42", "id": "a", "ts": NOW, "value": 2.5})
    given = answer_counter(pipeline.reader(), {"key": "video-42"}, TIME_LEFT)
    assert json.loads(shown.text) == given.body


def test_the_packages_page_names_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs" / "package.md").read_text(encoding="utf-8")
    asked = re.findall(r"`tallyroll\[([a-z,]+)\]` \|$", page, re.MULTILINE)
    assert {*",".join(asked).split(",")} == {*project["optional-dependencies"]}
