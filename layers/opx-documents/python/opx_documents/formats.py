"""Formats of this distribution, which entry points of `opx.formats` name. Cheap to import."""

from __future__ import annotations

from opx.formats.source import Format

PDF = Format(".pdf", reader="opx_documents.pdf.pages:read_pdf", draw="opx_documents.pdf.pages:draw_pages", binary=True)
"""The text of the pages; headings from the outline, or from the font sizes."""
WORD = Format(".docx .docm", reader="opx_documents.office.docx:read_docx", binary=True)
"""Headings, lists, tables, links, footnotes, headers and footers."""
SLIDES = Format(".pptx .pptm", reader="opx_documents.office.pptx:read_pptx", binary=True)
"""Slides with their titles as headings, tables and notes."""
SHEETS = Format(".xlsx .xlsm", reader="opx_documents.office.xlsx:read_xlsx", binary=True)
"""Sheets as sections with a table each."""
MAIL = Format(".eml", reader="opx_documents.mail:read_email", binary=True, family="mail")
"""A message as it was sent, and its attachments."""
OUTLOOK = Format(".msg", reader="opx_documents.mail:read_msg", binary=True, family="mail")
"""A message as Outlook saved it, and its attachments."""
IMAGE = Format(
    ".png .jpg .jpeg .gif .webp .bmp .tif .tiff",
    reader="opx_documents.image:read_image",
    binary=True,
    is_picture=True,
)
"""A picture: its description and its text by OCR; its name alone without either service."""
OLD_OFFICE = Format(".doc .xls .ppt", parse="opx_documents.refused:refuse_old_office", binary=True)
MAILBOX = Format(".mbox", parse="opx_documents.refused:refuse_mailbox", binary=True, family="mail")
ASCIIDOC = Format(".adoc .asciidoc", parse="opx_documents.asciidoc:parse_asciidoc")
RESTRUCTURED_TEXT = Format(".rst .rest", parse="opx_documents.restructured_text:parse_restructured_text")
