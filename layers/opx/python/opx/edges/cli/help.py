"""Help of the `opx` command: its commands in sections, suggestions for names that don't exist, and the state of a home."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches

from opx.edges.cli.output import aligned, plural, print_lines, warn
from opx.edges.cli.session import Session, home_option
from opx.errors import MissingDistributionError, OpxError, distribution_of

COMMON = "search do show list ingest watch outcome gaps status doctor serve mcp"
"""Commands that the short help lists, in the order of use."""

SERVING: Mapping[str, str] = {
    "mcp": "Serve the tools to agents over the Model Context Protocol.",
    "serve": "Serve REST, agents' tools and webhooks over HTTP.",
}
"""Summaries of the commands of opx-serve that the short help lists: it imports no distribution."""

SECTIONS: Mapping[str, str] = {
    "Ask": "search do resource research web graph ops baseline",
    "Read": "list show why history diff categories",
    "Put in": "ingest watch source stream alerts evidence failed edit delete restore",
    "Learn": "outcome learn gaps audit receipt eval calibrate",
    "Operate": (
        "status doctor config rebuild reindex bulk reconcile repair seal export import prune hold review reviewed "
        "contradictions client project usage costs"
    ),
    "Serve": "console serve mcp run webhook secret",
    "Start": "demo completion call",
}
"""All commands by section of the full help, in the order of use."""

_OTHER_NAMES = {
    "add": "ingest",
    "ask": "search",
    "cat": "show",
    "check": "doctor",
    "find": "search",
    "get": "show",
    "info": "status",
    "ls": "list",
    "open": "show",
    "query": "search",
    "read": "show",
    "remove": "delete",
    "rm": "delete",
    "settings": "config",
    "upload": "ingest",
    "version": "--version",
}
"""Commands that people may mean by names of other tools."""


def sections(summaries: Mapping[str, str]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Sections with the names and summaries of their commands; commands of no section are in the last one."""
    named = {title: names.split() for title, names in SECTIONS.items()}
    placed = {name for names in named.values() for name in names}
    *_, last = named
    named[last] += [name for name in summaries if name not in placed]
    for title, names in named.items():
        yield title, [(name, summaries[name]) for name in names if name in summaries]


def unknown_command(name: str, known: Sequence[str]) -> str:
    """The error for a command that doesn't exist, with those that may be meant, or with the distribution that has it."""
    other = _OTHER_NAMES.get(name.casefold())
    if distribution_of("command", name):
        return str(MissingDistributionError("command", name))
    close = [other] if other else get_close_matches(name.casefold(), known, n=2, cutoff=0.7)
    meant = " or ".join(f"`opx {one}`" for one in close)
    return f"there is no command {name!r}: " + (
        f"did you mean {meant}?" if meant else "`opx help all` lists all commands"
    )


_ABOUT = "opx finds the runbook, postmortem or advisory that answers a question."


def show_welcome(session: Session) -> None:
    """Prints counts and next commands; in a home without knowledge, how to begin."""
    print_lines((_ABOUT, ""))
    if session.is_remote:
        print_lines(("This is a deployed system.", "", *_commands(session, _ELSEWHERE)))
    elif not session.has_knowledge:
        print_lines((f"There is no knowledge in {session.location} yet. To begin:", "", *_commands(session, _FIRST)))
    else:
        print_lines(_here(session))
    print_lines(("", "All commands: opx help all"))


_SEARCH = ("search pods keep restarting", "ask, in words or with an alert's name")
_FIRST = (("demo", "try it on an example corpus"), ("ingest docs/runbooks", "ingest a folder of yours"), _SEARCH)
_ELSEWHERE = (_SEARCH, ("list", "list its documents"), ("status", "show its size and health"))
_KNOWN = (_SEARCH, ("list", "list the documents"), ("gaps", "list questions without a good answer"))


def _here(session: Session) -> Iterator[str]:
    """Counts of the home, and commands that fit them. An error is a warning with a next step only."""
    from opx.operations.corpus import GetStatus, get_status

    try:
        status = session.client.call(get_status, GetStatus())
    except OpxError as exc:
        warn(str(exc))
        yield from _commands(session, (("doctor", "find out what is wrong"),))
        return
    passages = "" if status.chunks is None else f" in {plural(status.chunks, 'passage')}"
    waiting = f", {status.waiting:,} waiting" if status.waiting else ""
    failed = f", {status.failed:,} failed" if status.failed else ""
    yield f"{session.location} has {plural(status.documents, 'document')}{passages}{waiting}{failed}."
    yield ""
    ask, listing, gaps = _KNOWN
    if status.failed:
        listing = ("failed", "list what could not be ingested")
    yield from _commands(session, (ask, listing, gaps) if status.documents else _FIRST)


def _commands(session: Session, rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    option = "" if session.is_remote else home_option(session.settings)
    return (f"  {line}" for line in aligned([(f"opx {option}{command}", about) for command, about in rows]))
