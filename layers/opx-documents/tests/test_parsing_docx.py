"""Word documents, PowerPoint presentations and Excel workbooks; refusals before a library opens an archive or its XML."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Sequence
from datetime import date, datetime

import pytest
from openpyxl import Workbook
from openpyxl.comments import Comment

from opx.ports.models import ParsingLimits, ParsingTools
from tests.support.binary_files import (
    W_FOOTNOTE,
    W_LINK,
    W_PICTURE,
    FakeDescriber,
    Read,
    a_docx,
    a_picture,
    a_presentation,
    a_workbook,
    a_zip,
    an_email,
    in_this_process,
    read,
    refused,
    w_margin,
    w_paragraph,
    w_table,
)

pytestmark = pytest.mark.usefixtures(in_this_process.__name__)


@pytest.fixture(scope="module")
def guide() -> Read:
    blocks = (
        w_paragraph("Failing over", "Heading1"),
        w_paragraph("Checks", "Heading2"),
        w_paragraph("Look at the lag."),
        w_table(["Metric", "Critical"], ["lag", "30 s"]),
        W_LINK,
        W_FOOTNOTE,
        W_PICTURE,
    )
    margins = {f"word/header{n}.xml": w_margin("hdr", "ACME operations") for n in (1, 2)}
    return read(a_docx(*blocks, extra=margins), "guide.docx")


def test_title_author_and_time_come_from_the_properties(guide: Read) -> None:
    assert guide.title == "Failover guide"
    assert guide.metadata == {"author": "Ada Ops", "created_at": "2024-05-06T07:08:09Z"}


def test_heading_styles_become_headings(guide: Read) -> None:
    assert guide.text.startswith("# Failing over\n\n## Checks\n\nLook at the lag.\n")


def test_tables_have_their_first_row_as_header(guide: Read) -> None:
    assert "| Metric | Critical |\n| --- | --- |\n| lag | 30 s |" in guide.text


def test_links_keep_their_address(guide: Read) -> None:
    assert "status page (https://status.example.com/)" in guide.text


def test_footnotes_are_kept(guide: Read) -> None:
    assert "only at night" in guide.text


def test_headers_are_given_once(guide: Read) -> None:
    assert guide.text.count("ACME operations") == 1


def test_pictures_without_a_describer_are_counted_and_keep_the_authors_description(guide: Read) -> None:
    assert guide.undescribed[0].startswith("a picture is not described: there is no model")
    assert "the cluster" in guide.text


def test_pictures_are_described_where_they_are() -> None:
    tools = ParsingTools(describer=FakeDescriber("three hosts"))
    text = read(a_docx(w_paragraph("Before"), W_PICTURE, w_paragraph("After")), "a.docx", tools).text
    assert text == "Before\n\nthe cluster\n\nPicture: three hosts\n\nAfter\n"


def test_a_table_within_a_cell_becomes_text() -> None:
    inner = w_table(["db1", "primary"], ["db2", "replica"])
    outer = f"<w:tbl><w:tr><w:tc>{w_paragraph('Hosts')}</w:tc><w:tc>{inner}{w_paragraph('')}</w:tc></w:tr></w:tbl>"
    assert read(a_docx(outer), "a.docx").text == "| Hosts | db1, primary / db2, replica |\n| --- | --- |\n"


def test_a_cell_over_several_rows_stands_in_each_of_them() -> None:
    def cell(text: str, merge: str = "") -> str:
        return f"<w:tc><w:tcPr>{merge}</w:tcPr>{w_paragraph(text)}</w:tc>"

    first = cell("db1", '<w:vMerge w:val="restart"/>') + cell("in")
    rows = (cell("Host") + cell("Port"), first, cell("", "<w:vMerge/>") + cell("out"))
    table = "<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in rows) + "</w:tbl>"
    assert read(a_docx(table), "a.docx").text.endswith("| db1 | in |\n| db1 | out |\n")


def test_a_document_without_text_is_refused() -> None:
    assert "no text in it" in refused(a_docx(w_table(["", ""])), "a.docx")


def test_another_archive_is_refused() -> None:
    assert "it is no Word document" in refused(a_zip({"a.txt": "x"}), "a.docx")


def test_an_encrypted_document_is_refused_with_what_to_do() -> None:
    assert "it is encrypted" in refused(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(100), "a.docx")


@pytest.mark.parametrize(("name", "remedy"), [("a.doc", ".docx"), ("a.XLS", ".xlsx"), ("a.ppt", ".pptx")])
def test_old_formats_are_refused_with_the_new_one_named(name: str, remedy: str) -> None:
    assert f"save it as {remedy} or PDF" in refused(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", name)


def test_comments_are_kept_where_the_text_refers_to_them() -> None:
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/comments"
    relations = "http://schemas.openxmlformats.org/package/2006/relationships"
    names = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    comment = f'<w:comment w:id="0" w:author="Ada" w:initials="A">{w_paragraph("not on mondays")}</w:comment>'
    extra = {
        "word/comments.xml": f"<w:comments {names}>{comment}</w:comments>",
        "word/_rels/document.xml.rels": f'<Relationships xmlns="{relations}">'
        f'<Relationship Id="c" Type="{kind}" Target="comments.xml"/></Relationships>',
    }
    body = '<w:p><w:r><w:t>Fail over</w:t></w:r><w:r><w:commentReference w:id="0"/></w:r></w:p>'
    text = read(a_docx(body, extra=extra), "a.docx").text
    assert text.startswith("Fail over[A1]\n")
    assert "Comment [A1]" in text
    assert "not on mondays" in text


@pytest.fixture(scope="module")
def review() -> Read:
    return read(a_presentation(), "review.pptx", ParsingTools(describer=FakeDescriber("a server")))


def test_slides_are_sections_under_their_titles(review: Read) -> None:
    assert [line for line in review.text.splitlines() if line.startswith("#")] == ["## What happened", "## Slide 2"]
    assert review.title == "Review of the outage"


def test_shapes_are_read_from_the_top_down(review: Read) -> None:
    assert "| Host | Role |\n| --- | --- |\n| db1 | primary |\n\nbelow the table\n" in review.text


def test_notes_are_kept(review: Read) -> None:
    assert "Notes: Mention the pager." in review.text


def test_charts_are_tables_of_their_figures(review: Read) -> None:
    assert "|  | Outages |\n| --- | --- |\n| May | 3.0 |\n| June | 1.0 |" in review.text


def test_pictures_are_described(review: Read) -> None:
    assert review.text.endswith("Picture: a server\n")


def test_slides_beyond_the_limit_are_named() -> None:
    found = read(a_presentation(), "a.pptx", ParsingTools(limits=ParsingLimits(pages=1)))
    assert found.unread == ["only the first 1 of 2 slides are read (OPX_PARSE_PAGES)"]


def test_another_office_document_is_refused() -> None:
    assert "no PowerPoint presentation" in refused(a_docx(w_paragraph("x")), "a.pptx")


def test_an_archive_that_states_too_large_a_size_is_refused_unopened() -> None:
    data = a_docx(w_paragraph("x"), extra={"word/media/a.bin": bytes(3_000_000)})
    limits = ParsingLimits(unpacked_bytes=2_000_000)
    assert "unpacks to more than 2,000,000 bytes" in refused(data, "a.docx", ParsingTools(limits=limits))


def test_an_archive_that_states_a_smaller_size_than_it_has_is_refused() -> None:
    data = bytearray(a_docx(w_paragraph("x"), extra={"word/media/a.bin": bytes(3_000_000)}))
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        real = package.getinfo("word/media/a.bin").file_size.to_bytes(4, "little")
    assert bytes(data).count(real) >= 2
    lying = bytes(data).replace(real, (100).to_bytes(4, "little"))
    assert "it is broken" in refused(lying, "a.docx")


def test_a_part_that_unpacks_to_hundreds_of_times_its_size_is_refused() -> None:
    data = a_docx(w_paragraph("x"), extra={"word/media/a.bin": bytes(20_000_000)})
    assert "as in a ZIP bomb" in refused(data, "a.docx")


def test_an_archive_of_very_many_parts_is_refused() -> None:
    data = a_zip({f"{number}.xml": "" for number in range(10_001)}, zipfile.ZIP_STORED)
    assert "it has 10,001 parts" in refused(data, "a.xlsx")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_xml_that_declares_entities_is_refused(encoding: str) -> None:
    bomb = f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE x [<!ENTITY a "aaaa">]><x>&a;</x>'
    data = a_docx(w_paragraph("x"), extra={"word/header1.xml": bomb.encode(encoding)})
    assert "its XML declares entities" in refused(data, "a.docx")


def test_xml_that_reaches_out_to_files_is_refused() -> None:
    outside = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/hostname">]><x>&a;</x>'
    assert "its XML declares entities" in refused(a_docx(extra={"word/document.xml": outside}), "a.docx")


def test_a_picture_of_too_many_pixels_is_refused() -> None:
    data = bytearray(a_picture())
    data[16:24] = (20_000).to_bytes(4, "big") + (6_000).to_bytes(4, "big")  # PNG: width and height, then their CRC
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    assert "pixels" in refused(bytes(data), "a.png")


def test_a_process_can_not_read_more_than_its_archive_limits_through_an_attachment() -> None:
    message = an_email()
    bomb = a_docx(w_paragraph("x"), extra={"word/media/a.bin": bytes(20_000_000)})
    message.add_attachment(bomb, "application", "octet-stream", filename="a.docx")
    found = read(message.as_bytes(), "a.eml")
    assert "ZIP bomb" in found.unread[0]
    assert "The broker is down." in found.text


def text_of(*rows: Sequence[object]) -> str:
    return read(a_workbook(Hosts=rows), "a.xlsx").text


def test_each_sheet_is_a_section_with_a_table() -> None:
    data = a_workbook(Hosts=[["Host", "Role"], ["db1", "primary"]], Limits=[["Metric", "Max"], ["lag", 30]])
    assert read(data, "a.xlsx").text == (
        "## Hosts\n\n| Host | Role |\n| --- | --- |\n| db1 | primary |\n\n"
        "## Limits\n\n| Metric | Max |\n| --- | --- |\n| lag | 30 |\n"
    )


def test_dates_and_figures_are_written_as_people_do() -> None:
    text = text_of(
        ["When", "Day", "Load", "Open"],
        [
            datetime(2025, 2, 4, 10, 30),  # noqa: DTZ001 - sheets know no time zones
            date(2025, 2, 4),
            0.1 + 0.2,
            True,
        ],
    )
    assert "| 2025-02-04 10:30:00 | 2025-02-04 | 0.3 | yes |" in text


def test_a_title_above_the_table_is_text() -> None:
    text = text_of(["Hosts of the cluster"], [], ["Host", "Role"], ["db1", "primary"])
    assert text == "## Hosts\n\nHosts of the cluster\n\n| Host | Role |\n| --- | --- |\n| db1 | primary |\n"


def test_rows_of_figures_alone_have_no_header() -> None:
    assert text_of([1, 2], [3, 4]) == "## Hosts\n\n|  |  |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |\n"


def test_a_column_of_texts_is_text() -> None:
    assert text_of(["Stop the jobs."], ["Call the team."]) == "## Hosts\n\nStop the jobs.\nCall the team.\n"


def test_empty_columns_at_the_left_are_left_out() -> None:
    assert "| Host | Role |" in text_of([None, None, "Host", "Role"], [None, None, "db1", "primary"])


def test_bars_and_line_ends_do_not_break_the_table() -> None:
    assert "| a\\|b | two lines |" in text_of(["Command", "Note"], ["a|b", "two\nlines"])


def test_a_long_table_repeats_its_header() -> None:
    text = text_of(["Host", "Role"], *([f"db{number}", "replica"] for number in range(450)))
    tables = text.split("\n\n")[1:]
    assert len(tables) > 5
    assert all(table.startswith("| Host | Role |\n| --- | --- |\n") and len(table) < 1500 for table in tables)
    assert text.count("replica") == 450


def test_rows_beyond_the_limit_are_named() -> None:
    data = a_workbook(Hosts=[["Host", "Role"], *([f"db{number}", "x"] for number in range(10_050))])
    found = read(data, "a.xlsx")
    assert found.unread == ["sheet 'Hosts' is read to row 10,000 and column 100 only"]


def test_hidden_sheets_are_named_and_left_out() -> None:
    found = read(a_workbook(Hosts=[["a", "b"], ["c", "d"]], Hidden=[["secret"]]), "a.xlsx")
    assert found.unread == ["sheet 'Hidden' is hidden"]
    assert "secret" not in found.text


def test_another_office_document_is_no_workbook() -> None:
    assert "no Excel workbook" in refused(a_docx(w_paragraph("x")), "a.xlsx")


def a_sheet_with(**comments: str) -> Workbook:
    made = Workbook()
    sheet = made.active
    sheet.title = "Costs"
    for row in (["Item", "Price"], ["disk", 5], ["all", "=SUM(B2:B2)"], ["most", "=MAX(B2:B2)"]):
        sheet.append(row)
    for cell, text in comments.items():
        sheet[cell].comment = Comment(text, "Ada")
    return made


def saved(workbook: Workbook, **replaced: str) -> bytes:
    """The workbook, with pieces of its sheet's XML (formulas) replaced by others."""
    target, changed = io.BytesIO(), io.BytesIO()
    workbook.save(target)
    with zipfile.ZipFile(target) as package, zipfile.ZipFile(changed, "w") as copy:
        for name in package.namelist():
            data = package.read(name)
            for cell, value in replaced.items() if name == "xl/worksheets/sheet1.xml" else ():
                data = re.sub(
                    rb'(<c r="%s"[^>]*><f>[^<]*</f>)<v ?/?>(?:</v>)?' % cell.encode(), rb"\1" + value.encode(), data
                )
            copy.writestr(name, data)
    return changed.getvalue()


