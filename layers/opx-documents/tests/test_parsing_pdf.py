"""PDF files: reading order, structure, omissions, and unreadable files."""

from __future__ import annotations

import pytest
from reportlab.lib.pdfencrypt import StandardEncryption

from opx.domain.documents import RemarkKind
from opx.ports.models import ParsingLimits, ParsingTools
from opx_documents.pdf import pages as pdf_reader
from opx_documents.pdf.pages import _date
from tests.support.binary_files import (
    FakeDescriber,
    FakeOcr,
    PdfWriter,
    Read,
    a_picture,
    a_scan,
    in_this_process,
    read,
    refused,
)

pytestmark = pytest.mark.usefixtures(in_this_process.__name__)

SENTENCE = "If the replica lags more than a minute then stop the batch jobs and look at the queue"


@pytest.fixture(scope="module")
def handbook() -> Read:
    """Headings by size, code, two kinds of tables, a list, paragraphs; a header and page numbers on each of 3 pages."""
    pdf = PdfWriter(title="Failover handbook", author="Ada Ops")
    for page in (1, 2, 3):
        pdf.line(60, 815, "ACME operations, confidential", size=8).line(290, 30, f"Page {page} of 3", size=8)
        if page == 1:
            pdf.line(60, 770, "Failing over", size=20).line(60, 740, "Limits", size=14)
            pdf.grid([60, 160, 260], [660, 680, 700])
            pdf.line(64, 686, "Metric").line(164, 686, "Critical").line(64, 666, "lag").line(164, 666, "30 s")
            pdf.line(60, 630, "Commands", size=14)
            pdf.line(60, 610, "if true; then", font="Courier").line(72, 598, "promote  db2", font="Courier")
            pdf.line(60, 586, "# done", font="Courier")
            for row, cells in enumerate([("Host", "Role"), ("db1", "primary"), ("db2", "replica"), ("db3", "witness")]):
                pdf.line(60, 540 - 14 * row, cells[0]).line(160, 540 - 14 * row, cells[1])
            pdf.line(60, 460, "•  stop the jobs").line(60, 446, "•  promote the replica")
            pdf.paragraph(60, 400, "Then tell the peo-", "ple on call about it.", "#1 is the primary.")
        pdf.paragraph(60, 340, f"{SENTENCE},", f"page {page} says so.")
        pdf.next_page()
    return read(pdf.data(), "handbook.pdf")


def test_title_and_author_come_from_the_metadata(handbook: Read) -> None:
    assert (handbook.title, handbook.metadata["author"]) == ("Failover handbook", "Ada Ops")


def test_larger_text_becomes_headings_by_its_size(handbook: Read) -> None:
    headings = [line for line in handbook.text.splitlines() if line.startswith(("# ", "## "))]
    assert headings == ["# Failing over", "## Limits", "## Commands", "# done"]  # the last is within code


SHOWN = {
    "a table with lines stays a table": "| Metric | Critical |\n| --- | --- |\n| lag | 30 s |",
    "cells in columns are a table": "| Host | Role |\n| --- | --- |\n| db1 | primary |\n| db2 | replica |\n| db3 | witness |",
    "text of fixed pitch becomes code with its spaces": "```\nif true; then\n  promote  db2\n# done\n```",
    "bullets become list items": "- stop the jobs\n\n- promote the replica",
    "words parted at the end of a line are joined": "tell the people on call",
    "lines of a paragraph are joined": f"{SENTENCE}, page 2 says so.",
}


@pytest.mark.parametrize("expected", SHOWN.values(), ids=SHOWN)
def test_layout_becomes_markdown(handbook: Read, expected: str) -> None:
    assert expected in handbook.text


def test_headers_and_page_numbers_are_left_out(handbook: Read) -> None:
    assert "confidential" not in handbook.text
    assert "of 3" not in handbook.text


def test_columns_drawn_line_by_line_across_the_page_are_read_one_after_the_other() -> None:
    pdf = PdfWriter()
    for row in range(12):
        pdf.line(50, 700 - 12 * row, f"left line {row} about replicas and lags, of the disk")
        pdf.line(320, 700 - 12 * row, f"right line {row} about queues and jobs, of the disk")
    text = " ".join(read(pdf.data(), "a.pdf").text.split())
    assert text.index("left line 11") < text.index("right line 0")


def test_a_page_that_is_drawn_from_the_bottom_up_is_read_from_the_top_down() -> None:
    pdf = PdfWriter()
    for row in range(12):
        pdf.line(50, 300 + 30 * row, f"line {12 - row}.")
    text = read(pdf.data(), "a.pdf").text
    assert text.split() == [word for row in range(1, 13) for word in ("line", f"{row}.")]


def test_wide_spaces_of_justified_text_make_no_table() -> None:
    pdf = PdfWriter()
    words = SENTENCE.split()
    for row in range(6):
        x = 50
        for number, word in enumerate(words):
            pdf.line(x, 700 - 12 * row, word)
            x += 5 * len(word) + (16 if (number + row) % 3 == 0 else 4)
    assert "|" not in read(pdf.data(), "a.pdf").text


