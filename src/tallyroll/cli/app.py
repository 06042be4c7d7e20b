"""The command line as a tree of commands. A command's module is imported when the command runs."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from difflib import get_close_matches
from functools import reduce
from importlib import metadata
from itertools import takewhile
from operator import getitem
from typing import Annotated, Any, Literal

from cyclopts import App, CycloptsError, MissingArgumentError, Parameter, UnusedCliTokensError

from tallyroll import __version__
from tallyroll.cli.arguments import Run
from tallyroll.errors import UsageError

HELP_COLUMNS = 80
NEAR = 0.7  # so that nothing is proposed that only has letters in common
_HELP = """Send events to a Tallyroll pipeline, read its counts, see and open its windows.

Where the pipeline is follows from AWS's usual environment: AWS_PROFILE,
AWS_REGION, and for the local engine AWS_ENDPOINT_URL and
AWS_ENDPOINT_URL_DYNAMODB.

Exit status:
  0    done
  1    done in part: bad or unsent lines, events that no window takes or that
       were not counted, an incomplete count, windows that did not open, dead
       letters that were left or not seen, differences in an archive, a
       broken promise
  2    wrong use
  3    AWS or the local engine not reached, or something is not there
  130  interrupted
  141  the reader of the output went away

For example:
  tallyroll --name votes count candidate-7"""

_COMMANDS = {
    "send": ("cli.send:send", "send events to the queue"),
    "load": ("cli.load:load", "load history from files, directories, stdin or S3"),
    "count": ("cli.reads:count", "count keys"),
    "status": ("cli.status:status", "show how far a pipeline has counted"),
    "console": ("console.command:console", "show a pipeline live, in a browser"),
    "event": ("cli.reads:event", "read one event"),
    "events": ("cli.reads.listing:events", "list a key's events"),
    "series": ("cli.reads.series:series", "count a key by the minute, hour, day, week or month"),
    "top": ("cli.reads:top", "list the largest keys"),
    "retract": ("cli.retract:retract", "take an event back"),
    "windows": ("cli.windows:app", "see windows, open past ones, warm tables"),
    "keys": ("cli.heat.keys:app", "list keys with their counts; prepare keys that will be hot"),
    "dlq": ("cli.dlq:app", "see dead letters; redrive, save, delete them"),
    "archive": ("cli.archive:app", "list, verify, read, restore archives"),
    "doctor": ("cli.doctor:doctor", "check a pipeline"),
    "preflight": ("cli.doctor.preflight:preflight", "check an account before and after deploying"),
    "conform": ("cli.doctor:conform", "check whether counts are exact on an endpoint"),
    "probe": ("cli.probe:probe", "probe whether counts are exact"),
    "teardown": ("cli.teardown:teardown", "take window tables down"),
    "validate": ("cli.contract:validate", "check messages before they are sent"),
    "schema": ("cli.contract:schema", "print the JSON Schema of a message"),
    "plan": ("cli.planning.plan:plan", "plan shards, throughput and costs"),
    "simulate": ("cli.planning.simulate:simulate", "simulate a table's partitions under a load"),
    "completion": ("cli.app:completion", "complete commands and options in a shell"),
    "version": ("cli.app:version", "the versions of Tallyroll, Python and boto3"),
}


def run(argv: Sequence[str]) -> int:
    """Run a command line, the help for none; give its exit status. Raises UsageError for what is
    no command line.
    """
    words = argv or ["--help"]
    top = tree(words)
    try:
        return int(top.meta(words) or 0)
    except CycloptsError as error:
        chain = error.command_chain or ()
        command = " ".join(("tallyroll", *chain))
        said = _unknown(top, chain, words) or _in_words(error)
        raise UsageError(f"{said}\nSee: {command} --help") from None


def _unknown(top: App, chain: Sequence[str], words: Sequence[str]) -> str:
    """What names the first option that a command does not have, or "": the parser may complain of
    another one that comes later, as of a value that is missing.
    """
    known = _options_of(top.meta) | _options_of(reduce(getitem, chain, top)) | {"--help", "-h"}
    written = takewhile(lambda word: word != "--", words)
    for option in (word.partition("=")[0] for word in written if word.startswith("--")):
        if option not in known:
            near = get_close_matches(option, sorted(known), n=1, cutoff=NEAR)
            hint = f" Did you mean {near[0]}?" if near else ""
            return f"Unknown option: {option}.{hint}"
    return ""


def _options_of(app: App) -> set[str]:
    arguments = app.assemble_argument_collection() if app.default_command else ()
    return {name for argument in arguments for name in argument.names}


def _in_words(error: CycloptsError) -> str:
    if isinstance(error, UnusedCliTokensError):
        return f"no argument takes {' '.join(map(repr, error.unused_tokens or ()))}"
    if isinstance(error, MissingArgumentError) and error.argument:
        if error.keyword:
            return f"{error.keyword} is given without a value"
        return f"{error.argument.name} is missing"
    return str(error)


def tree(argv: Sequence[str] = ()) -> App:
    """The commands. Those named in `argv` are described by their docstrings, the others by their
    summaries, which need no import.
    """
    console = None
    if {"--help", "-h"} & set(argv):
        from rich.console import Console  # only help needs it

        console = Console(width=min(HELP_COLUMNS, Console().width))
    top = App(
        name="tallyroll",
        help=_HELP,
        help_format="plaintext",
        console=console,
        version=_versions_text,
        default_parameter=Parameter(negative=(), show_default=False, allow_repeating=True),
        result_action="return_value",
        print_error=False,
        exit_on_error=False,
    )
    for place, (name, (target, summary)) in enumerate(_COMMANDS.items()):
        top.command(
            f"tallyroll.{target}",
            name=name,
            help=None if name in argv else summary,
            sort_key=place,
        )

    top.meta.suppress_keyboard_interrupt = False

    @top.meta.default
    def launch(
        *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
        name: Annotated[str | None, Parameter(metavar="NAME")] = None,
        as_json: Annotated[bool, Parameter("--json")] = False,
    ) -> Any:
        """Run the command that the tokens name.

        :param name: the pipeline's name; TALLYROLL_NAME or tallyroll if left out
        :param as_json: JSON on stdout instead of tables
        """
        for option in tokens:
            if option.startswith("--no-") and (other := f"--{option[5:]}") in tokens:
                raise UsageError(f"{other} and {option}: give one of them")
        command, bound, ignored = top.parse_args(tokens)
        if command == top.help_print:
            return run([*tokens, "--help"])
        if "as_json" in ignored:
            bound.arguments["as_json"] = as_json
        if "run" in ignored:
            with Run.connecting(name, as_json=as_json) as bound.arguments["run"]:
                return command(*bound.args, **bound.kwargs)
        return command(*bound.args, **bound.kwargs)

    return top


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print what makes a shell complete commands and options.

    For example:
      eval "$(tallyroll completion bash)"               in ~/.bashrc
      tallyroll completion zsh > ~/.zfunc/_tallyroll    ~/.zfunc is in fpath
      tallyroll completion fish > ~/.config/fish/completions/tallyroll.fish
    """
    # By their docstrings: a summary would stay with a group of commands that is loaded by it.
    print(tree(tuple(_COMMANDS)).generate_completion(shell=shell))


def version(*, as_json: Annotated[bool, Parameter(parse=False)]) -> None:
    """Print the versions of Tallyroll, Python and boto3.

    For example:
      tallyroll version
    """
    print(json.dumps(_versions()) if as_json else _versions_text())


def _versions() -> dict[str, str]:
    return {
        "tallyroll": __version__,
        "Python": platform.python_version(),
        "boto3": metadata.version("boto3"),
    }


def _versions_text() -> str:
    return ", ".join(f"{name} {version}" for name, version in _versions().items())
