"""The `opx` command: parses the command line, calls the library and prints its replies.

Commands are imported when they are called, so that help is fast and a search never loads what ingestion needs.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct, field

from opx import __version__
from opx.edges.cli.help import COMMON, SERVING, sections, unknown_command
from opx.edges.cli.output import BROKEN_PIPE, FAILED, INTERRUPTED, NO_PAGER, CommandFailed
from opx.edges.cli.session import (
    GIVEN,
    OPTIONS,
    SESSION,
    Connect,
    Examine,
    Session,
    check,
    local_if_home_is_given,
    verbose_logging,
)
from opx.edges.cli.standard_streams import end_process
from opx.errors import OpxError
from opx.runtime.extras import naming_extras
from opx.settings import Settings

if TYPE_CHECKING:
    from opx.operations.system import StartSystem

_COMMANDS = {
    "ingest": ("ingest", "Ingest files and folders."),
    "search": ("search", "Search for documents that answer a question."),
    "do": ("do", "Step through the procedure for an alert."),
    "resource": ("graph", "Show what is known of a node, workload, service or queue."),
    "alerts": ("alerts", "Import alert rules, list alerts with their runbooks."),
    "show": ("documents", "Show a document, its outline or one step, by id, path or title."),
    "why": ("provenance", "Show who added a document, and whether it was changed since."),
    "list": ("documents", "List documents."),
    "history": ("documents", "List the versions of a document, and when each was current."),
    "diff": ("documents", "Show what changed between two versions of a document."),
    "edit": ("curation", "Edit the text of a document in your editor."),
    "restore": ("documents", "Restore an old version of a document."),
    "delete": ("documents", "Remove documents from the corpus."),
    "failed": ("ingest", "List documents that could not be ingested, and retry them."),
    "prune": ("retention", "Delete documents, versions and patterns past their retention."),
    "hold": ("retention", "Manage legal holds, which prevent deletion."),
    "review": ("retention", "List documents due for review, with their owners."),
    "reviewed": ("curation", "Mark a document as reviewed."),
    "status": ("status", "Show the size and health of the knowledge base."),
    "doctor": ("doctor", "Check the system by using it, and suggest what to do."),
    "rebuild": ("ingest", "Ingest again the documents that the index lacks."),
    "reindex": ("indexes", "Build a new index beside the old one, and switch to it."),
    "calibrate": ("indexes", "Fit the confidence models to this corpus."),
    "watch": ("watch", "Keep the knowledge in sync with a folder."),
    "categories": ("documents", "List the categories of knowledge."),
    "evidence": ("feedback", "Ingest findings of agents."),
    "client": ("tenants", "List clients and their data, remove a client entirely."),
    "usage": ("tenants", "List questions and documents of a month by client."),
    "costs": ("tenants", "Estimate the costs of this month and of the last one."),
    "project": ("tenants", "Group a client's projects to share knowledge."),
    "source": ("sources", "Manage sources of documents: add, list, pull, check."),
    "graph": ("graph", "Query things and their relations, with evidence."),
    "learn": ("learn", "Capture, verify and query learned knowledge."),
    "outcome": ("feedback", "Record whether a found document helped."),
    "secret": ("secrets", "Manage credentials of sources on this machine."),
    "receipt": ("questions", "Replay the query of a receipt and compare the answers."),
    "audit": ("questions", "List queries with caller, time and returned documents."),
    "gaps": ("questions", "List questions without a good answer; check, close, ignore, assign them."),
    "call": ("operations", "Call any operation by its name."),
    "demo": ("demo", "Ingest the example corpus and run five queries on it."),
    "config": ("config", "Show the settings in effect and where each comes from."),
    "completion": ("completion", "Print the script that completes commands, ids and categories in a shell."),
}
"""Module (which has `<name>_command`) and summary of each command."""

COMPLETION = "_OPX_COMPLETE"
"""Environment variable by which a shell requests completions."""

_ALL = f"{__name__}.all"
"""Key of the context's meta: the help lists all commands."""

