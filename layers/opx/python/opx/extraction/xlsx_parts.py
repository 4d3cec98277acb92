"""What a workbook has besides the values of its cells: formulas that nobody calculated yet, and comments."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import suppress
from xml.etree import ElementTree as ET

from openpyxl.packaging.relationship import get_dependents, get_rels_path
from openpyxl.xml.constants import COMMENTS_NS, REL_NS, SHEET_MAIN_NS

from opx.errors import UnparsableDocumentError
from opx.extraction.markdown import one_line

MAX_COMMENTS = 500
_MAX_LENGTH = 2000
_BROKEN = (KeyError, ET.ParseError, TypeError, ValueError)
_WORKBOOK = "xl/workbook.xml"
_MAIN = f"{{{SHEET_MAIN_NS}}}"
_THREADED, _TEXT_OF_THREADED = "[Threaded comment]", "Comment:"
"""What Excel writes into old-style comments beside newer ones, and where their own text begins."""


def sheet_paths(package: zipfile.ZipFile) -> dict[str, str]:
    """The part of each sheet by the sheet's name. Raises `UnparsableDocumentError` if the workbook doesn't tell."""
    try:
        targets = {each.Id: each.target for each in get_dependents(package, get_rels_path(_WORKBOOK))}
        root = ET.fromstring(package.read(_WORKBOOK))  # noqa: S314 - it declares no entities, as checked
    except _BROKEN as exc:
        raise UnparsableDocumentError("it is no Excel workbook; save it again as .xlsx") from exc
    sheets = root.iter(f"{_MAIN}sheet")
    paths = {each.get("name", ""): targets.get(each.get(f"{{{REL_NS}}}id"), "") for each in sheets}
    return {name: path for name, path in paths.items() if path in package.namelist()}


def formulas_without_value(package: zipfile.ZipFile, path: str, rows: int) -> int:
    """How many formulas in the first rows have no calculated value, as programs write them that are not Excel."""
    count = 0
    with suppress(ET.ParseError), package.open(path) as stream:  # broken below what was read of its values
        for _, element in ET.iterparse(stream):  # noqa: S314 - it declares no entities, as checked
            if element.tag == f"{_MAIN}c":
                count += element.find(f"{_MAIN}f") is not None and not _has_value(element)
            elif element.tag == f"{_MAIN}row":
                element.clear()
                rows -= 1
                if not rows:
                    break
    return count


def _has_value(cell: ET.Element) -> bool:
    """An empty text that was calculated is one, too."""
    return bool(cell.findtext(f"{_MAIN}v")) or cell.get("t") == "str"


def comments(package: zipfile.ZipFile, path: str) -> Iterator[str]:
    """`cell: text` of each comment on the sheet. Raises `UnparsableDocumentError` if they can't be read."""
    relations = get_rels_path(path)
    if relations not in package.namelist():
        return
    try:
        for related in get_dependents(package, relations):
            if related.Type == COMMENTS_NS:
                root = ET.fromstring(package.read(related.target))  # noqa: S314 - it declares no entities, as checked
                yield from filter(None, map(_comment, root.iter(f"{_MAIN}comment")))
    except _BROKEN as exc:
        raise UnparsableDocumentError("the comments are broken; save the workbook again in Excel") from exc


def _comment(element: ET.Element) -> str:
    text = "".join(part.text or "" for part in element.iter(f"{_MAIN}t"))
    if text.startswith(_THREADED):
        text = text.partition(_TEXT_OF_THREADED)[2] or text
    text = one_line(text)[:_MAX_LENGTH]
    return f"{one_line(element.get('ref', ''))}: {text}" if text else ""
