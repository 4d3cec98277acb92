"""`opx categories`, `list`, `show`, `history`, `diff`, `restore` and `delete`: manages documents and their versions."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator, Sequence

import click

from opx.domain.documents import DocumentChunk, DocumentState, KnowledgeDocument, is_kept_out
from opx.domain.knowledge import Category
from opx.domain.queries import MAX_BUDGET
from opx.domain.record import Json, replace
from opx.domain.versions import Renumbering, SafeguardChange, StepChange, StepChangeKind, VersionDiff, VersionName
from opx.edges.calling import record_of
from opx.edges.cli.hits import effect_lines, shorten
from opx.edges.cli.intake import settled, warn_of
from opx.edges.cli.operations import operation_command, request_command, whole
from opx.edges.cli.output import (
    SHORT_ID,
    Screen,
    aligned,
    exit_unless,
    plural,
    print_json,
    print_json_lines,
    print_lines,
    print_page,
    print_table,
    printable,
    safe,
    some_fields,
    warn,
)
from opx.edges.cli.reporting import KINDS, has_remark, remark_line, remarked
from opx.edges.cli.session import Session, pass_session
from opx.edges.cli.sources import kept_out_line, kept_out_sources
from opx.edges.loading import remove_document
from opx.errors import AccessDeniedError, DocumentNotFoundError, InvalidInputError
from opx.formats.metadata import values_text
from opx.hygiene.untrusted import one_line
from opx.ingestion.corpus.chunk_files import joined_text
from opx.operations.corpus import GetStatus, RestoreDocument, get_status, restore_document
from opx.operations.documents import (
    DocumentVersions,
    GetDocument,
    ListCategories,
    ListDocuments,
    ReadChunks,
    diff_document,
    get_document,
    list_categories,
    list_documents,
    read_chunks,
)
from opx.operations.reading import DocumentPart, ReadDocument, read_document

_ID = re.compile(r"\s*[0-9a-fA-F]+\s*")
_LAST = re.compile(r"\s*last(?:\s+(?P<rank>\d{1,4}))?\s*")
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_MARKS = {
    StepChangeKind.ADDED: "+",
    StepChangeKind.REMOVED: "-",
    StepChangeKind.CHANGED: "~",
    StepChangeKind.MOVED: ">",
}
_NAMED = 10
"""Documents listed if several have the given name."""
_LINE = 200
"""Characters shown of a section."""
_VERSION_JSON = ("documentId", "version", "state", "supersededAt")
_CHUNK_JSON = ("chunkId", "chunkIndex", "section", "start", "end", "tokenCount", "content")
_CATEGORY_JSON = ("path", "description", "folders", "tier", "trust", "retention", "agesBy", "schedule", "embed")


@request_command("categories", list_categories, anywhere=True, json="Print them as JSON.")
def categories_command(session: Session, request: ListCategories, *, as_json: bool) -> None:
    """List the categories of `knowledge.yaml`: tier, trust, retention and schedule of pulls."""
    model = session.client.call(list_categories, request)
    found = model.categories
    if as_json:
        chosen = model.default_category
        print_json([{**some_fields(one, _CATEGORY_JSON), "default": one.path == chosen} for one in found])
        return
    rows = [(c.path, c.tier.value, f"{c.trust:g}", c.policy, c.schedule or "-", c.description) for c in found]
    print_table(("CATEGORY", "TIER", "TRUST", "RETENTION", "SCHEDULE", "DESCRIPTION"), rows)
    click.echo(f"\nThe default category is {model.default_category}. Where folder, front matter and options give none:")
    print_lines(line for one in found for line in _claim_lines(one))


def _claim_lines(one: Category) -> Iterator[str]:
    """Files and sources that a category takes if nothing else categorises them."""
    claims = {"files of": one.formats, "files called": one.names, "sources of kind": one.connectors}
    taken = "; ".join(f"{kind} {', '.join(names)}" for kind, names in claims.items() if names)
    if taken:
        yield f"  {one.path}: {taken}"


@request_command(
    "list",
    list_documents,
    without=("limit", "after", "expired"),
    fields={"category": "NAME  Only this category or those below it."},
    items="documents",
    json="Print them as JSON, with full ids.",
)
@click.option("--tag", default="", metavar="TAG", help="Only documents with this tag.")
@click.option("--remarks", type=click.Choice(KINDS), help="Only documents with remarks of this kind.")
def list_command(
    session: Session, request: ListDocuments, *, tag: str, remarks: str | None, as_json: bool, as_jsonl: bool
) -> None:
    """List the documents that you may see, by category.

    --remarks also lists documents past their retention, which are hidden until `opx prune` removes them.
    """
    listed = whole(session.client, list_documents, replace(request, expired=bool(remarks)), "documents").documents
    found = [
        document for document in listed if (not tag or tag in document.tags) and has_remark(document.remarks, remarks)
    ]
    if as_json or as_jsonl:
        (print_json_lines if as_jsonl else print_json)([document.to_json() for document in found])
        return
    shown = None if request.all_versions else SHORT_ID
    rows = [
        (
            d.document_id[:shown],
            d.category,
            str(d.version),
            "expired" if is_kept_out(d) else d.state.value,
            str(d.chunk_count),
            d.last_updated[:10],
            d.title,
            *([remarked(d.remarks, remarks)] if remarks else ()),
        )
        for d in found
    ]
    names = (
        "DOCUMENT ID",
        "CATEGORY",
        "VERSION",
        "STATE",
        "CHUNKS",
        "UPDATED",
        "TITLE",
        *(("REMARKS",) if remarks else ()),
    )
    print_table(names, rows)
    if remarks:
        print_lines(_remark_lines(found, remarks))
    for view in kept_out_sources(session):
        warn(f"source {view.source_id}: {kept_out_line(view)}; its category {view.category} decides (`opx categories`)")


def _remark_lines(documents: Sequence[KnowledgeDocument], kind: str) -> Iterator[str]:
    """The remarks of this kind, below the documents that have them."""
    yield ""
    for document in documents:
        for remark in document.remarks:
            if has_remark((remark,), kind):
                yield f"{document.document_id[:SHORT_ID]}  {remark_line(remark)}"


# -- one document


def _joined(_context: click.Context, _param: click.Parameter, words: Sequence[str]) -> str:
    return " ".join(words)


@request_command("show", get_document, arguments=("document_id",), without=("after",), json="Print everything as JSON.")
@click.argument("document_id", nargs=-1, required=True, callback=_joined, metavar="ID|PATH|TITLE")
@click.option("--raw", is_flag=True, help="Print the text as ingested, without rendering; the default in a pipe.")
@click.option(
    "--outline", "with_outline", is_flag=True, help="Print only its sections and steps, with the effect of each."
)
@click.option(
    "--step", "step_name", metavar="N|HEADING", help="Print one step, or the section with this heading or role."
)
@click.option("--chunks", "with_chunks", is_flag=True, help="Print the chunks instead of the text.")
def show_command(
    session: Session,
    request: GetDocument,
    *,
    raw: bool,
    with_outline: bool,
    step_name: str | None,
    with_chunks: bool,
    as_json: bool,
) -> None:
    """Print a document: title, metadata, versions, and its text.

    A current document has several names: a prefix of its id, the end of its path, or its title. `last 2` is the second
    document of your last answer. Name old and deleted versions by their full id; --step and --outline always show the
    current version. $PAGER shows output longer than the screen.
    """
    found = _found(session, request.document_id)
    screen = Screen.current()
    if with_outline or step_name is not None:
        shown = _part(session, found, "outline" if with_outline else step_name or "steps")
        if as_json:
            print_json(shown.to_json())
        elif with_outline:
            print_page([*_outline_lines(shown, screen)], screen)
        else:
            print_page([*_part_lines(shown, screen, raw=raw or not screen.is_terminal)], screen)
        return
    chunks = whole(session.client, read_chunks, ReadChunks(document_id=found.document.document_id), "chunks").chunks
    if as_json:
        print_json(_as_json(found, chunks, with_chunks=with_chunks))
        return
    text = "".join(joined_text(chunks))
    head = [*_head(found.document, found.versions)]
    if screen.is_terminal and not (raw or with_chunks):
        from opx.edges.cli.rendering import rendered

        print_page([*head, *rendered(text, screen)], screen)
        return
    made_safe = safe if screen.is_terminal else str
    print_lines(head)
    if not with_chunks:
        click.echo(made_safe(text), nl=False)
        return
    for chunk in chunks:
        click.echo(safe(_chunk_head(chunk)))
        click.echo(made_safe(chunk.content), nl=not chunk.content.endswith("\n"))


def _found(session: Session, wanted: str) -> DocumentVersions:
    """The document with an id, in any version, else with a path or a title, or that of the last answer with a rank. Raises
    `DocumentNotFoundError` and `InvalidInputError`."""
    client = session.client
    wanted = _of_last_answer(session, wanted) or wanted
    try:
        return whole(client, get_document, GetDocument(document_id=wanted), "versions")
    except (DocumentNotFoundError, InvalidInputError) as exc:
        is_several = isinstance(exc, InvalidInputError) and _ID.fullmatch(wanted)
        if is_several or not wanted.strip():
            raise
    named: DocumentPart = record_of(client.call(read_document, ReadDocument(document=wanted, part="outline")))
    return whole(client, get_document, GetDocument(document_id=named.document_id), "versions")


def _of_last_answer(session: Session, wanted: str) -> str:
    """The id of the document that `last` or `last RANK` names: of the newest answer to this user; "" for another name.
    Raises `ReceiptNotFoundError` and `InvalidInputError`."""
    found = _LAST.fullmatch(wanted)
    if not found:
        return ""
    from opx.operations.questions import GetAuditRecord, get_audit_record
    from opx.records.audit import LAST, rank_missing

    session.require_local(
        "`last` is read from the audit log of this machine: name a document of a deployed system by its id"
    )
    record = session.call(get_audit_record, GetAuditRecord(receipt_id=LAST))
    rank, known = int(found["rank"] or 1), record.document_ids
    if not known:
        raise InvalidInputError("the last answer had no documents")
    if not 0 < rank <= len(known):
        raise InvalidInputError(rank_missing(rank, [_title(session, one) for one in known]))
    return known[rank - 1]


def _title(session: Session, document_id: str) -> str:
    try:
        return session.client.call(get_document, GetDocument(document_id=document_id)).document.title
    except DocumentNotFoundError:
        return f"{document_id[:SHORT_ID]}, which is gone"


def _part(session: Session, found: DocumentVersions, name: str) -> DocumentPart:
    """A whole part of a document, of all its pages."""
    request = ReadDocument(document=found.document.document_id, part=name, max_tokens=MAX_BUDGET)
    pages: list[DocumentPart] = [record_of(session.client.call(read_document, request))]
    while pages[-1].next:
        after = int(pages[-1].next[0].arguments["after"])
        pages.append(record_of(session.client.call(read_document, replace(request, after=after))))
    warn(*map(printable, pages[0].notes))
    steps = {step.number: step for page in pages for step in sorted(page.steps, key=lambda one: one.shown)}
    content = "\n\n".join(page.content for page in pages)
    return replace(pages[0], content=content, steps=tuple(steps[number] for number in sorted(steps)))


def _outline_lines(part: DocumentPart, screen: Screen) -> Iterator[str]:
    """The sections, each with its steps and their effects."""
    steps = list(part.steps)
    yield screen.styled(printable(part.title), "bold")
    for section in part.sections:
        if section.heading and section.heading != part.title:
            yield screen.styled("  " * max(section.level - 1, 0) + printable(section.heading), "bold")
        while steps and steps[0].section == section.heading:
            step = steps.pop(0)
            line = f"{'  ' * section.level}step {step.name}: {printable(step.title)}"
            effect = f"  [{step.effect}]" if step.commands else ""
            yield shorten(line, screen.prose - len(effect)) + screen.styled(effect, step.effect)


def _part_lines(part: DocumentPart, screen: Screen, *, raw: bool) -> Iterator[str]:
    """A part under its document's title: the effects of its steps, then its text, with warnings before the lines that they
    belong to."""
    yield screen.styled(printable(f"{part.title}, {part.part}"), "bold")
    yield from effect_lines(part.steps, screen, untrusted=part.untrusted)
    yield ""
    body = part.content.strip("\n")
    if raw:
        yield from (safe(body) if screen.is_terminal else body).split("\n")
    else:
        from opx.edges.cli.rendering import rendered

        yield from rendered(body, screen, {f"[Warning: {one_line(text)}]": "warning" for text in part.warnings})


def _head(document: KnowledgeDocument, versions: Sequence[KnowledgeDocument]) -> Iterator[str]:
    yield click.style(printable(document.title), bold=True)
    facts = {
        "document id": document.document_id,
        "category": f"{document.category} ({document.tier.value}, trust {document.trust:g})",
        "source": document.source_uri,
        "owner": document.key.scope.key,
        "tags": ", ".join(document.tags),
        "author": document.author,
        "severity": document.severity,
        "services": ", ".join(document.services),
        "language": document.language,
        "updated": document.last_updated,
        "state": document.state.value,
        "size": f"{plural(document.chunk_count, 'chunk')}, {document.token_count:,} tokens",
    }
    yield from (f"  {line}" for line in aligned([(name, printable(value)) for name, value in facts.items() if value]))
    for version in versions:
        here = "  <- this one" if version.version == document.version else ""
        ended = f" {version.superseded_at}" if version.superseded_at else ""
        short = version.document_id[:SHORT_ID] if here else version.document_id
        yield f"  version {version.version}  {short}  {version.state.value}{ended}{here}"
    if document.attributes:
        yield "  attributes:"
        yield from (f"    {printable(f'{name}: {values_text(value)}')}" for name, value in document.attributes.items())
    if document.remarks:
        yield "  remarks:"
        yield from (f"    {remark_line(remark)}" for remark in document.remarks)
    yield ""


def _chunk_head(chunk: DocumentChunk) -> str:
    section = " > ".join(chunk.section)
    facts = f"chunk {chunk.chunk_index}, characters {chunk.start:,} to {chunk.end:,}, {chunk.token_count} tokens"
    return click.style(f"--- {facts}" + (f", {section}" if section else ""), bold=True)


def _as_json(found: DocumentVersions, chunks: Sequence[DocumentChunk], *, with_chunks: bool) -> Json:
    return {
        **found.document.to_json(),
        "scope": found.document.key.scope.key,
        "versions": [some_fields(version, _VERSION_JSON) for version in found.versions],
        "text": "".join(joined_text(chunks)),
        **({"chunks": [some_fields(chunk, _CHUNK_JSON) for chunk in chunks]} if with_chunks else {}),
    }


# -- versions


def version_named(session: Session, wanted: str) -> DocumentVersions:
    """The document with an id (or a prefix of one), a path, an address or a title, as `opx show` finds it; else
    the newest version of a deleted one. Raises `DocumentNotFoundError` and `InvalidInputError`."""
    try:
        return _found(session, wanted)
    except DocumentNotFoundError:
        listed = whole(session.client, list_documents, ListDocuments(all_versions=True), "documents").documents
        newest = {one.key: one for one in sorted(listed, key=lambda one: one.version)}
        called = [one for one in newest.values() if _is_called(one, wanted)]
        found = [one for one in called if one.state is DocumentState.CURRENT] or called
        if not found:
            raise
    if len(found) > 1:
        named = "".join(f"\n  {one.document_id}  {printable(one.title)}  {one.key.source}" for one in found[:_NAMED])
        raise InvalidInputError(f"{wanted!r} is the name of {len(found)} documents:{named}")
    return whole(session.client, get_document, GetDocument(document_id=found[0].document_id), "versions")


def _is_called(document: KnowledgeDocument, name: str) -> bool:
    """True for its title, or the end of its path or address."""
    end = "/" + name.strip().removeprefix("./").lstrip("/")
    paths = (document.key.source, document.source_uri)
    return document.title.casefold() == name.strip().casefold() or any(f"/{one}".endswith(end) for one in paths)


def _id_named(session: Session, wanted: str) -> str:
    """The id of the document that `version_named` finds."""
    session.require_knowledge()
    return version_named(session, wanted).document.document_id


_IDS = {"document_id": _id_named}
NAME = click.argument("document_id", nargs=-1, required=True, callback=_joined, metavar="ID|PATH|TITLE")


@request_command("history", get_document, arguments=("document_id",), without=("after",))
@NAME
def history_command(session: Session, request: GetDocument, *, as_json: bool) -> None:
    """List the versions of a document, the newest first, and the period in which each was current.

    A prefix of the id is enough, the end of a path, an address or a title, also of a deleted document. `opx diff` shows
    changes, and `opx restore` restores a version.
    """
    found = version_named(session, request.document_id)
    document = found.document
    if as_json:
        versions = [version.to_json() for version in found.versions]
        print_json({"source": document.key.source, "scope": document.key.scope.key, "versions": versions})
        return
    click.echo(f"{click.style(printable(document.title), bold=True)}  {document.key.source}")
    heads = ("version", "document id", "state", "current from", "until", "chunks", "title")
    print_table(heads, list(map(_version_row, found.versions)))


def _version_row(version: KnowledgeDocument) -> tuple[str, ...]:
    return (
        str(version.version),
        version.document_id[:SHORT_ID],
        version.state.value,
        version.current_since or "unknown",
        version.superseded_at or "-",
        str(version.chunk_count),
        printable(version.title),
    )


@operation_command("diff", diff_document, arguments=("document_id",), ids=_IDS)
@NAME
@click.option("--from", "before", type=click.IntRange(min=1), metavar="N", help="Compare with this version.")
@click.option("--to", "after", type=click.IntRange(min=1), metavar="M", help="The version to show.")
def diff_command(found: VersionDiff) -> None:
    """Show how a version of a document differs from the one that it replaced. Warnings, approvals, preconditions,
    verification and rollback come first. Then come its metadata, the steps of its procedure, and its text line by line.

    A prefix of the id is enough, the end of a path, an address or a title, also of a deleted document, whose newest
    version is compared. The text is the one extracted from the files, as `opx show` prints it.
    """
    click.echo(click.style(f"{found.source}: {_named(found.before)} -> {_named(found.after)}", bold=True))
    for safeguard in found.safeguards:
        colour = _COLOURS.get(_MARKS[safeguard.kind])
        first, *others = _safeguard_lines(safeguard)
        click.echo(click.style(f"  {safe(first)}", fg=colour, bold=safeguard.kind is StepChangeKind.REMOVED))
        print_lines([click.style(f"  {line}", fg=_COLOURS.get(line.lstrip()[:1])) for line in others])
    for change in found.changes:
        click.echo(f"  {change.field}: {printable(change.before) or '(none)'} -> {printable(change.after) or '(none)'}")
    for step in found.steps:
        for line in _step_lines(step):
            click.echo(click.style(f"  {safe(line)}", fg=_COLOURS.get(line.lstrip()[:1])))
    print_lines([f"  {_renumbered_line(one)}" for one in found.renumbered])
    for line in found.diff.split("\n")[2:-1]:
        click.echo(click.style(safe(line), fg=_COLOURS.get(line[:1])))
    if not found.diff:
        click.echo("  the texts are equal")
    if found.cut:
        lines = f"{found.added:,} lines were added, {found.removed:,} removed"
        warn(f"the diff, or a list of steps or warnings, was cut: {lines}")
    warn(*found.notes)


def _safeguard_lines(one: SafeguardChange) -> Iterator[str]:
    """A changed safeguard; if its wording changed, both wordings are below it."""
    kind = one.kind.value.upper() if one.kind is StepChangeKind.REMOVED else one.kind.value
    what = f"{one.safeguard.value} section" if one.whole_section else one.safeguard.value
    was, is_ = (_where(*names) for names in ((one.section_before, one.step_before), (one.section, one.step)))
    location = f"{was} -> {is_}" if one.kind is StepChangeKind.MOVED else is_ or was
    head = f"{_MARKS[one.kind]} {what} {kind}" + (f" ({location})" if location else "")
    if one.kind is not StepChangeKind.CHANGED:
        text = printable(one.after or one.before)
        yield f"{head}: {shorten(text, _LINE) if one.whole_section else text}"
    elif one.whole_section:
        yield head
    else:
        yield from (head, f"    - {printable(one.before)}", f"    + {printable(one.after)}")


def _where(section: str, step: str) -> str:
    return ", ".join(filter(None, (f"step {step}" if step else "", printable(section))))


def _step_lines(step: StepChange) -> Iterator[str]:
    """A changed step, with its commands below it."""
    was = f" (was {step.name_before})" if step.name and step.name_before not in ("", step.name) else ""
    how = step.kind.value
    if step.kind is StepChangeKind.CHANGED:
        how = f"{'command' if step.commands else 'text'} changed{' and moved' if step.moved else ''}"
    yield f"{_MARKS[step.kind]} step {step.name or step.name_before}{was} {how}: {printable(step.title)}"
    if step.title_before:
        yield f"    before: {printable(step.title_before)}"
    for command in step.commands:
        lines = ("-", command.before), ("+", command.after)
        yield from (f"    {mark} {printable(text)}" for mark, text in lines if text)


def _renumbered_line(one: Renumbering) -> str:
    section = f"{printable(one.section)}: " if one.section else ""
    if one.first == one.last:
        return f"{section}step {one.first_before} is now step {one.first}"
    return f"{section}steps {one.first_before} to {one.last_before} are now {one.first} to {one.last}"


def _named(name: VersionName) -> str:
    return f"version {name.version}" + (f" ({name.since})" if name.since else "")


@request_command("restore", restore_document, arguments=("document_id",), ids=_IDS, json="")
@NAME
@click.option(
    "--version", type=click.IntRange(min=1), metavar="N", help="Number of the version.  [default: the one with this id]"
)
def restore_command(session: Session, request: RestoreDocument) -> None:
    """Restore an old version of a document, also of a deleted one. It becomes a new version: nothing is lost.

    A prefix of the id is enough, the end of a path, an address or a title. A deleted document gets its newest version
    back, any other document the one given by `--version` (`opx history` lists them).

    If the store still has the original file, it is restored; otherwise the text extracted from it is. If the document
    comes from a file or a source of yours, correct it there, too. Otherwise the next ingestion replaces the restored
    version.

    Exit codes: 0 it is restored, 1 its ingestion failed (see `opx failed`) or is unfinished after the wait, 2 it is
    unknown, of another scope, or current.
    """
    session.loader.note_failures()
    restored = session.call(restore_document, request)
    version = restored.restored.version
    what = "as the original file" if restored.original else "as its extracted text"
    click.echo(f"version {version} of {restored.object_key} is restored, {what}")
    warn(*restored.notes)
    tally = settled(session.loader, [restored.object_key])
    warn_of(tally.failures, tally.left_to_others)
    outcome = tally.outcomes.get(restored.object_key)
    if outcome and outcome.document_id and not tally.failures:
        if outcome.document_id == restored.restored.document_id:
            click.echo(f"document {outcome.document_id} is current again")
        else:
            warn(
                f"the document that is current now, {outcome.document_id}, is not the same as version {version}: "
                f"see `opx diff {outcome.document_id} --from {version}`"
            )
    exit_unless(not (tally.failures or tally.left_to_others))


@click.command("delete")
@click.argument("document_ids", nargs=-1, required=True, metavar="DOCUMENT_ID...")
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
@pass_session
def delete_command(session: Session, document_ids: tuple[str, ...], *, yes: bool) -> None:
    """Delete documents: searches no longer find them. Their versions stay readable with `opx show`.

    The files that they came from are not touched: ingesting them again brings the documents back.

    Exit codes: 0 all are deleted, now or before, 1 a deletion failed (see `opx failed`) or is unfinished after the wait, 2 a
    document is unknown or of another scope: then none is deleted.
    """
    session.require_knowledge()
    client, loader = session.client, session.loader
    wanted = (client.call(get_document, GetDocument(document_id=one)).document for one in document_ids)
    documents = {document.document_id: document for document in wanted}
    gone = [one for one, document in documents.items() if document.state is DocumentState.DELETED]
    for one in gone:  # a command that was interrupted may be repeated
        warn(f"document {one} was deleted before")
        del documents[one]
    if not documents:
        return
    _check_deletable(documents.values(), client.call(get_status, GetStatus()).scope)
    if not yes:
        _confirm([f"{found.document_id}  {found.title}" for found in documents.values()])
    sent: list[str] = []
    loader.note_failures()
    for document_id, document in documents.items():
        deleted = remove_document(client, document_id)
        sent.extend(found.key.scope.prefix + found.key.source for found in deleted)
        click.echo(f"deleted {document_id}  {printable(document.title)}")
    await_ingestion(session, sent)


def await_ingestion(session: Session, object_keys: Sequence[str]) -> None:
    """Waits for the outcomes of objects, and prints failures; exits with 1 for these, and for unsettled ones."""
    tally = settled(session.loader, object_keys)
    warn_of(tally.failures, tally.left_to_others)
    exit_unless(not (tally.failures or tally.left_to_others))


def _check_deletable(documents: Collection[KnowledgeDocument], own: str) -> None:
    """Raises `DocumentNotFoundError` for a document that is no longer current, and an `AccessDeniedError` that names all
    documents of other scopes, before the first is deleted."""
    for document in documents:
        if document.state is not DocumentState.CURRENT:
            raise DocumentNotFoundError(f"document {document.document_id} is {document.state}: nothing is deleted")
    foreign = [
        f"{document.document_id} belongs to {document.key.scope.key}"
        for document in documents
        if document.key.scope.key != own
    ]
    if foreign:
        raise AccessDeniedError(f"{', '.join(foreign)}, you may delete only {own}: nothing is deleted")


def _confirm(lines: list[str]) -> None:
    if not sys.stdin.isatty():
        raise InvalidInputError("this needs a terminal to confirm: add --yes to delete without confirmation")
    for line in lines:
        click.echo(safe(line), err=True)
    click.confirm(f"Delete {plural(len(lines), 'document')}?", abort=True, err=True)
