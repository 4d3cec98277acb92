"""The `opx` command: a thin layer that asks the library and prints what it says.

Commands are imported when they are called, so that help is quick and a search never loads what ingestion needs.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
import traceback
from collections.abc import Mapping, Sequence

import click

from opx import __version__
from opx.edges.cli.output import BROKEN_PIPE, FAILED, INTERRUPTED, CommandFailed
from opx.edges.cli.session import (
    OPTIONS,
    SESSION,
    Connect,
    Session,
    StartSystem,
    check,
    local_if_home_is_given,
    verbose_logging,
)
from opx.errors import OpxError
from opx.settings import Settings

_COMMANDS = {
    "ingest": ("ingest", "Take files and folders in."),
    "search": ("search", "Ask a question: the documents that answer it, with the blocks that help."),
    "research": ("research", "Several searches for one topic, with what is missing searched again."),
    "web": ("research", "Ask a search engine on the web."),
    "do": ("do", "Go through the procedure for an alert, step by step."),
    "alerts": ("alerts", "Alerts: import their rules, list them with their runbooks."),
    "show": ("documents", "Show a document, its outline or one step, by id, path or title."),
    "list": ("documents", "List documents."),
    "history": ("documents", "List the versions of a document, and when each was current."),
    "diff": ("documents", "Show what changed between two versions of a document."),
    "restore": ("documents", "Put an old version of a document back."),
    "delete": ("documents", "Remove documents from the corpus."),
    "failed": ("ingest", "List what could not be taken in, and try it again."),
    "prune": ("retention", "Remove what its retention is over for."),
    "hold": ("retention", "Legal holds: keep something from being removed."),
    "review": ("retention", "What should be looked at again, and by whom."),
    "status": ("serving", "Show what there is and whether all is well."),
    "rebuild": ("ingest", "Take in again what the index lacks."),
    "reindex": ("indexes", "Make a new index beside the old one, and switch to it."),
    "calibrate": ("indexes", "Fit the models of confidence to this corpus."),
    "reconcile": ("indexes", "Compare all stores, and put right what differs."),
    "export": ("retention", "Write everything that can't be made anew into one archive."),
    "import": ("retention", "Take an archive in that export wrote."),
    "watch": ("watch", "Keep the knowledge in step with a folder."),
    "categories": ("documents", "List the kinds of knowledge."),
    "webhook": ("webhooks", "Let other services deliver by themselves."),
    "evidence": ("feedback", "Take in what agents found out."),
    "client": ("tenants", "The clients: what there is of each, and removing one with all of it."),
    "project": ("tenants", "Put a client's projects into groups that share knowledge."),
    "source": ("sources", "Where documents are pulled from: add, list, pull, check."),
    "stream": ("sources", "Streams whose records become documents."),
    "baseline": ("telemetry", "What is normal for metrics of nodes: add values, ask, judge."),
    "graph": ("graph", "Things and how they are related, with the text that says so."),
    "learn": ("learn", "What work taught: keep it, take it in, ask for it."),
    "outcome": ("feedback", "Tell whether a document that was found helped."),
    "ops": ("telemetry", "Ask for logs, metrics and traces, as agents do."),
    "secret": ("webhooks", "Keep credentials of sources on this machine."),
    "mcp": ("serving", "Serve the tools to agents over the Model Context Protocol."),
    "run": ("serving", "Pull sources at their times and take in what comes, until Ctrl-C."),
    "receipt": ("questions", "Ask the question of a receipt again and compare the answers."),
    "audit": ("questions", "List who asked when, and which documents were returned."),
    "gaps": ("questions", "Questions without a good answer: list, check, close, ignore."),
    "eval": ("evaluate", "Measure how well a labelled set of questions is answered."),
    "call": ("operations", "Call any operation by its name."),
    "demo": ("demo", "Take the example corpus in and ask it five questions."),
}
"""Name of each command, its module (which holds `<name>_command`) and what the overview says about it."""

_SETTINGS = {option.removeprefix("--"): setting for setting, option in OPTIONS.items()}
"""Options of all commands, and the setting that each is."""


class LazyGroup(click.Group):
    """Imports a command when it is called, and turns the library's errors into one line and an exit code.

    A command that an operation declares, and that has no module here, is made from the operation.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return _declared_command(cmd_name)
        module = _COMMANDS[cmd_name][0]
        command: click.Command = getattr(importlib.import_module(f"opx.edges.cli.{module}"), f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_text) for name, (_, help_text) in _COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except OpxError as exc:
            raise CommandFailed(str(exc)) from exc
        except KeyboardInterrupt as exc:
            raise CommandFailed("interrupted", INTERRUPTED) from exc
        except BrokenPipeError:
            _discard_output()
            ctx.exit(BROKEN_PIPE)


