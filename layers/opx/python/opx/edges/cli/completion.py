"""`opx completion`: completes commands, options, documents, ids and categories in bash, zsh and fish."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import click
from click import shell_completion
from click.shell_completion import CompletionItem

from opx.edges.cli.output import SHORT_ID
from opx.edges.cli.session import Session
from opx.errors import OpxError

_INSTALL = {
    "bash": 'eval "$(opx completion bash)"     # a line for ~/.bashrc',
    "zsh": 'eval "$(opx completion zsh)"      # a line for ~/.zshrc, after compinit',
    "fish": "opx completion fish > ~/.config/fish/completions/opx.fish",
}
_MOST = 200
"""Values that are offered at most."""


@click.command("completion")
@click.argument("shell", type=click.Choice([*_INSTALL]))
def completion_command(shell: str) -> None:
    """Print a script that completes commands, options, documents, ids and categories in a shell.

    \b
    eval "$(opx completion bash)"     a line for ~/.bashrc
    eval "$(opx completion zsh)"      a line for ~/.zshrc, after compinit
    opx completion fish > ~/.config/fish/completions/opx.fish
    """
    kind = shell_completion.get_completion_class(shell)
    assert kind, "click has one for each of them"
    root = click.get_current_context().find_root().command
    click.echo(f"# Completion of opx for {shell}. To install it:\n#   {_INSTALL[shell]}\n")
    click.echo(kind(root, {}, "opx", "_OPX_COMPLETE").source())


# -- values of this knowledge base

Values = Iterator[tuple[str, str]]
"""Values with a description each."""


def _documents(session: Session) -> Values:
    from opx.edges.cli.operations import whole
    from opx.operations.documents import ListDocuments, list_documents

    for one in whole(session.client, list_documents, ListDocuments(), "documents").documents:
        yield one.key.source.rpartition("/")[2], one.title
        yield one.document_id[:SHORT_ID], one.title


def _categories(session: Session) -> Values:
    from opx.operations.documents import ListCategories, list_categories

    for one in session.client.call(list_categories, ListCategories()).categories:
        yield one.path, one.description


def _receipts(session: Session) -> Values:
    from opx.operations.questions import ListAuditRecords, list_audit_records

    yield "last", "your newest answer"
    for one in session.client.call(list_audit_records, ListAuditRecords(limit=_MOST)).records:
        yield one.receipt_id[:SHORT_ID], one.asked_at


def _gaps(session: Session) -> Values:
    from opx.operations.questions import ListGaps, list_gaps

    for one in session.client.call(list_gaps, ListGaps()).gaps:
        yield one.gap_id[:SHORT_ID], one.question


def _patterns(session: Session) -> Values:
    from opx.operations.patterns import ListPatterns, list_patterns

    for one in session.client.call(list_patterns, ListPatterns(limit=_MOST)).patterns:
        yield one.pattern_id[:SHORT_ID], one.problem


def _entries(session: Session) -> Values:
    from opx.operations.learning import ListEntries, list_entries

    for one in session.client.call(list_entries, ListEntries(limit=_MOST)).entries:
        yield one.id[:SHORT_ID], one.failure_description or one.entry_type.value


_VALUES: Mapping[str, Callable[[Session], Values]] = {
    "document_id": _documents,
    "document_ids": _documents,
    "categories": _categories,
    "category": _categories,
    "receipt_id": _receipts,
    "gap_id": _gaps,
    "pattern_id": _patterns,
    "other_id": _patterns,
    "entry_id": _entries,
}
"""Values of parameters by name."""


def completions(session_of: Callable[[], Session], name: str, incomplete: str) -> list[CompletionItem[str]]:
    """Values of a parameter of this name that begin so; none of a deployed system, which is too far away for the key, and
    none after an error, which would be printed beside the word that is being completed."""
    try:
        session = session_of()
        if session.is_remote or not (session.has_knowledge or name.startswith("categor")):
            return []
        found = _VALUES[name](session)
        return [
            CompletionItem(value, help=" ".join(about.split()) or None)
            for value, about in _beginning(found, incomplete)
        ]
    except OpxError:
        return []


def _beginning(values: Iterable[tuple[str, str]], incomplete: str) -> list[tuple[str, str]]:
    return [one for one in dict(values).items() if one[0].startswith(incomplete)][:_MOST]


# -- in the shell


def complete_in(
    root: click.Group, summaries: Mapping[str, str], session_of: Callable[[click.Context], Session]
) -> None:
    """Has the shells' completions offer values of the knowledge base, and the commands without importing each."""

    class Completing(shell_completion.ShellComplete):
        def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
            context = shell_completion._resolve_context(self.cli, self.ctx_args, self.prog_name, args)
            subject, left = shell_completion._resolve_incomplete(context, args, incomplete)
            if subject is root and not left.startswith("-"):
                return [CompletionItem(name, help=about) for name, about in summaries.items() if name.startswith(left)]
            if isinstance(subject, click.Parameter) and subject.name in _VALUES:
                return completions(lambda: session_of(context), subject.name, left)
            return subject.shell_complete(context, left)

    for name, kind in list(shell_completion._available_shells.items()):
        shell_completion.add_completion_class(type(kind.__name__, (Completing, kind), {}), name)
