"""Formats of this distribution, which entry points of `opx.formats` name. Cheap to import."""

from __future__ import annotations

from opx.formats.source import Format
from opx_code.languages import LANGUAGES

CODE = Format(
    " ".join(LANGUAGES),
    parse="opx_code.outline:parse_code",
    family="code",
    structure="opx_code.structure:code_structure",
)
