"""Excel workbooks."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Sequence
from datetime import date, datetime

import pytest
from openpyxl import Workbook
from openpyxl.comments import Comment

from tests.support.binary_files import a_docx, a_workbook, in_this_process, read, refused, w_paragraph

pytestmark = pytest.mark.usefixtures(in_this_process.__name__)


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


def test_another_office_document_is_refused() -> None:
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