def test_formulas_without_a_calculated_value_are_counted() -> None:
    found = read(saved(a_sheet_with()), "a.xlsx")
    remedy = "open and save the workbook in Excel"
    assert found.unread == [f"2 formulas of sheet 'Costs' have no calculated value; {remedy}"]


def test_formulas_with_a_calculated_value_are_not_remarked_on() -> None:
    found = read(saved(a_sheet_with(), B3="<v>5</v>", B4="<v>5</v>"), "a.xlsx")
    assert found.unread == []
    assert "| all | 5 |" in found.text


def test_comments_on_cells_are_listed_below_the_table() -> None:
    newer = "[Threaded comment]\n\nYour version of Excel lets you read this.\n\nComment:\n    Sold out"
    found = read(saved(a_sheet_with(B2="Was 7\nlast year", A2=newer), B3="<v>5</v>", B4="<v>5</v>"), "a.xlsx")
    assert found.text.endswith("| most | 5 |\n\nComments on cells of Costs:\n\n- A2: Sold out\n- B2: Was 7 last year\n")


def test_broken_comments_do_not_keep_the_sheet_from_being_read() -> None:
    target = io.BytesIO(saved(a_sheet_with(A2="x")))
    changed = io.BytesIO()
    with zipfile.ZipFile(target) as package, zipfile.ZipFile(changed, "w") as copy:
        for name in package.namelist():
            copy.writestr(name, b"<broken" if "comment" in name and name.endswith(".xml") else package.read(name))
    found = read(changed.getvalue(), "a.xlsx")
    assert "| disk | 5 |" in found.text
    assert "the comments are broken" in found.unread[0]
