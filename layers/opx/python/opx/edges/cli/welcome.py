"""`opx` without a command: shows what is here and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opx.edges.cli.output import aligned, plural, print_lines, warn
from opx.edges.cli.session import Session, home_option
from opx.errors import OpxError

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