def test_every_line_of_a_header_is_left_out() -> None:
    pdf = PdfWriter()
    for page in range(3):
        pdf.line(60, 815, "ACME", size=8).line(60, 805, "Operations", size=8).line(
            60, 700, f"Leaf {page} is about the replica."
        ).next_page()
    assert read(pdf.data(), "a.pdf").text == "".join(f"Leaf {n} is about the replica.\n\n" for n in range(3))[:-1]


def test_the_outline_gives_the_headings() -> None:
    pdf = PdfWriter()
    for level, title in enumerate(["Failover", "Checks"]):
        pdf.canvas.bookmarkPage(title)
        pdf.canvas.addOutlineEntry(title, title, level)
    pdf.line(50, 700, "1. Failover", size=12).line(50, 680, "Large but no heading", size=18)
    pdf.line(50, 650, "Checks", size=10).paragraph(50, 630, SENTENCE)
    headings = [line for line in read(pdf.data(), "a.pdf").text.splitlines() if line.startswith("#")]
    assert headings == ["## 1. Failover", "### Checks"]


def test_an_outline_entry_that_the_page_does_not_show_is_a_heading_nevertheless() -> None:
    pdf = PdfWriter()
    pdf.canvas.bookmarkPage("a")
    pdf.canvas.addOutlineEntry("Rollback", "a", 0)
    pdf.paragraph(50, 700, SENTENCE)
    assert read(pdf.data(), "a.pdf").text.startswith("## Rollback\n")


def test_a_sentence_goes_on_across_pages() -> None:
    pdf = PdfWriter().paragraph(50, 700, "Stop the batch").next_page().paragraph(50, 700, "jobs first.")
    assert read(pdf.data(), "a.pdf").text == "Stop the batch jobs first.\n"


def test_markdown_syntax_in_the_text_is_escaped() -> None:
    pdf = PdfWriter().line(50, 700, "# not a heading").line(50, 600, "``` not a fence")
    assert read(pdf.data(), "a.pdf").text == "\\# not a heading\n\n\\``` not a fence\n"


@pytest.mark.parametrize("title", ["untitled", "report-final.docx"])
def test_titles_that_programs_put_there_are_ignored(title: str) -> None:
    assert read(PdfWriter(title=title).line(50, 700, "text").data(), "a.pdf").title is None


def test_an_author_that_is_nobody_is_left_out() -> None:
    assert "author" not in read(PdfWriter(author="Anonymous").line(50, 700, "text").data(), "a.pdf").metadata


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("D:20240203040506+01'00'", "2024-02-03T04:05:06+01:00"),
        ("D:2024", "2024-01-01T00:00:00+00:00"),
        ("D:20241399", ""),
        ("yesterday", ""),
    ],
)
def test_dates_are_read_as_far_as_they_go(text: str, moment: str) -> None:
    assert _date(text) == moment


def test_a_document_encrypted_without_a_password_to_open_it_is_read() -> None:
    pdf = PdfWriter()
    pdf.canvas._doc.encrypt = StandardEncryption("", ownerPassword="owner")
    assert read(pdf.line(50, 700, "open to all").data(), "a.pdf").text == "open to all\n"


def test_a_document_with_a_password_is_refused_with_what_to_do() -> None:
    pdf = PdfWriter()
    pdf.canvas._doc.encrypt = StandardEncryption("secret")
    assert refused(pdf.line(50, 700, "hidden").data(), "a.pdf").endswith("it is encrypted; save it without a password")


@pytest.mark.parametrize("data", [b"%PDF-1.7\n%broken", b"<html>not found</html>"])
def test_broken_pdf_and_other_formats_are_refused(data: bytes) -> None:
    assert "it is broken, or no PDF" in refused(data, "a.pdf")


def test_values_of_form_fields_are_read() -> None:
    pdf = PdfWriter().line(50, 700, "Primary host:")
    pdf.canvas.acroForm.textfield(name="host", x=150, y=690, width=200, height=20, value="db1.example.com")
    assert read(pdf.data(), "a.pdf").text == "Primary host: db1.example.com\n"


def test_a_pdf_without_an_extension_is_read() -> None:
    assert read(PdfWriter().line(50, 700, "text").data(), "attachment").text == "text\n"


def test_pages_beyond_the_limit_are_named() -> None:
    pdf = PdfWriter()
    for page in range(5):
        pdf.line(50, 700, f"text of leaf {page}").next_page()
    found = read(pdf.data(), "a.pdf", ParsingTools(limits=ParsingLimits(pages=2)))
    assert "leaf 1" in found.text
    assert "leaf 2" not in found.text
    assert found.unread == ["only the first 2 of 5 pages are read (OPX_PARSE_PAGES)"]


# -- pictures of text ------------------------------------------------------------------------------------------------


def a_mixed_pdf() -> bytes:
    pdf = PdfWriter().line(50, 700, "First page.").next_page()
    pdf.picture(a_picture("scan", size=(1000, 400)), 50, 400, 500, 200).next_page()
    return pdf.line(50, 700, "Third page.").data()


