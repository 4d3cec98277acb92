"""PowerPoint presentations."""

from __future__ import annotations

import pytest

from opx.ports.models import ParsingLimits, ParsingTools
from tests.support.binary_files import (
    FakeDescriber,
    Read,
    a_docx,
    a_presentation,
    in_this_process,
    read,
    refused,
    w_paragraph,
)

pytestmark = pytest.mark.usefixtures(in_this_process.__name__)


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
