"""What a workbook has besides the values of its cells: formulas that nobody calculated yet, and comments."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree as ET

from openpyxl.packaging.relationship import get_dependents, get_rels_path
from openpyxl.xml.constants import COMMENTS_NS, REL_NS, SHEET_MAIN_NS

from opx.extraction.markdown import one_line

MAX_COMMENTS = 500
_MAX_LENGTH = 2000
_WORKBOOK = "xl/workbook.xml"
_MAIN = f"{{{SHEET_MAIN_NS}}}"
_THREADED, _TEXT_OF_THREADED = "[Threaded comment]", "Comment:"
"""What Excel writes into old-style comments beside newer ones, and where their own text begins."""


def sheet_paths(package: zipfile.ZipFile) -> dict[str, str]:
    """The part of each sheet by the sheet's name; nothing for what the workbook doesn't name as it should."""
    with _tolerant():
        targets = {each.Id: each.target for each in get_dependents(package, get_rels_path(_WORKBOOK))}
        root = ET.fromstring(package.read(_WORKBOOK))  # noqa: S314 - it declares no entities, which was checked
        sheets = ((each.get("name", ""), targets.get(each.get(f"{{{REL_NS}}}id"), "")) for each in root.iter(f"{_MAIN}sheet"))
        return {name: path for name, path in sheets if path in package.namelist()}
    return {}


def formulas_without_value(package: zipfile.ZipFile, path: str, rows: int) -> int:
    """How many formulas in the first rows have no calculated value, as programs write them that are not Excel."""
    count = 0
    with _tolerant(), package.open(path) as stream:
        for _, element in ET.iterparse(stream):  # noqa: S314 - it declares no entities, which was checked
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
    """`cell: text` of each comment on the sheet."""
    with _tolerant():
        for related in get_dependents(package, get_rels_path(path)):
            if related.Type == COMMENTS_NS:
                root = ET.fromstring(package.read(related.target))  # noqa: S314 - it declares no entities, which was checked
                yield from filter(None, map(_comment, root.iter(f"{_MAIN}comment")))


def _comment(element: ET.Element) -> str:
    text = "".join(part.text or "" for part in element.iter(f"{_MAIN}t"))
    if text.startswith(_THREADED):
        text = text.partition(_TEXT_OF_THREADED)[2] or text
    text = one_line(text)[:_MAX_LENGTH]
    return f"{one_line(element.get('ref', ''))}: {text}" if text else ""


@contextmanager
def _tolerant() -> Iterator[Any]:
    """A sheet has no comments if their part isn't there or can't be read; its values are read all the same."""
    try:
        yield None
    except (KeyError, ET.ParseError, TypeError, ValueError):
        return