def test_scanned_pages_are_read_by_ocr_where_they_are() -> None:
    ocr = FakeOcr("Second page.")
    found = read(a_mixed_pdf(), "a.pdf", ParsingTools(ocr=ocr))
    assert found.text == "First page.\n\nSecond page.\n\nThird page.\n"
    assert [image[:4] for image in ocr.seen] == [b"\x89PNG"]


def test_without_ocr_a_scanned_page_is_named_and_the_rest_is_taken() -> None:
    found = read(a_mixed_pdf(), "a.pdf")
    assert found.text == "First page.\n\nThird page.\n"
    assert [text.partition(",")[0] for text in found.unread] == ["page 2 has no text"]


def test_a_scanned_page_in_which_no_text_is_found_is_named() -> None:
    found = read(a_mixed_pdf(), "a.pdf", ParsingTools(ocr=FakeOcr("")))
    assert found.unread == ["page 2 has no text, and OCR found none in its picture"]


def test_a_document_of_scanned_pages_alone_is_refused_with_what_to_install() -> None:
    reason = refused(a_scan(), "a.pdf")
    assert "a picture without text" in reason
    assert "install tesseract, or set OPX_OCR=textract" in reason


def test_scanned_pages_in_which_no_text_is_found_are_refused() -> None:
    assert "OCR found no text" in refused(a_scan(), "a.pdf", ParsingTools(ocr=FakeOcr("")))


def test_scanned_pages_beyond_the_limit_are_named() -> None:
    pdf = PdfWriter()
    for page in range(3):
        pdf.picture(a_picture(f"scan {page}", size=(1000, 400)), 50, 400, 500, 200).next_page()
    ocr = FakeOcr()
    found = read(pdf.data(), "a.pdf", ParsingTools(ocr=ocr, limits=ParsingLimits(images=2)))
    assert len(ocr.seen) == 2
    assert found.unread == ["page 3 is a picture beyond the limit (OPX_PARSE_IMAGES)"]


def test_large_pictures_among_text_are_described_where_they_are() -> None:
    pdf = PdfWriter().line(50, 700, "See the picture.").picture(a_picture("x"), 50, 300, 400, 300)
    describer = FakeDescriber("two boxes")
    assert read(pdf.data(), "a.pdf", ParsingTools(describer=describer)).text.endswith("\n\nPicture: two boxes\n")
    assert describer.hints == ["picture on page 1 of a.pdf"]


def test_empty_pages_are_passed_over() -> None:
    pdf = PdfWriter().line(50, 700, "First.").next_page().next_page().line(50, 700, "Third.")
    assert read(pdf.data(), "a.pdf").unread == []


def test_comments_on_pages_are_kept_at_the_end() -> None:
    pdf = PdfWriter().line(60, 700, "Restart the broker.")
    pdf.canvas.textAnnotation("Not on\nmondays", (60, 600, 80, 620))
    pdf.canvas.linkURL("https://example.com/", (60, 500, 80, 520))
    found = read(pdf.next_page().line(60, 700, "Call the team.").data(), "a.pdf")
    assert found.text == "Restart the broker.\n\nCall the team.\n\nComments on pages:\n\n- Page 1: Not on mondays\n"


def test_comments_are_kept_where_there_are_forms() -> None:
    pdf = PdfWriter().line(60, 700, "Restart the broker.")
    pdf.canvas.acroForm.textfield(name="host", value="db1", x=60, y=640, width=100, height=20)
    pdf.canvas.textAnnotation("Not on mondays", (60, 600, 80, 620))
    text = read(pdf.data(), "a.pdf").text
    assert "db1" in text
    assert text.count("- Page 1: Not on mondays") == 1


def test_comments_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf_reader, "MAX_COMMENTS", 1)
    pdf = PdfWriter().line(60, 700, "Restart the broker.")
    for text in ("one", "two", "three"):
        pdf.canvas.textAnnotation(text, (60, 600, 80, 620))
    found = read(pdf.data(), "a.pdf")
    assert found.text.endswith("- Page 1: one\n")
    assert found.unread == ["2 more comments on its pages are not read"]


def test_text_from_right_to_left_is_remarked_on() -> None:
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding<</Differences[65/afii57664/afii57665/afii57666]>>>>"
    content = b"BT /F 12 Tf 60 700 Td (ABC CBA) Tj ET"
    pdf = (
        b"%%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
        b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>endobj\n"
        b"4 0 obj<</Length %d>>stream\n%b\nendstream endobj\n5 0 obj%bendobj\ntrailer<</Root 1 0 R>>\n%%%%EOF"
    ) % (len(content), content, font)
    found = read(pdf, "a.pdf")
    assert "\u05d0" in found.text
    assert "first on page 1" in found.remarks_of(RemarkKind.IRREGULAR)[0]


def test_text_from_left_to_right_is_not_remarked_on(handbook: Read) -> None:
    assert handbook.remarks_of(RemarkKind.IRREGULAR) == []