_SUMMARIES = {name: summary for name, (_, summary) in _COMMANDS.items()}
_SETTINGS = {option.removeprefix("--"): setting for setting, option in OPTIONS.items()}
"""Setting of each option that all commands have."""


class LazyGroup(click.Group):
    """Imports a command when it is called, and turns the library's errors into one line and an exit code.

    A command that an operation declares, without a module here, is generated from the operation.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [*_COMMANDS, *_commands_of_plugins()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        module, _ = _COMMANDS.get(cmd_name) or _commands_of_plugins().get(cmd_name) or ("", "")
        if not module:
            return _declared_command(cmd_name)
        path = module if "." in module else f"{__package__}.{module}"
        command: click.Command = getattr(importlib.import_module(path), f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        is_all = ctx.meta.get(_ALL)
        summaries = _summaries() if is_all else _summaries_of_short_help()
        common = [(name, summaries[name]) for name in COMMON.split() if name in summaries]
        for title, rows in sections(summaries) if is_all else [("Commands", common)]:
            with formatter.section(title):
                formatter.write_dl(rows)
        if not is_all:
            formatter.write("\nAll commands: opx help all\n")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        first, *rest = args
        if first == "help" and rest in ([], ["all"]):
            ctx.meta[_ALL] = bool(rest)
            click.echo(ctx.get_help())
            ctx.exit()
        try:
            return super().resolve_command(ctx, [*rest, "--help"] if first == "help" else args)
        except click.exceptions.NoSuchCommand as exc:
            raise CommandFailed(unknown_command(exc.command_name, [*_summaries()])) from exc

    def invoke(self, ctx: click.Context) -> object:
        try:
            with naming_extras():
                return super().invoke(ctx)
        except OpxError as exc:
            raise CommandFailed(str(exc)) from exc
        except KeyboardInterrupt as exc:
            raise CommandFailed("interrupted", INTERRUPTED) from exc
        except BrokenPipeError:
            _discard_output()
            ctx.exit(BROKEN_PIPE)
        except OSError as exc:
            if exc.errno not in _OF_THE_DISK:
                raise
            raise CommandFailed(f"{_OF_THE_DISK[exc.errno]}: {exc.filename or exc.strerror}") from exc


_OF_THE_DISK = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the disk is read-only",
    errno.EIO: "the disk can't be read or written",
    errno.EACCES: "access is denied",
    errno.EPERM: "access is denied",
    errno.EMFILE: "too many files are open",
    errno.ENOLCK: "the disk has no locks",
    errno.ENOTSUP: "the disk has no locks",
    errno.ENOSYS: "the disk has no locks",
}
"""Explanations of errors that any access to a file may raise."""


def _commands_of_plugins() -> Mapping[str, tuple[str, str]]:
    from opx.operations import features

    return {name: where for feature in features().values() for name, where in feature.commands.items()}


def _summaries() -> Mapping[str, str]:
    return _SUMMARIES | {name: summary for name, (_, summary) in _commands_of_plugins().items()}


def _summaries_of_short_help() -> Mapping[str, str]:
    """Without an import of a distribution: the help is there at once."""
    from opx import plugins

    return {**_SUMMARIES, **(SERVING if "serve" in plugins.names(plugins.OPERATIONS) else {})}


def _declared_command(name: str) -> click.Command | None:
    from opx.edges.cli.operations import plain_command
    from opx.operations import load

    return next((plain_command(one) for one in load() if one.command == name), None)


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--home", metavar="DIR", help="Home folder of the knowledge base.  [default: $OPX_HOME or .opx]")
@click.option("--profile", metavar="NAME", help="Work on a deployed system, with the credentials of this AWS profile.")
@click.option(
    "--environment", metavar="NAME", help="Environment of the deployed system.  [default: $OPX_ENVIRONMENT or dev]"
)
@click.option("--region", metavar="NAME", help="Region of the deployed system.  [default: the profile's region]")
@click.option("--api", metavar="URL", help="Address of a deployed system's HTTP API, instead of looking it up.")
@click.option("--client", metavar="ID", help="Client that owns ingested documents, and that queries run for.")
@click.option("--project", metavar="ID", help="Project of that client.")
@click.option("--no-pager", is_flag=True, help="Never show long output by $PAGER.")
@click.option("-v", "--verbose", count=True, help="Log to stderr; twice for details.")
@click.version_option(__version__, prog_name="opx")
@click.pass_context
def cli(context: click.Context, /, *, verbose: int, no_pager: bool, **options: str | None) -> None:
    """Institutional memory for operations: runbooks, postmortems and advisories, searched by words and by meaning.

    \b
    opx ingest docs/runbooks          ingest a folder
    opx search pods keep restarting   search
    opx show 3f9a                     read the document behind an answer
    opx --profile work search "..."   search a system deployed on AWS

    Exit codes: 0 done, 1 no good answer (search) or something failed (ingest, delete, failed retry), 2 wrong usage or
    any other error. Results go to stdout, progress and errors to stderr.
    """
    launch = context.find_object(Launch)
    assert launch is not None, "started by main()"
    settings, given = _settings(launch, options)
    context.meta[GIVEN], context.meta[NO_PAGER] = (launch.environ, given), no_pager
    if launch.environ.get("NO_COLOR") or launch.environ.get("TERM") == "dumb":
        context.color = False
    verbose_logging(context, verbose)
    context.obj = settings
    context.meta[SESSION] = Session(
        settings, launch.start, launch.connect, context, launch.examine, closes=launch.closes
    )
    if context.invoked_subcommand is None:
        from opx.edges.cli.help import show_welcome

        show_welcome(context.meta[SESSION])


def _settings(launch: Launch, options: Mapping[str, Any]) -> tuple[Settings, dict[str, str]]:
    """The settings of a command line, and those that its options gave. Raises `InvalidInputError`."""
    given = {_SETTINGS[name]: value for name, value in options.items() if name in _SETTINGS and value}
    settings = Settings.from_environ(launch.environ, **local_if_home_is_given(given))
    check(settings, given)
    return settings, given


def _completing_session(context: click.Context) -> Session:
    """The session of a command line that is being completed."""
    root = context.find_root()
    settings, _ = _settings(root.obj, root.params)
    return Session(settings, root.obj.start, root.obj.connect, root)


class Launch(Struct):
    """Start parameters of the command: `start` builds the system from settings of `environ` and options, `connect` a client
    of a deployed one, and `examine` an operator's access to a deployed one. `closes`: the command closes the system."""

    start: StartSystem
    connect: Connect
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    examine: Examine | None = None
    closes: bool = True


