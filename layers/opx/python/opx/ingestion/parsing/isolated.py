"""Binary formats: read in a process of their own, which has no credentials and no network."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from opx.errors import UnparsableDocumentError
from opx.extraction.markdown import one_line
from opx.extraction.output import Job
from opx.ingestion.metadata import MAX_TEXT
from opx.ingestion.parsing.decoding import cut_lines, well_formed
from opx.ingestion.parsing.isolation import Workspace
from opx.ingestion.parsing.part_reading import Reading
from opx.ingestion.parsing.source import ParsedSource, Source
from opx.ingestion.parsing.writing import with_repeated_heads

_OLD = {
    ".doc": ("Word", ".docx"),
    ".xls": ("Excel", ".xlsx"),
    ".ppt": ("PowerPoint", ".pptx"),
}


def parse_pdf(source: Source) -> ParsedSource:
    """The text of the pages; headings from the outline, or from the sizes of fonts."""
    return _read(source, "pdf")


def parse_docx(source: Source) -> ParsedSource:
    """A Word document: headings, lists, tables, links, footnotes, headers and footers."""
    return _read(source, "docx")


def parse_pptx(source: Source) -> ParsedSource:
    """Slides with their titles as headings, tables and notes."""
    return _read(source, "pptx")


def parse_xlsx(source: Source) -> ParsedSource:
    """Sheets as sections with a table each."""
    return _read(source, "xlsx")


def parse_email(source: Source) -> ParsedSource:
    """A message and what is attached to it."""
    return _read(source, "email")


def parse_msg(source: Source) -> ParsedSource:
    """A message that Outlook saved, and what is attached to it."""
    return _read(source, "msg")


def parse_image(source: Source) -> ParsedSource:
    """What a picture shows and the text in it; its name alone if nobody can look at it."""
    return _read(source, "image")


def refuse_old_office(source: Source) -> ParsedSource:
    """Word, Excel and PowerPoint files from before 2007."""
    program, extension = _OLD[PurePosixPath(source.name).suffix.lower()]
    raise UnparsableDocumentError(
        f"{source.name}: {program}'s format from before 2007 is not read; save it as {extension} or PDF"
    )


def refuse_mailbox(source: Source) -> ParsedSource:
    """A file of many messages."""
    raise UnparsableDocumentError(
        f"{source.name}: a mailbox holds many documents; declare it as a source of kind `mailbox`, or save each message "
        "as .eml"
    )


def _read(source: Source, kind: str) -> ParsedSource:
    limits = source.tools.limits
    looked_at = source.tools.describer is not None or (kind == "image" and source.tools.ocr is not None)
    job = Job(kind, source.name, limits.pages, limits.unpacked_bytes, limits.images if looked_at else 0)
    workspace = Workspace()
    try:
        workspace.write_input(source.blocks())
        workspace.run(job, limits)
        head = workspace.head()
    except BaseException:
        workspace.close()
        raise
    reading = Reading(source, job, workspace)
    title = one_line(well_formed(str(head["title"])))[:MAX_TEXT]
    lines = with_repeated_heads(cut_lines(reading.blocks(), source.name))
    return ParsedSource(title or None, _short(head["metadata"]), lines, reading.remarks)


def _short(metadata: dict[str, Any]) -> dict[str, Any]:
    """What a file says about itself is no reason to refuse it."""
    return {name: value[:MAX_TEXT] if isinstance(value, str) else value for name, value in metadata.items()}
