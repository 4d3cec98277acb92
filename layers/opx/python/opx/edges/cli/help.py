"""Help of the `opx` command: its commands in sections, and suggestions for names that don't exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches

COMMON = "search do show list ingest watch outcome gaps status doctor serve mcp"
"""Commands that the short help lists, in the order of use."""

SECTIONS: Mapping[str, str] = {
    "Ask": "search do research web graph ops baseline",
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

_OF_DISTRIBUTIONS = {
    "opx-assurance": "seal repair reconcile export import",
    "opx-bulk": "bulk",
    "opx-quality": "contradictions eval",
    "opx-serve": "serve mcp console run",
    "opx-streams": "stream webhook",
    "opx-telemetry": "baseline ops",
    "opx-web": "research web",
}
"""Commands of distributions that may not be installed."""

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
    for distribution, names in _OF_DISTRIBUTIONS.items():
        if name in names.split():
            return f"the command {name} is part of {distribution}, which is not installed: pip install {distribution}"
    close = [other] if other else get_close_matches(name.casefold(), known, n=2, cutoff=0.7)
    meant = " or ".join(f"`opx {one}`" for one in close)
    return f"there is no command {name!r}: " + (
        f"did you mean {meant}?" if meant else "`opx help all` lists all commands"
    )