def run(arguments: Sequence[str], launch: Launch) -> int:
    """Run a command line and return its exit code."""
    _tolerate_any_character()
    options = os.environ.get("LESS", "-FX")
    if "R" not in options:  # without it, `less` prints colours as escape sequences
        os.environ["LESS"] = f"-R {options}"
    if COMPLETION in os.environ:
        from opx.edges.cli.completion import complete_in

        complete_in(cli, _summaries(), _completing_session)
    try:
        cli.main(list(arguments), prog_name="opx", obj=launch)
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else FAILED
    except Exception as exc:  # noqa: BLE001 - the outermost edge: any error is one line with a way to see more
        return _unexpected(exc, verbose=any(argument.startswith(("-v", "--verb")) for argument in arguments))
    raise AssertionError("click always exits")


def main(start: StartSystem, connect: Connect, examine: Examine) -> None:
    """The console script; see `Launch`."""
    code = run(sys.argv[1:], Launch(start, connect, examine=examine))
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
    end_process(code)


def _unexpected(error: Exception, *, verbose: bool) -> int:
    if verbose:
        traceback.print_exception(error)
    else:
        click.echo(f"opx: unexpected {type(error).__name__}: {error} (for the traceback: opx -v ...)", err=True)
    return FAILED


def _tolerate_any_character() -> None:
    """Replaces characters that the console can't show, or that input has in another encoding, instead of failing."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _discard_output() -> None:
    """Redirects stdout after its reader has gone; else Python would report an error when it flushes at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
