"""Formats that are known and not read, with the remedy."""

from __future__ import annotations

from pathlib import PurePosixPath

from opx.errors import UnparsableDocumentError
from opx.formats.source import ParsedSource, Source

_OLD = {".doc": ("Word", ".docx"), ".xls": ("Excel", ".xlsx"), ".ppt": ("PowerPoint", ".pptx")}


def refuse_old_office(source: Source) -> ParsedSource:
    """Refuses Word, Excel and PowerPoint files from before 2007."""
    program, extension = _OLD[PurePosixPath(source.name).suffix.lower()]
    raise UnparsableDocumentError(
        f"{source.name}: {program}'s format from before 2007 is not read; save it as {extension} or PDF"
    )


def refuse_mailbox(source: Source) -> ParsedSource:
    """Refuses a file of many messages."""
    raise UnparsableDocumentError(
        f"{source.name}: a mailbox holds many documents; declare it as a source of kind `mailbox`, or save each message "
        "as .eml"
    )
