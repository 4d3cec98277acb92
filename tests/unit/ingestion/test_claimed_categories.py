"""A document can't make itself more trusted than the folder that it was put into."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opx.domain.documents import RemarkKind
from tests.unit.ingestion.test_reading import Reading

BLOG, RUNBOOK, POSTMORTEM = "documents/web/blogs/x.md", "documents/runbooks/x.md", "postmortems"


@pytest.fixture
def reading(tmp_path: Path) -> Reading:
    return Reading(tmp_path)


def page(category: str) -> str:
    return f"---\ncategory: {category}\n---\n# Disk full\n"


def sidecar(category: str) -> str:
    return json.dumps({"metadataAttributes": {"category": category}})


@pytest.mark.parametrize("source", [BLOG, "documents/repo/web/blogs/x.md"])
def test_front_matter_does_not_lift_a_page_of_the_internet(reading: Reading, source: str) -> None:
    document, _ = reading.read(page("runbooks/procedures"), source=source)
    assert (document.category, document.tier, document.trust) == ("web/blogs", "internet", 0.5)
    (remark,) = document.remarks
    assert remark.kind is RemarkKind.CLAIMED
    assert remark.text == (
        "its front matter has the category runbooks/procedures; that of its folder, web/blogs, stands"
    )


def test_a_sidecar_does_not_either(reading: Reading) -> None:
    document, _ = reading.read("# Disk full\n", source=BLOG, sidecar=sidecar("runbooks/procedures"))
    assert (document.category, document.tier) == ("web/blogs", "internet")
    assert [remark.kind for remark in document.remarks] == [RemarkKind.CLAIMED]


def test_trust_can_be_lowered_by_either(reading: Reading) -> None:
    assert reading.read(page("web/blogs"), source=RUNBOOK)[0].category == "web/blogs"
    assert reading.read("# Disk\n", source=RUNBOOK, sidecar=sidecar("web/blogs"))[0].category == "web/blogs"


def test_the_folder_wins_over_front_matter_of_equal_trust_and_the_sidecar_over_the_folder(reading: Reading) -> None:
    assert reading.read(page(POSTMORTEM), source=RUNBOOK)[0].category == "runbooks/procedures"
    assert reading.read("# Disk\n", source=RUNBOOK, sidecar=sidecar(POSTMORTEM))[0].category == POSTMORTEM


def test_the_uploaders_choice_wins_over_everything(reading: Reading) -> None:
    chosen = json.dumps({"category": "runbooks/procedures"})
    assert reading.read(page("web/blogs"), source=BLOG, uploaded=chosen)[0].category == "runbooks/procedures"


def test_front_matter_decides_where_no_folder_does(reading: Reading) -> None:
    document, _ = reading.read(page(POSTMORTEM), source="documents/notes/x.md")
    assert (document.category, document.remarks) == (POSTMORTEM, ())


def test_an_expiry_of_a_page_from_outside_is_not_later_than_its_copys(reading: Reading) -> None:
    late = reading.read("---\nexpires: 9999-12-31\n---\n# Disk\n", source=BLOG)[0].expires
    assert late == reading.read("# Disk\n", source=BLOG)[0].expires
    assert late < "9999"
    assert reading.read("---\nexpires: 2023-12-01\n---\n# Disk\n", source=BLOG)[0].expires == "2023-12-01"
