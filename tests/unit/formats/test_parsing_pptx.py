"""PowerPoint presentations."""

from __future__ import annotations

import io

import pytest
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from opx.ports.models import ParsingLimits, ParsingTools
from tests.support.binary_files import (
    FakeDescriber,
    Read,
    a_docx,
    a_picture,
    in_this_process,
    read,
    refused,
    w_paragraph,
)

pytestmark = pytest.mark.usefixtures(in_this_process.__name__)


def a_presentation() -> bytes:
    made = Presentation()
    made.core_properties.title = "Review of the outage"
    slide = made.slides.add_slide(made.slide_layouts[5])
    slide.shapes.title.text = "What happened"
    low = slide.shapes.add_textbox(Inches(1), Inches(5), Inches(4), Inches(1)).text_frame
    low.text = "below the table"
    table = slide.shapes.add_table(2, 2, Inches(1), Inches(2), Inches(4), Inches(1)).table
    for at, text in enumerate(["Host", "Role", "db1", "primary"]):
        table.cell(at // 2, at % 2).text = text
    slide.notes_slide.notes_text_frame.text = "Mention the pager."
    second = made.slides.add_slide(made.slide_layouts[6])
    data = CategoryChartData()  # type: ignore[no-untyped-call]
    data.categories = ["May", "June"]
    data.add_series("Outages", (3, 1))  # type: ignore[no-untyped-call]
    second.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, Inches(1), Inches(1), Inches(4), Inches(3), data)
    second.shapes.add_picture(io.BytesIO(a_picture("x")), Inches(1), Inches(5))
    target = io.BytesIO()
    made.save(target)
    return target.getvalue()


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