def _declared_command(name: str) -> click.Command | None:
    from opx.edges.cli.operations import plain_command
    from opx.operations import load

    return next((plain_command(one) for one in load() if one.command == name), None)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--home", metavar="DIR", help="Where the knowledge is kept.  [default: $OPX_HOME or .opx]")
@click.option(
    "--profile", metavar="NAME", help="Work on a deployed system, found and signed in to by this AWS profile."
)
@click.option("--environment", metavar="NAME", help="Which deployed system.  [default: $OPX_ENVIRONMENT or dev]")
@click.option("--region", metavar="NAME", help="Where it is deployed.  [default: the profile's region]")
@click.option("--api", metavar="URL", help="Address of a deployed system's HTTP API, where it isn't to be looked up.")
@click.option("--client", metavar="ID", help="Client that owns what is ingested, and who asks.")
@click.option("--project", metavar="ID", help="Project of that client.")
@click.option("-v", "--verbose", count=True, help="Log to stderr; twice for details.")
@click.version_option(__version__, prog_name="opx")
@click.pass_context
def cli(context: click.Context, /, *, verbose: int, **options: str | None) -> None:
    """Institutional memory for operations: runbooks, postmortems and advisories, found by word and by meaning.

    \b
    opx ingest docs/runbooks          take a folder in
    opx search pods keep restarting   ask
    opx show 3f9a                     read the document behind an answer
    opx --profile work search "..."   ask a system that is deployed on AWS

    Exit codes: 0 done, 1 no good answer (search) or something failed (ingest, delete, failed retry), 2 wrong usage or
    any other error. Results go to stdout, progress and errors to stderr.
    """
    launch = context.find_object(Launch)
    assert launch is not None, "started by main()"
    given = {_SETTINGS[name]: value for name, value in options.items() if value}
    settings = Settings.from_environ(launch.environ, **local_if_home_is_given(given))
    check(settings, given)
    if launch.environ.get("NO_COLOR") or launch.environ.get("TERM") == "dumb":
        context.color = False
    verbose_logging(context, verbose)
    context.obj = settings
    context.meta[SESSION] = Session(settings, launch.start, launch.connect, context)


class Launch:
    """How the command was started: `start` makes the system of the settings that `environ` and options give, and `connect`
    a client of a deployed one."""

    def __init__(self, start: StartSystem, connect: Connect, environ: Mapping[str, str] | None = None) -> None:
        self.start = start
        self.connect = connect
        self.environ = os.environ if environ is None else environ


def run(arguments: Sequence[str], launch: Launch) -> int:
    """Run a command line and return its exit code."""
    _tolerate_any_character()
    try:
        cli.main(list(arguments), prog_name="opx", obj=launch)
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else FAILED
    except Exception as exc:  # noqa: BLE001 - the outermost edge: whatever it is, people get a line and a way to see more
        return _unexpected(exc, verbose=any(argument.startswith(("-v", "--verb")) for argument in arguments))
    raise AssertionError("click always exits")


def main(start: StartSystem, connect: Connect) -> None:
    """The console script; see `Launch`."""
    code = run(sys.argv[1:], Launch(start, connect))
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
    sys.exit(code)


def _unexpected(error: Exception, *, verbose: bool) -> int:
    if verbose:
        traceback.print_exception(error)
    else:
        click.echo(f"opx: unexpected {type(error).__name__}: {error} (for the traceback: opx -v ...)", err=True)
    return FAILED


def _tolerate_any_character() -> None:
    """A console that can't show a character shows `?` instead of ending the command; so does a question that comes in."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _discard_output() -> None:
    """Nobody reads any more; without this, Python would complain when it flushes at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
