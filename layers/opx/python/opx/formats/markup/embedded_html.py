"""HTML that is within another document, as Markdown."""

from __future__ import annotations

import codecs
import io

from opx.domain.knowledge import Category, Tier
from opx.errors import UnparsableDocumentError
from opx.formats.markup.html import parse_html
from opx.formats.source import Source


def markdown_of(html: str) -> str:
    """The Markdown of a page, "" if it has no text. Raises `UnparsableDocumentError` for what is nested too deeply."""
    if not html.strip():
        return ""
    data = codecs.BOM_UTF8 + html.encode(
        "utf-8", "replace"
    )  # whatever charset the page declares, it is decoded already
    no_category = Category("documents", Tier.INTERNAL, 1.0, "permanent")
    try:
        return "".join(parse_html(Source("it", data, io.BytesIO(), no_category)).lines)
    except UnparsableDocumentError as exc:
        if "no text" in str(exc):
            return ""
        raise UnparsableDocumentError(str(exc).removeprefix("it: ")) from exc
